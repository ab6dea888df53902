//! Law 17: dead letters are listed, shown, redriven and purged, by group and by topic.

use super::Harness;
use super::kit::{
    ack, bury_one, claim, claim_one, counts, dead, declare, group, ids, let_end, message, policy,
    publish, record, retried, s, settle, settlement, some, topic, until_counts,
};
use crate::DeadLetterFilter;
use crate::{DeadLetterQuery, DynLog, LogError, Redriven, Settled};
use std::collections::BTreeSet;
use windlass_core::{Disposition, MessageId, Timestamp};

fn query(on: &str) -> DeadLetterQuery {
    DeadLetterQuery {
        topic: topic(on),
        group: None,
        filter: DeadLetterFilter::default(),
        after: None,
        limit: some(2),
    }
}

/// Two groups with three dead letters each, the later messages dead first.
async fn bury_six(log: &DynLog) {
    for name in ["b", "a"] {
        declare(log, "t", name, policy(5, s(30))).await;
    }
    publish(log, "t", 3).await;
    for name in ["b", "a"] {
        for claim in claim(log, "t", name, 3).await.iter().rev() {
            assert_eq!(settle(log, claim, Disposition::DeadLetter).await, Settled::Applied);
        }
    }
}

/// W16: pages of two, each once.
pub async fn dead_letters_are_listed_by_group_and_sequence_in_pages(h: &dyn Harness) {
    let log = h.log();
    bury_six(&log).await;
    let mut all = Vec::new();
    let mut after = None;
    loop {
        let page = log.dead_letters(DeadLetterQuery { after, ..query("t") }).await.unwrap();
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 2);
        after = Some((last.group.clone(), last.id));
        all.extend(page);
    }
    let found: Vec<_> = all.iter().map(|dead| (dead.group.as_str(), dead.id.sequence)).collect();
    assert_eq!(found.len(), 6);
    assert!(found.is_sorted_by(|x, y| x < y), "{found:?}");
    let of_b = DeadLetterQuery { group: Some(group("b")), limit: some(9), ..query("t") };
    let found = log.dead_letters(of_b).await.unwrap();
    assert_eq!(found, all[3..]);
}

/// In every group that has it; nothing where there is none.
pub async fn one_dead_letter_is_shown_by_id(h: &dyn Harness) {
    let log = h.log();
    bury_six(&log).await;
    let wanted = dead(&log, "t").await[1].id;
    let by_id = DeadLetterQuery {
        filter: DeadLetterFilter { id: Some(wanted), ..DeadLetterFilter::default() },
        ..query("t")
    };
    let found = log.dead_letters(by_id.clone()).await.unwrap();
    let groups: Vec<_> = found.iter().map(|dead| (dead.group.as_str(), dead.id)).collect();
    assert_eq!(groups, [("a", wanted), ("b", wanted)]);
    log.purge_dead(&topic("t"), Some(&group("a"))).await.unwrap();
    assert_eq!(log.dead_letters(by_id.clone()).await.unwrap().len(), 1);
    let other = publish(&log, "t", 1).await[0];
    let by_id = DeadLetterQuery {
        filter: DeadLetterFilter { id: Some(other), ..DeadLetterFilter::default() },
        ..by_id
    };
    assert_eq!(log.dead_letters(by_id).await.unwrap(), []);
}

/// id and content kept, due at once, before new ones and by sequence.
pub async fn redrive_gives_each_once_with_fresh_attempts(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(2, s(30))).await;
    let published = publish(&log, "t", 3).await;
    for claim in claim(&log, "t", "g", 3).await.iter().rev() {
        settle(&log, claim, retried(s(0))).await;
    }
    for claim in claim(&log, "t", "g", 3).await {
        assert_eq!(settle(&log, &claim, retried(s(0))).await, Settled::DeadLettered);
    }
    publish(&log, "t", 1).await;
    let answer = log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(answer, Redriven { moved: 3, of: 3 });
    assert_eq!(counts(&log, "t", "g").await, (4, 0, 0, 0));
    assert_eq!(
        log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap().moved,
        0,
        "each once"
    );
    let claims = claim(&log, "t", "g", 3).await;
    assert_eq!(ids(&claims), published);
    assert!(claims.iter().all(|claim| claim.attempt == 1));
    assert_eq!(claims[1].message.data.as_ref(), b"t 1");
    let_end(h, s(30)).await;
    assert!(claim(&log, "t", "g", 3).await.iter().all(|claim| claim.attempt == 2));
    let_end(h, s(30)).await;
    until_counts(&log, "t", "g", (1, 0, 0, 3)).await;
}

