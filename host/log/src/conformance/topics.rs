//! Laws 2, 7, 13 and 18: topics are deleted, and one that comes again is another one.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, claim_when_woken, counts, dead, declare, extend, group,
    ids, message, policy, publish, request, retried, s, settle, short, some, spec, state, topic,
    woken,
};
use crate::{
    DynLog, Extended, LogError, Purged, ReadFrom, ReadGap, ReadRequest, Settled, TopicLimits,
    TopicsMode,
};
use windlass_core::{Disposition, NewMessage};

async fn remove(log: &DynLog, force: bool) -> Result<Purged, LogError> {
    log.remove_topic(&topic("t"), force).await
}

/// With figures of what is in the way: needed messages, also those that wait for a first group, and
/// dead letters. What is settled is not.
pub async fn a_topic_with_messages_goes_only_by_force(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 3).await;
    let refused = async |unsettled, dead| {
        let error = remove(&log, false).await.unwrap_err();
        let LogError::TopicNotEmpty { topic: on, unsettled: u, dead: d } = error else {
            panic!("{error}");
        };
        assert_eq!((on, u, d), (topic("t"), unsettled, dead));
    };
    refused(3, 0).await;
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    bury_one(&log, "t", "g").await;
    refused(3, 1).await;
    for name in ["g", "other"] {
        for held in claim(&log, "t", name, 9).await {
            ack(&log, &held).await;
        }
    }
    refused(0, 1).await;
    log.purge_dead(&topic("t"), None).await.unwrap();
    assert_eq!(remove(&log, false).await.unwrap(), Purged { messages: 3, bytes: 9, dead: 0 });
    let error = remove(&log, true).await.unwrap_err();
    assert!(matches!(error, LogError::NoTopic(_)), "{error}");
}

/// Nothing of it is seen by anything that asks, its subtopic's things are.
pub async fn a_removed_topic_is_not_there_any_more(h: &dyn Harness) {
    let log = h.log();
    for on in ["t", "t/sub"] {
        declare(&log, on, "g", policy(5, s(30))).await;
        publish(&log, on, 4).await;
        bury_one(&log, on, "g").await;
    }
    let gone = log.message(dead(&log, "t").await[0].id).await.unwrap().unwrap().id;
    assert_eq!(remove(&log, true).await.unwrap(), Purged { messages: 4, bytes: 12, dead: 1 });
    for again in [false, true] {
        let log = if again { h.crash().await } else { h.log() };
        assert_eq!(log.topic(&topic("t")).await.unwrap(), None);
        assert_eq!(log.topics().await.unwrap().len(), 1);
        assert_eq!(log.message(gone).await.unwrap(), None);
        let error = log.claim(request("t", "g", 1)).await.unwrap_err();
        assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
        let error = log.purge_dead(&topic("t"), None).await.unwrap_err();
        assert!(matches!(error, LogError::NoTopic(_)), "{error}");
        assert_eq!(counts(&log, "t/sub", "g").await, (3, 0, 0, 1));
        log.sweep().await.unwrap();
    }
    assert_eq!(claim(&h.log(), "t/sub", "g", 9).await.len(), 3);
}

/// Law 7, also when a topic and a group of its name are there again.
pub async fn claims_of_a_removed_topic_are_void(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 3).await;
    settle(&log, &held[2], retried(s(1))).await;
    remove(&log, true).await.unwrap();
    for again in [false, true] {
        let log = h.log();
        assert_eq!(settle(&log, &held[0], acked()).await, Settled::LeaseLost);
        assert_eq!(extend(&log, &held[0], s(60)).await, Extended::Lost);
        let sends = Disposition::Ack { sends: vec![message("u", "")] };
        assert_eq!(settle(&log, &held[1], sends).await, Settled::LeaseLost);
        assert_eq!(log.topic(&topic("u")).await.unwrap(), None);
        if !again {
            declare(&log, "t", "g", policy(5, s(30))).await;
            publish(&log, "t", 2).await;
            h.crash().await;
        }
    }
    h.advance(s(60)).await;
    assert_eq!(counts(&h.log(), "t", "g").await, (2, 0, 0, 0));
}

/// Law 2: its ids lie behind all that was; nothing else of the old one is left: limits, dedup ids,
/// groups, what was settled.
pub async fn a_topic_made_again_is_another_one(h: &dyn Harness) {
    let log = h.log();
    let limits = TopicLimits { max_messages: 4, ..TopicLimits::default() };
    log.set_limits(&topic("t"), limits, false).await.unwrap();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let named = || NewMessage { dedup_id: Some("a".into()), ..message("t", "abc") };
    let mut last = log.publish(vec![named()]).await.unwrap()[0].id;
    for again in [false, true] {
        publish(&log, "t", 3).await;
        claim_one(&log, "t", "g").await;
        remove(&log, true).await.unwrap();
        let log = if again { h.reopen().await } else { h.log() };
        let new = log.publish(vec![named()]).await.unwrap()[0];
        assert!(!new.duplicate && new.id > last && new.id.sequence > last.sequence);
        last = new.id;
        let found = state(&log, "t").await;
        assert_eq!((found.limits, found.groups.len()), (TopicLimits::default(), 0));
        assert_eq!((short(found.counts), found.bytes, found.retained), ((1, 0, 0, 0), 3, 0));
        declare(&log, "t", "g", policy(5, s(30))).await;
        assert_eq!(ids(&claim(&log, "t", "g", 9).await), [last]);
    }
}

