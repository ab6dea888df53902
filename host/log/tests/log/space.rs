//! What a log's files take: they stay bounded under load, and shrink while the log runs.

#![allow(clippy::print_stdout, reason = "figures beside the verdict")]

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use windlass_core::{GroupPolicy, NewMessage};
use windlass_log::DynLog;
use windlass_log::conformance::kit::{acked, claim, declare, settlement, topic};
use windlass_log::sqlite::{FILE_NAME, OpenOptions, SqliteLog};

const MIB: u64 = 1 << 20;
/// What the write-ahead log is cut back to.
const WAL_CAP: u64 = 64 * MIB;
/// Long enough on any machine for what takes a second or two.
const SOON: Duration = Duration::from_mins(1);

async fn open(folder: &Path, serve: bool) -> DynLog {
    let options = OpenOptions { create: true, serve, ..OpenOptions::default() };
    SqliteLog::open(folder, options).await.unwrap()
}

fn size(folder: &Path, end: &str) -> u64 {
    std::fs::metadata(folder.join(format!("{FILE_NAME}{end}"))).map_or(0, |meta| meta.len())
}

fn wal(folder: &Path) -> u64 {
    size(folder, "-wal")
}

/// Publishers that never stop: 64 that wait for their answers, 1 KiB each.
struct Load(Vec<JoinHandle<()>>);

impl Load {
    fn start(log: &DynLog) -> Self {
        let task = |log: DynLog| async move {
            loop {
                let message = NewMessage::new(topic("t"), vec![7_u8; 1_024]);
                log.publish(vec![message]).await.unwrap();
            }
        };
        Self((0..64).map(|_| tokio::spawn(task(log.clone()))).collect())
    }

    async fn stop(self) {
        for task in self.0 {
            task.abort();
            drop(task.await);
        }
    }
}

/// A program that reads and does not let go.
async fn outside_reader(folder: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join(FILE_NAME));
    let mut conn = options.connect().await.unwrap();
    sqlx::query("begin").execute(&mut conn).await.unwrap();
    let _some: i64 =
        sqlx::query_scalar("select count(*) from topic").fetch_one(&mut conn).await.unwrap();
    conn
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < SOON, "{what} in time");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    start.elapsed()
}

/// Publishes until so much is stored; the largest the write-ahead log was.
async fn store(log: &DynLog, folder: &Path, bytes: u64) -> u64 {
    let load = Load::start(log);
    let (mut most, mut longest) = (0, 0);
    let before = log.topic(&topic("t")).await.unwrap().map_or(0, |topic| topic.bytes);
    until("stored", || {
        most = most.max(wal(folder));
        longest = longest.max(size(folder, ""));
        longest > before + bytes || most > before + bytes
    })
    .await;
    load.stop().await;
    most
}

/// With nobody but Windlass the write-ahead log stays small, whoever writes however fast: one that
/// serves, and one that only publishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_ahead_log_stays_small_under_a_saturating_publisher() {
    for serve in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path(), serve).await;
        let most = store(&log, folder.path(), 128 * MIB).await;
        println!("serve {serve}: at most {} MiB of write-ahead log", most / MIB);
        assert!(most <= WAL_CAP, "{most}");
        log.close().await;
        assert_eq!(wal(folder.path()), 0);
    }
}

/// Two processes that write without a pause do not keep it from beginning anew either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_ahead_log_stays_small_with_two_that_write() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (open(folder.path(), true).await, open(folder.path(), true).await);
    let other = Load::start(&two);
    let most = store(&one, folder.path(), 128 * MIB).await;
    other.stop().await;
    println!("at most {} MiB of write-ahead log", most / MIB);
    assert!(most <= WAL_CAP * 3 / 2, "{most}");
    one.close().await;
    two.close().await;
}

/// A reader that does not let go makes it grow, as SQLite must keep what that sees; publishers go
/// on, and when it lets go the write-ahead log comes back to size: under load, and when idle.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_write_ahead_log_comes_back_when_an_outside_reader_lets_go() {
    for busy in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let log = open(folder.path(), true).await;
        declare(&log, "t", "g", GroupPolicy::default()).await;
        let reader = outside_reader(folder.path()).await;
        let load = Load::start(&log);
        until("grown", || wal(folder.path()) > WAL_CAP * 2).await;
        let load = if busy {
            Some(load)
        } else {
            load.stop().await;
            None
        };
        let grown = wal(folder.path());
        reader.close().await.unwrap();
        let span = until("back to size", || wal(folder.path()) <= WAL_CAP).await;
        println!("busy {busy}: from {} MiB in {span:.1?}", grown / MIB);
        if let Some(load) = load {
            load.stop().await;
        }
        log.close().await;
    }
}

async fn settle_all(log: &DynLog) {
    loop {
        let claims = claim(log, "t", "g", 4_000).await;
        if claims.is_empty() {
            return;
        }
        let acks = claims.iter().map(|claim| settlement(claim.token, acked())).collect();
        for answer in log.settle(acks).await {
            answer.unwrap();
        }
    }
}

async fn shrinks(messages: usize, bytes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    log.set_retain(Duration::ZERO, 0).await.unwrap();
    let policy = GroupPolicy { in_flight_max: NonZeroU32::MAX, ..GroupPolicy::default() };
    declare(&log, "t", "g", policy).await;
    let alone = publish_for(&log, Duration::from_secs(1)).await;
    for _ in 0..messages / 1_000 {
        let message = || NewMessage::new(topic("t"), vec![7_u8; bytes]);
        log.publish((0..1_000).map(|_| message()).collect()).await.unwrap();
    }
    let largest = size(folder.path(), "") + wal(folder.path());
    let beside = tokio::spawn({
        let log = log.clone();
        async move { publish_for(&log, Duration::from_secs(6)).await }
    });
    settle_all(&log).await;
    let span = until("cut", || size(folder.path(), "") + wal(folder.path()) < largest / 3).await;
    let beside = beside.await.unwrap();
    let [from, to] = [largest / MIB, (size(folder.path(), "") + wal(folder.path())) / MIB];
    println!("{messages} messages: from {from} to {to} MiB in {span:.1?}");
    println!("longest publish: {alone:.1?} before, {beside:.1?} meanwhile");
    assert!(beside < Duration::from_secs(2), "nobody waits long");
    log.close().await;
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.path().join(FILE_NAME));
    let mut conn = options.connect().await.unwrap();
    let check: String =
        sqlx::query_scalar("pragma quick_check").fetch_one(&mut conn).await.unwrap();
    assert_eq!(check, "ok");
    conn.close().await.unwrap();
}

/// One that publishes each millisecond; the longest it waited.
async fn publish_for(log: &DynLog, span: Duration) -> Duration {
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    while start.elapsed() < span {
        let asked = Instant::now();
        log.publish(vec![NewMessage::new(topic("other"), "x")]).await.unwrap();
        longest = longest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    longest
}

/// What the sweep frees goes back to the file system while the log runs, and publishers go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_shrinks_while_running_when_much_was_swept() {
    shrinks(100_000, 1_024).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the same with a million"]
async fn the_file_shrinks_after_a_million() {
    shrinks(1_000_000, 256).await;
}
