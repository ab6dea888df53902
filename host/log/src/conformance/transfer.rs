//! Law 15: what a silent worker holds goes to another, or back into the queue.

use super::Harness;
use super::kit::{
    ack, acked, claim, counts, declare, extend, group, policy, publish, request, retried, s,
    settle, some, topic,
};
use crate::{Claim, ClaimRequest, DynLog, LogError, PendingQuery, Settled, TransferRequest};
use std::time::Duration;
use windlass_core::MessageId;

fn wish(idle: Duration, ids: &[MessageId], max: usize) -> TransferRequest {
    let (topic, group) = (topic("t"), group("g"));
    TransferRequest { topic, group, worker: "heir".into(), idle, ids: ids.to_vec(), max: some(max) }
}

async fn started(h: &dyn Harness, attempts: u32) -> (DynLog, Vec<Claim>) {
    let log = h.log();
    declare(&log, "t", "g", policy(attempts, s(300))).await;
    publish(&log, "t", 4).await;
    let claims = claim(&log, "t", "g", 4).await;
    (log, claims)
}

/// Idle for at least so long, counted from claim, extension or transfer; by sequence, no more than
/// asked.
pub async fn idle_deliveries_go_to_another_worker(h: &dyn Harness) {
    let (log, held) = started(h, 5).await;
    let begun = log.now();
    h.advance(s(10)).await;
    extend(&log, &held[0], s(300)).await;
    h.advance(s(10)).await;
    assert!(log.transfer(wish(s(21), &[], 9)).await.unwrap().is_empty());
    let log = h.reopen().await;
    let moved = log.transfer(wish(s(20), &[], 2)).await.unwrap();
    let found: Vec<_> = moved.iter().map(|one| (one.message.id, one.attempt)).collect();
    assert_eq!(found, [(held[1].message.id, 2), (held[2].message.id, 2)]);
    assert_eq!(moved[0].message.data, held[1].message.data);
    assert_eq!(moved[0].lease_until, log.now().after(s(300)));
    let query = PendingQuery { topic: topic("t"), group: group("g"), after: None, limit: some(9) };
    let listed = log.pending(query).await.unwrap();
    assert_eq!(listed[1].worker.as_deref(), Some("heir"));
    assert_eq!((listed[1].first_at, listed[1].idle), (Some(begun), Some(s(0))));
    assert_eq!(settle(&log, &held[1], acked()).await, Settled::LeaseLost);
    ack(&log, &moved[0]).await;
    let rest = log.transfer(wish(s(10), &[], 9)).await.unwrap();
    let found: Vec<_> = rest.iter().map(|one| one.message.id).collect();
    assert_eq!(found, [held[0].message.id, held[3].message.id], "the moved one is not idle");
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 3, 0));
}

/// Only those named, by their whole ids.
pub async fn named_deliveries_are_transferred(h: &dyn Harness) {
    let (log, held) = started(h, 5).await;
    let id = held[2].message.id;
    let wrong = MessageId { millis: windlass_core::Timestamp(1), ..held[0].message.id };
    let moved = log.transfer(wish(s(0), &[wrong, id], 9)).await.unwrap();
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].message.id, id);
    ack(&log, &held[0]).await;
    ack(&log, &moved[0]).await;
}

/// Nor what waits, nor what has no attempt left.
pub async fn what_has_no_attempt_left_is_not_transferred(h: &dyn Harness) {
    let (log, held) = started(h, 2).await;
    settle(&log, &held[0], retried(s(600))).await;
    let moved = log.transfer(wish(s(0), &[], 9)).await.unwrap();
    assert_eq!(moved.len(), 3);
    assert!(moved.iter().all(|one| one.attempt == 2));
    assert!(log.transfer(wish(s(0), &[], 9)).await.unwrap().is_empty());
    let shown = log.message(moved[0].message.id).await.unwrap().unwrap().groups.remove(0);
    assert_eq!(shown.history.attempts[0].outcome, "transferred");
    assert_eq!(settle(&log, &moved[0], retried(s(0))).await, Settled::DeadLettered);
    let nobody = TransferRequest { group: group("nobody"), ..wish(s(0), &[], 1) };
    let error = log.transfer(nobody).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
}

/// The attempts given back; of that worker only.
pub async fn what_a_removed_worker_held_is_released(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(300))).await;
    publish(&log, "t", 3).await;
    let gone = claim(&log, "t", "g", 2).await;
    let other = ClaimRequest { worker: "other".into(), ..request("t", "g", 1) };
    let stays = log.claim(other).await.unwrap().remove(0);
    let (on, of) = (topic("t"), group("g"));
    assert_eq!(log.release_worker(&on, &of, "nobody").await.unwrap(), 0);
    assert_eq!(log.release_worker(&on, &of, "worker-1").await.unwrap(), 2);
    let log = h.crash().await;
    assert_eq!(settle(&log, &gone[0], acked()).await, Settled::LeaseLost);
    let again = claim(&log, "t", "g", 9).await;
    assert_eq!(again.len(), 2);
    assert!(again.iter().all(|one| one.attempt == 1));
    ack(&log, &stays).await;
}
