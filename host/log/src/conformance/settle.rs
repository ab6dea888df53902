//! Laws 8 and 9: what becomes of a message that was settled, or whose worker never answered.

use super::Harness;
use super::kit::{
    ack, acked, claim, claim_one, counts, dead, declare, ids, let_end, message, policy, publish,
    record, retried, s, settle, settlement, topic, until_counts,
};
use crate::DeadLetterFilter;
use crate::{Settled, Settlement};
use std::time::Duration;
use windlass_core::history::TEXT_BYTES_MAX;
use windlass_core::{Disposition, GroupPolicy, NewMessage};

fn uncounted(delay: Duration) -> Disposition {
    Disposition::Retry { delay, counted: false }
}

/// A-05, W3.
pub async fn an_acked_message_is_never_given_again(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let first = claim_one(&log, "t", "g").await;
    ack(&log, &first).await;
    let_end(h, s(60)).await;
    let log = h.crash().await;
    let second = claim_one(&log, "t", "g").await;
    assert_ne!(first.message.id, second.message.id);
    ack(&log, &second).await;
    let_end(h, s(60)).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    assert_eq!(log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap().of, 0);
}

/// B-05: each for itself.
pub async fn acks_may_come_out_of_order(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 5).await;
    let claims = claim(&log, "t", "g", 5).await;
    for i in [4, 0, 1] {
        ack(&log, &claims[i]).await;
    }
    let log = h.reopen().await;
    let_end(h, s(30)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[2..4]);
}

/// It waits as long as asked, not less.
pub async fn a_retry_is_never_given_before_its_time(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(settle(&log, &held, retried(s(10))).await, Settled::Applied);
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    h.advance(Duration::from_millis(9_900)).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 0, 0));
    h.advance(Duration::from_millis(100)).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    assert_eq!(claim_one(&log, "t", "g").await.attempt, 2);
}

///
pub async fn retry_keeps_the_attempt_count_over_reopen(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(5, s(30))).await;
    publish(&h.log(), "t", 1).await;
    let mut log = h.log();
    for attempt in 1..=4 {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(held.attempt, attempt);
        settle(&log, &held, retried(s(1))).await;
        log = h.reopen().await;
        h.advance(s(1)).await;
    }
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(settle(&log, &held, retried(s(1))).await, Settled::DeadLettered);
    let letters = dead(&log, "t").await;
    let attempts: Vec<_> = letters[0].history.attempts.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 4, 5]);
}

/// A missing grant is not the message's fault; its history is kept all the same.
pub async fn an_uncounted_retry_gives_the_attempt_back(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(2, s(30))).await;
    publish(&log, "t", 1).await;
    for _ in 0..4 {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(held.attempt, 1);
        assert_eq!(settle(&log, &held, uncounted(s(0))).await, Settled::Applied);
    }
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, Disposition::DeadLetter).await;
    assert_eq!(dead(&log, "t").await[0].history.attempts.len(), 5);
}

/// However often.
pub async fn an_uncounted_retry_on_the_last_attempt_never_kills(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(30))).await;
    publish(&log, "t", 1).await;
    for _ in 0..3 {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(settle(&log, &held, uncounted(s(1))).await, Settled::Applied);
        h.advance(s(1)).await;
    }
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
}

/// Before new ones; where the backend cannot give the attempt back, it costs one.
pub async fn a_release_is_claimable_at_once_and_costs_no_attempt(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(2, s(30))).await;
    let published = publish(&log, "t", 2).await;
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, Disposition::Release).await;
    assert_eq!(counts(&log, "t", "g").await, (2, 0, 0, 0));
    let again = claim_one(&log, "t", "g").await;
    assert_eq!(again.message.id, published[0]);
    if log.capabilities().release_keeps_attempt {
        assert_eq!(again.attempt, 1);
        settle(&log, &again, retried(s(0))).await;
        let last = claim_one(&log, "t", "g").await;
        assert_eq!(last.attempt, 2);
        settle(&log, &last, Disposition::Release).await;
        assert_eq!(claim_one(&log, "t", "g").await.attempt, 2);
    }
}

