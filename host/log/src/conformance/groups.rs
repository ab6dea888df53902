//! Laws 13 and 14: groups, where they start, and that they do not touch each other.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, counts, dead, declare, group, ids, policy, publish, request,
    retried, s, settle, spec, state, topic,
};
use crate::DeadLetterFilter;
use crate::{ClaimRequest, Declared, GroupSpec, LogError, Start};
use windlass_core::{Group, GroupPolicy};

fn starting(on: &str, name: &str, start: Start) -> ClaimRequest {
    ClaimRequest { start: Some(start), ..request(on, name, 100) }
}

/// A-08, B-02: an error, not silence; nothing comes to be by asking.
pub async fn a_claim_without_a_start_on_an_unknown_group_is_refused(h: &dyn Harness) {
    let log = h.log();
    for on in ["nowhere", "t"] {
        let error = log.claim(request(on, "g", 1)).await.unwrap_err();
        assert!(
            matches!(&error, LogError::NoGroup { topic: t, group: g }
                if *t == topic(on) && *g == group("g")),
            "{error:?}"
        );
        assert!(error.to_string().starts_with("NOGROUP"), "{error}");
        publish(&log, "t", 1).await;
    }
    assert_eq!(log.topic(&topic("nowhere")).await.unwrap(), None);
    assert!(state(&log, "t").await.groups.is_empty());
    let error = log.claim(request("t", "", 1)).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "the work queue too");
}

/// with the default policy; it may make its topic; a reopened log knows it.
pub async fn a_claim_with_a_start_declares_the_group(h: &dyn Harness) {
    let log = h.log();
    let published = publish(&log, "t", 2).await;
    let claims = log.claim(starting("t", "early", Start::Earliest)).await.unwrap();
    assert_eq!(ids(&claims), published);
    assert!(log.claim(starting("t", "late", Start::Latest)).await.unwrap().is_empty());
    assert!(log.claim(starting("new", "", Start::Earliest)).await.unwrap().is_empty());
    let log = h.reopen().await;
    assert_eq!(counts(&log, "t", "early").await, (0, 0, 2, 0));
    assert_eq!(counts(&log, "t", "late").await, (0, 0, 0, 0));
    assert_eq!(state(&log, "new").await.groups[0].group, Group::work_queue());
    assert_eq!(state(&log, "t").await.groups[0].policy, GroupPolicy::default());
}

/// W14, W12: what was published before any group, after one, and what another has settled.
pub async fn earliest_sees_everything_stored(h: &dyn Harness) {
    let log = h.log();
    let mut published = publish(&log, "t", 2).await;
    declare(&log, "t", "first", policy(5, s(30))).await;
    published.extend(publish(&log, "t", 2).await);
    for claim in claim(&log, "t", "first", 3).await {
        ack(&log, &claim).await;
    }
    declare(&log, "t", "second", policy(5, s(30))).await;
    assert_eq!(ids(&claim(&log, "t", "second", 9).await), published);
}

/// and sees everything after, which no slower publisher can land below (W10).
pub async fn latest_never_sees_what_came_before(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 2).await;
    publish(&log, "other", 2).await;
    let latest = GroupSpec { start: Start::Latest, ..spec("t", "g", policy(5, s(30))) };
    let answer = log.declare_groups(vec![latest]).await.unwrap();
    assert_eq!(answer, [Declared::Created]);
    assert!(claim(&log, "t", "g", 9).await.is_empty());
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
    let published = publish(&log, "t", 1).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published);
}

/// a start counts once; leases, retries and dead letters stay too.
pub async fn a_known_group_keeps_its_position_and_takes_the_policy(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 5).await;
    bury_one(&log, "t", "g").await;
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, retried(s(9))).await;
    let held = claim_one(&log, "t", "g").await;
    for start in [Start::Latest, Start::Earliest] {
        let again = GroupSpec { start, ..spec("t", "g", policy(2, s(7))) };
        let new = spec("t", "h", policy(5, s(30)));
        let answers = log.declare_groups(vec![again.clone(), new, again]).await.unwrap();
        assert_eq!((answers[0], answers[2]), (Declared::Known, Declared::Known));
        assert!(
            log.claim(ClaimRequest { start: Some(start), ..request("t", "g", 1) }).await.is_ok()
        );
    }
    assert_eq!(counts(&log, "t", "g").await, (0, 1, 3, 1));
    assert_eq!(state(&log, "t").await.groups[0].policy, policy(2, s(7)));
    ack(&log, &held).await;
    h.advance(s(10)).await;
    let again = claim(&log, "t", "g", 9).await;
    assert_eq!(again.len(), 3, "two ended leases and a retry");
    assert!(again.iter().all(|claim| claim.max_attempts.get() == 2 && claim.attempt == 2));
}

