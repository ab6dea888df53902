//! Law 19: who waits for work is woken when there is some.
//!
//! A waiter may wake once too often, so cases claim when woken, and wait again. With nothing to
//! claim and no wake-up the case ends in a failure.

use super::kit::{
    ack, bury_one, claim, claim_one, claim_when_woken, declare, group, message, policy, publish,
    retried, s, settle, topic, woken,
};
use super::{Harness, skip};
use crate::DeadLetterFilter;
use crate::{DynLog, Settled, Waiter};
use std::num::NonZeroU32;
use windlass_core::{Disposition, GroupPolicy};

/// A waiter that has had the wake-up every waiter starts with.
async fn waiting(log: &DynLog, on: &str, name: &str) -> Waiter {
    let waiter = log.waiter(&topic(on), &group(name));
    woken(&waiter).await;
    assert!(claim(log, on, name, 1).await.is_empty());
    waiter
}

/// Also those on a group that is not declared yet.
pub async fn a_publish_wakes_every_group(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(5, s(30))).await;
    let undeclared = log.waiter(&topic("t"), &group("later"));
    woken(&undeclared).await;
    let (a, b) = (waiting(&log, "t", "a").await, waiting(&log, "t", "b").await);
    let second_of_a = waiting(&log, "t", "a").await;
    publish(&log, "t", 1).await;
    for waiter in [&a, &b, &second_of_a, &undeclared] {
        woken(waiter).await;
    }
    claim_one(&log, "t", "a").await;
    claim_one(&log, "t", "b").await;
}

/// With nobody doing anything.
pub async fn a_due_time_wakes(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    publish(&log, "t", 2).await;
    for delay in [20, 10] {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(settle(&log, &held, retried(s(delay))).await, Settled::Applied);
    }
    let waiter = waiting(&log, "t", "g").await;
    for second in [1, 0] {
        h.advance(s(10)).await;
        let claim = claim_when_woken(&log, &waiter, "t", "g").await;
        assert_eq!(claim.message.data, format!("t {second}"));
    }
}

/// Also of a lease that was extended.
pub async fn a_lease_end_wakes(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let claims = claim(&log, "t", "g", 2).await;
    super::kit::extend(&log, &claims[0], s(60)).await;
    let waiter = waiting(&log, "t", "g").await;
    for i in [1, 0] {
        h.advance(s(30)).await;
        let again = claim_when_woken(&log, &waiter, "t", "g").await;
        assert_eq!(again.message.id, claims[i].message.id);
        ack(&log, &again).await;
    }
}

/// At once.
pub async fn a_release_wakes(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    for disposition in [Disposition::Release, retried(s(0))] {
        let held = claim_one(&log, "t", "g").await;
        let waiter = waiting(&log, "t", "g").await;
        settle(&log, &held, disposition).await;
        let again = claim_when_woken(&log, &waiter, "t", "g").await;
        settle(&log, &again, Disposition::Release).await;
    }
}

/// At once.
pub async fn a_redrive_wakes(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    bury_one(&log, "t", "g").await;
    let waiter = waiting(&log, "t", "g").await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    claim_when_woken(&log, &waiter, "t", "g").await;
}

/// By an ack, a retry, a death, and a raised limit.
pub async fn room_under_the_in_flight_limit_wakes(h: &dyn Harness) {
    let log = h.log();
    let in_flight =
        |max| GroupPolicy { in_flight_max: NonZeroU32::new(max).unwrap(), ..policy(5, s(300)) };
    declare(&log, "t", "g", in_flight(1)).await;
    publish(&log, "t", 5).await;
    let mut held = claim_one(&log, "t", "g").await;
    let waiter = waiting(&log, "t", "g").await;
    for disposition in [super::kit::acked(), retried(s(600)), Disposition::DeadLetter] {
        settle(&log, &held, disposition).await;
        held = claim_when_woken(&log, &waiter, "t", "g").await;
        assert!(claim(&log, "t", "g", 1).await.is_empty());
    }
    declare(&log, "t", "g", in_flight(2)).await;
    claim_when_woken(&log, &waiter, "t", "g").await;
}

/// Between an empty claim and the wait after it.
pub async fn a_wake_up_before_the_wait_is_not_lost(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let waiter = waiting(&log, "t", "g").await;
    publish(&log, "t", 1).await;
    woken(&waiter).await;
    claim_one(&log, "t", "g").await;
}

/// As a publish does.
pub async fn sends_of_an_ack_wake(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "out", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let waiter = waiting(&log, "out", "g").await;
    settle(&log, &held, Disposition::Ack { sends: vec![message("out", "")] }).await;
    claim_when_woken(&log, &waiter, "out", "g").await;
}

/// Through the file.
pub async fn another_processs_publish_wakes(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("another_processs_publish_wakes", "one process only");
    };
    declare(&log, "t", "g", policy(5, s(30))).await;
    let waiter = waiting(&log, "t", "g").await;
    for _ in 0..3 {
        publish(&other, "t", 1).await;
        claim_when_woken(&log, &waiter, "t", "g").await;
    }
}

/// The claimer died, the one who waits is another; and a redrive there is told here.
pub async fn another_processs_lease_end_wakes(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("another_processs_lease_end_wakes", "one process only");
    };
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    claim_one(&other, "t", "g").await;
    other.close().await;
    drop(other);
    let waiter = waiting(&log, "t", "g").await;
    h.advance(s(30)).await;
    let held = claim_when_woken(&log, &waiter, "t", "g").await;
    let Some(other) = h.second_process().await else { return };
    settle(&log, &held, Disposition::DeadLetter).await;
    other.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    claim_when_woken(&log, &waiter, "t", "g").await;
}