/// Nothing went wrong with it.
pub async fn a_release_leaves_no_history(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(2, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let mut released = settlement(held.token, Disposition::Release);
    released.record = Some(record("interrupted", ""));
    log.settle(vec![released]).await.remove(0).unwrap();
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, Disposition::DeadLetter).await;
    let history = dead(&log, "t").await.remove(0).history;
    assert_eq!(history.attempts.len(), 1);
    assert_eq!(history.attempts[0].outcome, "rejected");
}

/// Law 9: the log itself judges, whatever the worker hoped.
pub async fn the_last_retry_is_a_dead_letter(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(2, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(settle(&log, &held, retried(s(0))).await, Settled::Applied);
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(settle(&log, &held, retried(s(0))).await, Settled::DeadLettered);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 1));
    assert_eq!(dead(&log, "t").await[0].reason, "failed");
}

/// Law 9; over a reopen.
pub async fn dead_letter_keeps_message_reason_and_history(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let new = NewMessage {
        content_type: Some("text/plain".into()),
        metadata: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
        ..message("t", "body")
    };
    log.publish(vec![new.clone()]).await.unwrap();
    let first = claim_one(&log, "t", "g").await;
    settle(&log, &first, retried(s(3))).await;
    let retried_at = log.now();
    h.advance(s(3)).await;
    let second = claim_one(&log, "t", "g").await;
    let rejected = Settlement {
        token: second.token,
        disposition: Disposition::DeadLetter,
        record: Some(record("rejected", "never again")),
    };
    let answer = log.settle(vec![rejected]).await.remove(0).unwrap();
    assert_eq!(answer, Settled::Applied, "as asked");
    let letter = dead(&h.reopen().await, "t").await.remove(0);
    assert_eq!((letter.group.as_str(), letter.id), ("g", first.message.id));
    assert_eq!((letter.reason.as_str(), letter.attempts), ("rejected", 2));
    let kept = letter.message.unwrap();
    assert_eq!(kept, *first.message);
    assert_eq!((kept.data, kept.metadata), (new.data, new.metadata));
    let [one, two] = &letter.history.attempts[..] else { panic!("two attempts") };
    assert_eq!((one.attempt, one.outcome.as_str(), one.text.as_str()), (1, "failed", "it failed"));
    assert_eq!((one.worker.as_str(), one.revision.as_str()), ("worker-1", "r1"));
    assert_eq!((two.attempt, two.text.as_str()), (2, "never again"));
    assert!(one.at <= retried_at && two.at >= retried_at.after(s(3)) && letter.at == two.at);
    assert_eq!(letter.history.omitted, 0);
}

/// W19: the log notices by itself.
pub async fn the_last_lease_end_is_a_dead_letter_with_nobody_claiming(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(30))).await;
    publish(&log, "t", 3).await;
    claim(&log, "t", "g", 2).await;
    h.advance(s(29)).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 2, 0));
    h.advance(s(1)).await;
    until_counts(&log, "t", "g", (1, 0, 0, 2)).await;
    let letter = dead(&log, "t").await.remove(1);
    assert_eq!((letter.reason.as_str(), letter.attempts), ("lease-ended", 1));
    let [one] = &letter.history.attempts[..] else { panic!("one attempt") };
    assert_eq!((one.outcome.as_str(), one.worker.as_str()), ("lease-ended", "worker-1"));
    assert!(!one.text.is_empty());
}