/// Per group.
pub async fn redrive_of_one_group_leaves_the_others(h: &dyn Harness) {
    let log = h.log();
    bury_six(&log).await;
    let answer =
        log.redrive(&topic("t"), Some(&group("a")), &DeadLetterFilter::default()).await.unwrap();
    assert_eq!(answer, Redriven { moved: 3, of: 3 });
    assert_eq!(counts(&log, "t", "a").await, (3, 0, 0, 0));
    assert_eq!(counts(&log, "t", "b").await, (0, 0, 0, 3));
    assert_eq!(
        log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap().moved,
        3
    );
}

/// By id, by when it died, by why; each group for itself; the rest stays.
pub async fn redrive_takes_only_what_the_filter_means(h: &dyn Harness) {
    let log = h.log();
    for name in ["a", "b"] {
        declare(&log, "t", name, policy(5, s(30))).await;
    }
    let published = publish(&log, "t", 4).await;
    let mut half = log.now();
    for name in ["a", "b"] {
        let claims = claim(&log, "t", name, 4).await;
        for (i, claim) in claims.iter().enumerate() {
            if name == "b" && i == 2 {
                h.advance(s(5)).await;
                half = log.now();
            }
            let mut settlement = settlement(claim.token, Disposition::DeadLetter);
            settlement.record = Some(record(if i % 2 == 0 { "even" } else { "odd" }, ""));
            log.settle(vec![settlement]).await.remove(0).unwrap();
        }
    }
    let all = DeadLetterFilter::default();
    let wrong_time = MessageId { millis: Timestamp(1), ..published[0] };
    for (filter, expected) in [
        (DeadLetterFilter { id: Some(wrong_time), ..all.clone() }, 0),
        (DeadLetterFilter { reason: Some("ev".into()), ..all.clone() }, 0),
        (DeadLetterFilter { id: Some(published[0]), ..all.clone() }, 2),
        (DeadLetterFilter { since: Some(half), ..all.clone() }, 2),
        (DeadLetterFilter { id: Some(published[1]), since: Some(half), ..all.clone() }, 0),
        (DeadLetterFilter { reason: Some("odd".into()), ..all.clone() }, 3),
        (all, 1),
    ] {
        let listed = DeadLetterQuery { filter: filter.clone(), limit: some(9), ..query("t") };
        assert_eq!(log.dead_letters(listed).await.unwrap().len(), expected, "{filter:?}");
        let answer = log.redrive(&topic("t"), None, &filter).await.unwrap();
        let moved = expected as u64;
        assert_eq!(answer, Redriven { moved, of: moved }, "{filter:?}");
    }
    assert_eq!(counts(&log, "t", "a").await, (4, 0, 0, 0));
}

/// What happened before is told after.
pub async fn redrive_keeps_the_history(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let first = bury_one(&log, "t", "g").await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    let log = h.reopen().await;
    assert_eq!(bury_one(&log, "t", "g").await, first);
    let letter = dead(&log, "t").await.remove(0);
    assert_eq!((letter.attempts, letter.history.attempts.len()), (1, 2));
}

///
pub async fn redriven_messages_are_live_after_a_crash(h: &dyn Harness) {
    bury_six(&h.log()).await;
    h.log().redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    let log = h.crash().await;
    assert_eq!(dead(&log, "t").await, []);
    for name in ["a", "b"] {
        let claims = claim(&log, "t", name, 9).await;
        assert_eq!(claims.len(), 3);
        for claim in claims {
            ack(&log, &claim).await;
        }
    }
}