/// Law 18: while it is not there, and when it is there again. Whoever had read all is told nothing.
pub async fn a_reader_of_a_removed_topic_is_told_of_a_gap(h: &dyn Harness) {
    let log = h.log();
    let old = publish(&log, "t", 3).await;
    let read = async |from| {
        let request = ReadRequest { topic: topic("t"), from, limit: some(10) };
        let page = h.log().stream(request).await.unwrap();
        (page.gap, page.messages.iter().map(|one| one.id).collect::<Vec<_>>(), page.position)
    };
    remove(&log, true).await.unwrap();
    let gap = ReadGap { after: old[0].sequence, through: old[2].sequence };
    let told = (Some(gap), Vec::new(), old[2].sequence);
    assert_eq!(read(ReadFrom::After(old[0])).await, told);
    h.reopen().await;
    assert_eq!(read(ReadFrom::After(old[0])).await, told);
    let new = publish(&h.log(), "t", 1).await;
    assert_eq!(read(ReadFrom::After(old[0])).await, (Some(gap), new.clone(), new[0].sequence));
    assert_eq!(read(ReadFrom::After(old[2])).await, (None, new.clone(), new[0].sequence));
    assert_eq!(read(ReadFrom::Earliest).await, (None, new.clone(), new[0].sequence));
    remove(&h.log(), true).await.unwrap();
    let gap = ReadGap { through: new[0].sequence, ..gap };
    assert_eq!(read(ReadFrom::After(old[0])).await.0, Some(gap), "of both");
}

/// Law 4: where topics are declared, it is not any more.
pub async fn a_removed_topic_is_not_declared(h: &dyn Harness) {
    let log = h.log();
    log.declare_topics(TopicsMode::Declared, vec![topic("t"), topic("u")]).await.unwrap();
    publish(&log, "t", 1).await;
    remove(&log, true).await.unwrap();
    let error = log.publish(vec![message("t", "")]).await.unwrap_err();
    assert!(matches!(error, LogError::UndeclaredTopic(_)), "{error}");
    publish(&log, "u", 1).await;
}

/// Law 22: gone in the other process at once, though that had claimed and published.
pub async fn a_topic_removed_by_one_process_is_gone_in_the_other(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return super::skip("a_topic_removed_by_one_process_is_gone_in_the_other", "there is one");
    };
    for round in 0..3 {
        declare(&log, "t", "g", policy(5, s(30))).await;
        let new = publish(&other, "t", 2).await;
        let held = claim_one(&other, "t", "g").await;
        assert_eq!(held.message.id, new[0], "round {round}");
        remove(&log, true).await.unwrap();
        assert_eq!(other.topic(&topic("t")).await.unwrap(), None);
        assert_eq!(settle(&other, &held, acked()).await, Settled::LeaseLost);
        let error = other.claim(request("t", "g", 1)).await.unwrap_err();
        assert!(matches!(error, LogError::NoGroup { .. }), "{error}");
    }
    publish(&other, "t", 1).await;
    assert_eq!(state(&log, "t").await.counts.ready, 1);
}

/// Law 22: a process that knew a removed topic does not take it for the one that came after it,
/// whatever the backend names them by within.
pub async fn a_topic_in_the_place_of_a_removed_one_is_another_in_every_process(h: &dyn Harness) {
    let log = h.log();
    let Some(other) = h.second_process().await else {
        return super::skip("a_topic_in_the_place_of_a_removed_one", "there is one process");
    };
    for round in 1..4 {
        publish(&other, "t", 1).await;
        remove(&log, true).await.unwrap();
        // What it left is cleared away.
        log.sweep().await.unwrap();
        publish(&log, "u", 1).await;
        publish(&other, "u", 1).await;
        publish(&other, "t", 1).await;
        assert_eq!(state(&log, "u").await.counts.ready, 2 * round, "round {round}");
        assert_eq!(state(&log, "t").await.counts.ready, 1, "round {round}");
        log.remove_topic(&topic("t"), true).await.unwrap();
        log.sweep().await.unwrap();
    }
}

/// They hear that it is gone, and of one that comes later.
pub async fn who_waits_on_a_removed_topic_is_told(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    let remover = h.second_process().await.unwrap_or_else(|| log.clone());
    remove(&remover, false).await.unwrap();
    loop {
        woken(&waiter).await;
        if log.claim(request("t", "g", 1)).await.is_err() {
            break;
        }
    }
    remover.declare_groups(vec![spec("t", "g", policy(5, s(30)))]).await.unwrap();
    publish(&remover, "t", 1).await;
    claim_when_woken(&log, &waiter, "t", "g").await;
}

/// More than one step; a topic of its name is made meanwhile, and has none of it.
pub async fn a_large_topic_is_removed_in_steps(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    for _ in 0..10 {
        publish(&log, "t", 1_000).await;
    }
    for held in claim(&log, "t", "g", 1_000).await {
        settle(&log, &held, retried(s(600))).await;
    }
    let removing = tokio::spawn({
        let log = log.clone();
        async move { log.remove_topic(&topic("t"), true).await }
    });
    let mut waited = 0;
    while log.topic(&topic("t")).await.unwrap().is_some() {
        waited += 1;
        assert!(waited < 1_000_000, "it goes");
        tokio::task::yield_now().await;
    }
    let new = publish(&log, "t", 5).await;
    assert_eq!(removing.await.unwrap().unwrap().messages, 10_000);
    let log = h.crash().await;
    let found = state(&log, "t").await;
    assert_eq!((found.counts.ready, found.retained, found.groups.len()), (5, 0, 0));
    declare(&log, "t", "g", policy(5, s(30))).await;
    assert_eq!(ids(&claim(&log, "t", "g", 99).await), new);
}
