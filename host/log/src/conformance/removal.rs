//! Law 13: groups are added by command, and deleted with their share.

use super::Harness;
use super::kit::{
    ack, acked, bury_one, claim, claim_one, counts, dead, declare, group, ids, policy, publish,
    request, retried, s, settle, short, some, spec, state, topic, woken,
};
use crate::{
    DeadLetterFilter, DynLog, Extended, GroupSpec, LogError, PendingQuery, Settled, Start,
};
use windlass_core::Disposition;

async fn remove(log: &DynLog, on: &str, name: &str, force: bool) -> crate::Counts {
    log.remove_group(&topic(on), &group(name), force).await.unwrap()
}

async fn sweep_everything(log: &DynLog) {
    log.set_retain(s(0), 0).await.unwrap();
    log.sweep().await.unwrap();
    log.sweep().await.unwrap();
}

/// once, with its start and policy; a known one is left as it is.
pub async fn a_group_is_added_once(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 2).await;
    let wanted = GroupSpec { start: Start::Latest, ..spec("t", "g", policy(3, s(7))) };
    log.add_group(wanted.clone()).await.unwrap();
    let again = GroupSpec { policy: policy(9, s(9)), ..wanted };
    let error = log.add_group(again).await.unwrap_err();
    assert!(matches!(&error, LogError::BusyGroup { .. }), "{error:?}");
    assert!(error.to_string().starts_with("BUSYGROUP"), "{error}");
    let log = h.reopen().await;
    assert_eq!(state(&log, "t").await.groups[0].policy, policy(3, s(7)));
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 0, 0));
    log.add_group(spec("new", "g", policy(5, s(30)))).await.unwrap();
    assert_eq!(state(&log, "new").await.groups.len(), 1);
}

/// Of two who change what they have read only the first does; a group that was deleted since does not
/// come back by it.
pub async fn a_policy_is_replaced_where_it_is_as_it_was_seen(h: &dyn Harness) {
    let log = h.log();
    let (on, name) = (topic("t"), group("g"));
    let (old, new, other) = (policy(5, s(30)), policy(3, s(7)), policy(9, s(9)));
    declare(&log, "t", "g", old.clone()).await;
    publish(&log, "t", 2).await;
    assert_eq!(ids(&claim(&log, "t", "g", 1).await).len(), 1);
    assert!(log.replace_policy(&on, &name, &old, &new).await.unwrap());
    assert!(!log.replace_policy(&on, &name, &old, &other).await.unwrap());
    let log = h.reopen().await;
    assert_eq!(state(&log, "t").await.groups[0].policy, new);
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 1, 0), "it stands where it stood");
    remove(&log, "t", "g", true).await;
    let error = log.replace_policy(&on, &name, &new, &other).await.unwrap_err();
    assert!(matches!(error, LogError::NoGroup { .. }), "{error:?}");
    let error = log.replace_policy(&topic("none"), &name, &new, &other).await.unwrap_err();
    assert!(matches!(error, LogError::NoTopic(_)), "{error:?}");
    assert!(state(&log, "t").await.groups.is_empty());
}

/// It is unknown from then on; how it stood is answered.
pub async fn a_removed_group_is_not_there_any_more(h: &dyn Harness) {
    let log = h.log();
    for name in ["g", "other"] {
        declare(&log, "t", name, policy(5, s(30))).await;
    }
    publish(&log, "t", 5).await;
    let held = claim(&log, "t", "g", 3).await;
    settle(&log, &held[0], retried(s(60))).await;
    assert_eq!(short(remove(&log, "t", "g", false).await), (2, 1, 2, 0));
    for again in [false, true] {
        let log = if again { h.reopen().await } else { h.log() };
        let (on, name) = (topic("t"), group("g"));
        let query =
            PendingQuery { topic: on.clone(), group: name.clone(), after: None, limit: some(1) };
        let found = state(&log, "t").await;
        assert_eq!(found.groups.len(), 1);
        assert_eq!(short(found.counts), (5, 0, 0, 0));
        for error in [
            log.claim(request("t", "g", 1)).await.err(),
            log.pending(query).await.err(),
            log.remove_group(&on, &name, true).await.err(),
            log.redrive(&on, Some(&name), &DeadLetterFilter::default()).await.err(),
        ] {
            assert!(matches!(error, Some(LogError::NoGroup { .. })), "{error:?}");
        }
        let error = log.remove_group(&topic("nowhere"), &name, true).await.unwrap_err();
        assert!(matches!(error, LogError::NoTopic(_)), "{error:?}");
    }
}

/// Law 7: none of its tokens acts, also when a group of its name is there again.
pub async fn claims_of_a_removed_group_are_void(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    let held = claim(&log, "t", "g", 2).await;
    remove(&log, "t", "g", false).await;
    for again in [false, true] {
        let log = if again { h.crash().await } else { h.log() };
        assert_eq!(settle(&log, &held[0], acked()).await, Settled::LeaseLost);
        assert_eq!(super::kit::extend(&log, &held[0], s(60)).await, Extended::Lost);
        let sends = vec![super::kit::message("u", "")];
        let sending = Disposition::Ack { sends };
        assert_eq!(settle(&log, &held[1], sending).await, Settled::LeaseLost);
        assert_eq!(log.topic(&topic("u")).await.unwrap(), None);
        let _known_the_second_time = log.add_group(spec("t", "g", policy(5, s(30)))).await;
    }
    let log = h.log();
    assert_eq!(claim(&log, "t", "g", 9).await.len(), 3, "it begins anew");
    assert_eq!(settle(&log, &held[0], acked()).await, Settled::LeaseLost);
    assert_eq!(counts(&log, "t", "g").await, (0, 0, 3, 0));
}

