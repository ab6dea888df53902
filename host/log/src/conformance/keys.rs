//! Law 10: messages of one key are handled in order, one at a time within a group.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, claim_when_woken, declare, group, ids, let_end, policy,
    publish, request, retried, s, settle, some, state, topic, woken,
};
use crate::{ClaimRequest, Counts, DeadLetterFilter, DynLog, PendingQuery, Place, Prefer, Settled};
use std::num::NonZeroU32;
use windlass_core::passing::{PARKED_MAX, SET_ASIDE_MAX};
use windlass_core::{Disposition, GroupPolicy, MessageId, NewMessage};

/// Publishes one message of each of these keys, in order; of the key `-` none.
async fn keyed(log: &DynLog, keys: &str) -> Vec<MessageId> {
    let of = |key: char| NewMessage {
        key: (key != '-').then(|| key.to_string()),
        ..NewMessage::new(topic("t"), key.to_string())
    };
    let published = log.publish(keys.chars().map(of).collect()).await.unwrap();
    published.into_iter().map(|one| one.id).collect()
}

async fn counts(log: &DynLog) -> Counts {
    state(log, "t").await.groups[0].counts
}

async fn started(h: &dyn Harness) -> DynLog {
    declare(&h.log(), "t", "g", policy(5, s(30))).await;
    h.log()
}

/// Others are not held up, in one batch or in many; an ack gives the next its turn, in order.
pub async fn messages_of_one_key_come_one_at_a_time(h: &dyn Harness) {
    let log = started(h).await;
    let published = keyed(&log, "aab-aacb").await;
    let first = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&first), [0, 2, 3, 6].map(|i| published[i]));
    assert_eq!(first[0].message.key.as_deref(), Some("a"));
    let found = counts(&log).await;
    assert_eq!((found.ready, found.leased, found.parked, found.lag()), (0, 4, 4, 8));
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    ack(&log, &first[0]).await;
    assert_eq!((counts(&log).await.ready, counts(&log).await.parked), (1, 3));
    let log = h.crash().await;
    let second = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&second), [published[1]]);
    assert_eq!(second[0].attempt, 1);
    let more = keyed(&log, "ab").await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    let mut order = Vec::new();
    let mut held = vec![second[0].clone(), first[1].clone()];
    while let Some(one) = held.pop() {
        ack(&log, &one).await;
        order.push(one.message.id);
        held.extend(claim(&log, "t", "g", 9).await);
    }
    let of = |key: &str| -> Vec<MessageId> {
        let all = [(2, "b"), (7, "b"), (1, "a"), (4, "a"), (5, "a")];
        all.iter().filter(|(_, k)| *k == key).map(|(i, _)| published[*i]).collect()
    };
    let a: Vec<_> = [of("a"), vec![more[0]]].concat();
    let b: Vec<_> = [of("b"), vec![more[1]]].concat();
    assert_eq!(order.iter().filter(|id| a.contains(id)).copied().collect::<Vec<_>>(), a);
    assert_eq!(order.iter().filter(|id| b.contains(id)).copied().collect::<Vec<_>>(), b);
    assert_eq!(order.len(), a.len() + b.len());
}

/// Under retry, release, lease end: what is parked waits until the first is settled.
pub async fn a_failing_message_keeps_those_behind_it(h: &dyn Harness) {
    let log = started(h).await;
    let published = keyed(&log, "aaa").await;
    let mut held = claim(&log, "t", "g", 9).await.remove(0);
    for round in 0..3 {
        match round {
            0 => {
                settle(&log, &held, retried(s(10))).await;
                assert!(claim(&log, "t", "g", 9).await.is_empty());
                h.advance(s(10)).await;
            }
            1 => {
                settle(&log, &held, Disposition::Release).await;
            }
            _ => let_end(h, s(30)).await,
        }
        let again = claim(&log, "t", "g", 9).await;
        assert_eq!(ids(&again), [published[0]], "round {round}");
        held = again[0].clone();
    }
    assert_eq!(counts(&log).await.parked, 2);
    ack(&log, &held).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[1]]);
}

