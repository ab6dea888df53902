//! Law 26, row by row, as far as the runtime decides it.

use crate::support::{
    ENGINE, config, consumer, deliver, guest, message, poison, poison_under, short,
};
use std::future::{pending, ready};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::message::HOPS_MAX;
use windlass_core::{Limits, Outcome};
use windlass_runtime::{Consumer, ConsumerConfig, Delivery, SendMode, SendRefused, Stop};

use crate::support::TestOutbox;

fn failed(kind: &'static str, text: &str) -> Outcome {
    Outcome::Failed { kind, text: text.into() }
}

#[tokio::test]
async fn ok_is_done_and_carries_what_was_sent() {
    assert_eq!(poison("ok").await, Outcome::Done { sends: vec![] });
    let Outcome::Done { sends } = poison("sends:2").await else { panic!("not done") };
    assert_eq!(sends.len(), 2);
    assert_eq!(
        (sends[0].topic.as_str(), &sends[0].data[..]),
        ("poison/out", &b"sent by poison"[..])
    );
    assert_eq!(sends[0].content_type.as_deref(), Some("text/plain; charset=utf-8"));
    assert_eq!(sends[0].hops, 1);
}

#[tokio::test]
async fn each_error_keeps_its_kind_and_text() {
    assert_eq!(poison("err-other:no luck").await, failed("other", "no luck"));
    assert_eq!(poison("err-connection:gone").await, failed("connection", "gone"));
    assert_eq!(poison("err-timeout").await.name(), "error-timeout");
    assert_eq!(poison("err-permission:never").await, Outcome::Denied { text: "never".into() });
}

#[tokio::test]
async fn a_failure_after_sending_sends_nothing() {
    assert_eq!(poison("send-then-fail").await, failed("other", "failed after sending"));
    assert_eq!(poison("send-then-panic").await.name(), "trapped");
}

#[tokio::test]
async fn a_panic_is_told_with_its_place() {
    let outcome = poison("panic:what a day").await;
    assert_eq!(outcome.name(), "trapped");
    let text = outcome.text();
    assert!(text.contains("what a day") && text.contains("poison/src/lib.rs:"), "{text}");
    assert!(!text.contains("RUST_BACKTRACE"), "{text}");
}

#[tokio::test]
async fn other_traps_say_what_they_are() {
    let text = poison("trap-unreachable").await.text();
    assert!(text.contains("unreachable"), "{text}");
    let outcome = poison("trap-stack").await;
    assert_eq!(outcome.name(), "trapped");
    // Its stack lies at the start of its memory and grows down past that.
    assert!(outcome.text().contains("out of bounds"), "{}", outcome.text());
}

#[tokio::test]
async fn exit_never_answered_whatever_its_code() {
    for way in ["exit0", "exit1"] {
        let outcome = poison(way).await;
        assert_eq!(outcome.name(), "trapped", "{way}");
        assert!(outcome.text().contains("exit("), "{}", outcome.text());
    }
}

#[tokio::test]
async fn the_last_of_reject_and_retry_after_wins_over_the_answer() {
    let rejected = |reason: &str| Outcome::Rejected { reason: reason.into() };
    let later = |ms| Outcome::RetryAsked { after: Duration::from_millis(ms) };
    assert_eq!(poison("reject:bad").await, rejected("bad"));
    assert_eq!(poison("reject-ok:bad").await, rejected("bad"));
    assert_eq!(poison("retry-after:1500").await, later(1500));
    assert_eq!(poison("retry-after-ok:1500").await, later(1500));
    assert_eq!(poison("reject-then-retry-after:20").await, later(20));
    assert_eq!(poison("retry-after-then-reject:no").await, rejected("no"));
    let year = Duration::from_hours(365 * 24);
    assert_eq!(
        poison(&format!("retry-after:{}", u64::MAX)).await,
        Outcome::RetryAsked { after: year }
    );
}

#[tokio::test]
async fn a_failure_after_a_refused_grant_names_the_grant() {
    for way in ["send-denied", "send-denied-panic"] {
        let outcome = poison(way).await;
        let Outcome::GrantMissing { grant, text } = outcome else { panic!("{way}: {outcome:?}") };
        assert_eq!(grant, "publish \"denied\"");
        assert!(!text.is_empty());
    }
}

#[tokio::test]
async fn ok_after_a_refused_grant_is_ok() {
    assert_eq!(poison("send-denied-ok").await, Outcome::Done { sends: vec![] });
}

#[tokio::test]
async fn too_much_is_a_failure_whatever_is_returned() {
    for (way, what) in [
        ("too-many-sends", "limits.sends"),
        ("big-send", "limits.sent-bytes"),
        ("resources", "limits.resources"),
    ] {
        let limits = Limits { sent_bytes: 1 << 20, ..Limits::default() };
        let outcome = poison_under(limits, way).await;
        assert_eq!(outcome.name(), "too-much", "{way}: {outcome:?}");
        assert!(outcome.text().contains(what), "{}", outcome.text());
    }
}

