//! Law 4: a topic's quota counts exactly what is needed, and refuses the new message.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, counts, dead, declare, group, ids, message, policy,
    publish, retried, s, settle, settlement, state, topic,
};
use crate::{DeadLetterFilter, DynLog, GroupSpec, LogError, Redriven, Settled, Start, TopicLimits};
use std::sync::Arc;
use windlass_core::{Disposition, GroupPolicy, NewMessage};

async fn limit(log: &DynLog, on: &str, max_messages: u64, max_bytes: u64) {
    let limits = TopicLimits { max_messages, max_bytes, ..TopicLimits::default() };
    log.set_limits(&topic(on), limits, true).await.unwrap();
}

async fn started(h: &dyn Harness, max_messages: u64) -> DynLog {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    limit(&log, "t", max_messages, u64::MAX).await;
    log
}

async fn fits(log: &DynLog, n: usize) -> bool {
    let batch = (0..n).map(|_| message("t", "xyz")).collect();
    match log.publish(batch).await {
        Ok(_) => true,
        Err(LogError::QuotaFull { topic: on, .. }) => {
            assert_eq!(on, topic("t"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// By messages and by bytes; a batch whole or not at all; nothing stored is dropped.
pub async fn a_full_topic_refuses_what_is_new(h: &dyn Harness) {
    let log = started(h, 3).await;
    assert!(!fits(&log, 4).await);
    assert!(fits(&log, 2).await && !fits(&log, 2).await && fits(&log, 1).await);
    let error = log.publish(vec![message("t", "")]).await.unwrap_err();
    assert!(error.is_full() && !error.is_storage(), "{error}");
    assert!(matches!(error, LogError::QuotaFull { what: "messages", most: 3, .. }), "{error}");
    assert_eq!(counts(&log, "t", "g").await.0, 3);
    limit(&log, "t", 100, 10).await;
    let log = h.reopen().await;
    assert_eq!(state(&log, "t").await.limits.max_bytes, 10);
    let error = log.publish(vec![message("t", "xy")]).await.unwrap_err();
    assert!(matches!(error, LogError::QuotaFull { what: "bytes", most: 10, .. }), "{error}");
    log.publish(vec![message("t", "x")]).await.unwrap();
    log.publish(vec![message("t", ""), message("u", "other topics have their own")]).await.unwrap();
    let both = vec![message("u", ""), message("t", "x")];
    assert!(log.publish(both).await.is_err());
    assert_eq!(state(&log, "u").await.counts.ready, 1, "a batch is all or nothing");
}

/// What is leased or waits is needed; what is settled, dead or retained is not.
pub async fn a_quota_counts_what_is_needed(h: &dyn Harness) {
    let log = started(h, 4).await;
    assert!(fits(&log, 4).await);
    let held = claim(&log, "t", "g", 3).await;
    settle(&log, &held[0], retried(s(60))).await;
    assert!(!fits(&log, 1).await);
    ack(&log, &held[1]).await;
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    settle(&log, &held[2], Disposition::DeadLetter).await;
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    assert_eq!(state(&log, "t").await.retained, 1);
    let id = claim_one(&log, "t", "g").await.message.id;
    assert_eq!(log.cancel(id, None).await.unwrap(), 1);
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    let unread = super::kit::publish(&log, "u", 1).await;
    assert_eq!(log.cancel(unread[0], None).await.unwrap(), 0, "it has no group");
    let log = h.crash().await;
    assert!(!fits(&log, 1).await);
}

/// Before its groups came to it: cancelled ones make room, and only in all of them.
pub async fn a_cancelled_message_makes_room(h: &dyn Harness) {
    let log = started(h, 2).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    let published = super::kit::publish(&log, "t", 2).await;
    assert_eq!(log.cancel(published[1], Some(&group("g"))).await.unwrap(), 1);
    assert!(!fits(&log, 1).await);
    assert_eq!(log.cancel(published[1], None).await.unwrap(), 1);
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 2);
}

/// Each once, however many groups need it; until the last one has settled it.
pub async fn several_groups_share_a_quota(h: &dyn Harness) {
    let log = started(h, 3).await;
    declare(&log, "t", "slow", policy(5, s(30))).await;
    assert!(fits(&log, 3).await);
    let fast = claim(&log, "t", "g", 9).await;
    let slow = claim(&log, "t", "slow", 2).await;
    assert!(!fits(&log, 1).await);
    for one in &fast {
        ack(&log, one).await;
    }
    assert!(!fits(&log, 1).await);
    ack(&log, &slow[0]).await;
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    settle(&log, &slow[1], retried(s(60))).await;
    assert!(!fits(&log, 1).await);
    log.remove_group(&topic("t"), &group("slow"), false).await.unwrap();
    assert!(fits(&log, 2).await && !fits(&log, 1).await);
}

/// Without a group everything waits for a first one; groups come and go whatever the quota says.
pub async fn what_waits_for_a_first_group_counts(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "t", 3, u64::MAX).await;
    assert!(fits(&log, 3).await && !fits(&log, 1).await);
    let latest = GroupSpec { start: Start::Latest, ..super::kit::spec("t", "g", policy(5, s(30))) };
    log.add_group(latest).await.unwrap();
    assert!(!fits(&log, 1).await);
    declare(&log, "t", "all", policy(5, s(30))).await;
    for one in claim(&log, "t", "all", 2).await {
        ack(&log, &one).await;
    }
    assert!(fits(&log, 2).await && !fits(&log, 1).await);
    declare(&log, "t", "again", policy(5, s(30))).await;
    let found = state(&log, "t").await;
    assert_eq!(found.groups[0].counts.ready, 5, "a late group takes what is stored");
    limit(&log, "t", 1, u64::MAX).await;
    assert_eq!(claim(&log, "t", "again", 9).await.len(), 5, "what is there stays");
    assert!(!fits(&log, 1).await);
}

/// An ack that sends to its own topic needs no more room than it gives back.
pub async fn an_ack_is_judged_by_its_net_effect(h: &dyn Harness) {
    let log = started(h, 2).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    assert!(fits(&log, 2).await);
    for one in claim(&log, "t", "other", 1).await {
        ack(&log, &one).await;
    }
    let held = claim(&log, "t", "g", 2).await;
    let sending = |n: usize| Disposition::Ack { sends: vec![message("t", "xyz"); n] };
    let refused = log.settle(vec![settlement(held[0].token, sending(2))]).await.remove(0);
    assert!(matches!(refused, Err(LogError::QuotaFull { .. })), "{refused:?}");
    assert_eq!(settle(&log, &held[0], sending(1)).await, Settled::Applied);
    let refused = log.settle(vec![settlement(held[1].token, sending(1))]).await.remove(0);
    assert!(refused.is_err(), "the other group needs it still");
    assert_eq!(settle(&log, &held[1], acked()).await, Settled::Applied);
    assert!(!fits(&log, 1).await);
}

/// As many as fit; the rest stays dead, and what is counted already needs no room.
pub async fn a_redrive_keeps_to_the_quota(h: &dyn Harness) {
    let log = started(h, 3).await;
    assert!(fits(&log, 3).await);
    for _ in 0..3 {
        bury_one(&log, "t", "g").await;
    }
    assert!(fits(&log, 2).await);
    let all = DeadLetterFilter::default();
    let answer = log.redrive(&topic("t"), None, &all).await.unwrap();
    assert_eq!(answer, Redriven { moved: 1, of: 3 });
    assert_eq!((counts(&log, "t", "g").await, dead(&log, "t").await.len()), ((3, 0, 0, 2), 2));
    assert!(!fits(&log, 1).await);
    let late =
        GroupSpec { start: Start::Earliest, ..super::kit::spec("t", "late", policy(5, s(30))) };
    log.add_group(late).await.unwrap();
    let answer = log.redrive(&topic("t"), None, &all).await.unwrap();
    assert_eq!(answer, Redriven { moved: 2, of: 2 }, "the late group needs them already");
    assert_eq!(counts(&log, "t", "g").await, (5, 0, 0, 0));
}

/// A copy of a dead letter that its topic has no room for is missed.
pub async fn a_full_dead_letter_topic_misses_the_copy(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "dead", 1, u64::MAX).await;
    let burying = GroupPolicy { dead_letter_topic: Some(topic("dead")), ..policy(5, s(30)) };
    declare(&log, "t", "g", burying).await;
    super::kit::publish(&log, "t", 2).await;
    bury_one(&log, "t", "g").await;
    bury_one(&log, "t", "g").await;
    let found = state(&log, "t").await.groups.remove(0);
    assert_eq!((found.copies_missed, found.counts.dead), (1, 2));
    assert_eq!(state(&log, "dead").await.counts.ready, 1);
}

/// A bound below what is there is refused, and changes nothing, unless it is forced: then nothing is
/// dropped, and nothing new fits until it does. One that is passed already may be raised.
pub async fn limits_below_what_is_there_are_refused(h: &dyn Harness) {
    let log = started(h, 9).await;
    assert!(fits(&log, 5).await);
    ack(&log, &claim_one(&log, "t", "g").await).await;
    bury_one(&log, "t", "g").await;
    let before = state(&log, "t").await.limits;
    let set = async |max_messages, max_bytes, force| {
        let retain = Some((s(7), 7));
        let limits = TopicLimits { max_messages, max_bytes, retain, ..before };
        log.set_limits(&topic("t"), limits, force).await
    };
    for (messages, bytes, what, most) in [(2, 90, "messages", 2), (9, 8, "bytes", 8)] {
        let error = set(messages, bytes, false).await.unwrap_err();
        let LogError::HoldsMore { messages: 3, bytes: 9, what: of, most: bound, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((of, bound), (what, most));
        assert!(error.to_string().contains("3 messages of 9 bytes"), "{error}");
        assert_eq!(state(&log, "t").await.limits, before);
    }
    set(3, 9, false).await.unwrap();
    set(1, 9, true).await.unwrap();
    let log = h.reopen().await;
    let found = state(&log, "t").await;
    assert_eq!((found.counts.ready, found.limits.max_messages), (3, 1));
    assert!(!fits(&log, 1).await);
    log.set_limits(&topic("t"), TopicLimits { max_messages: 2, ..found.limits }, false)
        .await
        .unwrap();
    ack(&log, &claim_one(&log, "t", "g").await).await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    assert!(fits(&log, 1).await && !fits(&log, 1).await);
    let unheard = TopicLimits { max_messages: 1, ..found.limits };
    log.set_limits(&topic("new"), unheard, false).await.unwrap();
}

/// Many publishers at once, and another process: never one more than fits.
pub async fn a_quota_holds_under_concurrency(h: &dyn Harness) {
    let log = started(h, 20).await;
    let other = h.second_process().await.unwrap_or_else(|| Arc::clone(&log));
    let tasks = (0..40).map(|i| {
        let log = if i % 2 == 0 { Arc::clone(&log) } else { Arc::clone(&other) };
        tokio::spawn(
            async move { log.publish(vec![NewMessage::new(topic("t"), "x")]).await.is_ok() },
        )
    });
    let mut stored = 0;
    for task in tasks.collect::<Vec<_>>() {
        stored += u64::from(task.await.unwrap());
    }
    assert_eq!((stored, counts(&log, "t", "g").await.0), (20, 20));
    let held = claim(&log, "t", "g", 20).await;
    assert_eq!(ids(&held).len(), 20);
    ack(&other, &held[7]).await;
    assert!(fits(&log, 1).await && !fits(&other, 1).await);
}

/// Of two who change what they have read only the first does; a topic is made where there was to be
/// none, and one that was deleted since does not come back by it.
pub async fn limits_are_replaced_where_they_are_as_they_were_seen(h: &dyn Harness) {
    let log = h.log();
    let t = topic("t");
    let of = |max_messages| TopicLimits { max_messages, ..TopicLimits::default() };
    assert!(!log.replace_limits(&t, Some(of(1)), of(2), true).await.unwrap());
    assert_eq!(log.topic(&t).await.unwrap(), None);
    assert!(log.replace_limits(&t, None, of(3), false).await.unwrap());
    assert!(!log.replace_limits(&t, None, of(4), false).await.unwrap());
    assert!(log.replace_limits(&t, Some(of(3)), of(5), false).await.unwrap());
    assert!(!log.replace_limits(&t, Some(of(3)), of(6), false).await.unwrap());
    let log = h.reopen().await;
    assert_eq!(state(&log, "t").await.limits, of(5));
    publish(&log, "t", 2).await;
    let error = log.replace_limits(&t, Some(of(5)), of(1), false).await.unwrap_err();
    assert!(matches!(error, LogError::HoldsMore { .. }), "{error:?}");
    assert!(log.replace_limits(&t, Some(of(5)), of(1), true).await.unwrap());
    log.remove_topic(&t, true).await.unwrap();
    assert!(!log.replace_limits(&t, Some(of(1)), of(7), true).await.unwrap());
    assert_eq!(log.topic(&t).await.unwrap(), None);
}
