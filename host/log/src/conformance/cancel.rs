//! Law 15: one message is settled without being handled, or made due, by its id.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, counts, dead, declare, group, ids, message, policy,
    publish, retried, s, settle, state, topic, until_counts, woken,
};
use crate::{DynLog, LogError, Place, Settled};
use std::num::NonZeroU32;
use windlass_core::{Disposition, GroupPolicy, MessageId, NewMessage, Timestamp};

async fn cancel(log: &DynLog, id: MessageId, name: Option<&str>) -> u64 {
    log.cancel(id, name.map(group).as_ref()).await.unwrap()
}

async fn place(log: &DynLog, id: MessageId) -> Place {
    log.message(id).await.unwrap().unwrap().groups[0].place
}

/// It is passed by, wherever it lies among the others, once; nothing counts it any more.
pub async fn a_message_cancelled_before_it_is_read_is_passed_by(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 8).await;
    for i in [0, 3, 4, 7] {
        assert_eq!(cancel(&log, published[i], Some("g")).await, 1);
        assert_eq!(cancel(&log, published[i], None).await, 0, "it is settled");
        assert_eq!(place(&log, published[i]).await, Place::Settled);
    }
    let found = state(&log, "t").await;
    assert_eq!((found.counts.ready, found.bytes, found.retained), (4, 12, 4));
    assert_eq!(found.oldest, Some(published[1].millis));
    let log = h.crash().await;
    assert_eq!(ids(&claim(&log, "t", "g", 1).await), [published[1]]);
    assert_eq!(counts(&log, "t", "g").await, (3, 0, 1, 0));
    assert_eq!(ids(&claim(&log, "t", "g", 2).await), [published[2], published[5]]);
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[6]]);
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 4, 0));
    let more = publish(&log, "t", 1).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), more);
}

/// A whole backlog of them, with one at its end that is not.
pub async fn cancelled_messages_never_hide_what_lies_behind_them(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 30).await;
    for id in &published[..29] {
        cancel(&log, *id, None).await;
    }
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    let log = h.reopen().await;
    assert_eq!(claim_one(&log, "t", "g").await.message.id, published[29]);
}

/// The claim is void: an ack says that it is settled, an extension that it is lost.
pub async fn a_cancelled_claim_is_void(h: &dyn Harness) {
    let log = h.log();
    let one = GroupPolicy { in_flight_max: NonZeroU32::MIN, ..policy(5, s(30)) };
    declare(&log, "t", "g", one).await;
    let published = publish(&log, "t", 2).await;
    let held = claim_one(&log, "t", "g").await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    assert_eq!(cancel(&log, published[0], Some("g")).await, 1);
    assert_eq!(super::kit::extend(&log, &held, s(60)).await, crate::Extended::Lost);
    assert_eq!(settle(&log, &held, acked()).await, Settled::AlreadySettled);
    assert_eq!(settle(&log, &held, Disposition::DeadLetter).await, Settled::AlreadySettled);
    let next = super::kit::claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(next.message.id, published[1], "there is room again");
    h.advance(s(31)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[1..]);
}

/// What waits goes, with its history; what is dead or acked stays as it is.
pub async fn a_waiting_message_is_cancelled_and_a_settled_one_is_not(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, retried(s(9))).await;
    bury_one(&log, "t", "g").await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    assert_eq!(cancel(&log, published[0], None).await, 1);
    assert_eq!(cancel(&log, published[1], None).await, 0);
    assert_eq!(cancel(&log, published[2], None).await, 0);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 1));
    assert_eq!(dead(&log, "t").await.len(), 1);
    h.advance(s(10)).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    let shown = log.message(published[0]).await.unwrap().unwrap().groups.remove(0);
    assert_eq!((shown.place, shown.history.attempts.len()), (Place::Settled, 0));
    assert_eq!(state(&log, "t").await.retained, 2);
}

