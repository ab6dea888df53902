//! Law 5: a message may wait before it is handled for the first time.

use super::Harness;
use super::kit::{
    ack, claim, claim_one, claim_when_woken, declare, group, ids, policy, publish, s, spec, state,
    topic, woken,
};
use crate::{Counts, DynLog, GroupSpec, Place, ReadFrom, ReadRequest, Start};
use std::num::NonZeroUsize;
use std::time::Duration;
use windlass_core::policy::DELAY_MAX;
use windlass_core::{MessageId, NewMessage};

async fn delayed(log: &DynLog, seconds: &[u64]) -> Vec<MessageId> {
    let of = |seconds: &u64| NewMessage {
        delay: Some(s(*seconds)),
        ..NewMessage::new(topic("t"), seconds.to_string())
    };
    let published = log.publish(seconds.iter().map(of).collect()).await.unwrap();
    published.into_iter().map(|one| one.id).collect()
}

async fn counts(log: &DynLog) -> Counts {
    state(log, "t").await.counts
}

/// Not before its time, and then by due time; others are not held up.
pub async fn a_delayed_message_is_never_given_before_its_time(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let late = delayed(&log, &[20, 10, 0]).await;
    let now = publish(&log, "t", 1).await;
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.ready, found.lag()), (2, 2, 4));
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [late[2], now[0]]);
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.ready, found.leased), (2, 0, 2));
    let log = h.crash().await;
    h.advance(Duration::from_millis(9_999)).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    h.advance(Duration::from_millis(1)).await;
    assert_eq!((counts(&log).await.delayed, counts(&log).await.ready), (1, 1));
    let first = claim_one(&log, "t", "g").await;
    assert_eq!((first.message.id, first.attempt), (late[1], 1));
    h.advance(s(10)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [late[0]]);
}

/// Read or not, by a group or by none.
pub async fn delayed_messages_are_counted_without_a_claim(h: &dyn Harness) {
    let log = h.log();
    delayed(&log, &[10, 20]).await;
    publish(&log, "t", 1).await;
    assert_eq!((counts(&log).await.delayed, counts(&log).await.ready), (2, 1));
    declare(&log, "t", "g", policy(5, s(300))).await;
    assert_eq!((counts(&log).await.delayed, counts(&log).await.ready), (2, 1));
    h.advance(s(10)).await;
    assert_eq!((counts(&log).await.delayed, counts(&log).await.ready), (1, 2));
    let log = h.reopen().await;
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 2);
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.ready, found.leased), (1, 0, 2));
    let late = GroupSpec { start: Start::Latest, ..spec("t", "late", policy(5, s(30))) };
    log.add_group(late).await.unwrap();
    h.advance(s(10)).await;
    assert!(claim(&log, "t", "late", 9).await.is_empty(), "published before its start");
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 1);
}

/// Whoever waits for work is woken at its time.
pub async fn a_delay_that_is_over_wakes(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    let late = delayed(&log, &[10]).await;
    woken(&waiter).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    h.advance(s(10)).await;
    let found = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(found.message.id, late[0]);
    ack(&log, &found).await;
    assert_eq!(counts(&log).await.lag(), 0);
}

/// With its due time, in its order of publishing.
pub async fn the_stream_shows_a_delayed_message_at_once(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let late = delayed(&log, &[10]).await[0];
    let other = publish(&log, "t", 1).await[0];
    let limit = NonZeroUsize::new(9).unwrap();
    let page = log.stream(ReadRequest { topic: topic("t"), from: ReadFrom::Earliest, limit });
    let page = page.await.unwrap();
    let due = log.now().after(s(10));
    let found: Vec<_> = page.messages.iter().map(|one| (one.id, one.due)).collect();
    assert_eq!(found, [(late, Some(due)), (other, None)]);
    let place = async |log: &DynLog| log.message(late).await.unwrap().unwrap().groups[0].place;
    assert_eq!(log.message(late).await.unwrap().unwrap().due, Some(due));
    assert_eq!(place(&log).await, Place::Delayed);
    claim(&log, "t", "g", 9).await;
    assert_eq!(place(&log).await, Place::Delayed);
    h.advance(s(10)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [late]);
}

/// Whether its group has come to it or not.
pub async fn a_delayed_message_is_made_due_or_cancelled(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let late = delayed(&log, &[10, 20, 30, 40]).await;
    assert_eq!(log.make_due(late[1], None).await.unwrap(), 1);
    assert_eq!(log.make_due(late[1], None).await.unwrap(), 0);
    assert_eq!(log.cancel(late[2], None).await.unwrap(), 1);
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.ready), (2, 1));
    let log = h.reopen().await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [late[1]]);
    assert_eq!(log.make_due(late[3], None).await.unwrap(), 1);
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [late[3]]);
    assert_eq!(log.cancel(late[0], None).await.unwrap(), 1);
    h.advance(s(100)).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    assert_eq!(counts(&log).await.lag(), 2);
}

/// It keeps its turn: what is behind it waits for it; unparked, it waits for its own time.
pub async fn a_delay_holds_its_key(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let of = |delay: u64| NewMessage {
        key: Some("k".into()),
        delay: (delay > 0).then(|| s(delay)),
        ..NewMessage::new(topic("t"), delay.to_string())
    };
    let published = log.publish([10, 0, 30, 0].map(of).to_vec()).await.unwrap();
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.parked, found.ready), (1, 3, 0));
    h.advance(s(10)).await;
    for one in &published[..2] {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(held.message.id, one.id);
        ack(&log, &held).await;
    }
    let found = counts(&log).await;
    assert_eq!((found.delayed, found.parked, found.ready), (1, 1, 0));
    h.advance(s(20)).await;
    for one in &published[2..] {
        let held = claim_one(&log, "t", "g").await;
        assert_eq!(held.message.id, one.id);
        ack(&log, &held).await;
    }
}

/// Neither a step of the wall clock nor a restart changes when it is due; 365 days at most.
pub async fn a_delay_is_log_time_and_bounded(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let most = NewMessage { delay: Some(Duration::MAX), ..NewMessage::new(topic("t"), "") };
    let id = log.publish(vec![most]).await.unwrap()[0].id;
    let due = log.message(id).await.unwrap().unwrap().due;
    assert_eq!(due, Some(log.now().after(DELAY_MAX)));
    let late = delayed(&log, &[10]).await;
    if let Some(clock) = h.clock() {
        clock.step_wall(3_600_000);
    }
    let log = h.reopen().await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    h.advance(s(10)).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), late);
}
