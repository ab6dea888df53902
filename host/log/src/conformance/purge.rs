//! Laws 2, 3, 4, 7 and 18: a topic is emptied, and goes on as if nothing had been there.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, claim_when_woken, counts, dead, declare, extend, group,
    ids, message, policy, publish, retried, s, settle, short, some, state, topic, woken,
};
use crate::{
    DynLog, Extended, LogError, Purged, ReadFrom, ReadGap, ReadRequest, Settled, TopicLimits,
};
use std::sync::Arc;
use windlass_core::{Disposition, MessageId, NewMessage};

async fn purge(log: &DynLog, with_dead: bool) -> Purged {
    log.purge_topic(&topic("t"), with_dead).await.unwrap()
}

/// Leased, waiting, acked, dead and new ones of one group; new ones of another.
async fn filled(h: &dyn Harness) -> (DynLog, Vec<MessageId>) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    let published = publish(&log, "t", 9).await;
    let held = claim(&log, "t", "g", 4).await;
    ack(&log, &held[0]).await;
    settle(&log, &held[1], retried(s(600))).await;
    settle(&log, &held[2], Disposition::DeadLetter).await;
    (log, published)
}

/// In both groups, whatever had become of it; what is dead stays, and can still be redriven.
pub async fn a_purged_topic_keeps_nothing_but_its_dead_letters(h: &dyn Harness) {
    let (log, published) = filled(h).await;
    assert_eq!(purge(&log, false).await, Purged { messages: 8, bytes: 24, dead: 0 });
    for again in [false, true] {
        let log = if again { h.crash().await } else { h.log() };
        assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 1));
        assert_eq!(counts(&log, "t", "other").await, (0, 0, 0, 0));
        let found = state(&log, "t").await;
        assert_eq!((found.bytes, found.retained, found.oldest), (0, 0, None));
        for (at, id) in published.iter().enumerate() {
            assert_eq!(log.message(*id).await.unwrap().is_some(), at == 2, "{at}");
        }
        assert!(claim(&log, "t", "g", 9).await.is_empty());
    }
    let log = h.log();
    let all = crate::DeadLetterFilter::default();
    assert_eq!(log.redrive(&topic("t"), None, &all).await.unwrap().moved, 1);
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[2..3]);
}

/// Law 7: late workers change nothing, and a group at its in-flight limit has room again.
pub async fn claims_of_a_purged_topic_are_void(h: &dyn Harness) {
    let log = h.log();
    let narrow = windlass_core::GroupPolicy {
        in_flight_max: std::num::NonZeroU32::new(2).unwrap(),
        ..policy(5, s(30))
    };
    declare(&log, "t", "g", narrow).await;
    publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 9).await;
    assert_eq!(held.len(), 2);
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    purge(&log, false).await;
    let log = h.reopen().await;
    assert_eq!(settle(&log, &held[0], acked()).await, Settled::AlreadySettled);
    assert_eq!(extend(&log, &held[1], s(60)).await, Extended::Lost);
    let sends = Disposition::Ack { sends: vec![message("u", "")] };
    settle(&log, &held[1], sends).await;
    assert_eq!(log.topic(&topic("u")).await.unwrap(), None);
    assert_eq!(settle(&log, &held[1], retried(s(1))).await, Settled::AlreadySettled);
    let new = publish(&log, "t", 2).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), new);
}

/// Law 2: behind all that was, also where nothing is left to tell.
pub async fn ids_go_on_rising_after_a_purge(h: &dyn Harness) {
    let (log, published) = filled(h).await;
    purge(&log, true).await;
    let log = h.reopen().await;
    let new = publish(&log, "t", 2).await;
    assert!(new[0] > published[8] && new[0].sequence > published[8].sequence);
    for name in ["g", "other"] {
        assert_eq!(ids(&claim(&log, "t", name, 9).await), new);
    }
}

