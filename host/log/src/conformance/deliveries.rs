//! Law 15: what is leased and what waits is listed, and one message is shown wherever it lies.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, declare, extend, group, policy, publish, request, retried, s,
    settle, some, topic,
};
use crate::{ClaimRequest, DynLog, LogError, Pending, PendingQuery, Place, Standing};
use windlass_core::{Disposition, MessageId, Sequence, Timestamp};

/// All that is leased or waits in a group, in pages of two.
async fn pending(log: &DynLog, on: &str, name: &str) -> Vec<Pending> {
    let mut all: Vec<Pending> = Vec::new();
    loop {
        let after = all.last().map(|last| last.id);
        let (topic, group) = (topic(on), group(name));
        let query = PendingQuery { topic, group, after, limit: some(2) };
        let page = log.pending(query).await.unwrap();
        assert!(page.len() <= 2);
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}

async fn standing(log: &DynLog, id: MessageId) -> Vec<Standing> {
    log.message(id).await.unwrap().expect("the message").groups
}

/// Nothing that is new, settled or dead; each once over pages, in order of sequence.
pub async fn pending_lists_what_is_leased_and_what_waits_in_order(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 8).await;
    let claims = claim(&log, "t", "g", 7).await;
    settle(&log, &claims[5], retried(s(9))).await;
    ack(&log, &claims[1]).await;
    settle(&log, &claims[2], Disposition::DeadLetter).await;
    settle(&log, &claims[0], retried(s(0))).await;
    settle(&log, &claims[4], Disposition::Release).await;
    let found = pending(&log, "t", "g").await;
    let (leased, retrying) = (Place::Leased, Place::Retrying);
    let places = [(0, retrying), (3, leased), (4, retrying), (5, retrying), (6, leased)];
    let expected: Vec<_> = places.map(|(i, place)| (published[i], place)).to_vec();
    let found: Vec<_> = found.iter().map(|one| (one.id, one.place)).collect();
    assert_eq!(found, expected);
    let log = h.crash().await;
    assert_eq!(pending(&log, "t", "g").await.len(), 5);
}

/// Who, since when, how often; an extension is a sign of life.
pub async fn pending_says_who_holds_it_and_since_when(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let begun = log.now();
    let first = claim_one(&log, "t", "g").await;
    h.advance(s(5)).await;
    settle(&log, &first, retried(s(1))).await;
    let waits = pending(&log, "t", "g").await.remove(0);
    assert_eq!((waits.worker, waits.idle, waits.attempts), (None, None, 1));
    assert_eq!((waits.first_at, waits.last_at), (Some(begun), Some(begun)));
    assert_eq!(waits.until, Some(Timestamp(begun.0 + 6_000)));
    h.advance(s(1)).await;
    let other = ClaimRequest { worker: "other".into(), ..request("t", "g", 1) };
    let again = log.claim(other).await.unwrap().remove(0);
    assert_eq!(again.message.id, first.message.id);
    h.advance(s(4)).await;
    let held = pending(&log, "t", "g").await.remove(0);
    assert_eq!((held.worker.as_deref(), held.idle, held.attempts), (Some("other"), Some(s(4)), 2));
    let second = Timestamp(begun.0 + 6_000);
    assert_eq!((held.first_at, held.last_at), (Some(begun), Some(second)));
    assert_eq!(held.until, Some(again.lease_until));
    extend(&log, &again, s(60)).await;
    h.advance(s(2)).await;
    let log = h.reopen().await;
    let held = pending(&log, "t", "g").await.remove(0);
    assert_eq!((held.idle, held.last_at), (Some(s(2)), Some(second)));
    settle(&log, &again, Disposition::Release).await;
    let waits = pending(&log, "t", "g").await.remove(0);
    assert_eq!((waits.attempts, waits.first_at, waits.last_at), (1, Some(begun), Some(second)));
}