/// over a crash.
pub async fn purge_removes_for_good_and_says_how_many(h: &dyn Harness) {
    bury_six(&h.log()).await;
    let log = h.log();
    assert_eq!(log.purge_dead(&topic("t"), Some(&group("b"))).await.unwrap(), 3);
    assert_eq!(counts(&log, "t", "a").await, (0, 0, 0, 3));
    assert_eq!(log.purge_dead(&topic("t"), None).await.unwrap(), 3);
    assert_eq!(log.purge_dead(&topic("t"), None).await.unwrap(), 0);
    let log = h.crash().await;
    assert_eq!(dead(&log, "t").await, []);
    assert_eq!(
        log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap(),
        Redriven { moved: 0, of: 0 }
    );
    assert!(claim(&log, "t", "a", 9).await.is_empty());
}

/// W8: not one that was redriven, nor one another group needs.
pub async fn purge_never_touches_a_live_message(h: &dyn Harness) {
    let log = h.log();
    log.set_retain(s(0), 0).await.unwrap();
    declare(&log, "t", "a", policy(5, s(30))).await;
    declare(&log, "t", "b", policy(5, s(30))).await;
    publish(&log, "t", 2).await;
    bury_one(&log, "t", "a").await;
    bury_one(&log, "t", "a").await;
    log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap();
    let held = claim_one(&log, "t", "a").await;
    settle(&log, &held, Disposition::DeadLetter).await;
    log.sweep().await.unwrap();
    assert_eq!(log.purge_dead(&topic("t"), None).await.unwrap(), 1);
    log.sweep().await.unwrap();
    assert_eq!(claim(&log, "t", "a", 9).await.len(), 1);
    assert_eq!(claim(&log, "t", "b", 9).await.len(), 2);
}

/// For all three; a topic that is there with no dead letters is no error.
pub async fn unknown_topics_and_groups_are_named(h: &dyn Harness) {
    let log = h.log();
    log.publish(vec![message("t", "")]).await.unwrap();
    let (nowhere, t, nobody) = (topic("nowhere"), topic("t"), group("nobody"));
    for error in [
        log.redrive(&nowhere, None, &DeadLetterFilter::default()).await.unwrap_err(),
        log.redrive(&nowhere, Some(&nobody), &DeadLetterFilter::default()).await.unwrap_err(),
        log.purge_dead(&nowhere, None).await.unwrap_err(),
        log.dead_letters(query("nowhere")).await.unwrap_err(),
    ] {
        assert!(matches!(&error, LogError::NoTopic(found) if *found == nowhere), "{error:?}");
    }
    let of_nobody = DeadLetterQuery { group: Some(nobody.clone()), ..query("t") };
    for error in [
        log.redrive(&t, Some(&nobody), &DeadLetterFilter::default()).await.unwrap_err(),
        log.purge_dead(&t, Some(&nobody)).await.unwrap_err(),
        log.dead_letters(of_nobody).await.unwrap_err(),
    ] {
        assert!(matches!(&error, LogError::NoGroup { group, .. } if *group == nobody), "{error:?}");
    }
    assert_eq!(log.redrive(&t, None, &DeadLetterFilter::default()).await.unwrap().of, 0);
    assert_eq!(log.purge_dead(&t, None).await.unwrap(), 0);
    assert_eq!(log.dead_letters(query("t")).await.unwrap(), []);
}

/// Every part of them.
pub async fn dead_letters_survive_a_reopen(h: &dyn Harness) {
    bury_six(&h.log()).await;
    let before = dead(&h.log(), "t").await;
    assert_eq!(dead(&h.reopen().await, "t").await, before);
    assert_eq!(dead(&h.crash().await, "t").await, before);
    let distinct: BTreeSet<_> = before.iter().map(|dead| (&dead.group, dead.id)).collect();
    assert_eq!(distinct.len(), 6);
}