/// Position, policy, start.
pub async fn groups_survive_a_reopen(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(3, s(11))).await;
    declare(&log, "t", "", policy(4, s(12))).await;
    let published = publish(&log, "t", 3).await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    let log = h.crash().await;
    let state = state(&log, "t").await;
    let found: Vec<_> = state.groups.iter().map(|g| (g.group.as_str(), &g.policy)).collect();
    assert_eq!(found, [("", &policy(4, s(12))), ("g", &policy(3, s(11)))]);
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), published[1..]);
    assert_eq!(ids(&claim(&log, "t", "", 9).await), published);
}

/// A-06, W1.
pub async fn two_groups_each_get_every_message_of_one_copy(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(5, s(30))).await;
    let published = publish(&log, "t", 3).await;
    let one_copy = state(&log, "t").await.bytes;
    assert_eq!(one_copy, 9);
    assert_eq!(ids(&claim(&log, "t", "a", 9).await), published);
    assert_eq!(ids(&claim(&log, "t", "b", 9).await), published);
    assert_eq!(state(&log, "t").await.bytes, one_copy);
}

/// nor does anything else.
pub async fn an_ack_of_one_group_leaves_the_other_groups_alone(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(1, s(30))).await;
    publish(&log, "t", 3).await;
    let of_a = claim(&log, "t", "a", 3).await;
    let of_b = claim_one(&log, "t", "b").await;
    ack(&log, &of_a[0]).await;
    settle(&log, &of_a[1], retried(s(60))).await;
    bury_one(&log, "t", "b").await;
    assert_eq!(counts(&log, "t", "a").await, (0, 1, 1, 0));
    assert_eq!(counts(&log, "t", "b").await, (1, 0, 1, 1));
    let buried = dead(&log, "t").await.remove(0).message.unwrap();
    assert_eq!(buried.data.as_ref(), b"t 1");
    ack(&log, &of_b).await;
    ack(&log, &of_a[2]).await;
}

/// A-06, W1: a group like any other.
pub async fn the_work_queue_holds_nothing_back_until_declared(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    log.set_retain(s(0), 0).await.unwrap();
    publish(&log, "t", 2).await;
    for claim in claim(&log, "t", "g", 2).await {
        ack(&log, &claim).await;
    }
    log.sweep().await.unwrap();
    let left = state(&log, "t").await;
    assert_eq!((left.bytes, left.retained), (0, 0));
    declare(&log, "t", "", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    assert_eq!(claim(&log, "t", "", 9).await.len(), 1);
}

/// in claims, counts, dead letters, redrive, purge and sweep.
pub async fn a_topic_never_includes_its_subtopics(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(0), 0).await.unwrap();
    for on in ["a", "a/b", "a/b/c", "ab"] {
        declare(&log, on, "g", policy(5, s(30))).await;
        publish(&log, on, 3).await;
        bury_one(&log, on, "g").await;
        ack(&log, &claim_one(&log, on, "g").await).await;
    }
    assert_eq!(counts(&log, "a", "g").await, (1, 0, 0, 1));
    assert_eq!(dead(&log, "a").await.len(), 1);
    assert_eq!(
        log.redrive(&topic("a"), None, &DeadLetterFilter::default()).await.unwrap().moved,
        1
    );
    assert_eq!(log.purge_dead(&topic("a/b"), None).await.unwrap(), 1);
    assert_eq!(claim(&log, "a", "g", 9).await.len(), 2);
    assert_eq!(counts(&log, "a/b", "g").await, (1, 0, 0, 0));
    assert_eq!(counts(&log, "a/b/c", "g").await, (1, 0, 0, 1));
    assert_eq!(counts(&log, "ab", "g").await, (1, 0, 0, 1));
    log.sweep().await.unwrap();
    assert_eq!(dead(&log, "a/b/c").await.len(), 1);
}
