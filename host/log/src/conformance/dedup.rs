//! Law 3: what was accepted under a dedup id within the window is answered with its id.

use super::Harness;
use super::kit::{ack, claim, claim_one, declare, ids, message, policy, s, settle, state, topic};
use crate::{DynLog, LogError, Published, TopicLimits};
use std::time::Duration;
use windlass_core::{Disposition, NewMessage};

fn named(on: &str, dedup_id: &str) -> NewMessage {
    NewMessage { dedup_id: Some(dedup_id.into()), ..message(on, dedup_id) }
}

async fn publish(log: &DynLog, batch: Vec<NewMessage>) -> Vec<Published> {
    log.publish(batch).await.unwrap()
}

/// Over calls, restarts, in one batch; a topic knows its own only.
pub async fn a_known_dedup_id_is_answered_with_the_first_id(h: &dyn Harness) {
    let log = h.log();
    let first = publish(&log, vec![named("t", "a"), named("t", "b"), named("t", "a")]).await;
    assert_eq!(first.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(first[0].id, first[2].id);
    for again in [false, true] {
        let log = if again { h.crash().await } else { h.log() };
        let found = publish(&log, vec![named("t", "b"), message("t", "")]).await;
        assert_eq!(found[0], Published { id: first[1].id, duplicate: true });
        assert!(!found[1].duplicate);
    }
    let log = h.log();
    let other = publish(&log, vec![named("u", "a")]).await;
    assert!(!other[0].duplicate);
    assert_eq!(state(&log, "t").await.counts.ready, 4);
    assert_eq!(state(&log, "u").await.counts.ready, 1);
}

/// However short the window: what a batch, or an ack's sends, bring twice is stored once.
pub async fn a_batch_knows_its_own_dedup_ids(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let limits = TopicLimits { dedup_window: s(0), ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    let twice = || vec![named("t", "a"), named("t", "a")];
    let first = publish(&log, twice()).await;
    assert_eq!((first[0].duplicate, first[1]), (false, Published { duplicate: true, ..first[0] }));
    let second = publish(&log, twice()).await;
    assert!(!second[0].duplicate && second[1].duplicate && second[0].id > first[0].id);
    let held = claim_one(&log, "t", "g").await;
    let sends = Disposition::Ack { sends: twice() };
    assert_eq!(settle(&log, &held, sends).await, crate::Settled::Applied);
    assert_eq!(state(&log, "t").await.counts.ready, 2);
}

/// Counted from the first acceptance, to the millisecond, whatever came of the message.
pub async fn a_dedup_id_is_known_for_its_window(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let limits = TopicLimits { dedup_window: s(60), ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    let first = publish(&log, vec![named("t", "a")]).await[0];
    ack(&log, &claim_one(&log, "t", "g").await).await;
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
    assert_eq!(log.message(first.id).await.unwrap(), None);
    h.advance(Duration::from_millis(59_999)).await;
    let log = h.reopen().await;
    assert_eq!(publish(&log, vec![named("t", "a")]).await[0].id, first.id);
    h.advance(Duration::from_millis(1)).await;
    let second = publish(&log, vec![named("t", "a")]).await[0];
    assert!(!second.duplicate && second.id > first.id);
    h.advance(s(59)).await;
    assert_eq!(publish(&log, vec![named("t", "a")]).await[0].id, second.id);
}

/// A full topic answers it all the same; a refused batch leaves nothing known.
pub async fn a_known_dedup_id_needs_no_room_and_a_refused_one_is_not_known(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let limits = TopicLimits { max_messages: 2, ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    let first = publish(&log, vec![named("t", "a")]).await[0];
    let too_many = vec![named("t", "a"), named("t", "b"), named("t", "c")];
    let error = log.publish(too_many).await.unwrap_err();
    assert!(matches!(error, LogError::QuotaFull { .. }), "{error}");
    let found = publish(&log, vec![named("t", "a"), named("t", "b"), named("t", "b")]).await;
    assert_eq!(found.iter().map(|one| one.duplicate).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(found[0].id, first.id);
    assert!(publish(&log, vec![named("t", "b")]).await[0].duplicate, "though it is full");
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 2);
}

/// What was sent before is dropped, and the ack goes through.
pub async fn a_known_send_is_dropped(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "out", "g", policy(5, s(30))).await;
    publish(&log, vec![message("t", ""), message("t", "")]).await;
    let held = claim(&log, "t", "g", 2).await;
    for one in &held {
        let sends = vec![named("out", "a"), message("out", "b")];
        settle(&log, one, Disposition::Ack { sends }).await;
    }
    let found = claim(&log, "out", "g", 9).await;
    let texts: Vec<_> = found.iter().map(|one| one.message.data.clone()).collect();
    assert_eq!(texts, ["a", "b", "b"]);
    assert!(ids(&found).is_sorted());
}

/// One process answers what the other accepted.
pub async fn two_processes_know_each_others_dedup_ids(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return super::skip("two_processes_know_each_others_dedup_ids", "one process only");
    };
    for round in 0..3 {
        let name = format!("id {round}");
        let first = publish(&log, vec![named("t", &name)]).await[0];
        let second = publish(&other, vec![named("t", &name)]).await[0];
        assert_eq!((second.id, second.duplicate), (first.id, true));
    }
}
