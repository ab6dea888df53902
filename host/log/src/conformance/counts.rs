//! Law 16: counts are exact at any time, without a claim.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, counts, declare, let_end, message, policy, publish, retried,
    s, settle, short, state, topic,
};
use crate::Counts;
use crate::DeadLetterFilter;
use windlass_core::{Disposition, NewMessage};

/// A-09, W24: ready, leased, retrying, ready, ended, dead, redriven, acked.
pub async fn counts_follow_a_message_through_its_life(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
    publish(&log, "t", 1).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
    settle(&log, &held, retried(s(10))).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 0, 0));
    h.advance(s(10)).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0), "ended, and nobody has acted on it");
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, Disposition::DeadLetter).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 1));
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, Disposition::Release).await;
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 0));
    ack(&log, &claim_one(&log, "t", "g").await).await;
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
    assert_eq!(state(&log, "t").await.counts, Counts::default());
}

/// And with no group every needed message counts as ready.
pub async fn counts_of_a_topic_are_sums_over_its_groups(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 4).await;
    assert_eq!(short(state(&log, "t").await.counts), (4, 0, 0, 0));
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(5, s(30))).await;
    claim(&log, "t", "a", 2).await;
    bury_one(&log, "t", "b").await;
    let held = claim_one(&log, "t", "b").await;
    settle(&log, &held, retried(s(10))).await;
    let found = state(&log, "t").await;
    assert_eq!(short(found.counts), (4, 1, 2, 1));
    assert_eq!(found.counts.lag(), 7);
    let mut sum = Counts::default();
    found.groups.iter().for_each(|group| sum.add(&group.counts));
    assert_eq!(sum, found.counts);
}

/// Data, content type, metadata; once, however many groups need it; until none does.
pub async fn bytes_count_each_needed_message_once(h: &dyn Harness) {
    let log = h.log();
    for name in ["a", "b"] {
        declare(&log, "t", name, policy(5, s(30))).await;
    }
    let first = NewMessage {
        content_type: Some("12".into()),
        metadata: vec![("345".into(), "6789".into())],
        ..message("t", "0")
    };
    log.publish(vec![first, message("t", "five!")]).await.unwrap();
    assert_eq!(state(&log, "t").await.bytes, 15);
    let of_a = claim(&log, "t", "a", 2).await;
    assert_eq!(state(&log, "t").await.bytes, 15);
    ack(&log, &of_a[0]).await;
    settle(&log, &of_a[1], retried(s(10))).await;
    assert_eq!(state(&log, "t").await.bytes, 15);
    bury_one(&log, "t", "b").await;
    assert_eq!(state(&log, "t").await.bytes, 5, "the first is acked and dead");
    ack(&log, &claim_one(&log, "t", "b").await).await;
    assert_eq!(state(&log, "t").await.bytes, 5, "the second waits in one group");
    h.advance(s(10)).await;
    ack(&log, &claim_one(&log, "t", "a").await).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained), (0, 1), "one is retained, one dead");
}

/// Leased and waiting ones included, dead and retained ones not.
pub async fn the_oldest_is_the_oldest_unsettled(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    assert_eq!(state(&log, "t").await.oldest, None);
    let mut published = Vec::new();
    for _ in 0..4 {
        published.extend(publish(&log, "t", 1).await);
        h.advance(s(1)).await;
    }
    assert_eq!(state(&log, "t").await.oldest, Some(published[0].millis));
    let claims = claim(&log, "t", "g", 3).await;
    settle(&log, &claims[0], retried(s(100))).await;
    assert_eq!(state(&log, "t").await.oldest, Some(published[0].millis));
    h.advance(s(100)).await;
    let claims = claim(&log, "t", "g", 3).await;
    assert_eq!(claims[2].message.id, published[0], "due after the two that ended");
    settle(&log, &claims[2], Disposition::DeadLetter).await;
    ack(&log, &claims[0]).await;
    assert_eq!(state(&log, "t").await.oldest, Some(published[2].millis));
    ack(&log, &claims[1]).await;
    assert_eq!(state(&log, "t").await.oldest, Some(published[3].millis));
    ack(&log, &claim_one(&log, "t", "g").await).await;
    assert_eq!(state(&log, "t").await.oldest, None);
}

