//! Laws 6, 11 and 12: who is given what, in which order, and how much at a time.

use super::kit::{
    ack, bury_one, claim, claim_one, counts, dead, declare, extend, ids, let_end, policy, publish,
    retried, s, settle, state, until_counts,
};
use super::{Harness, skip};
use crate::{Extended, Settled};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;
use windlass_core::{Disposition, GroupPolicy, Timestamp};

///
pub async fn claim_gives_the_oldest_first(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    let mut published = Vec::new();
    for _ in 0..4 {
        published.extend(publish(&log, "t", 2).await);
        publish(&log, "other", 1).await;
    }
    let mut claimed = Vec::new();
    for _ in 0..4 {
        claimed.extend(ids(&claim(&log, "t", "g", 2).await));
    }
    assert_eq!(claimed, published);
}

/// A-03, B-w5.
pub async fn claim_takes_no_more_than_asked(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 10).await;
    assert_eq!(claim(&log, "t", "g", 3).await.len(), 3);
    assert_eq!(counts(&log, "t", "g").await, (7, 0, 3, 0));
    let_end(h, s(30)).await;
    assert_eq!(claim(&log, "t", "g", 2).await.len(), 2);
    assert_eq!(claim(&log, "t", "g", 100).await.len(), 8);
    assert_eq!(claim(&log, "t", "g", 100).await.len(), 0);
}

/// The message, the attempt, the maximum, the end of the lease.
pub async fn a_claim_carries_what_a_worker_needs(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(3, s(7))).await;
    let published = publish(&log, "t", 1).await;
    let before = log.now();
    let claim = claim_one(&log, "t", "g").await;
    assert_eq!(claim.message.id, published[0]);
    assert_eq!(claim.message.data.as_ref(), b"t 0");
    assert_eq!((claim.attempt, claim.max_attempts.get()), (1, 3));
    assert!(claim.lease_until >= before.after(s(7)));
    assert!(claim.lease_until <= log.now().after(s(7)));
    assert_eq!(claim.token.sequence, published[0].sequence);
}

///
pub async fn a_leased_message_is_not_given_again(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let first = claim_one(&log, "t", "g").await;
    let second = claim_one(&log, "t", "g").await;
    assert_ne!(first.message.id, second.message.id);
    h.advance(Duration::from_millis(29_900)).await;
    assert!(claim(&log, "t", "g", 10).await.is_empty());
}

/// A-01; a worker's own ended leases come back to it too (B-w3).
pub async fn lease_end_makes_it_claimable_with_a_higher_attempt(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(3, s(30))).await;
    publish(&log, "t", 1).await;
    for attempt in 1..=3 {
        assert_eq!(claim_one(&log, "t", "g").await.attempt, attempt);
        let_end(h, s(30)).await;
    }
    assert!(claim(&log, "t", "g", 1).await.is_empty());
}

/// also when the new ones were published before.
pub async fn ended_leases_come_first_then_due_ones_then_new_ones(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 5).await;
    let claims = claim(&log, "t", "g", 3).await;
    settle(&log, &claims[0], retried(s(10))).await;
    settle(&log, &claims[1], retried(s(20))).await;
    let_end(h, s(30)).await;
    let again = claim(&log, "t", "g", 4).await;
    assert_eq!(ids(&again), [2, 0, 1, 3].map(|i| published[i]));
    let attempts: Vec<_> = again.iter().map(|claim| claim.attempt).collect();
    assert_eq!(attempts, [2, 2, 2, 1]);
}

/// An extended lease ends later than one claimed after it.
pub async fn ended_leases_come_by_their_end(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    let claims = claim(&log, "t", "g", 3).await;
    assert!(matches!(extend(&log, &claims[0], s(40)).await, Extended::Held(_)));
    let_end(h, s(40)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 3).await), [1, 2, 0].map(|i| published[i]));
}

/// By due time first, by sequence where it is the same.
pub async fn due_ones_come_by_due_time(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 4).await;
    let claims = claim(&log, "t", "g", 4).await;
    for (claim, delay) in claims.iter().zip([20, 10, 20, 5]).rev() {
        assert_eq!(settle(&log, claim, retried(s(delay))).await, Settled::Applied);
    }
    h.advance(s(20)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 4).await), [3, 1, 0, 2].map(|i| published[i]));
}

/// many at a time, everything given once.
pub async fn two_claimers_never_hold_the_same_message(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    let published = publish(&log, "t", 200).await;
    let claimers: Vec<_> = (0..8)
        .map(|_| {
            let log = log.clone();
            tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let claims = claim(&log, "t", "g", 7).await;
                    if claims.is_empty() {
                        return mine;
                    }
                    mine.extend(ids(&claims));
                }
            })
        })
        .collect();
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(claimer.await.unwrap());
    }
    all.sort();
    assert_eq!(all, published);
}

fn in_flight(max: u32) -> GroupPolicy {
    GroupPolicy { in_flight_max: NonZeroU32::new(max).unwrap(), ..policy(5, s(30)) }
}