/// Then they go with it.
pub async fn a_group_with_dead_letters_goes_only_by_force(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 3).await;
    bury_one(&log, "t", "g").await;
    bury_one(&log, "t", "g").await;
    let error = log.remove_group(&topic("t"), &group("g"), false).await.unwrap_err();
    assert!(matches!(error, LogError::GroupHasDead { dead: 2, .. }), "{error:?}");
    assert_eq!(counts(&log, "t", "g").await, (1, 0, 0, 2));
    assert_eq!(short(remove(&log, "t", "g", true).await), (1, 0, 0, 2));
    assert_eq!(dead(&log, "t").await, []);
    sweep_everything(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (0, 0, 0));
}

/// Whatever it had not settled: new, leased, waiting, dead, before the sweep and behind it.
pub async fn a_removed_group_settles_its_share(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    declare(&log, "t", "other", policy(5, s(30))).await;
    let published = publish(&log, "t", 8).await;
    for claim in claim(&log, "t", "other", 6).await {
        ack(&log, &claim).await;
    }
    let held = claim(&log, "t", "g", 6).await;
    ack(&log, &held[0]).await;
    settle(&log, &held[1], retried(s(600))).await;
    settle(&log, &held[2], Disposition::DeadLetter).await;
    settle(&log, &held[3], retried(s(1))).await;
    for held in &held[4..] {
        ack(&log, held).await;
    }
    sweep_everything(&log).await;
    h.advance(s(1)).await;
    let again = claim_one(&log, "t", "g").await;
    assert_eq!(again.message.id, published[3], "leased behind the sweep");
    assert_eq!(state(&log, "t").await.bytes, 12);
    remove(&log, "t", "g", true).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained), (6, 0), "what only it held is gone");
    assert_eq!(ids(&claim(&log, "t", "other", 9).await), published[6..]);
    declare(&log, "t", "late", policy(5, s(30))).await;
    assert_eq!(ids(&claim(&log, "t", "late", 9).await), published[6..]);
}

/// What it had still to read behind the sweep goes too, but for what another group needs.
pub async fn a_late_group_removed_lets_go_what_it_had_not_read(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "first", policy(5, s(30))).await;
    let published = publish(&log, "t", 6).await;
    bury_one(&log, "t", "first").await;
    for claim in claim(&log, "t", "first", 9).await {
        settle(&log, &claim, retried(s(600))).await;
    }
    publish(&log, "t", 1).await;
    ack(&log, &claim_one(&log, "t", "first").await).await;
    sweep_everything(&log).await;
    declare(&log, "t", "late", policy(5, s(30))).await;
    assert_eq!(counts(&log, "t", "late").await.0, 6);
    remove(&log, "t", "first", true).await;
    assert_eq!(counts(&log, "t", "late").await.0, 6);
    let held = claim(&log, "t", "late", 2).await;
    assert_eq!(ids(&held), published[..2]);
    ack(&log, &held[0]).await;
    remove(&log, "t", "late", false).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (0, 0, 0));
}

/// With the last group gone, what comes waits for a first one again; what was settled does not.
pub async fn after_the_last_group_messages_wait_for_a_first_one(h: &dyn Harness) {
    let log = h.log();
    publish(&log, "t", 2).await;
    let latest = GroupSpec { start: Start::Latest, ..spec("t", "g", policy(5, s(30))) };
    log.add_group(latest.clone()).await.unwrap();
    publish(&log, "t", 3).await;
    ack(&log, &claim_one(&log, "t", "g").await).await;
    remove(&log, "t", "g", false).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (6, 3, 2));
    let new = publish(&log, "t", 2).await;
    let log = h.reopen().await;
    sweep_everything(&log).await;
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.retained, found.counts.ready), (12, 0, 4));
    log.add_group(GroupSpec { start: Start::At(new[0]), ..latest }).await.unwrap();
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), new);
    let found = state(&log, "t").await;
    assert_eq!((found.bytes, found.counts.ready), (12, 0));
    sweep_everything(&log).await;
    declare(&log, "t", "all", policy(5, s(30))).await;
    assert_eq!(claim(&log, "t", "all", 9).await.len(), 4);
    let more = publish(&log, "t", 1).await;
    assert_eq!(ids(&claim(&log, "t", "g", 9).await), more);
}

/// It hears that the group is gone, and of one of its name that comes later.
pub async fn who_waits_on_a_removed_group_is_told(h: &dyn Harness) {
    let log = h.log();
    declare(&log, "t", "g", policy(5, s(30))).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    woken(&waiter).await;
    let remover = h.second_process().await.unwrap_or_else(|| log.clone());
    remove(&remover, "t", "g", false).await;
    loop {
        woken(&waiter).await;
        if log.claim(request("t", "g", 1)).await.is_err() {
            break;
        }
    }
    declare(&remover, "t", "g", policy(5, s(30))).await;
    publish(&remover, "t", 1).await;
    super::kit::claim_when_woken(&log, &waiter, "t", "g").await;
}