/// The others read it, and need its bytes until they have; each group once.
pub async fn a_cancel_in_one_group_leaves_the_others_alone(h: &dyn Harness) {
    let log = h.log();
    for name in ["a", "b", "c"] {
        declare(&log, "t", name, policy(5, s(30))).await;
    }
    let published = publish(&log, "t", 3).await;
    claim_one(&log, "t", "b").await;
    assert_eq!(cancel(&log, published[0], Some("a")).await, 1);
    assert_eq!(state(&log, "t").await.bytes, 9);
    assert_eq!(cancel(&log, published[0], Some("c")).await, 1);
    assert_eq!(state(&log, "t").await.bytes, 9, "b has it leased");
    assert_eq!(cancel(&log, published[0], None).await, 1, "only b was left");
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.oldest), (6, Some(published[1].millis)));
    assert_eq!(cancel(&log, published[1], None).await, 3);
    assert_eq!(state(&log, "t").await.bytes, 3);
    for name in ["a", "b", "c"] {
        assert_eq!(ids(&claim(&log, "t", name, 9).await), published[2..], "{name}");
    }
}

/// Unknown ones are named; half an id is none.
pub async fn a_message_or_group_that_is_not_there_is_named(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let id = publish(&log, "t", 1).await[0];
    let wrong = MessageId { millis: Timestamp(id.millis.0 + 1), ..id };
    for error in [
        log.cancel(wrong, None).await.unwrap_err(),
        log.make_due(wrong, Some(&group("g"))).await.unwrap_err(),
    ] {
        assert!(matches!(error, LogError::NoMessage(found) if found == wrong), "{error}");
    }
    for error in [
        log.cancel(id, Some(&group("nobody"))).await.unwrap_err(),
        log.make_due(id, Some(&group("nobody"))).await.unwrap_err(),
    ] {
        assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
    }
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
}

/// At once, with what it had; nothing but what waits for a time.
pub async fn a_waiting_message_is_made_due(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    for claim in claim(&log, "t", "g", 2).await {
        settle(&log, &claim, retried(s(3_600))).await;
    }
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 1);
    assert_eq!(log.make_due(published[1], None).await.unwrap(), 1);
    assert_eq!(log.make_due(published[1], None).await.unwrap(), 0, "it is due");
    assert_eq!(log.make_due(published[2], None).await.unwrap(), 0, "it is leased");
    assert_eq!(counts(&log, "t", "g").await, (1, 1, 1, 0));
    let again = super::kit::claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!((again.message.id, again.attempt), (published[1], 2));
    h.advance(s(3_600)).await;
    until_counts(&log, "t", "g", (1, 0, 2, 0)).await;
}

/// Behind the sweep it goes as soon as nobody has it.
pub async fn a_cancelled_message_is_let_go(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 3).await;
    settle(&log, &held[0], retried(s(3_600))).await;
    ack(&log, &held[1]).await;
    ack(&log, &held[2]).await;
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    assert_eq!(cancel(&log, published[0], None).await, 1);
    assert_eq!(log.message(published[0]).await.unwrap(), None);
    assert_eq!(state(&log, "t").await.retained, 0);
}

/// It has its time, and a group that starts before it, but it is not there.
pub async fn a_delayed_message_that_was_cancelled_and_removed_is_not_counted(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let late = NewMessage { delay: Some(s(600)), ..message("t", "late") };
    let late = log.publish(vec![late]).await.unwrap()[0].id;
    publish(&log, "t", 1).await;
    assert_eq!(cancel(&log, late, None).await, 1);
    ack(&log, &claim_one(&log, "t", "g").await).await;
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    assert_eq!(log.message(late).await.unwrap(), None);
    let more = publish(&log, "t", 1).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    assert_eq!(counts(&log, "t", "other").await, (1, 0, 0, 0));
    assert_eq!(ids(&claim(&log, "t", "other", 9).await), more);
    assert_eq!(counts(&log, "t", "other").await, (0, 0, 1, 0));
}
