//! What a message sent while it was handled commits with its ack: all of it there, or none.

use super::kit::{
    ack, acked, claim, claim_one, counts, declare, ids, let_end, message, policy, publish, s,
    settle, settlement, topic,
};
use super::{Harness, skip};
use crate::{LogError, Settled, TopicsMode};
use windlass_core::message::DATA_BYTES_MAX;
use windlass_core::{Disposition, GroupPolicy, NewMessage};

fn sending(sends: Vec<NewMessage>) -> Disposition {
    Disposition::Ack { sends }
}

/// In the order they were sent, hops kept.
pub async fn sends_commit_with_the_ack_in_order(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    declare(&log, "out", "g", GroupPolicy::default()).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let sends = (0..3).map(|i| NewMessage { hops: 1, ..message("out", &i.to_string()) }).collect();
    assert_eq!(settle(&log, &held, sending(sends)).await, Settled::Applied);
    let sent = claim(&log, "out", "g", 10).await;
    let texts: Vec<_> = sent.iter().map(|claim| claim.message.data.clone()).collect();
    assert_eq!(texts, ["0", "1", "2"]);
    assert!(sent.iter().all(|claim| claim.message.hops == 1 && claim.attempt == 1));
    assert!(held.message.id < sent[0].message.id);
}

/// Each refusal a publish knows.
pub async fn a_refused_send_leaves_the_message_leased_and_publishes_nothing(h: &dyn Harness) {
    let log = h.log();
    if !log.capabilities().sends_commit_with_ack {
        let case = "a_refused_send_leaves_the_message_leased_and_publishes_nothing";
        return skip(case, "sends do not commit with the ack");
    }
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "out", "g", policy(5, s(30))).await;
    log.declare_topics(TopicsMode::Declared, Vec::new()).await.unwrap();
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    let too_large = NewMessage::new(topic("out"), vec![0; DATA_BYTES_MAX + 1]);
    let undeclared = message("nowhere", "");
    for (bad, expected) in [(too_large, "too large"), (undeclared, "declared")] {
        let sends = vec![message("out", "good"), bad, message("t", "good")];
        let answer = log.settle(vec![settlement(held.token, sending(sends))]).await.remove(0);
        let text = answer.unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
        assert_eq!(counts(&log, "t", "g").await, (0, 0, 1, 0));
        assert_eq!(counts(&log, "out", "g").await, (0, 0, 0, 0));
    }
    ack(&log, &held).await;
}

/// A refused one, a stale one, and two good ones.
pub async fn one_refused_settlement_does_not_spoil_the_batch(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "out", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    let claims = claim(&log, "t", "g", 3).await;
    ack(&log, &claims[2]).await;
    let bad = NewMessage { key: Some("k".repeat(2_000)), ..message("out", "bad") };
    let answers = log
        .settle(vec![
            settlement(claims[0].token, sending(vec![message("out", "a"), bad])),
            settlement(claims[2].token, sending(vec![message("out", "b")])),
            settlement(claims[1].token, sending(vec![message("out", "c")])),
            settlement(claims[0].token, sending(vec![message("out", "d")])),
        ])
        .await;
    assert!(matches!(answers[0], Err(LogError::TooLarge { .. })), "{answers:?}");
    assert!(matches!(answers[1], Ok(Settled::AlreadySettled)), "{answers:?}");
    assert!(matches!(answers[2], Ok(Settled::Applied)), "{answers:?}");
    assert!(matches!(answers[3], Ok(Settled::Applied)), "{answers:?}");
    let sent = claim(&log, "out", "g", 9).await;
    let texts: Vec<_> = sent.iter().map(|claim| claim.message.data.clone()).collect();
    assert_eq!(texts, ["c", "d"]);
}

/// Neither of the first holder, nor of an ack said twice.
pub async fn sends_of_a_stale_ack_never_appear(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "out", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let first = claim_one(&log, "t", "g").await;
    let_end(h, s(30)).await;
    let second = claim_one(&log, "t", "g").await;
    let send = || sending(vec![message("out", "sent")]);
    assert_eq!(settle(&log, &first, send()).await, Settled::LeaseLost);
    assert_eq!(counts(&log, "out", "g").await, (0, 0, 0, 0));
    assert_eq!(settle(&log, &second, send()).await, Settled::Applied);
    assert_eq!(settle(&log, &second, send()).await, Settled::AlreadySettled);
    assert_eq!(counts(&log, "out", "g").await, (1, 0, 0, 0));
}

/// A consumer may send to what it reads.
pub async fn sends_to_the_own_topic_come_after(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let published = publish(&log, "t", 2).await;
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, sending(vec![message("t", "sent")])).await;
    let rest = claim(&log, "t", "g", 9).await;
    assert_eq!(rest.len(), 2);
    assert_eq!(rest[0].message.id, published[1]);
    assert_eq!(rest[1].message.data.as_ref(), b"sent");
}

/// A send may also make its topic.
pub async fn sends_and_ack_are_there_after_a_crash(h: &dyn Harness) {
    declare(&h.log(), "t", "g", policy(5, s(30))).await;
    publish(&h.log(), "t", 1).await;
    let held = claim_one(&h.log(), "t", "g").await;
    let sends = vec![message("new", "1"), message("new", "2")];
    settle(&h.log(), &held, sending(sends)).await;
    let log = h.crash().await;
    assert_eq!(settle(&log, &held, acked()).await, Settled::AlreadySettled);
    declare(&log, "new", "g", policy(5, s(30))).await;
    assert_eq!(ids(&claim(&log, "new", "g", 9).await).len(), 2);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
}
