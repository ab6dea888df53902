//! A log opened to be read only: nothing in its folder changes, and what it shows is the log.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use windlass_core::Disposition;
use windlass_log::clock::{Clock, TestClock};
use windlass_log::conformance::kit::{
    bury_one, claim_one, dead, declare, group, message, policy, publish, request, s, settle,
    settlement, some, spec, state, topic,
};
use windlass_log::sqlite::{OpenError, OpenOptions, SqliteLog};
use windlass_log::{
    DeadLetterFilter, DynLog, Extension, LogAdmin, LogError, MessageLog, PendingQuery, Place,
    Start, TopicLimits, TopicsMode,
};

async fn open(folder: &Path, clock: &Arc<TestClock>) -> DynLog {
    let clock = Arc::<TestClock>::clone(clock);
    let options = OpenOptions { create: true, clock, ..OpenOptions::default() };
    SqliteLog::open(folder, options).await.unwrap()
}

async fn read_only(folder: &Path, clock: &Arc<TestClock>) -> Arc<SqliteLog> {
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    SqliteLog::open_read_only_at(folder, clock).await.unwrap()
}

/// Every file of a folder: its bytes and when it was last written.
fn files(folder: &Path) -> BTreeMap<std::ffi::OsString, (Vec<u8>, SystemTime)> {
    let all = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let plain = all.filter(|entry| entry.file_type().unwrap().is_file());
    plain
        .map(|entry| {
            let written = entry.metadata().unwrap().modified().unwrap();
            (entry.file_name(), (std::fs::read(entry.path()).unwrap(), written))
        })
        .collect()
}

fn copy(from: &Path, to: &Path, leave_out: &str) {
    for (name, (bytes, _)) in files(from) {
        if !name.to_str().unwrap().ends_with(leave_out) {
            std::fs::write(to.join(name), bytes).unwrap();
        }
    }
}

/// Three messages: one leased, one dead, one new.
async fn fill(log: &DynLog) {
    declare(log, "t", "g", policy(5, s(30))).await;
    publish(log, "t", 3).await;
    claim_one(log, "t", "g").await;
    bury_one(log, "t", "g").await;
}

async fn shows_what_was_filled(log: &Arc<SqliteLog>) {
    let dynamic: DynLog = Arc::<SqliteLog>::clone(log);
    let found = state(&dynamic, "t").await;
    assert_eq!((found.counts.ready, found.counts.leased, found.counts.dead), (1, 1, 1));
    assert_eq!(log.topics().await.unwrap(), [found]);
    let letter = dead(&dynamic, "t").await.remove(0);
    assert_eq!(letter.message.as_ref().unwrap().data.as_ref(), b"t 1");
    let shown = log.message(letter.id).await.unwrap().unwrap();
    assert_eq!(shown.groups[0].place, Place::Dead);
    let (topic, group) = (topic("t"), group("g"));
    let query = PendingQuery { topic, group, after: None, limit: some(9) };
    assert_eq!(log.pending(query).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_closed_log_is_read_and_its_folder_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let log = open(folder.path(), &clock).await;
    fill(&log).await;
    let now = log.now();
    log.close().await;
    let before = files(folder.path());
    assert_eq!(before.len(), 1, "the file alone");
    let reading = read_only(folder.path(), &clock).await;
    assert_eq!(reading.now(), now);
    shows_what_was_filled(&reading).await;
    reading.close().await;
    assert!(matches!(reading.topics().await, Err(LogError::Closed)));
    assert_eq!(files(folder.path()), before);
    // It is a log like any other afterwards.
    publish(&open(folder.path(), &clock).await, "t", 1).await;
}

/// What is only in the write-ahead log is there too, with its index or without.
#[tokio::test]
async fn a_copy_of_an_open_log_is_read_whole_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let log = open(folder.path(), &clock).await;
    fill(&log).await;
    for leave_out in ["nothing", "-shm"] {
        let other = tempfile::tempdir().unwrap();
        copy(folder.path(), other.path(), leave_out);
        let before = files(other.path());
        let reading = read_only(other.path(), &clock).await;
        shows_what_was_filled(&reading).await;
        reading.close().await;
        assert_eq!(files(other.path()), before, "without {leave_out}");
    }
    log.close().await;
}