/// Then nothing is left, and how many there were is told.
pub async fn dead_letters_are_purged_where_that_is_asked(h: &dyn Harness) {
    let (log, published) = filled(h).await;
    bury_one(&log, "t", "other").await;
    assert_eq!(purge(&log, true).await, Purged { messages: 9, bytes: 27, dead: 2 });
    assert_eq!(dead(&log, "t").await, []);
    assert_eq!(short(state(&log, "t").await.counts), (0, 0, 0, 0));
    assert_eq!(log.message(published[2]).await.unwrap(), None);
    assert_eq!(purge(&log, true).await, Purged::default(), "nothing is left");
    let error = log.purge_topic(&topic("nowhere"), true).await.unwrap_err();
    assert!(matches!(error, LogError::NoTopic(_)), "{error}");
}

/// Law 3.
pub async fn a_purge_forgets_dedup_ids(h: &dyn Harness) {
    let log = h.log();
    let named = |on: &str| NewMessage { dedup_id: Some("a".into()), ..message(on, "") };
    let first = log.publish(vec![named("t"), named("u")]).await.unwrap();
    purge(&log, false).await;
    let log = h.reopen().await;
    let again = log.publish(vec![named("t"), named("u")]).await.unwrap();
    assert!(!again[0].duplicate && again[0].id > first[0].id);
    assert_eq!((again[1].duplicate, again[1].id), (true, first[1].id), "another topic's");
}

/// Law 4: the whole quota is free at once.
pub async fn a_purge_makes_room(h: &dyn Harness) {
    let log = h.log();
    let limits = TopicLimits { max_messages: 3, ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    claim_one(&log, "t", "g").await;
    purge(&log, false).await;
    assert_eq!(publish(&log, "t", 3).await.len(), 3);
    let error = log.publish(vec![message("t", "")]).await.unwrap_err();
    assert!(matches!(error, LogError::QuotaFull { .. }), "{error}");
}

/// What waited for a first group does so no more; what comes after does.
pub async fn a_topic_without_groups_is_purged(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 5).await;
    assert_eq!(purge(&log, false).await.messages, 5);
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.counts.ready, found.retained), (0, 0, 0));
    let new = publish(&log, "t", 2).await;
    assert_eq!(state(&log, "t").await.counts.ready, 2);
    declare(&log, "t", "g", policy(5, s(30))).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), new);
}

/// Law 18: whoever was not done reading hears of it; whoever was, does not.
pub async fn a_reader_of_a_purged_topic_is_told_of_a_gap(h: &dyn Harness) {
    let (log, published) = filled(h).await;
    let read = async |from| {
        let request = ReadRequest { topic: topic("t"), from, limit: some(10) };
        let page = log.stream(request).await.unwrap();
        (page.gap, page.messages.iter().map(|one| one.id).collect::<Vec<_>>(), page.position)
    };
    let behind = ReadFrom::After(published[3]);
    let end = read(ReadFrom::After(published[8])).await;
    assert_eq!((end.0, end.1.len()), (None, 0));
    purge(&log, false).await;
    let through = published[8].sequence;
    let gap = ReadGap { after: published[3].sequence, through };
    assert_eq!(read(behind).await, (Some(gap), Vec::new(), through));
    assert_eq!(read(ReadFrom::Position(end.2)).await.0, None);
    let new = publish(&log, "t", 1).await;
    assert_eq!(read(behind).await.0, Some(gap));
    assert_eq!(read(ReadFrom::Position(through)).await, (None, new.clone(), new[0].sequence));
    assert_eq!(read(ReadFrom::Earliest).await.1, [published[2], new[0]]);
}

