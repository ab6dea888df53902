//! Law 14: one copy, kept while needed, then for `retain`, then gone.
//!
//! A log may sweep by itself at any time, so cases look at what is stored, not at what one sweep
//! says it removed.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, counts, dead, declare, ids, let_end, policy, publish,
    retried, s, settle, spec, state, topic,
};
use crate::DeadLetterFilter;
use crate::{DynLog, GroupSpec, Start};
use windlass_core::Disposition;

async fn ack_all(log: &DynLog, on: &str, name: &str) {
    for claim in claim(log, on, name, 1_000).await {
        ack(log, &claim).await;
    }
}

/// Keeps nothing, and sweeps.
async fn sweep_everything(log: &DynLog) {
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
}

/// unread, leased, ended, waiting, redriven.
pub async fn sweep_never_removes_what_a_group_needs(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 6).await;
    let claims = claim(&log, "t", "g", 5).await;
    settle(&log, &claims[1], retried(s(5))).await;
    settle(&log, &claims[2], Disposition::DeadLetter).await;
    settle(&log, &claims[3], acked()).await;
    ack(&log, &claims[4]).await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    sweep_everything(&log).await;
    h.advance(s(3_600)).await;
    sweep_everything(&log).await;
    let left = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&left), [0, 2, 1, 5].map(|i| published[i]));
    for claim in left {
        ack(&log, &claim).await;
    }
    sweep_everything(&log).await;
    assert_eq!(state(&log, "t").await.retained, 0);
}

/// W16.
pub async fn sweep_never_removes_what_is_dead(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    bury_one(&log, "t", "a").await;
    ack_all(&log, "t", "a").await;
    ack_all(&log, "t", "b").await;
    sweep_everything(&log).await;
    let letters = dead(&log, "t").await;
    assert_eq!(letters[0].message.as_ref().unwrap().data.as_ref(), b"t 0");
    let state = state(&log, "t").await;
    assert_eq!((state.bytes, state.retained), (0, 0), "dead ones are neither needed nor retained");
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(claim_one(&log, "t", "a").await.message.data.as_ref(), b"t 0");
}

/// A-11; not before.
pub async fn settled_messages_go_after_the_span(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(100), 1_000).await.unwrap();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    ack_all(&log, "t", "g").await;
    log.sweep().await.unwrap();
    h.advance(s(99)).await;
    log.sweep().await.unwrap();
    assert_eq!(state(&log, "t").await.retained, 3);
    let log = h.reopen().await;
    h.advance(s(1)).await;
    log.sweep().await.unwrap();
    assert_eq!(state(&log, "t").await.retained, 0);
}

/// the oldest go first; each topic for itself.
pub async fn settled_messages_beyond_the_count_go(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(1_000), 3).await.unwrap();
    for on in ["t", "u"] {
        declare(&log, on, "g", policy(5, s(30))).await;
        publish(&log, on, 5).await;
        ack_all(&log, on, "g").await;
    }
    let published = publish(&log, "t", 1).await;
    log.sweep().await.unwrap();
    assert_eq!((state(&log, "t").await.retained, state(&log, "u").await.retained), (3, 3));
    declare(&log, "t", "late", policy(5, s(30))).await;
    let claims = claim(&log, "t", "late", 9).await;
    assert_eq!(claims.len(), 4);
    assert_eq!(claims[0].message.data.as_ref(), b"t 2");
    assert_eq!(claims[3].message.id, published[0]);
}

/// Until the last one is done.
pub async fn a_slow_group_holds_the_copy_for_all(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "fast", policy(5, s(30))).await;
    declare(&log, "t", "slow", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    ack_all(&log, "t", "fast").await;
    h.advance(s(3_600 * 48)).await;
    sweep_everything(&log).await;
    assert_eq!(state(&log, "t").await.retained, 0);
    assert_eq!(counts(&log, "t", "slow").await, (3, 0, 0, 0));
    let claims = claim(&log, "t", "slow", 3).await;
    assert_eq!(claims.len(), 3);
    ack(&log, &claims[2]).await;
    sweep_everything(&log).await;
    let_end(h, s(30)).await;
    assert_eq!(claim(&log, "t", "slow", 3).await.len(), 2);
}

/// A-20, W17: everything is needed; it counts as ready.
pub async fn a_topic_without_groups_loses_nothing(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 3).await;
    h.advance(s(3_600)).await;
    sweep_everything(&log).await;
    let state = state(&log, "t").await;
    assert_eq!((state.counts.ready, state.bytes, state.retained), (3, 9, 0));
    declare(&log, "t", "g", policy(5, s(30))).await;
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 3);
}

/// A group that starts at or before them has still to come.
pub async fn a_first_group_at_latest_leaves_the_earlier_ones_needed(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 3).await;
    let latest = GroupSpec { start: Start::Latest, ..spec("t", "late", policy(5, s(30))) };
    log.declare_groups(vec![latest]).await.unwrap();
    publish(&log, "t", 2).await;
    ack_all(&log, "t", "late").await;
    h.advance(s(3_600)).await;
    sweep_everything(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained), (9, 0));
    assert_eq!(found.counts.ready, 0, "a topic's counts are its groups'");
    let log = h.reopen().await;
    declare(&log, "t", "early", policy(5, s(30))).await;
    ack_all(&log, "t", "early").await;
    sweep_everything(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.oldest), (0, 0, None));
}

/// W16: behind the sweep nothing is left over.
pub async fn what_only_a_dead_letter_held_goes_with_it(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 4).await;
    bury_one(&log, "t", "g").await;
    bury_one(&log, "t", "g").await;
    ack_all(&log, "t", "g").await;
    sweep_everything(&log).await;
    assert_eq!(state(&log, "t").await.retained, 0);
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    bury_one(&log, "t", "g").await;
    ack_all(&log, "t", "g").await;
    assert_eq!(log.purge_dead(&topic("t"), None).await.unwrap(), 1);
    assert_eq!(state(&log, "t").await.retained, 0);
    declare(&log, "t", "late", policy(5, s(30))).await;
    assert!(claim(&log, "t", "late", 9).await.is_empty(), "nothing is stored any more");
}

/// And holds it from then on.
pub async fn a_late_group_reads_what_is_retained(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(100), 1_000).await.unwrap();
    declare(&log, "t", "first", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    ack_all(&log, "t", "first").await;
    log.sweep().await.unwrap();
    assert_eq!(state(&log, "t").await.retained, 3);
    declare(&log, "t", "late", policy(5, s(30))).await;
    assert_eq!(state(&log, "t").await.retained, 0);
    h.advance(s(200)).await;
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    assert_eq!(ids(&claim(&log, "t", "late", 9).await), published);
}
