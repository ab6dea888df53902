//! What is synced before its answer, and what need not be (law 1).

use std::num::NonZeroUsize;
use std::time::Duration;
use windlass_core::{Disposition, Group, GroupPolicy, NewMessage, Topic};
use windlass_log::DeadLetterFilter;
use windlass_log::Prefer;
use windlass_log::sqlite::{Faults, OpenOptions, SqliteLog};
use windlass_log::{
    Claim, ClaimRequest, Extension, GroupSpec, LogAdmin, MessageLog, Settlement, Start,
};

const FULL: i64 = 2;
const NORMAL: i64 = 1;

/// Asks SQLite itself, at each commit, how it will sync.
#[tokio::test]
async fn publish_ack_and_dead_letter_are_synced_the_rest_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let options = OpenOptions { create: true, faults: faults.clone(), ..OpenOptions::default() };
    let log = SqliteLog::open(folder.path(), options).await.unwrap();
    let topic = Topic::new("t").unwrap();
    let how = || std::mem::take(&mut *faults.commits.lock().unwrap());
    let group = GroupSpec {
        topic: topic.clone(),
        group: Group::work_queue(),
        policy: GroupPolicy::default(),
        start: Start::Earliest,
    };
    log.declare_groups(vec![group]).await.unwrap();
    assert_eq!(how(), [FULL], "declare");
    for _ in 0..6 {
        log.publish(vec![NewMessage::new(topic.clone(), "x")]).await.unwrap();
    }
    assert_eq!(how(), [FULL; 6], "publish");
    let claim = async || -> Claim {
        let request = ClaimRequest {
            topic: topic.clone(),
            group: Group::work_queue(),
            worker: "w".into(),
            max: NonZeroUsize::MIN,
            start: None,
            prefer: Prefer::Order,
        };
        log.claim(request).await.unwrap().remove(0)
    };
    let retry = Disposition::Retry { delay: Duration::from_mins(1), counted: true };
    for (disposition, expected) in [
        (Disposition::Ack { sends: vec![] }, FULL),
        (retry, NORMAL),
        (Disposition::DeadLetter, FULL),
        (Disposition::Release, NORMAL),
        (Disposition::Ack { sends: vec![NewMessage::new(topic.clone(), "sent")] }, FULL),
    ] {
        let token = claim().await.token;
        assert_eq!(how(), [NORMAL], "claim");
        log.extend(vec![Extension { token, lease: Duration::from_mins(1) }]).await.unwrap();
        assert_eq!(how(), [NORMAL], "extend");
        let settlement = Settlement { token, disposition: disposition.clone(), record: None };
        log.settle(vec![settlement]).await.remove(0).unwrap();
        assert_eq!(how(), [expected], "{disposition:?}");
    }
    let unknown = ClaimRequest {
        topic: topic.clone(),
        group: Group::new("new").unwrap(),
        worker: "w".into(),
        max: NonZeroUsize::MIN,
        start: Some(Start::Latest),
        prefer: Prefer::Order,
    };
    log.claim(unknown.clone()).await.unwrap();
    assert_eq!(how(), [NORMAL, FULL], "a claim that declares its group");
    log.claim(unknown).await.unwrap();
    assert_eq!(how(), [NORMAL], "the group is known now");
    log.redrive(&topic, None, &DeadLetterFilter::default()).await.unwrap();
    log.purge_dead(&topic, None).await.unwrap();
    let how = how();
    assert!(how.len() >= 2 && how.iter().all(|how| *how == FULL), "redrive and purge: {how:?}");
}
