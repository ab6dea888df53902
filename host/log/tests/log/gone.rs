//! Files that go away, and room that runs out, while a log is open: nothing is acknowledged that is
//! not there, and the log works on by itself when the cause has gone.

#![allow(clippy::print_stdout, reason = "what is skipped is told")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::{GroupPolicy, NewMessage, Sequence};
use windlass_log::clock::{SystemClock, TestClock};
use windlass_log::conformance::kit::{
    acked, claim, claim_one, declare, message, policy, publish, s, settle, settlement, some, state,
    topic,
};
use windlass_log::sqlite::{FILE_NAME, Faults, OpenError, OpenOptions, SqliteLog};
use windlass_log::{DynLog, LogError, ReadFrom, ReadRequest};

async fn open(folder: &Path, serve: bool) -> Result<DynLog, OpenError> {
    let options =
        OpenOptions { create: true, serve, clock: Arc::new(SystemClock), ..Default::default() };
    let log: DynLog = SqliteLog::open(folder, options).await?;
    Ok(log)
}

/// The texts of all that is stored on `t`.
async fn stored(log: &DynLog) -> BTreeSet<String> {
    let (mut from, mut all) = (ReadFrom::Earliest, BTreeSet::new());
    loop {
        let request = ReadRequest { topic: topic("t"), from, limit: some(500) };
        let page = log.stream(request).await.unwrap();
        for one in &page.messages {
            let text = &one.message.as_ref().unwrap().data;
            let name = text.split(|byte| *byte == b' ').next().unwrap_or_default();
            all.insert(String::from_utf8(name.to_vec()).unwrap());
        }
        if page.messages.is_empty() {
            return all;
        }
        from = ReadFrom::Position(Sequence(page.position.0));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Goal: what is published while the folder is away is not acknowledged, and nothing that was is
/// lost. Method: moved away and back; then removed, with a copy put in its place.
#[tokio::test]
async fn a_folder_that_goes_away_acknowledges_nothing_and_is_gone_on_with_when_it_is_back() {
    for serve in [false, true] {
        let root = tempfile::tempdir().unwrap();
        let (here, away) = (root.path().join("here"), root.path().join("away"));
        let log = open(&here, serve).await.unwrap();
        declare(&log, "t", "g", policy(5, s(30))).await;
        log.publish(vec![message("t", "one")]).await.unwrap();
        let held = claim_one(&log, "t", "g").await;
        std::fs::rename(&here, &away).unwrap();
        for _ in 0..2 {
            let refused = log.publish(vec![message("t", "away")]).await.unwrap_err();
            assert!(matches!(refused, LogError::Unavailable { .. }), "{refused}");
            let refused = log.settle(vec![settlement(held.token, acked())]).await.remove(0);
            assert!(refused.is_err());
            assert!(log.topics().await.is_err(), "nor is what is not there shown");
        }
        std::fs::rename(&away, &here).unwrap();
        log.publish(vec![message("t", "two")]).await.unwrap();
        settle(&log, &held, acked()).await;
        let found = stored(&log).await;
        assert!(found.contains("one") && found.contains("two"), "{found:?}");

        copy(&here, &away);
        std::fs::remove_dir_all(&here).unwrap();
        let refused = log.publish(vec![message("t", "gone")]).await.unwrap_err();
        let why = std::error::Error::source(&refused).unwrap().to_string();
        assert!(why.contains("was removed, moved or replaced"), "{why}");
        assert!(log.publish(vec![message("t", "gone")]).await.is_err());
        std::fs::rename(&away, &here).unwrap();
        log.publish(vec![message("t", "three")]).await.unwrap();
        let found = stored(&log).await;
        assert!(!found.contains("gone") && found.contains("three"), "{found:?}");
        log.close().await;
        let log = open(&here, false).await.unwrap();
        assert_eq!(stored(&log).await, found, "in the file that is there");
        assert_eq!(log.recount().await.unwrap().drift, []);
        log.close().await;
    }
}

/// A file system of its own, as small as wanted; gone with the test.
struct Mount(PathBuf);

impl Mount {
    /// None where this user may not mount.
    fn small(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        let mount = Self(at.to_owned());
        let done = mount.run(&["mount", "-t", "tmpfs", "-o", &format!("size={size}"), "windlass"]);
        if !done {
            println!("SKIPPED: no file system can be mounted here");
            std::mem::forget(mount);
            return None;
        }
        Some(mount)
    }

    fn again(&self, option: &str) {
        assert!(self.run(&["mount", "-o", &format!("remount,{option}")]), "remount,{option}");
    }

    fn run(&self, words: &[&str]) -> bool {
        let mut command = Command::new(words[0]);
        let output = command.args(&words[1..]).arg(&self.0).output();
        output.is_ok_and(|output| output.status.success())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _gone_with_the_machine = self.run(&["umount", "-l"]);
    }
}

/// Goal: on a disk that is really full, each publish that is answered well is there, each other one
/// is told so; claims and acks of what is there go on as far as there is room, and all goes on
/// without opening again when there is room. Method: a file system of 6 MiB, made larger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_told_and_gone_on_with_when_there_is_room() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("small");
    let Some(mount) = Mount::small(&folder, "6m") else { return };
    let log = open(&folder, true).await.unwrap();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    let mut good = BTreeSet::new();
    let (mut n, mut refused) = (0, 0);
    let one = |n: u32| {
        let text = format!("{n} {}", "x".repeat(20_000));
        vec![NewMessage::new(topic("t"), text.into_bytes())]
    };
    while refused < 20 {
        assert!(n < 2_000, "a disk of 6 MiB is full at some time");
        match log.publish(one(n)).await {
            Ok(_) => drop(good.insert(n.to_string())),
            Err(error) => {
                assert!(error.is_full(), "{error}: {error:?}");
                refused += 1;
            }
        }
        n += 1;
    }
    assert!(good.len() > 50, "{}", good.len());
    assert_eq!(stored(&log).await, good, "what was answered well, and nothing else");
    mount.again("size=64m");
    for n in 5_000..5_100 {
        log.publish(one(n)).await.unwrap();
        good.insert(n.to_string());
    }
    let claims = claim(&log, "t", "g", 5_000).await;
    assert_eq!(claims.len(), good.len());
    for held in &claims {
        settle(&log, held, acked()).await;
    }
    assert_eq!(state(&log, "t").await.counts.lag(), 0);
    assert_eq!(log.recount().await.unwrap().drift, []);
    log.close().await;
    let log = open(&folder, false).await.unwrap();
    assert_eq!(stored(&log).await, good);
    log.close().await;
}

/// What is only to be read says so, by the system's own word; writable again, it is a log like any
/// other.
#[tokio::test]
async fn a_log_on_a_read_only_file_system_is_refused_by_its_cause_and_read() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("small");
    let Some(mount) = Mount::small(&folder, "8m") else { return };
    let log = open(&folder, false).await.unwrap();
    log.publish(vec![message("t", "one")]).await.unwrap();
    log.close().await;
    mount.again("ro");
    let refused = match open(&folder, false).await {
        Err(error) => std::error::Error::source(&error).map(ToString::to_string),
        Ok(log) => {
            let refused = log.publish(vec![message("t", "two")]).await.unwrap_err();
            std::error::Error::source(&refused).map(ToString::to_string)
        }
    };
    let refused = refused.unwrap();
    assert!(refused.contains("readonly") || refused.contains("unable to open"), "{refused}");
    let reading: DynLog = SqliteLog::open_read_only(&folder).await.unwrap();
    assert_eq!(stored(&reading).await, ["one".to_owned()].into());
    assert_eq!(reading.recount().await.unwrap().drift, []);
    reading.close().await;
    mount.again("rw");
    let log = open(&folder, false).await.unwrap();
    log.publish(vec![message("t", "two")]).await.unwrap();
    assert_eq!(stored(&log).await.len(), 2);
    log.close().await;
}