/// A dead letter does not hold up its key; redriven it comes first, when its way is free.
pub async fn a_dead_message_lets_the_next_of_its_key_pass(h: &dyn Harness) {
    let log = started(h).await;
    let published = keyed(&log, "aaa").await;
    assert_eq!(bury_one(&log, "t", "g").await, published[0]);
    let second = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&second), [published[1]]);
    let all = DeadLetterFilter::default();
    assert_eq!(log.redrive(&topic("t"), None, &all).await.unwrap().moved, 1);
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    let found = counts(&log).await;
    assert_eq!((found.ready, found.leased, found.parked), (0, 1, 2));
    ack(&log, &second[0]).await;
    let again = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&again), [published[0]]);
    ack(&log, &again[0]).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[2]]);
}

/// With nothing before it a redriven one is there at once; of several, one.
pub async fn redriven_messages_of_one_key_come_one_at_a_time(h: &dyn Harness) {
    let log = started(h).await;
    let published = keyed(&log, "aab-").await;
    for _ in 0..4 {
        bury_one(&log, "t", "g").await;
    }
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    let found = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&found), [0, 2, 3].map(|i| published[i]));
    ack(&log, &found[0]).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[1]]);
}

/// The last lease's end of one, with nobody claiming: whoever waits is woken for the next.
pub async fn whoever_waits_is_woken_when_a_key_becomes_free(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(1, s(30))).await;
    let published = keyed(&log, "aaaa").await;
    let held = claim_one(&log, "t", "g").await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    ack(&log, &held).await;
    let second = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(second.message.id, published[1]);
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    h.advance(s(30)).await;
    let third = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(third.message.id, published[2]);
    assert_eq!(log.cancel(published[2], None).await.unwrap(), 1);
    let last = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(last.message.id, published[3]);
    assert_eq!(settle(&log, &third, super::kit::acked()).await, Settled::AlreadySettled);
}

/// A parked one goes without touching the others; it is listed and shown as parked.
pub async fn a_parked_message_is_listed_and_cancelled(h: &dyn Harness) {
    let log = started(h).await;
    let published = keyed(&log, "aaa").await;
    let held = claim_one(&log, "t", "g").await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    let query = PendingQuery { topic: topic("t"), group: group("g"), after: None, limit: some(9) };
    let listed = log.pending(query).await.unwrap();
    let places: Vec<_> = listed.iter().map(|one| (one.place, one.until.is_some())).collect();
    assert_eq!(places, [(Place::Leased, true), (Place::Parked, false), (Place::Parked, false)]);
    assert_eq!(log.make_due(published[1], None).await.unwrap(), 0, "it waits for no time");
    assert_eq!(log.cancel(published[1], None).await.unwrap(), 1);
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    ack(&log, &held).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[2]]);
    assert_eq!(counts(&log).await.lag(), 1);
}

/// Each group for itself.
pub async fn a_busy_key_of_one_group_is_free_in_another(h: &dyn Harness) {
    let log = started(h).await;
    declare(&log, "t", "h", policy(5, s(30))).await;
    let published = keyed(&log, "aa").await;
    let held = claim(&log, "t", "g", 9).await;
    assert_eq!(ids(&claim(&log, "t", "h", 9).await), [published[0]]);
    ack(&log, &held[0]).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), [published[1]]);
    assert!(claim(&log, "t", "h", 9).await.is_empty());
}