/// A lease that ended stays listed until somebody acts on it; unknown names are told.
pub async fn pending_keeps_ended_leases_and_names_what_is_unknown(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    claim_one(&log, "t", "g").await;
    h.advance(s(31)).await;
    let held = pending(&log, "t", "g").await.remove(0);
    assert_eq!((held.place, held.idle), (Place::Leased, Some(s(31))));
    let query = |on: &str, name: &str| PendingQuery {
        topic: topic(on),
        group: group(name),
        after: None,
        limit: some(1),
    };
    let error = log.pending(query("t", "nobody")).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
    let error = log.pending(query("nowhere", "g")).await.unwrap_err();
    assert!(matches!(error, LogError::NoTopic(_)), "{error}");
}

/// In every group of its topic, by name; its data whole.
pub async fn a_message_is_shown_wherever_it_lies(h: &dyn Harness) {
    let log = h.log();
    for name in ["new", "leased", "retrying", "dead", "settled"] {
        declare(&log, "t", name, policy(5, s(30))).await;
    }
    publish(&log, "other", 1).await;
    let id = publish(&log, "t", 1).await[0];
    claim_one(&log, "t", "leased").await;
    let held = claim_one(&log, "t", "retrying").await;
    settle(&log, &held, retried(s(9))).await;
    bury_one(&log, "t", "dead").await;
    ack(&log, &claim_one(&log, "t", "settled").await).await;
    let log = h.reopen().await;
    let shown = log.message(id).await.unwrap().unwrap();
    assert_eq!((shown.topic, shown.id, shown.due), (topic("t"), id, None));
    assert_eq!(shown.message.unwrap().data.as_ref(), b"t 0");
    let places: Vec<_> = shown.groups.iter().map(|one| (one.group.as_str(), one.place)).collect();
    let (dead, leased, settled) = (Place::Dead, Place::Leased, Place::Settled);
    let expected = [
        ("dead", dead),
        ("leased", leased),
        ("new", Place::New),
        ("retrying", Place::Retrying),
        ("settled", settled),
    ];
    assert_eq!(places, expected);
    let [dead, leased, new, retrying, settled] = shown.groups.try_into().unwrap();
    assert_eq!(dead.dead.as_ref().unwrap().reason, "rejected");
    assert_eq!((dead.pending, dead.history.attempts.len()), (None, 1));
    assert_eq!(leased.pending.unwrap().worker.as_deref(), Some("worker-1"));
    assert_eq!((new.pending, new.dead), (None, None));
    assert_eq!(retrying.pending.unwrap().attempts, 1);
    assert_eq!(retrying.history.attempts[0].text, "it failed");
    assert_eq!((settled.pending, settled.dead, settled.history.attempts.len()), (None, None, 0));
}

/// Nor one whose time is another's: an id is both of its parts.
pub async fn a_message_that_is_not_stored_is_not_shown(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(0), 0).await.unwrap();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let id = publish(&log, "t", 1).await[0];
    assert_eq!(standing(&log, id).await.len(), 1);
    for wrong in [
        MessageId { millis: Timestamp(id.millis.0 + 1), ..id },
        MessageId { sequence: Sequence(id.sequence.0 + 1), ..id },
        MessageId { sequence: Sequence(u64::MAX), ..id },
        MessageId { sequence: Sequence(0), ..id },
    ] {
        assert_eq!(log.message(wrong).await.unwrap(), None, "{wrong}");
    }
    ack(&log, &claim_one(&log, "t", "g").await).await;
    log.sweep().await.unwrap();
    assert_eq!(log.message(id).await.unwrap(), None);
}

/// Where there is no message to show, where it lies is shown all the same.
pub async fn a_message_that_cannot_be_read_is_shown_without_it(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let id = publish(&log, "t", 1).await[0];
    if !h.corrupt(id).await {
        return super::skip("a_message_that_cannot_be_read_is_shown_without_it", "no records");
    }
    let shown = log.message(id).await.unwrap().unwrap();
    assert_eq!((shown.id, shown.message), (id, None));
    assert_eq!(shown.groups[0].place, Place::New);
}