/// Law 10: a key that was busy is free, and nothing parked or delayed is left behind.
pub async fn a_purge_frees_keys_and_forgets_delays(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let keyed = |delay| NewMessage { key: Some("k".into()), delay, ..message("t", "") };
    let batch = vec![keyed(None), keyed(None), keyed(Some(s(600))), keyed(None)];
    log.publish(batch).await.unwrap();
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, retried(s(600))).await;
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    assert_eq!(state(&log, "t").await.counts.parked, 3);
    assert_eq!(purge(&log, false).await.messages, 4);
    assert_eq!(state(&log, "t").await.counts.lag(), 0);
    let new = log.publish(vec![keyed(None)]).await.unwrap()[0].id;
    assert_eq!(claim_one(&log, "t", "g").await.message.id, new);
    h.advance(s(700)).await;
    assert_eq!(state(&log, "t").await.counts.lag(), 1);
}

/// Behind the sweep too: what another group had passed, and what a late one had still to read.
pub async fn what_the_sweep_had_passed_by_is_purged(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 6).await;
    bury_one(&log, "t", "g").await;
    for held in claim(&log, "t", "g", 4).await {
        settle(&log, &held, retried(s(600))).await;
    }
    ack(&log, &claim_one(&log, "t", "g").await).await;
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    declare(&log, "t", "late", policy(5, s(30))).await;
    assert_eq!(counts(&log, "t", "late").await.0, 5);
    // Two of them are nobody's but the late one's then.
    h.advance(s(600)).await;
    for held in claim(&log, "t", "g", 2).await {
        ack(&log, &held).await;
    }
    assert_eq!(purge(&log, false).await.messages, 4);
    let found = state(&log, "t").await;
    assert_eq!((short(found.counts), found.bytes, found.retained), ((0, 0, 0, 1), 0, 0));
    assert_eq!(purge(&log, true).await, Purged { messages: 1, bytes: 3, dead: 1 });
}

/// More than one step of each kind, beside somebody who publishes and handles messages of the same
/// keys: what is published meanwhile can be handled to the end, nothing of before is left.
pub async fn a_large_topic_is_purged_under_load(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    for _ in 0..10 {
        let batch =
            (0..1_000).map(|i| NewMessage { key: Some(format!("{}", i % 3)), ..message("t", "x") });
        log.publish(batch.collect()).await.unwrap();
    }
    let before = *publish(&log, "t", 1).await.last().unwrap();
    for _ in 0..15 {
        claim(&log, "t", "g", 100).await;
    }
    assert!(state(&log, "t").await.counts.parked > 5_000);
    let beside = tokio::spawn({
        let log = Arc::clone(&log);
        async move {
            for i in 0..50 {
                let key = Some(format!("{}", i % 3));
                let keyed = NewMessage { key, ..message("t", "x") };
                log.publish(vec![keyed.clone(), keyed]).await.unwrap();
                for held in claim(&log, "t", "g", 100).await {
                    // What was purged meanwhile is lost to its holder.
                    settle(&log, &held, acked()).await;
                }
            }
        }
    });
    assert!(purge(&log, false).await.messages >= 10_001);
    assert_eq!(log.message(before).await.unwrap(), None);
    beside.await.unwrap();
    let waiter = log.waiter(&topic("t"), &group("g"));
    publish(&log, "t", 3).await;
    while state(&log, "t").await.counts.lag() > 0 {
        let one = claim_when_woken(&log, &waiter, "t", "g").await;
        assert!(one.message.id > before);
        ack(&log, &one).await;
    }
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}

/// Law 22: what one process is answered holds in the other, whatever that had claimed.
pub async fn a_purge_of_one_process_holds_in_the_other(h: &dyn Harness) {
    let (log, _) = filled(h).await;
    let Some(other) = h.second_process().await else {
        return super::skip("a_purge_of_one_process_holds_in_the_other", "there is one process");
    };
    let held = claim(&other, "t", "other", 3).await;
    assert_eq!(held.len(), 3);
    assert_eq!(purge(&log, false).await.messages, 8);
    assert_eq!(short(state(&other, "t").await.counts), (0, 0, 0, 1));
    assert_eq!(settle(&other, &held[0], acked()).await, Settled::AlreadySettled);
    assert!(claim(&other, "t", "g", 9).await.is_empty());
    let new = publish(&other, "t", 1).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), new);
}