/// Law 11: each settled one makes room for one.
pub async fn the_in_flight_limit_is_never_passed(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", in_flight(3)).await;
    publish(&log, "t", 10).await;
    let claims = claim(&log, "t", "g", 10).await;
    assert_eq!(claims.len(), 3);
    assert!(claim(&log, "t", "g", 10).await.is_empty());
    ack(&log, &claims[0]).await;
    settle(&log, &claims[1], Disposition::DeadLetter).await;
    assert_eq!(claim(&log, "t", "g", 10).await.len(), 2);
    assert!(claim(&log, "t", "g", 10).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (5, 0, 3, 1));
}

/// Law 11.
pub async fn waiting_retries_do_not_count_as_in_flight(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", in_flight(1)).await;
    publish(&log, "t", 5).await;
    for _ in 0..4 {
        let claim = claim_one(&log, "t", "g").await;
        settle(&log, &claim, retried(s(60))).await;
    }
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 1);
    assert_eq!(counts(&log, "t", "g").await, (0, 4, 1, 0));
}

/// Law 11: an ended lease takes its own place, so that a full group never stands still.
pub async fn an_ended_lease_comes_again_at_the_in_flight_limit(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", in_flight(2)).await;
    let published = publish(&log, "t", 4).await;
    claim(&log, "t", "g", 4).await;
    let_end(h, s(30)).await;
    let again = claim(&log, "t", "g", 4).await;
    assert_eq!(ids(&again), published[..2]);
    assert_eq!(counts(&log, "t", "g").await, (2, 0, 2, 0));
    // The limit is lowered below what is leased: live leases fill it.
    declare(&log, "t", "g", in_flight(1)).await;
    h.advance(s(10)).await;
    assert!(claim(&log, "t", "g", 4).await.is_empty());
    let_end(h, s(20)).await;
    assert_eq!(claim(&log, "t", "g", 4).await.len(), 1);
    assert_eq!(counts(&log, "t", "g").await, (2, 0, 2, 0));
}

///
pub async fn used_up_attempts_are_not_charged_to_the_batch(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(30))).await;
    publish(&log, "t", 5).await;
    claim(&log, "t", "g", 3).await;
    let_end(h, s(30)).await;
    assert_eq!(claim(&log, "t", "g", 2).await.len(), 2);
    until_counts(&log, "t", "g", (0, 0, 2, 3)).await;
}

///
pub async fn a_zero_lease_is_claimable_at_once(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(9, s(0))).await;
    publish(&log, "t", 1).await;
    let first = claim_one(&log, "t", "g").await;
    let second = claim_one(&log, "t", "g").await;
    assert_eq!((first.attempt, second.attempt), (1, 2));
    assert_eq!(settle(&log, &first, super::kit::acked()).await, Settled::LeaseLost);
    ack(&log, &second).await;
}

/// W20.
pub async fn a_huge_lease_does_not_overflow(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(9, Duration::MAX)).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    assert!(matches!(extend(&log, &held, Duration::MAX).await, Extended::Held(_)));
    h.advance(s(1)).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    assert_eq!(settle(&log, &held, retried(Duration::MAX)).await, Settled::Applied);
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 0, 0));
}

/// the lease is found again, and ends as it would have.
pub async fn a_claimed_message_comes_again_after_a_crash(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(5, s(30))).await;
    let published = publish(&h.log(), "t", 2).await;
    claim(&h.log(), "t", "g", 2).await;
    let log = h.crash().await;
    // A claim need not be synced before its answer: the lease may be lost, the message not.
    let_end(h, s(30)).await;
    let again = claim(&log, "t", "g", 2).await;
    assert_eq!(ids(&again), published);
}

/// Law 12, W4, W15: it is a dead letter with a reason; others go on.
pub async fn an_unreadable_record_never_costs_the_batch(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 4).await;
    if !h.corrupt(published[1]).await {
        return skip("an_unreadable_record_never_costs_the_batch", "no record to spoil");
    }
    let claims = claim(&log, "t", "g", 4).await;
    let good: BTreeSet<_> = [0, 2, 3].map(|i| published[i]).into();
    let mut given: BTreeSet<_> = ids(&claims).into_iter().collect();
    given.extend(ids(&claim(&log, "t", "g", 4).await));
    assert_eq!(given, good);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 3, 1));
    let letters = dead(&log, "t").await;
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].id.sequence, published[1].sequence);
    assert_eq!(letters[0].message, None);
    assert!(!letters[0].reason.is_empty());
    // One that is spoilt while it waits costs no more.
    settle(&log, &claims[0], retried(s(1))).await;
    assert!(h.corrupt(claims[0].message.id).await);
    h.advance(s(1)).await;
    assert!(claim(&log, "t", "g", 4).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 2, 2));
    assert_eq!(log.purge_dead(&super::kit::topic("t"), None).await.unwrap(), 2);
    publish(&log, "t", 1).await;
    bury_one(&log, "t", "g").await;
    assert!(state(&log, "t").await.oldest > Some(Timestamp(0)));
}
