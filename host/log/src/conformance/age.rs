//! Law 14: how long a topic keeps what is settled, and what grows too old unread.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, counts, dead, declare, group, ids, policy, publish, retried,
    s, settle, state, topic,
};
use crate::{DeadLetterFilter, DynLog, Gap, GroupSpec, LogError, Start, TopicLimits};
use std::time::Duration;

async fn limit(log: &DynLog, on: &str, retain: Option<(Duration, u64)>, max_age: Option<u64>) {
    let limits = TopicLimits { retain, max_age: max_age.map(s), ..TopicLimits::default() };
    log.set_limits(&topic(on), limits, false).await.unwrap();
}

async fn sweep(log: &DynLog) {
    for _ in 0..3 {
        log.sweep().await.unwrap();
    }
}

async fn gap(log: &DynLog, name: &str) -> Option<Gap> {
    let groups = state(log, "t").await.groups;
    groups.into_iter().find(|known| known.group == group(name)).unwrap().gap
}

/// Where it says nothing, as the log does.
pub async fn a_topic_keeps_what_is_settled_as_it_says(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(1_000), 1_000).await.unwrap();
    limit(&log, "t", Some((s(100), 2)), None).await;
    for on in ["t", "u"] {
        declare(&log, on, "g", policy(5, s(30))).await;
        publish(&log, on, 4).await;
        for one in claim(&log, on, "g", 9).await {
            ack(&log, &one).await;
        }
    }
    sweep(&log).await;
    assert_eq!((state(&log, "t").await.retained, state(&log, "u").await.retained), (2, 4));
    h.advance(s(101)).await;
    let log = h.reopen().await;
    sweep(&log).await;
    assert_eq!((state(&log, "t").await.retained, state(&log, "u").await.retained), (0, 4));
    assert_eq!(state(&log, "t").await.limits.retain, Some((s(100), 2)));
}

/// Not before; each group that had not read it has a gap with its range and count, until it is
/// acknowledged.
pub async fn what_grows_too_old_unread_is_a_gap(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "t", None, Some(100)).await;
    for name in ["slow", "fast"] {
        declare(&log, "t", name, policy(5, s(300))).await;
    }
    let old = publish(&log, "t", 3).await;
    publish(&log, "u", 1).await;
    for one in claim(&log, "t", "fast", 9).await {
        ack(&log, &one).await;
    }
    h.advance(s(60)).await;
    let young = publish(&log, "t", 2).await;
    h.advance(s(39)).await;
    sweep(&log).await;
    assert_eq!((gap(&log, "slow").await, counts(&log, "t", "slow").await.0), (None, 5));
    h.advance(s(1)).await;
    let at = log.now();
    sweep(&log).await;
    let through = old[2].sequence;
    let expected = Gap { after: windlass_core::Sequence(0), through, messages: 3, at };
    let log = h.reopen().await;
    assert_eq!(gap(&log, "slow").await, Some(expected));
    assert_eq!(gap(&log, "fast").await, None);
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained), (6, 0));
    assert_eq!(log.message(old[0]).await.unwrap(), None, "it goes at once");
    assert_eq!(ids(&claim(&log, "t", "slow", 9).await), young);
    let (on, of) = (topic("t"), group("slow"));
    assert_eq!(log.acknowledge_gap(&on, &of).await.unwrap(), Some(expected));
    assert_eq!(log.acknowledge_gap(&on, &of).await.unwrap(), None);
    assert_eq!(gap(&h.crash().await, "slow").await, None);
    let error = log.acknowledge_gap(&on, &group("nobody")).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
}

/// Leased, waiting, dead: what a group has begun on stays its own.
pub async fn what_a_group_has_begun_on_never_grows_too_old(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "t", None, Some(100)).await;
    declare(&log, "t", "g", policy(5, s(3_000))).await;
    declare(&log, "t", "slow", policy(5, s(300))).await;
    let published = publish(&log, "t", 5).await;
    bury_one(&log, "t", "g").await;
    let held = claim(&log, "t", "g", 2).await;
    settle(&log, &held[0], retried(s(600))).await;
    let cancelled = published[4];
    assert_eq!(log.cancel(cancelled, Some(&group("g"))).await.unwrap(), 1);
    h.advance(s(200)).await;
    sweep(&log).await;
    assert_eq!(gap(&log, "g").await.map(|gap| gap.messages), Some(1), "the cancelled one is none");
    assert_eq!(gap(&log, "slow").await.map(|gap| gap.messages), Some(5));
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 1, 1));
    assert_eq!(counts(&log, "t", "slow").await, (0, 0, 0, 0));
    assert_eq!(state(&log, "t").await.bytes, 6);
    assert_eq!(dead(&log, "t").await.len(), 1);
    ack(&log, &held[1]).await;
    h.advance(s(600)).await;
    let again = claim_one(&log, "t", "g").await;
    assert_eq!(again.message.id, published[1]);
    ack(&log, &again).await;
    log.purge_dead(&topic("t"), None).await.unwrap();
    sweep(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained), (0, 0));
}