/// Law 14: who is behind is told by its own oldest one, read or not.
pub async fn each_group_says_how_old_its_oldest_is(h: &dyn Harness) {
    let log = h.log();
    for name in ["fast", "slow"] {
        declare(&log, "t", name, policy(5, s(300))).await;
    }
    let mut published = Vec::new();
    for _ in 0..4 {
        published.extend(super::kit::publish(&log, "t", 1).await);
        h.advance(s(10)).await;
    }
    let oldest = async |log: &crate::DynLog| {
        let groups = state(log, "t").await.groups;
        groups.into_iter().map(|group| group.oldest).collect::<Vec<_>>()
    };
    let at = |i: usize| Some(published[i].millis);
    assert_eq!(oldest(&log).await, [at(0), at(0)]);
    let held = claim(&log, "t", "fast", 3).await;
    ack(&log, &held[0]).await;
    settle(&log, &held[1], retried(s(600))).await;
    assert_eq!(oldest(&log).await, [at(1), at(0)]);
    log.cancel(published[0], None).await.unwrap();
    log.cancel(published[1], None).await.unwrap();
    assert_eq!(oldest(&log).await, [at(2), at(2)]);
    ack(&log, &held[2]).await;
    let log = h.reopen().await;
    assert_eq!(oldest(&log).await, [at(3), at(2)]);
    ack(&log, &claim_one(&log, "t", "fast").await).await;
    assert_eq!(oldest(&log).await, [None, at(2)]);
}

/// Every figure of every topic.
pub async fn counts_are_the_same_after_reopen(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "without", 2).await;
    declare(&log, "t", "a", policy(5, s(300))).await;
    declare(&log, "t", "b", policy(5, s(300))).await;
    publish(&log, "t", 9).await;
    for name in ["a", "b"] {
        let claims = claim(&log, "t", name, 6).await;
        ack(&log, &claims[0]).await;
        ack(&log, &claims[1]).await;
        settle(&log, &claims[2], retried(s(5))).await;
        settle(&log, &claims[3], Disposition::Release).await;
        settle(&log, &claims[4], Disposition::DeadLetter).await;
    }
    let before = log.topics().await.unwrap();
    assert_eq!(short(before[0].counts), (8, 2, 2, 2));
    assert_eq!(before[0].retained, 2);
    assert_eq!(h.reopen().await.topics().await.unwrap(), before);
    assert_eq!(h.crash().await.topics().await.unwrap(), before);
}

/// A topic exists from its first message, declaration or group.
pub async fn topics_are_listed_by_name(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "b", 1).await;
    declare(&log, "c/d", "g", policy(5, s(30))).await;
    let declared = vec![topic("c"), topic("a"), topic("b")];
    log.declare_topics(crate::TopicsMode::Open, declared).await.unwrap();
    let names = |topics: Vec<crate::TopicState>| {
        topics.into_iter().map(|found| found.topic.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(log.topics().await.unwrap()), ["a", "b", "c", "c/d"]);
    let log = h.reopen().await;
    assert_eq!(names(log.topics().await.unwrap()), ["a", "b", "c", "c/d"]);
    assert_eq!(log.topic(&topic("d")).await.unwrap(), None);
}

/// A look acts on nothing: an ended lease stays its holder's.
pub async fn reading_counts_never_changes_them(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    let held = claim_one(&log, "t", "g").await;
    let_end(h, s(60)).await;
    for _ in 0..3 {
        assert_eq!(counts(&log, "t", "g").await, (1, 0, 1, 0));
        log.topics().await.unwrap();
    }
    ack(&log, &held).await;
}