/// More of one key than a transaction sets aside: nothing behind them is missed, whoever waits is
/// woken again, and only leased ones count as in flight.
pub async fn a_long_queue_of_one_key_hides_nothing_behind_it(h: &dyn Harness) {
    let log = h.log();
    let two = NonZeroU32::new(2).unwrap();
    declare(&log, "t", "g", GroupPolicy { in_flight_max: two, ..policy(5, s(30)) }).await;
    let n = SET_ASIDE_MAX + 200;
    let published = keyed(&log, &"a".repeat(n)).await;
    let behind = keyed(&log, "b").await;
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(held.message.id, published[0]);
    let waiter = log.waiter(&topic("t"), &group("g"));
    let other = claim_when_woken(&log, &waiter, "t", "g").await;
    assert_eq!(other.message.id, behind[0]);
    let found = counts(&log).await;
    assert_eq!((found.parked, found.leased, found.ready), (n as u64 - 1, 2, 0));
    ack(&log, &other).await;
    let log = h.reopen().await;
    for id in &published[..4] {
        let first =
            PendingQuery { topic: topic("t"), group: group("g"), after: None, limit: some(1) };
        let leased = log.pending(first).await.unwrap().remove(0);
        assert_eq!((leased.id, leased.place), (*id, Place::Leased));
        assert_eq!(log.cancel(leased.id, None).await.unwrap(), 1);
        claim_one(&log, "t", "g").await;
    }
    assert_eq!(counts(&log).await.lag(), n as u64 - 4);
    publish(&log, "t", 1).await;
    let probe = ClaimRequest { prefer: Prefer::Untried, ..request("t", "g", 1) };
    assert_eq!(log.claim(probe).await.unwrap().len(), 1);
}

/// Law 10: nothing behind is passed either, until some of them are settled; the group says so.
pub async fn beyond_so_many_parked_the_cursor_stops_and_says_so(h: &dyn Harness) {
    let log = started(h).await;
    let n = usize::try_from(PARKED_MAX).unwrap();
    for _ in 0..n / 2_000 {
        keyed(&log, &"a".repeat(2_000)).await;
    }
    keyed(&log, "aa-").await;
    let mut given = Vec::new();
    for _ in 0..n / SET_ASIDE_MAX + 3 {
        given.extend(claim(&log, "t", "g", 9).await);
    }
    assert_eq!(given.len(), 1, "the first of its key");
    let found = state(&log, "t").await.groups.remove(0);
    assert!(found.is_stopped());
    assert_eq!((found.counts.parked, found.counts.ready), (PARKED_MAX, 2));
    ack(&log, &given[0]).await;
    assert!(!state(&log, "t").await.groups[0].is_stopped());
    let more = claim(&log, "t", "g", 9).await;
    assert_eq!(more.len(), 2, "the next of its key, and what was behind");
    assert_eq!(more[1].message.key, None);
    assert_eq!(counts(&log).await.lag(), PARKED_MAX + 2);
}

/// What a settled message's key holds is parked in order even where others died in between.
pub async fn counts_and_claims_agree_over_many_keys(h: &dyn Harness) {
    let log = started(h).await;
    let keys: String = (0..60_u8).map(|i| char::from(b'a' + i * 2 % 5)).collect();
    let published = keyed(&log, &keys).await;
    let mut seen: Vec<MessageId> = Vec::new();
    let mut round = 0;
    loop {
        let claims = claim(&log, "t", "g", 7).await;
        let found = counts(&log).await;
        assert_eq!(found.leased, claims.len() as u64);
        assert_eq!(found.lag() + found.dead, 60 - (seen.len() as u64 - found.dead));
        if claims.is_empty() {
            break;
        }
        let mut of_batch: Vec<_> = claims.iter().map(|one| one.message.key.clone()).collect();
        of_batch.dedup();
        of_batch.sort();
        of_batch.dedup();
        assert_eq!(of_batch.len(), claims.len(), "each key once");
        for one in claims {
            round += 1;
            if round % 9 == 0 {
                settle(&log, &one, Disposition::DeadLetter).await;
            } else {
                ack(&log, &one).await;
            }
            seen.push(one.message.id);
        }
    }
    assert_eq!(seen.len(), published.len());
    for key in 'a'..='e' {
        let of_key: Vec<_> = keys.chars().zip(&published).filter(|(k, _)| *k == key).collect();
        let order: Vec<_> =
            seen.iter().filter(|id| of_key.iter().any(|(_, of)| of == id)).collect();
        assert!(order.is_sorted(), "{key}");
    }
}
