//! Laws 1, 2 and 4: what is answered is stored, ids rise, and what is refused leaves nothing.

use super::kit::{ack, claim, claim_one, counts, declare, ids, message, policy, publish, s, topic};
use super::{Harness, skip};
use crate::{LogError, TopicsMode};
use std::time::Duration;
use windlass_core::message::{DATA_BYTES_MAX, METADATA_BYTES_MAX};
use windlass_core::{GroupPolicy, NewMessage};

/// published means durable.
pub async fn publish_is_there_after_reopen(h: &dyn Harness) {
    declare(&h.log(), "t", "g", GroupPolicy::default()).await;
    let published = publish(&h.log(), "t", 3).await;
    let log = h.crash().await;
    let claims = claim(&log, "t", "g", 10).await;
    assert_eq!(ids(&claims), published);
    assert_eq!(claims[2].message.data.as_ref(), b"t 2");
}

/// A-02, W7: many publishers at a time; each message there once, each batch in order.
pub async fn concurrent_publishers_lose_nothing(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    let publishers: Vec<_> = (0..16)
        .map(|p| {
            let log = log.clone();
            tokio::spawn(async move {
                let batch = (0..5).map(|i| message("t", &format!("{p} {i}"))).collect();
                log.publish(batch).await.unwrap()
            })
        })
        .collect();
    let mut answered = Vec::new();
    for publisher in publishers {
        let batch = publisher.await.unwrap();
        assert!(batch.is_sorted_by_key(|published| published.id));
        answered.extend(batch.into_iter().map(|published| published.id));
    }
    answered.sort();
    let claims = claim(&log, "t", "g", 1_000).await;
    assert_eq!(ids(&claims), answered);
    let mut texts: Vec<_> = claims.iter().map(|claim| claim.message.data.clone()).collect();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 80, "no message twice");
}

/// A caller that goes away changes nothing about what was asked: all of the batch, or none.
pub async fn a_dropped_publish_is_never_half_stored(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    for _ in 0..5 {
        let asked = log.publish((0..7).map(|i| message("t", &i.to_string())).collect());
        tokio::select! {
            biased;
            _answer = asked => {}
            () = std::future::ready(()) => {}
        }
    }
    // What is asked later is stored later, so that the dropped ones have come to their end.
    publish(&log, "t", 1).await;
    let (ready, ..) = counts(&log, "t", "g").await;
    assert_eq!(ready % 7, 1, "{ready} messages");
}

/// over all topics, over batches.
pub async fn ids_rise_in_publish_order_and_as_strings(h: &dyn Harness) {
    let log = h.log();
    let mut all = Vec::new();
    for on in ["a", "b", "a"] {
        all.extend(publish(&log, on, 3).await);
        h.advance(Duration::from_millis(1)).await;
    }
    assert!(all.is_sorted_by(|a, b| a < b && a.sequence < b.sequence), "{all:?}");
    let texts: Vec<_> = all.iter().map(ToString::to_string).collect();
    assert!(texts.is_sorted(), "{texts:?}");
    assert_eq!(texts[0].len(), 30);
}

/// A-15, W11.
pub async fn ids_never_fall_across_reopen(h: &dyn Harness) {
    let before = publish(&h.log(), "t", 2).await;
    let log = h.reopen().await;
    let after = publish(&log, "t", 2).await;
    assert!(before[1] < after[0], "{before:?} {after:?}");
    let log = h.crash().await;
    assert!(after[1] < publish(&log, "t", 1).await[0]);
}

/// A-15, W10: nor does a reopen take the stepped clock over.
pub async fn ids_never_fall_when_the_wall_clock_steps_back(h: &dyn Harness) {
    let Some(clock) = h.clock() else {
        return skip("ids_never_fall_when_the_wall_clock_steps_back", "no clock to step");
    };
    let before = publish(&h.log(), "t", 1).await[0];
    clock.step_wall(-3_600_000);
    let after = publish(&h.log(), "t", 1).await[0];
    assert!(before < after && before.millis == after.millis);
    let reopened = publish(&h.reopen().await, "t", 1).await[0];
    assert!(after < reopened && after.millis == reopened.millis);
}

/// A-15, W11.
pub async fn two_processes_never_make_the_same_id(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return skip("two_processes_never_make_the_same_id", "one process only");
    };
    let mut all = Vec::new();
    for _ in 0..10 {
        let (a, b) = tokio::join!(publish(&log, "t", 2), publish(&other, "t", 3));
        all.extend(a);
        all.extend(b);
    }
    all.sort();
    let stored = all.len();
    all.dedup_by_key(|id| id.sequence);
    assert_eq!(all.len(), stored);
    assert!(all.is_sorted_by(|a, b| a < b && a.sequence < b.sequence), "{all:?}");
}