#[tokio::test]
async fn the_hop_after_the_last_is_the_end() {
    let consumer = consumer("poison", config());
    let mut hop = message("hop");
    hop.hops = HOPS_MAX - 1;
    let Outcome::Done { sends } = deliver(&consumer, hop.clone()).await.outcome else {
        panic!("hop {HOPS_MAX} is allowed")
    };
    assert_eq!(sends[0].hops, HOPS_MAX);
    hop.hops = HOPS_MAX;
    let outcome = deliver(&consumer, hop).await.outcome;
    assert_eq!(outcome.name(), "hops-exceeded");
    assert!(outcome.text().contains("`in`"), "{}", outcome.text());
}

fn immediate(outbox: &Arc<TestOutbox>) -> Consumer {
    let sends = SendMode::Immediate(outbox.clone());
    let limits = Limits { sent_bytes: 1 << 30, ..Limits::default() };
    consumer("poison", ConsumerConfig { sends, limits, ..config() })
}

#[tokio::test]
async fn immediate_sends_go_out_whatever_becomes_of_the_delivery() {
    let outbox = Arc::new(TestOutbox::default());
    let consumer = immediate(&outbox);
    let outcome = deliver(&consumer, message("send-then-fail")).await.outcome;
    assert_eq!(outcome, failed("other", "failed after sending"));
    assert_eq!(outbox.taken.lock().unwrap().len(), 1);
    let outcome = deliver(&consumer, message("sends:1")).await.outcome;
    assert_eq!(outcome, Outcome::Done { sends: vec![] });
}

#[tokio::test]
async fn a_failure_after_a_send_found_no_room_is_not_the_guests() {
    let refuse = Some(SendRefused::Full("topic `poison/out` is full".into()));
    let outbox = Arc::new(TestOutbox { refuse, ..TestOutbox::default() });
    let consumer = immediate(&outbox);
    let refused = Outcome::Refused { text: "topic `poison/out` is full".into() };
    assert_eq!(deliver(&consumer, message("sends:1")).await.outcome, refused);
    assert_eq!(deliver(&consumer, message("send-then-panic")).await.outcome, refused);
    // Ignored by the guest: it answered `ok`, and that stands.
    let outcome = deliver(&consumer, message("big-send")).await.outcome;
    assert_eq!(outcome.name(), "ok");
}

#[tokio::test]
async fn an_immediate_send_refused_otherwise_is_the_guests_to_handle() {
    let refuse = Some(SendRefused::Other("topic `poison/out` is not declared".into()));
    let outbox = Arc::new(TestOutbox { refuse, ..TestOutbox::default() });
    let outcome = deliver(&immediate(&outbox), message("sends:1")).await.outcome;
    assert_eq!(outcome, failed("other", "topic `poison/out` is not declared"));
}

#[tokio::test]
async fn a_stop_ends_the_call_at_once() {
    for (stop, expected) in
        [(Stop::LeaseLost, Outcome::LeaseLost), (Stop::Interrupted, Outcome::Interrupted)]
    {
        for way in ["sleep:60000", "loop"] {
            let consumer = consumer("poison", config());
            let delivery = Delivery {
                message: Arc::new(message(way)),
                attempt: 1,
                deadline: consumer.deadline(),
            };
            let invocation = consumer.invoke(delivery, ready(stop)).await;
            assert_eq!(invocation.outcome, expected, "{way}");
            assert!(invocation.elapsed < Duration::from_secs(5));
        }
    }
}

#[tokio::test]
async fn a_fault_before_handle_is_the_revisions() {
    use crate::binary::{ALLOCATES, LOOPS, TRAPS, with_start};
    for (start, what) in
        [(TRAPS, "unreachable"), (LOOPS, "limits.cpu"), (ALLOCATES, "limits.memory")]
    {
        let component = windlass_runtime::Component::load(
            &ENGINE,
            &with_start(&crate::support::bytes("poison"), start),
        )
        .unwrap();
        let config = ConsumerConfig { limits: short(), ..config() };
        let consumer = Consumer::new(&component, config).unwrap();
        let outcome = deliver(&consumer, message("ok")).await.outcome;
        assert_eq!(outcome.name(), "start-failed", "{outcome:?}");
        assert!(outcome.text().contains(what), "{what}: {}", outcome.text());
    }
}

#[tokio::test]
async fn what_a_guest_says_is_cut() {
    let long = "x".repeat(100_000);
    assert_eq!(poison(&format!("err-other:{long}")).await.text().len(), 4096);
    assert_eq!(poison(&format!("reject:{long}")).await.text().len(), 4096);
    let text = poison(&format!("panic:{long}")).await.text();
    assert!(text.len() <= 4096 && text.contains("unreachable"), "{}", text.len());
}

#[tokio::test]
async fn attempts_are_told_to_the_guest() {
    let consumer = Consumer::new(&guest("poison"), config()).unwrap();
    for (attempt, expected) in [(1, "error-other"), (2, "ok")] {
        let message = Arc::new(message("ok-on:2"));
        let delivery = Delivery { message, attempt, deadline: consumer.deadline() };
        assert_eq!(consumer.invoke(delivery, pending()).await.outcome.name(), expected);
    }
}