/// Where the system itself forbids writing (unless the test is run by root, who may everything).
#[tokio::test]
async fn a_folder_that_cannot_be_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let log = open(folder.path(), &clock).await;
    fill(&log).await;
    for leave_out in ["nothing", "-shm", "-wal"] {
        let other = tempfile::tempdir().unwrap();
        if leave_out == "-wal" {
            log.close().await;
        }
        copy(folder.path(), other.path(), leave_out);
        let set = |folder: u32, file: u32| {
            for name in files(other.path()).into_keys() {
                let mode = std::fs::Permissions::from_mode(file);
                std::fs::set_permissions(other.path().join(name), mode).unwrap();
            }
            let mode = std::fs::Permissions::from_mode(folder);
            std::fs::set_permissions(other.path(), mode).unwrap();
        };
        set(0o555, 0o444);
        let reading = read_only(other.path(), &clock).await;
        shows_what_was_filled(&reading).await;
        reading.close().await;
        set(0o755, 0o644);
    }
}

/// Beside a process that goes on publishing, which it neither holds up nor misses.
#[tokio::test]
async fn a_running_log_is_read_as_it_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let log = open(folder.path(), &clock).await;
    let reading = read_only(folder.path(), &clock).await;
    let dynamic: DynLog = Arc::<SqliteLog>::clone(&reading);
    for n in 1..200 {
        publish(&log, "t", 1).await;
        assert_eq!(state(&dynamic, "t").await.counts.ready, n);
    }
    log.close().await;
    assert_eq!(state(&dynamic, "t").await.counts.ready, 199, "and after it has ended");
    let log = open(folder.path(), &clock).await;
    publish(&log, "t", 1).await;
    assert_eq!(state(&dynamic, "t").await.counts.ready, 200, "and begun again");
    let waiter = reading.waiter(&topic("t"), &group("g"));
    for _ in 0..3 {
        tokio::time::timeout(Duration::from_secs(20), waiter.woken()).await.unwrap();
    }
}

/// Each by name, and nothing is done.
#[tokio::test]
async fn what_would_write_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let log = open(folder.path(), &clock).await;
    fill(&log).await;
    let held = claim_one(&log, "t", "g").await;
    log.close().await;
    let before = files(folder.path());
    let log = read_only(folder.path(), &clock).await;
    let (on, of, id) = (topic("t"), group("g"), held.message.id);
    let all = DeadLetterFilter::default();
    let extension = Extension { token: held.token, lease: s(1) };
    let settled = log.settle(vec![settlement(held.token, Disposition::Release)]).await.remove(0);
    for error in [
        log.publish(vec![message("t", "")]).await.err(),
        log.claim(request("t", "g", 1)).await.err(),
        log.extend(vec![extension]).await.err(),
        settled.err(),
        log.declare_topics(TopicsMode::Open, vec![]).await.err(),
        log.declare_groups(vec![spec("t", "new", policy(5, s(30)))]).await.err(),
        log.redrive(&on, None, &all).await.err(),
        log.purge_dead(&on, None).await.err(),
        log.set_retain(s(0), 0).await.err(),
        log.sweep().await.err(),
        log.add_group(spec("t", "new", policy(5, s(30)))).await.err(),
        log.remove_group(&on, &of, true).await.err(),
        log.cancel(id, None).await.err(),
        log.make_due(id, None).await.err(),
        log.seek(&on, &of, Start::Latest).await.err(),
        log.set_limits(&on, TopicLimits::default(), true).await.err(),
        log.purge_topic(&on, true).await.err(),
        log.remove_topic(&on, true).await.err(),
        log.release_worker(&on, &of, "worker-1").await.err(),
        log.acknowledge_gap(&on, &of).await.err(),
    ] {
        assert!(matches!(error, Some(LogError::ReadOnly)), "{error:?}");
    }
    assert_eq!(files(folder.path()), before);
}

#[tokio::test]
async fn what_is_no_log_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let error = SqliteLog::open_read_only(&folder.path().join("none")).await.unwrap_err();
    assert!(matches!(error, OpenError::Missing(_)), "{error}");
    std::fs::write(folder.path().join(windlass_log::sqlite::FILE_NAME), "x".repeat(9_000)).unwrap();
    let error = SqliteLog::open_read_only(folder.path()).await.unwrap_err();
    assert!(matches!(error, OpenError::Foreign(_)), "{error}");
}

/// A path may hold what means something else in a URI.
#[tokio::test]
async fn any_folder_name_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("a ?b#c%41&d=e");
    let clock = Arc::new(TestClock::default());
    let log = open(&odd, &clock).await;
    fill(&log).await;
    shows_what_was_filled(&read_only(&odd, &clock).await).await;
    settle(&log, &claim_one(&log, "t", "g").await, Disposition::Release).await;
    log.close().await;
    assert_eq!(read_only(&odd, &clock).await.topics().await.unwrap().len(), 1);
}
