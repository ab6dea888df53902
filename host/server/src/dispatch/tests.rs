//! The dispatcher over the memory log, with scripted handlers, on tokio's paused time.
//!
//! `stage` holds what a test is made of; here are the laws.

mod fair;
mod faulty;
mod outage;
mod stage;
mod swap;
mod together;

use super::*;
use crate::event::{Event, Events, Fate};
use stage::{Script, Stage, failed, failed_after, ok, sends_to};
use std::sync::atomic::AtomicU64;
use windlass_core::{Disposition, NewMessage, Outcome};
use windlass_log::{LogAdmin as _, TopicsMode};

const S: fn(u64) -> Duration = Duration::from_secs;

#[tokio::test(start_paused = true)]
async fn no_message_is_claimed_without_a_permit_held_for_it() {
    let stage = Stage::new();
    stage.publish("t", 100).await;
    let script =
        Script::new(|_| failed_after(Duration::from_millis(10), Outcome::Done { sends: vec![] }));
    let run = stage.run_with(script, |consumer| consumer.concurrency = 3);
    run.until_settled("t").await;
    assert_eq!(stage.log.leased_most(), 3, "never more than permits, and all of them used");
    let delivered = run.end().await;
    assert_eq!(delivered.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_keeps_to_its_rate_over_all_topics_and_holds_no_permit_meanwhile() {
    let stage = Stage::new();
    for topic in ["t", "u"] {
        stage.publish(topic, 50).await;
    }
    let start = tokio::time::Instant::now();
    let run = stage.run_with(Script::new(|_| ok()), |consumer| {
        (consumer.rate, consumer.topics) = (Some(10.0), vec!["t", "u"]);
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(run.dispatcher.activity(), (1, 0));
    tokio::time::sleep(Duration::from_millis(950)).await;
    let claimed = run.dispatcher.activity().0;
    assert!((10..=11).contains(&claimed), "{claimed} in the first second");
    // Another revision does not begin anew.
    run.swap_both(Script::new(|_| ok()), 10.0);
    run.until_settled("t").await;
    run.until_settled("u").await;
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(9_900), "{took:?}");
    assert!(took < Duration::from_millis(11_500), "what was not claimed is not lost: {took:?}");
    assert_eq!(run.end().await.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn an_idle_consumer_holds_no_permit_and_a_publish_wakes_it() {
    let stage = Stage::new();
    let run = stage.run(Script::new(|_| ok()));
    tokio::time::sleep(S(60)).await;
    assert_eq!(run.dispatcher.activity(), (0, 0));
    stage.publish("t", 1).await;
    run.until_settled("t").await;
    assert_eq!(run.end().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_for_their_backoff_and_become_dead_letters_at_the_last_attempt() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let run = stage.run(Script::new(|_| failed("no")));
    run.until_settled("t").await;
    assert_eq!(stage.counts("t").await.dead, 1);
    let delivered = run.end().await;
    let fates: Vec<_> = delivered.iter().map(|d| d.fate.name()).collect();
    assert_eq!(fates, ["retry", "retry", "retry", "retry", "dead-letter"]);
    assert_eq!(delivered.iter().map(|d| d.attempt).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(delivered[4].text, "no");
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_finish_what_is_out_and_claims_nothing_more() {
    let stage = Stage::new();
    stage.publish("t", 10).await;
    let script = Script::new(|_| failed_after(S(5), Outcome::Done { sends: vec![] }));
    let run = stage.run_with(script, |consumer| consumer.concurrency = 2);
    tokio::time::sleep(S(1)).await;
    let delivered = run.end().await;
    assert_eq!(delivered.len(), 2);
    assert!(delivered.iter().all(|d| d.fate == Fate::Acked { sent: 0 }));
    assert_eq!(stage.counts("t").await.ready, 8);
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_drain_is_released_with_its_attempt() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let run = stage.run(Script::new(|_| failed_after(S(25), Outcome::Done { sends: vec![] })));
    tokio::time::sleep(S(1)).await;
    let before = tokio::time::Instant::now();
    let delivered = run.end().await;
    assert_eq!(before.elapsed().as_secs(), DRAIN.as_secs());
    assert_eq!(delivered[0].fate, Fate::Released);
    assert_eq!(delivered[0].outcome, "interrupted");
    let again = stage.run(Script::new(|_| ok()));
    again.until_settled("t").await;
    assert_eq!(again.end().await[0].attempt, 1, "given back");
}

#[tokio::test(start_paused = true)]
async fn a_second_stop_does_not_wait_for_the_drain_time() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let run = stage.run(Script::new(|_| failed_after(S(25), Outcome::Done { sends: vec![] })));
    tokio::time::sleep(S(1)).await;
    run.stopper.advance(Phase::Stop);
    let before = tokio::time::Instant::now();
    assert_eq!(run.end().await[0].fate, Fate::Released);
    assert!(before.elapsed() < S(1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_kept_for_as_long_as_its_handler_runs() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let mut script = Script::new(|_| failed_after(S(200), Outcome::Done { sends: vec![] }));
    script.wall = S(300);
    let run = stage.run(script);
    run.until_settled("t").await;
    assert!(stage.log.calls("extend") >= 18, "each third of 30 s");
    let delivered = run.end().await;
    assert_eq!(delivered.len(), 1, "nobody else was given it");
    assert_eq!(delivered[0].attempt, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_the_handler_and_settles_nothing() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    stage.log.lose_leases(true);
    let mut script = Script::new(|_| failed_after(S(200), sends_to("u")));
    script.wall = S(300);
    let run = stage.run(script);
    tokio::time::sleep(S(11)).await;
    assert_eq!(stage.log.calls("settle"), 0);
    stage.log.lose_leases(false);
    let delivered = run.end().await;
    assert_eq!((delivered[0].fate, delivered[0].outcome), (Fate::Lost, "lease-lost"));
    assert!(delivered[0].elapsed < S(11), "the first extension told");
    assert_eq!(stage.counts("u").await.ready, 0);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_cannot_be_written_is_written_before_any_claim() {
    let stage = Stage::new();
    stage.publish("t", 20).await;
    let run = stage.run_with(Script::new(|_| ok()), |consumer| consumer.concurrency = 1);
    stage.log.fail_settles(5);
    run.until_settled("t").await;
    let calls = stage.log.all_calls();
    let first = calls.iter().position(|call| *call == "settle failed").unwrap();
    let last = calls.iter().rposition(|call| *call == "settle failed").unwrap();
    assert!(!calls[first..=last].contains(&"claim"), "{calls:?}");
    assert_eq!(calls[last + 1], "settle");
    let (delivered, others) = run.end_with_events().await;
    assert_eq!(delivered.len(), 20, "none was given twice");
    assert_eq!(others, ["storage lost", "storage back"], "said once");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_comes_back_claims_nothing_before_what_is_kept() {
    let stage = Stage::new();
    stage.publish("t", 3).await;
    // The second message's settlement fails at 500 ms and is written at 600; the first one's
    // permit is back at 550.
    let script = Script::new(|delivery| {
        let span = if delivery.message.sequence().0 == 2 { 500 } else { 550 };
        failed_after(Duration::from_millis(span), Outcome::Done { sends: vec![] })
    });
    stage.log.fail_settles(1);
    let run = stage.run_with(script, |consumer| consumer.concurrency = 2);
    run.until_settled("t").await;
    let calls = stage.log.all_calls();
    let calls: Vec<_> = calls.iter().skip_while(|call| **call != "settle failed").collect();
    assert_eq!(calls[..4], [&"settle failed", &"settle", &"settle", &"claim"]);
    assert_eq!(run.end().await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_never_could_be_written_is_told_as_such() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let run = stage.run(Script::new(|_| ok()));
    stage.log.fail_settles(usize::MAX);
    tokio::time::sleep(S(1)).await;
    assert_eq!(run.end().await[0].fate, Fate::Unwritten);
}

#[tokio::test(start_paused = true)]
async fn a_stop_tries_once_more_what_is_kept() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    // Tried at 0, 100, 300 and 700 ms; the next try would be at 1500.
    stage.log.fail_settles(4);
    let run = stage.run(Script::new(|_| ok()));
    tokio::time::sleep(S(1)).await;
    run.stopper.advance(Phase::Stop);
    assert_eq!(run.end().await[0].fate, Fate::Acked { sent: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_releases_pauses_and_resumes_by_itself() {
    let stage = Stage::new();
    stage.publish("t", 3).await;
    stage.log.refuse_acks(true);
    let run = stage.run(Script::new(|_| ok()));
    tokio::time::sleep(S(1)).await;
    assert!(!run.dispatcher.is_stuck(), "it mends itself");
    let claims = stage.log.calls("claim");
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(stage.log.calls("claim"), claims, "no claim while it is paused");
    tokio::time::sleep(S(300)).await;
    assert!(stage.log.calls("claim") <= claims + 16, "one at a time, less and less often");
    stage.log.refuse_acks(false);
    run.until_settled("t").await;
    assert_eq!(stage.counts("t").await.dead, 0);
    let (delivered, others) = run.end_with_events().await;
    let acked: Vec<_> = delivered.iter().filter(|d| d.fate.name() == "ack").collect();
    assert_eq!(acked.len(), 3);
    assert!(acked.iter().all(|d| d.attempt == 1), "releases give the attempt back");
    assert_eq!(others[0], "paused refused");
    assert_eq!(others.last().unwrap(), "resumed");
}

#[tokio::test(start_paused = true)]
async fn a_send_to_an_undeclared_topic_waits_until_the_topic_is_there() {
    let stage = Stage::new();
    stage.publish("t", 2).await;
    let declare = |topics: &[&str]| {
        let topics = topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
        stage.log.inner.declare_topics(TopicsMode::Declared, topics)
    };
    declare(&["t"]).await.unwrap();
    let run = stage.run(Script::new(|_| failed_after(Duration::ZERO, sends_to("u"))));
    tokio::time::sleep(S(100)).await;
    assert!(run.dispatcher.is_stuck(), "somebody must declare it");
    assert_eq!(stage.log.calls("settle refused"), 2, "those that were out, and none since");
    declare(&["t", "u"]).await.unwrap();
    run.until_settled("t").await;
    assert!(!run.dispatcher.is_stuck());
    assert_eq!(stage.counts("t").await.dead, 0);
    let acked = run.end().await.iter().filter(|d| d.fate == Fate::Acked { sent: 1 }).count();
    assert_eq!(acked, 2);
    assert_eq!(stage.counts("u").await.ready, 2);
}

#[tokio::test(start_paused = true)]
async fn a_send_that_is_refused_for_good_does_not_mend_and_is_tried_again() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let large = vec![0; windlass_core::message::DATA_BYTES_MAX + 1];
    let large = NewMessage::new(Topic::new("u").unwrap(), large);
    let run = stage.run(Script::new(move |_| {
        failed_after(Duration::ZERO, Outcome::Done { sends: vec![large.clone()] })
    }));
    tokio::time::sleep(S(1)).await;
    assert!(run.dispatcher.is_stuck());
    tokio::time::sleep(S(60)).await;
    assert!(stage.log.calls("settle refused") > 2);
    assert_eq!(stage.counts("t").await.dead, 0);
    drop(run.end().await);
}

#[tokio::test]
async fn a_log_that_ends_by_itself_ends_its_consumers() {
    use windlass_log::sqlite::{OpenOptions, SqliteLog};
    let folder = tempfile::tempdir().unwrap();
    let options = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    let log = SqliteLog::open(folder.path(), options).await.unwrap();
    let (events, mut told) = Events::channel();
    let (stopper, phases) = crate::drain::phases();
    let shared = Arc::new(Shared::new(log.clone(), events, phases, "test"));
    let permits = Permits::new(HOST_PERMITS);
    let consumer = Consumer {
        name: "c".into(),
        group: Group::work_queue(),
        start: Start::Earliest,
        policy: GroupPolicy::default(),
        topics: vec![Topic::new("t").unwrap(), Topic::new("u").unwrap()],
        invoke: Arc::new(Script::new(|_| ok())),
        seat: permits.seat(NonZeroUsize::MIN),
        pace: None,
        health: Arc::new(Health::new()),
        retired: tokio::sync::watch::Sender::new(false),
    };
    let dispatcher = Dispatcher::start(shared, permits);
    dispatcher.add(consumer);
    log.close().await;
    tokio::time::timeout(S(10), dispatcher.log_ended()).await.unwrap();
    tokio::time::timeout(S(5), dispatcher.drain(&stopper)).await.unwrap();
    drop(dispatcher);
    assert!(matches!(told.recv().await, Some(Event::LogEnded)));
    assert!(told.recv().await.is_none(), "told once");
}

#[tokio::test(start_paused = true)]
async fn a_missing_grant_pauses_for_good_and_counts_no_attempt() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let missing = || Outcome::GrantMissing { grant: "publish u".into(), text: "x".into() };
    let run = stage.run(Script::new(move |_| failed_after(Duration::ZERO, missing())));
    tokio::time::sleep(S(3_600)).await;
    assert!(run.dispatcher.is_stuck());
    let (delivered, others) = run.end_with_events().await;
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].fate.name(), "retry");
    assert_eq!(others, ["paused grant-missing"]);
    let again = stage.run(Script::new(|_| ok()));
    again.until_settled("t").await;
    assert_eq!(again.end().await.len(), 1);
    let dispositions = stage.log.dispositions();
    assert!(matches!(dispositions[0], Disposition::Retry { counted: false, .. }));
}

#[tokio::test(start_paused = true)]
async fn a_component_that_does_not_start_is_tried_less_and_less_often() {
    let stage = Stage::new();
    stage.publish("t", 5).await;
    let broken = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seen = Arc::clone(&broken);
    let run = stage.run(Script::new(move |_| {
        if seen.load(Ordering::SeqCst) {
            failed_after(Duration::ZERO, Outcome::StartFailed { text: "start".into() })
        } else {
            ok()
        }
    }));
    tokio::time::sleep(S(120)).await;
    let tries = stage.log.calls("settle");
    assert!((10..=13).contains(&tries), "5 at once, then after 1, 2, 4, .. 60 s: {tries}");
    broken.store(false, Ordering::SeqCst);
    run.until_settled("t").await;
    let delivered = run.end().await;
    assert!(delivered.iter().all(|d| d.attempt == 1), "all were given back");
    assert_eq!(delivered.iter().filter(|d| d.fate.name() == "ack").count(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_trial_whose_task_fails_is_not_the_last_one() {
    let stage = Stage::new();
    stage.publish("t", 1).await;
    let tries = AtomicU64::new(0);
    let run = stage.run(Script::new(move |_| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => failed_after(Duration::ZERO, Outcome::StartFailed { text: "start".into() }),
        1 => panic!("a fault of ours"),
        _ => ok(),
    }));
    run.until_settled("t").await;
    let delivered = run.end().await;
    assert_eq!(delivered.last().unwrap().fate, Fate::Acked { sent: 0 });
}

#[tokio::test(start_paused = true)]
async fn one_busy_topic_does_not_keep_a_consumer_from_its_other_one() {
    let stage = Stage::new();
    stage.publish("t", 1_000).await;
    let script =
        Script::new(|_| failed_after(Duration::from_millis(10), Outcome::Done { sends: vec![] }));
    let run = stage.run_with(script, |consumer| {
        consumer.concurrency = 2;
        consumer.topics.push("u");
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    stage.publish("u", 1).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(stage.counts("u").await.lag(), 0);
    assert!(stage.counts("t").await.lag() > 900);
    drop(run.end().await);
}

#[tokio::test(start_paused = true)]
async fn a_low_in_flight_limit_does_not_stop_the_flow() {
    let stage = Stage::new();
    stage.publish("t", 10).await;
    let script =
        Script::new(|_| failed_after(Duration::from_millis(10), Outcome::Done { sends: vec![] }));
    let run = stage.run_with(script, |consumer| {
        consumer.policy.in_flight_max = std::num::NonZeroU32::new(2).unwrap();
    });
    run.until_settled("t").await;
    assert_eq!(stage.log.leased_most(), 2);
    assert_eq!(run.end().await.len(), 10);
}
