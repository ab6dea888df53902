//! Law 13: a group is moved, back or forward; claims are void, dead letters stay dead.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, claim_when_woken, counts, dead, declare, group, ids,
    policy, publish, request, retried, s, settle, spec, state, topic, woken,
};
use crate::{DeadLetterFilter, DynLog, Extended, GroupSpec, LogError, Place, Settled, Start};
use windlass_core::MessageId;

async fn seek(log: &DynLog, name: &str, to: Start) {
    log.seek(&topic("t"), &group(name), to).await.unwrap();
}

async fn started(h: &dyn Harness, n: usize) -> (DynLog, Vec<MessageId>) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", n).await;
    (log, published)
}

/// All again, with fresh attempts, what was acked too; another group stands where it stood.
pub async fn a_group_moved_back_reads_again(h: &dyn Harness) {
    let (log, published) = started(h, 4).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    let held = claim(&log, "t", "g", 3).await;
    ack(&log, &held[0]).await;
    settle(&log, &held[1], retried(s(600))).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 1, 1, 0));
    seek(&log, "g", Start::Earliest).await;
    assert_eq!(counts(&log, "t", "g").await, (4, 0, 0, 0));
    let log = h.crash().await;
    let again = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&again), published);
    assert!(again.iter().all(|one| one.attempt == 1));
    assert_eq!(counts(&log, "t", "other").await, (4, 0, 0, 0));
    for (to, from) in [
        (Start::At(published[2]), 2),
        (Start::After(published[2]), 3),
        (Start::Time(published[0].millis), 0),
    ] {
        seek(&log, "g", to).await;
        assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[from..], "{to:?}");
    }
}

/// What lies before is settled for it, and may go.
pub async fn a_group_moved_forward_settles_what_it_skips(h: &dyn Harness) {
    let (log, published) = started(h, 6).await;
    let held = claim(&log, "t", "g", 2).await;
    settle(&log, &held[0], retried(s(600))).await;
    seek(&log, "g", Start::At(published[5])).await;
    let found = state(&log, "t").await;
    assert_eq!((found.counts.ready, found.counts.lag(), found.bytes), (1, 1, 3));
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    assert_eq!(log.message(published[0]).await.unwrap(), None);
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[5..]);
    seek(&log, "g", Start::Latest).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    seek(&log, "g", Start::Earliest).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[5..], "what is still stored");
}

/// Law 7: whichever way it moved; whoever waits is told that there is something.
pub async fn claims_of_a_moved_group_are_void(h: &dyn Harness) {
    let (log, published) = started(h, 2).await;
    let held = claim(&log, "t", "g", 2).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    seek(&log, "g", Start::Earliest).await;
    assert_eq!(settle(&log, &held[0], acked()).await, Settled::LeaseLost);
    assert_eq!(super::kit::extend(&log, &held[1], s(60)).await, Extended::Lost);
    let again = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(again.message.id, published[0]);
    assert_eq!(settle(&log, &held[0], acked()).await, Settled::LeaseLost);
    seek(&log, "g", Start::Latest).await;
    assert_eq!(settle(&log, &again, acked()).await, Settled::AlreadySettled);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}

/// Moved back before them it does not read them; redriven they come, once.
pub async fn dead_letters_stay_dead_wherever_a_group_moves(h: &dyn Harness) {
    let (log, published) = started(h, 4).await;
    bury_one(&log, "t", "g").await;
    let held = claim(&log, "t", "g", 2).await;
    ack(&log, &held[0]).await;
    super::kit::settle(&log, &held[1], windlass_core::Disposition::DeadLetter).await;
    seek(&log, "g", Start::Earliest).await;
    assert_eq!((counts(&log, "t", "g").await, dead(&log, "t").await.len()), ((2, 0, 0, 2), 2));
    let place = async |id| log.message(id).await.unwrap().unwrap().groups[0].place;
    assert_eq!((place(published[0]).await, place(published[1]).await), (Place::Dead, Place::New));
    let one = DeadLetterFilter { id: Some(published[2]), ..DeadLetterFilter::default() };
    assert_eq!(log.redrive(&topic("t"), None, &one).await.unwrap().moved, 1);
    assert_eq!(counts(&log, "t", "g").await, (3, 0, 0, 1));
    assert_eq!(state(&log, "t").await.bytes, 9);
    let again = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&again), [2, 1, 3].map(|i| published[i]));
    for one in &again {
        ack(&log, one).await;
    }
    assert_eq!(settle(&log, &again[0], acked()).await, Settled::AlreadySettled);
    assert_eq!((counts(&log, "t", "g").await, state(&log, "t").await.bytes), ((0, 0, 0, 1), 0));
    seek(&log, "g", Start::Latest).await;
    assert_eq!(dead(&log, "t").await.len(), 1);
}

/// Also with its key's queue and its delays: nothing of them is left over.
pub async fn a_moved_group_forgets_what_waited(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let keyed = |delay| windlass_core::NewMessage {
        key: Some("k".into()),
        delay,
        ..super::kit::message("t", "")
    };
    let batch = vec![keyed(None), keyed(None), keyed(Some(s(600))), keyed(None)];
    let published: Vec<_> =
        log.publish(batch).await.unwrap().into_iter().map(|one| one.id).collect();
    claim(&log, "t", "g", 9).await;
    seek(&log, "g", Start::At(published[1])).await;
    let found = state(&log, "t").await.groups.remove(0).counts;
    assert_eq!((found.ready, found.delayed, found.parked, found.leased), (2, 1, 0, 0));
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(held.message.id, published[1]);
    ack(&log, &held).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty(), "the delayed one is next");
}

/// What waited for a first group and what another group had passed by; unknown names are told.
pub async fn a_moved_group_takes_over_what_it_reads(h: &dyn Harness) {
    let log = h.log();
    let published = publish(&log, "t", 3).await;
    let latest = GroupSpec { start: Start::Latest, ..spec("t", "g", policy(5, s(30))) };
    log.add_group(latest).await.unwrap();
    assert_eq!(state(&log, "t").await.bytes, 9);
    seek(&log, "g", Start::At(published[1])).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.counts.ready), (9, 2));
    for one in claim(&log, "t", "g", 9).await {
        ack(&log, &one).await;
    }
    assert_eq!(state(&log, "t").await.bytes, 3);
    let error = log.seek(&topic("t"), &group("nobody"), Start::Latest).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
    assert!(log.claim(request("t", "g", 1)).await.unwrap().is_empty());
}

/// It is dead, and what the group has still to pass by, and one message all the same.
pub async fn a_dead_letter_that_a_group_was_moved_back_before_counts_once(h: &dyn Harness) {
    let (log, published) = started(h, 4).await;
    for held in claim(&log, "t", "g", 2).await {
        ack(&log, &held).await;
    }
    let buried = bury_one(&log, "t", "g").await;
    assert_eq!(buried, published[2]);
    assert_eq!(state(&log, "t").await.retained, 2);
    seek(&log, "g", Start::At(buried)).await;
    let found = state(&log, "t").await;
    assert_eq!((found.counts.ready, found.counts.dead, found.retained), (1, 1, 2));
}

/// In the same claim: what gives it out does not take it for settled by the position's passing.
pub async fn a_moved_group_is_given_what_was_redriven_while_it_reads_past(h: &dyn Harness) {
    let (log, _) = started(h, 2).await;
    let buried = bury_one(&log, "t", "g").await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    // The sweep is past it: from now on it goes with whoever had it last.
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    seek(&log, "g", Start::Earliest).await;
    let redriven = log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(redriven.moved, 1);
    let given = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&given), [buried]);
    ack(&log, &given[0]).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}