/// Metadata keeps its order and its duplicates.
pub async fn every_part_of_a_message_survives(h: &dyn Harness) {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let new = NewMessage {
        content_type: Some("text/plain; charset=utf-8".into()),
        metadata: vec![pair("z", "1"), pair("a", ""), pair("z", "2"), pair("", "ä\u{0}\n")],
        hops: 7,
        ..NewMessage::new(topic("a/b"), vec![0, 255, 10, 13])
    };
    declare(&h.log(), "a/b", "", GroupPolicy::default()).await;
    let published = h.log().publish(vec![new.clone()]).await.unwrap()[0];
    assert!(!published.duplicate);
    let log = h.reopen().await;
    let found = claim_one(&log, "a/b", "").await.message;
    assert_eq!((found.id, &found.topic), (published.id, &new.topic));
    assert_eq!((&found.data, &found.content_type), (&new.data, &new.content_type));
    assert_eq!((&found.metadata, &found.key, found.hops), (&new.metadata, &None, 7));
    if let Some(clock) = h.clock() {
        assert_eq!(found.published_at, crate::clock::Clock::wall_ms(clock));
    }
}

/// Also a batch of largest ones.
pub async fn empty_and_largest_messages_survive(h: &dyn Harness) {
    declare(&h.log(), "t", "g", GroupPolicy::default()).await;
    let largest = NewMessage::new(topic("t"), vec![7; DATA_BYTES_MAX]);
    let batch = vec![message("t", ""), largest.clone(), largest];
    h.log().publish(batch).await.unwrap();
    let log = h.reopen().await;
    let claims = claim(&log, "t", "g", 10).await;
    let sizes: Vec<_> = claims.iter().map(|claim| claim.message.data.len()).collect();
    assert_eq!(sizes, [0, DATA_BYTES_MAX, DATA_BYTES_MAX]);
    ack(&log, &claims[0]).await;
}

/// Law 4: nothing stored, not even the topic.
pub async fn too_large_a_message_stores_nothing(h: &dyn Harness) {
    let log = h.log();
    let data = NewMessage::new(topic("t"), vec![0; DATA_BYTES_MAX + 1]);
    let metadata = NewMessage {
        metadata: vec![("k".into(), "v".repeat(METADATA_BYTES_MAX))],
        ..message("t", "")
    };
    for (new, part) in [(data, "data"), (metadata, "metadata")] {
        let error = log.publish(vec![new]).await.unwrap_err();
        assert!(
            matches!(&error, LogError::TooLarge { source, .. } if source.what == part),
            "{error:?}"
        );
    }
    assert_eq!(log.topic(&topic("t")).await.unwrap(), None);
}

/// Law 4; over a reopen too.
pub async fn an_undeclared_topic_takes_nothing_where_topics_are_declared(h: &dyn Harness) {
    let declared = vec![topic("known")];
    h.log().declare_topics(TopicsMode::Declared, declared).await.unwrap();
    let log = h.reopen().await;
    publish(&log, "known", 1).await;
    let error = log.publish(vec![message("unknown", "")]).await.unwrap_err();
    assert!(matches!(&error, LogError::UndeclaredTopic(t) if *t == topic("unknown")), "{error:?}");
    assert_eq!(log.topic(&topic("unknown")).await.unwrap(), None);
    log.declare_topics(TopicsMode::Open, Vec::new()).await.unwrap();
    publish(&log, "unknown", 1).await;
}

/// A batch is all or nothing, over topics too.
pub async fn one_bad_message_stores_none_of_its_batch(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let too_large = NewMessage::new(topic("t"), vec![0; DATA_BYTES_MAX + 1]);
    let batch = vec![message("t", "good"), message("other", "good"), too_large];
    assert!(log.publish(batch).await.is_err());
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
    assert_eq!(log.topic(&topic("other")).await.unwrap(), None);
    let error = log.declare_topics(TopicsMode::Declared, Vec::new()).await;
    error.unwrap();
    assert!(log.publish(vec![message("t", "good"), message("new", "bad")]).await.is_err());
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}

/// Nothing asked, nothing answered, nothing failed.
pub async fn an_empty_batch_is_an_empty_answer(h: &dyn Harness) {
    let log = h.log();
    assert_eq!(log.publish(Vec::new()).await.unwrap(), []);
    assert!(log.settle(Vec::new()).await.is_empty());
    assert_eq!(log.extend(Vec::new()).await.unwrap(), []);
    assert_eq!(log.declare_groups(Vec::new()).await.unwrap(), []);
    assert_eq!(log.topics().await.unwrap(), []);
}

/// Later calls answer `Closed`; none hangs.
pub async fn a_closed_log_says_so(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    publish(&log, "t", 1).await;
    let claimed = claim_one(&log, "t", "g").await;
    log.close().await;
    log.close().await;
    let is_closed = |error: LogError| matches!(error, LogError::Closed);
    assert!(is_closed(log.publish(vec![message("t", "")]).await.unwrap_err()));
    assert!(is_closed(log.claim(super::kit::request("t", "g", 1)).await.unwrap_err()));
    let settlement = super::kit::settlement(claimed.token, super::kit::acked());
    assert!(is_closed(log.settle(vec![settlement]).await.remove(0).unwrap_err()));
    assert!(is_closed(log.topics().await.unwrap_err()));
}