/// Not the last one before it, and not the one it has come to: a gap begins behind what was read, and
/// who has read all has none, though all of it has gone.
pub async fn what_a_group_has_read_is_never_a_gap(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(0), 0).await.unwrap();
    limit(&log, "t", None, Some(100)).await;
    for name in ["all", "some", "none"] {
        declare(&log, "t", name, policy(5, s(300))).await;
    }
    let published = publish(&log, "t", 5).await;
    for (name, n) in [("all", 5), ("some", 3)] {
        for one in claim(&log, "t", name, n).await {
            ack(&log, &one).await;
        }
    }
    h.advance(s(100)).await;
    sweep(&log).await;
    let gap = async |name| {
        let found = gap(&log, name).await;
        found.map(|gap| (gap.after.0, gap.through.0, gap.messages))
    };
    let at = |n: usize| published[n].sequence.0;
    assert_eq!(gap("all").await, None);
    assert_eq!(gap("some").await, Some((at(2), at(4), 2)));
    assert_eq!(gap("none").await, Some((0, at(4), 5)));
    assert_eq!(state(&log, "t").await.retained, 0);
    let new = publish(&log, "t", 1).await;
    assert_eq!(ids(&claim(&log, "t", "all", 9).await), new);
    assert_eq!(gap("all").await, None, "what it needs next is there");
}

/// Gaps of one group grow into one; a quota has room again.
pub async fn gaps_add_up_until_they_are_acknowledged(h: &dyn Harness) {
    let log = h.log();
    let limits = TopicLimits { max_messages: 2, max_age: Some(s(100)), ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let mut last = None;
    for _ in 0..3 {
        last = publish(&log, "t", 2).await.pop();
        assert!(log.publish(vec![super::kit::message("t", "")]).await.is_err());
        h.advance(s(100)).await;
        sweep(&log).await;
    }
    let found = gap(&log, "g").await.unwrap();
    assert_eq!((found.messages, found.through), (6, last.unwrap().sequence));
    assert_eq!(found.after, windlass_core::Sequence(0));
}

/// What no group was there to read goes too, and only that.
pub async fn what_waits_for_a_first_group_grows_too_old(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "t", None, Some(100)).await;
    publish(&log, "t", 3).await;
    h.advance(s(60)).await;
    let young = publish(&log, "t", 2).await;
    h.advance(s(50)).await;
    sweep(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (6, 0, 2));
    let latest = GroupSpec { start: Start::Latest, ..super::kit::spec("t", "g", policy(5, s(30))) };
    log.add_group(latest).await.unwrap();
    let more = publish(&log, "t", 1).await;
    for one in claim(&log, "t", "g", 9).await {
        ack(&log, &one).await;
    }
    log.set_retain(s(0), 0).await.unwrap();
    sweep(&log).await;
    assert_eq!(log.message(more[0]).await.unwrap(), None);
    assert_eq!(state(&log, "t").await.bytes, 6);
    h.advance(s(60)).await;
    let log = h.reopen().await;
    sweep(&log).await;
    assert_eq!(log.message(young[0]).await.unwrap(), None, "behind the sweep too");
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, gap(&log, "g").await), (0, 0, None));
}

/// Of a late group that reads what others have left behind the sweep.
pub async fn what_a_late_group_had_to_read_behind_the_sweep_grows_too_old(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(0), 0).await.unwrap();
    declare(&log, "t", "g", policy(5, s(300))).await;
    let published = publish(&log, "t", 4).await;
    for one in claim(&log, "t", "g", 3).await {
        settle(&log, &one, retried(s(9_000))).await;
    }
    ack(&log, &claim_one(&log, "t", "g").await).await;
    sweep(&log).await;
    declare(&log, "t", "late", policy(5, s(300))).await;
    assert_eq!(counts(&log, "t", "late").await.0, 3);
    limit(&log, "t", None, Some(100)).await;
    h.advance(s(100)).await;
    sweep(&log).await;
    assert_eq!(gap(&log, "late").await.map(|gap| gap.messages), Some(3));
    assert_eq!(counts(&log, "t", "g").await, (0, 3, 0, 0));
    assert_eq!(log.cancel(published[0], None).await.unwrap(), 1);
    assert_eq!(log.message(published[0]).await.unwrap(), None);
}

/// A dead letter that the group was moved back before, and that waits again, is not unread.
pub async fn what_was_redriven_behind_the_position_is_no_gap(h: &dyn Harness) {
    let log = h.log();
    limit(&log, "t", None, Some(100)).await;
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    let buried = bury_one(&log, "t", "g").await;
    log.seek(&topic("t"), &group("g"), Start::Earliest).await.unwrap();
    let redriven = log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(redriven.moved, 1);
    h.advance(s(101)).await;
    sweep(&log).await;
    assert_eq!(gap(&log, "g").await.map(|gap| gap.messages), Some(2));
    assert_eq!(claim_one(&log, "t", "g").await.message.id, buried);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
}
