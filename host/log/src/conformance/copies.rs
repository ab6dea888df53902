//! Law 17: a copy of each new dead letter goes to the topic that the group's policy names.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, claim_when_woken, counts, dead, declare, group, let_end,
    message, policy, publish, retried, s, settle, state, topic, until_counts, woken,
};
use crate::{DeadLetterFilter, DynLog, Settled, TopicsMode};
use windlass_core::message::{DATA_BYTES_MAX, HOPS_MAX, METADATA_BYTES_MAX};
use windlass_core::{Disposition, GroupPolicy, Message, NewMessage};

fn burying(to: &str, attempts: u32) -> GroupPolicy {
    GroupPolicy { dead_letter_topic: Some(topic(to)), ..policy(attempts, s(30)) }
}

async fn missed(log: &DynLog, on: &str) -> u64 {
    state(log, on).await.groups[0].copies_missed
}

fn told<'a>(copy: &'a Message, key: &str) -> Vec<&'a str> {
    let found = copy.metadata.iter().filter(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str()).collect()
}

/// By a settle, the last retry, the last lease's end with a claim and without.
pub async fn each_death_publishes_a_copy(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", burying("dead", 1)).await;
    declare(&log, "dead", "d", policy(5, s(30))).await;
    let new = NewMessage {
        content_type: Some("text/plain".into()),
        metadata: vec![("a".into(), "1".into()), ("a".into(), "2".into())],
        hops: 3,
        ..message("t", "data")
    };
    let first = log.publish(vec![new]).await.unwrap()[0].id;
    publish(&log, "t", 3).await;
    let waiter = log.waiter(&topic("dead"), &group("d"));
    woken(&waiter).await;
    assert_eq!(bury_one(&log, "t", "g").await, first);
    let first_copy = claim_when_woken(&log, &waiter, "dead", "d").await;
    ack(&log, &first_copy).await;
    let copy = &first_copy.message;
    assert_eq!(copy.data.as_ref(), b"data");
    assert_eq!((copy.content_type.as_deref(), copy.hops), (Some("text/plain"), 4));
    assert_eq!(told(copy, "a"), ["1", "2"]);
    assert_eq!(told(copy, "windlass-dead-topic"), ["t"]);
    assert_eq!(told(copy, "windlass-dead-group"), ["g"]);
    assert_eq!(told(copy, "windlass-dead-id"), [first.to_string()]);
    assert_eq!(told(copy, "windlass-dead-reason"), ["rejected"]);
    let held = claim_one(&log, "t", "g").await;
    assert_eq!(settle(&log, &held, retried(s(0))).await, Settled::DeadLettered);
    claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    until_counts(&log, "t", "g", (0, 0, 0, 4)).await;
    let log = h.crash().await;
    let mut reasons = Vec::new();
    while reasons.len() < 3 {
        let copy =
            claim_when_woken(&log, &log.waiter(&topic("dead"), &group("d")), "dead", "d").await;
        reasons.push(told(&copy.message, "windlass-dead-reason")[0].to_owned());
        ack(&log, &copy).await;
    }
    assert_eq!(reasons, ["failed", "lease-ended", "lease-ended"]);
    assert_eq!(missed(&log, "t").await, 0);
}

/// The dead letter stands without it, and the miss is counted over restarts.
pub async fn a_refused_copy_is_counted_and_the_dead_letter_stands(h: &dyn Harness) {
    let log = h.log();
    log.declare_topics(TopicsMode::Declared, vec![topic("t")]).await.unwrap();
    declare(&log, "t", "g", burying("dead", 5)).await;
    publish(&log, "t", 2).await;
    bury_one(&log, "t", "g").await;
    assert_eq!((missed(&log, "t").await, dead(&log, "t").await.len()), (1, 1));
    assert_eq!(log.topic(&topic("dead")).await.unwrap(), None);
    let log = h.reopen().await;
    assert_eq!(missed(&log, "t").await, 1);
    log.declare_topics(TopicsMode::Open, vec![]).await.unwrap();
    bury_one(&log, "t", "g").await;
    assert_eq!((missed(&log, "t").await, state(&log, "dead").await.counts.ready), (1, 1));
    // What fits once may not with what a copy says of it.
    let large = NewMessage {
        metadata: vec![("k".into(), "v".repeat(METADATA_BYTES_MAX - 1))],
        ..message("t", "")
    };
    let most = NewMessage::new(topic("t"), vec![0; DATA_BYTES_MAX]);
    log.publish(vec![large, most]).await.unwrap();
    bury_one(&log, "t", "g").await;
    bury_one(&log, "t", "g").await;
    assert_eq!((missed(&log, "t").await, state(&log, "dead").await.counts.ready), (2, 2));
    assert_eq!(dead(&log, "t").await.len(), 4);
}

/// Topics that bury in each other, or in themselves, come to an end.
pub async fn copies_of_copies_come_to_an_end(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", burying("t", 5)).await;
    publish(&log, "t", 1).await;
    let mut last = None;
    while let Some(held) = claim(&log, "t", "g", 1).await.pop() {
        settle(&log, &held, Disposition::DeadLetter).await;
        last = Some(held.message);
    }
    let last = last.unwrap();
    assert_eq!(last.hops, HOPS_MAX);
    assert_eq!(told(&last, "windlass-dead-topic").len(), 1, "only of its own death");
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, u64::from(HOPS_MAX) + 1));
    assert_eq!(missed(&log, "t").await, 1);
}

/// In one batch with acks that send: the sends first.
pub async fn copies_come_after_what_was_sent_with_them(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", burying("out", 5)).await;
    publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 3).await;
    let sends = vec![message("out", "sent")];
    let settlements = [
        super::kit::settlement(held[0].token, Disposition::DeadLetter),
        super::kit::settlement(held[1].token, Disposition::Ack { sends }),
        super::kit::settlement(held[2].token, Disposition::DeadLetter),
    ];
    for answer in log.settle(settlements.into()).await {
        assert_eq!(answer.unwrap(), Settled::Applied);
    }
    declare(&log, "out", "g", policy(5, s(30))).await;
    let found = claim(&log, "out", "g", 9).await;
    let found: Vec<_> = found.iter().map(|one| one.message.data.clone()).collect();
    assert_eq!(found, ["sent", "t 0", "t 2"]);
}

/// One that cannot be read has no copy.
pub async fn an_unreadable_dead_letter_has_no_copy(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", burying("dead", 5)).await;
    let id = publish(&log, "t", 2).await[0];
    if !h.corrupt(id).await {
        return super::skip("an_unreadable_dead_letter_has_no_copy", "no records");
    }
    let log = h.reopen().await;
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 1);
    assert_eq!((missed(&log, "t").await, dead(&log, "t").await.len()), (1, 1));
    assert_eq!(log.topic(&topic("dead")).await.unwrap(), None);
}

/// Each death anew, and nothing without the policy.
pub async fn a_redriven_message_that_dies_again_is_copied_again(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", burying("dead", 5)).await;
    publish(&log, "t", 1).await;
    for n in 1..=2 {
        bury_one(&log, "t", "g").await;
        assert_eq!(state(&log, "dead").await.counts.ready, n);
        log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    }
    declare(&log, "t", "g", policy(5, s(30))).await;
    bury_one(&log, "t", "g").await;
    assert_eq!(state(&log, "dead").await.counts.ready, 2);
}