/// Cutting the file that fails, as for want of room, does not throw away what the log remembers
/// each second; and it is done when it can be.
#[tokio::test]
async fn a_cut_that_fails_is_tried_less_and_less_often() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let faults = Faults::default();
    faults.failing_cuts.store(u32::MAX, Ordering::Relaxed);
    let options = OpenOptions {
        create: true,
        serve: true,
        clock: Arc::<TestClock>::clone(&clock),
        faults: faults.clone(),
    };
    let log: DynLog = SqliteLog::open(folder.path(), options).await.unwrap();
    log.set_retain(Duration::ZERO, 0).await.unwrap();
    declare(&log, "t", "g", GroupPolicy::default()).await;
    for _ in 0..25 {
        let batch = (0..1_000).map(|_| NewMessage::new(topic("t"), vec![7_u8; 1_500]));
        log.publish(batch.collect()).await.unwrap();
    }
    loop {
        let claims = claim(&log, "t", "g", 5_000).await;
        if claims.is_empty() {
            break;
        }
        let acks = claims.iter().map(|claim| settlement(claim.token, acked()));
        for answer in log.settle(acks.collect()).await {
            answer.unwrap();
        }
    }
    log.sweep().await.unwrap();
    let free = async || log.health().await.unwrap().file.unwrap().free_pages;
    assert!(free().await > 4_096, "{}", free().await);
    // Each second of ten minutes, with a command between so that the writer has come by.
    let go_on = async |seconds: u64| {
        for _ in 0..seconds {
            clock.advance(s(1));
            publish(&log, "other", 1).await;
        }
    };
    go_on(600).await;
    let tried = faults.cuts.load(Ordering::Relaxed);
    assert!((2..=8).contains(&tried), "{tried} times in ten minutes");
    faults.failing_cuts.store(0, Ordering::Relaxed);
    for _ in 0..2_000 {
        go_on(1).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        if free().await <= 4_096 {
            break;
        }
    }
    assert!(free().await <= 4_096, "cut when it could be");
    assert!(folder.path().join(FILE_NAME).is_file());
    log.close().await;
}