/// B-w1: each lease end counts and is written down, also over crashes of the log.
pub async fn a_worker_that_always_dies_uses_up_the_attempts(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(3, s(30))).await;
    publish(&h.log(), "t", 1).await;
    for attempt in 1..=3 {
        let log = h.reopen().await;
        assert_eq!(claim_one(&log, "t", "g").await.attempt, attempt);
        let_end(h, s(30)).await;
    }
    until_counts(&h.log(), "t", "g", (0, 0, 0, 1)).await;
    let letter = dead(&h.log(), "t").await.remove(0);
    let attempts: Vec<_> = letter.history.attempts.iter().map(|one| one.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    assert!(letter.history.attempts.iter().all(|one| one.outcome == "lease-ended"));
}

/// A policy that lowers the maximum acts on leases that ended before.
pub async fn fewer_attempts_allowed_kill_ended_leases_with_nobody_claiming(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    claim_one(&log, "t", "g").await;
    let_end(h, s(31)).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
    declare(&log, "t", "g", policy(1, s(30))).await;
    until_counts(&log, "t", "g", (0, 0, 0, 1)).await;
}

/// Over a redrive too: entries count on, attempts do not.
pub async fn history_keeps_the_first_five_and_last_twenty(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(20, s(30))).await;
    publish(&log, "t", 1).await;
    for n in 1..=40 {
        let held = claim_one(&log, "t", "g").await;
        let text = format!("number {n}");
        let disposition = retried(s(0));
        let record = Some(record("failed", &text));
        let settlement = Settlement { token: held.token, disposition, record };
        let answer = log.settle(vec![settlement]).await.remove(0).unwrap();
        assert_eq!(answer == Settled::DeadLettered, n % 20 == 0, "{n}");
        if n == 20 {
            log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
        }
    }
    let history = dead(&h.reopen().await, "t").await.remove(0).history;
    assert_eq!(history.omitted, 15);
    let texts: Vec<_> = history.attempts.iter().map(|one| one.text.clone()).collect();
    let expected: Vec<_> = (1..=5).chain(21..=40).map(|n| format!("number {n}")).collect();
    assert_eq!(texts, expected);
    assert_eq!(history.attempts[5].attempt, 1, "fresh attempts after the redrive");
}

/// Whatever a guest prints.
pub async fn history_text_is_cut_never_refused(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let record = Some(record("trapped", &"ä".repeat(TEXT_BYTES_MAX)));
    let disposition = Disposition::DeadLetter;
    let settlement = Settlement { token: held.token, disposition, record };
    log.settle(vec![settlement]).await.remove(0).unwrap();
    let text = dead(&log, "t").await.remove(0).history.attempts.remove(0).text;
    assert_eq!(text, "ä".repeat(TEXT_BYTES_MAX / 2));
}

/// Law 9, W8: after each step the places add up.
pub async fn a_message_is_never_in_two_places_or_in_none(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(2, s(10))).await;
    publish(&h.log(), "t", 30).await;
    let mut settled = 0;
    let dispositions = |i: usize| match i % 5 {
        0 => Some(acked()),
        1 => Some(retried(s(7))),
        2 => Some(Disposition::Release),
        3 => Some(Disposition::DeadLetter),
        _ => None,
    };
    for round in 0..12 {
        let log = if round % 3 == 0 { h.crash().await } else { h.log() };
        for (i, claim) in claim(&log, "t", "g", 4).await.iter().enumerate() {
            let Some(disposition) = dispositions(i + round) else { continue };
            let is_ack = disposition == acked();
            let answer = settle(&log, claim, disposition).await;
            settled += u64::from(is_ack && answer == Settled::Applied);
            let (ready, retrying, leased, dead) = counts(&log, "t", "g").await;
            assert_eq!(ready + retrying + leased + dead + settled, 30);
        }
        h.advance(s(4)).await;
        if round % 4 == 3 {
            log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
        }
    }
    let log = h.reopen().await;
    declare(&log, "t", "g", GroupPolicy::default()).await;
    h.advance(s(30)).await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    let mut left = ids(&claim(&log, "t", "g", 100).await);
    left.sort();
    left.dedup();
    assert_eq!(left.len() as u64 + settled, 30);
}
