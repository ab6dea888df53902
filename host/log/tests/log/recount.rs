//! Rows counted again: every kept figure that is wrong is told, and none that is right.

#![allow(clippy::print_stdout, reason = "figures beside the verdict")]

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use windlass_core::{Disposition, GroupPolicy, NewMessage};
use windlass_log::clock::{SystemClock, TestClock};
use windlass_log::conformance::kit::{
    acked, bury_one, claim, claim_one, declare, group, message, policy, publish, retried, s,
    settle, settlement, topic,
};
use windlass_log::sqlite::{FILE_NAME, OpenOptions, SqliteLog};
use windlass_log::{DynLog, Recount};

/// Long enough on any machine for what takes milliseconds.
const SOON: Duration = Duration::from_mins(1);
/// No read of the file lasts so long, however much is stored; a step takes some milliseconds.
const SNAPSHOT_MAX: Duration = Duration::from_millis(500);

async fn open(folder: &Path, serve: bool) -> DynLog {
    let options =
        OpenOptions { create: true, serve, clock: Arc::new(SystemClock), ..Default::default() };
    SqliteLog::open(folder, options).await.unwrap()
}

async fn file(folder: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.join(FILE_NAME))
        .busy_timeout(Duration::from_secs(20));
    options.connect().await.unwrap()
}

async fn run(folder: &Path, statement: &str) {
    let mut file = file(folder).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement.to_owned())).execute(&mut file).await.unwrap();
    file.close().await.unwrap();
}

/// Something of all there is: a topic with two groups, of which one is at its beginning, with a
/// lease, what waits, what is parked, what is dead and what is cancelled; one without a group; and
/// one where the sweep has passed something by.
async fn fill(log: &DynLog) {
    declare(log, "t", "g", policy(5, s(300))).await;
    declare(log, "t", "slow", policy(5, s(300))).await;
    publish(log, "t", 9).await;
    for _ in 0..2 {
        let held = claim_one(log, "t", "g").await;
        settle(log, &held, retried(s(3_600))).await;
    }
    bury_one(log, "t", "g").await;
    claim_one(log, "t", "g").await;
    let mut keyed = [message("t", "1"), message("t", "2")];
    for one in &mut keyed {
        one.key = Some("k".into());
    }
    log.publish(keyed.to_vec()).await.unwrap();
    claim(log, "t", "g", 20).await;
    let last = publish(log, "t", 1).await.remove(0);
    log.cancel(last, Some(&group("slow"))).await.unwrap();
    publish(log, "alone", 3).await;
    log.set_retain(Duration::ZERO, 0).await.unwrap();
    declare(log, "swept", "g", policy(5, s(300))).await;
    publish(log, "swept", 3).await;
    bury_one(log, "swept", "g").await;
    for held in claim(log, "swept", "g", 3).await {
        settle(log, &held, acked()).await;
    }
    log.sweep().await.unwrap();
}

/// What was said to differ: `topic/group figure`, and by how much.
fn told(found: &Recount) -> BTreeSet<(String, i64)> {
    let tell = |drift: &windlass_log::Drift| {
        let group = drift.group.as_ref().map_or("", |group| group.as_str());
        (format!("{}/{group} {}", drift.topic, drift.figure), drift.kept - drift.found)
    };
    found.drift.iter().map(tell).collect()
}

/// Goal: each kept figure that is changed behind the log's back is told, by name and amount, and
/// nothing else is. Method: one at a time, in the file, and put right again.
#[tokio::test]
async fn every_kept_figure_that_drifts_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), false).await;
    fill(&log).await;
    log.close().await;
    let recount = async || {
        let log = SqliteLog::open_read_only(folder.path()).await.unwrap();
        let log: DynLog = log;
        let found = log.recount().await.unwrap();
        log.close().await;
        found
    };
    let clean = recount().await;
    assert_eq!((clean.topics, clean.groups, clean.disturbed), (3, 3, 0));
    assert_eq!(clean.drift, []);
    let of_topic = |name: &str| format!("where name = '{name}'");
    let of_group = |topic: &str, name: &str| {
        format!("where name = '{name}' and topic = (select id from topic {})", of_topic(topic))
    };
    for (table, column, which, figures) in [
        ("topic", "removed", of_topic("alone"), &["alone/ stored messages"][..]),
        ("topic", "removed_bytes", of_topic("t"), &["t/ stored bytes"]),
        ("topic", "stragglers", of_topic("swept"), &["swept/ messages behind the sweep"]),
        ("grp", "passed", of_group("t", "g"), &["t/g passed messages"]),
        ("grp", "passed_bytes", of_group("t", "slow"), &["t/slow passed bytes"]),
        ("grp", "passed", of_group("swept", "g"), &["swept/g passed messages"]),
        ("grp", "waiting", of_group("t", "g"), &["t/g waiting messages"]),
        ("grp", "waiting_bytes", of_group("t", "g"), &["t/g waiting bytes"]),
        ("grp", "parked", of_group("t", "g"), &["t/g parked messages"]),
        ("grp", "dead", of_group("t", "g"), &["t/g dead letters"]),
        ("grp", "skips", of_group("t", "slow"), &["t/slow cancelled ahead"]),
        ("lease", "n", "where id = (select min(id) from lease)".into(), &["t/g leased messages"]),
        ("lease", "bytes", "where id = (select min(id) from lease)".into(), &["t/g leased bytes"]),
    ] {
        for by in [7, -1_000] {
            let change = |by: i64| format!("update {table} set {column} = {column} + {by} {which}");
            run(folder.path(), &change(by)).await;
            let found = told(&recount().await);
            run(folder.path(), &change(-by)).await;
            let sign = if column.starts_with("removed") { -1 } else { 1 };
            let expected = figures.iter().map(|figure| ((*figure).to_owned(), sign * by));
            assert_eq!(found, expected.collect(), "{table}.{column} by {by}");
        }
    }
    let unclaimed =
        "update topic set unclaimed = '[{\"lo\":0,\"hi\":null,\"messages\":2,\"bytes\":0}]'
        where name = 'alone'";
    run(folder.path(), unclaimed).await;
    let found = told(&recount().await);
    assert_eq!(found, [("alone/ unclaimed messages".to_owned(), 2)].into());
    run(folder.path(), "update topic set unclaimed = '?' where name = 'alone'").await;
    let found = told(&recount().await);
    assert_eq!(found, [("alone/ unclaimed ranges that can be read".to_owned(), 1)].into());
}

/// Rows that are lost, with the figures left as they were, are found as well.
#[tokio::test]
async fn a_row_that_is_gone_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), false).await;
    fill(&log).await;
    for (statement, figures) in [
        (
            "delete from waiting where state = 0 and seq = 1",
            &["t/g waiting bytes", "t/g waiting messages"][..],
        ),
        ("delete from dead where grp = 1", &["t/g dead letters"]),
        (
            "delete from message where id = (select min(id) from message)",
            &[
                "t/ stored bytes",
                "t/ stored messages",
                "t/slow passed bytes",
                "t/slow passed messages",
            ],
        ),
    ] {
        let before = told(&log.recount().await.unwrap());
        run(folder.path(), statement).await;
        let after = told(&log.recount().await.unwrap());
        let names: Vec<&str> = after.difference(&before).map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, figures, "{statement}");
    }
}

/// A log that is served counts by itself, keeps what it found to be asked, and goes on doing so.
#[tokio::test]
async fn a_served_log_recounts_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let options = OpenOptions {
        create: true,
        serve: true,
        clock: Arc::<TestClock>::clone(&clock),
        ..Default::default()
    };
    let log: DynLog = SqliteLog::open(folder.path(), options).await.unwrap();
    declare(&log, "t", "g", policy(5, s(300))).await;
    publish(&log, "t", 3).await;
    assert_eq!(log.health().await.unwrap().recount, None);
    let round = async |span: u64| {
        let since = log.now();
        let start = Instant::now();
        loop {
            // Whoever sleeps on it may not have begun when it moves.
            clock.advance(s(span));
            tokio::time::sleep(Duration::from_millis(5)).await;
            let found = log.health().await.unwrap().recount;
            if let Some(found) = found.filter(|found| found.at > since) {
                return found;
            }
            assert!(start.elapsed() < SOON, "a recount");
        }
    };
    let first = round(60).await;
    assert_eq!((first.topics, first.groups, first.drift.len()), (1, 1, 0));
    run(folder.path(), "update grp set dead = 4").await;
    let second = round(600).await;
    assert_eq!(told(&second), [("t/g dead letters".to_owned(), 4)].into());
    run(folder.path(), "update grp set dead = 0").await;
    assert_eq!(round(600).await.drift, []);
    log.close().await;
    assert!(log.recount().await.is_err());
}

/// Goal: nothing is told to differ while others publish, claim, settle, bury, cancel and sweep, in
/// topics that take several steps too. Method: as many recounts as fit beside that work; then, with
/// nobody at work, one that is not disturbed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_drifts_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    let reading = SqliteLog::open_read_only(folder.path()).await.unwrap();
    let reading: DynLog = reading;
    let wide = GroupPolicy { in_flight_max: NonZeroU32::MAX, ..policy(3, s(300)) };
    for name in ["a", "b"] {
        declare(&log, "t", name, wide.clone()).await;
    }
    for _ in 0..10 {
        publish(&log, "t", 3_000).await;
    }
    log.set_retain(Duration::ZERO, 5_000).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    {
        let (log, stop) = (log.clone(), stop.clone());
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                publish(&log, "t", 500).await;
            }
        });
    }
    for name in ["a", "b"] {
        let (log, stop) = (log.clone(), stop.clone());
        tasks.spawn(async move {
            let mut n = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let claims = claim(&log, "t", name, 700).await;
                let settlements = claims.iter().map(|claim| {
                    n += 1;
                    let disposition = match n % 11 {
                        0 => retried(Duration::ZERO),
                        1 => retried(s(100)),
                        2 => Disposition::DeadLetter,
                        3 => Disposition::Release,
                        _ => acked(),
                    };
                    settlement(claim.token, disposition)
                });
                for answer in log.settle(settlements.collect()).await {
                    answer.unwrap();
                }
            }
        });
    }
    let start = Instant::now();
    let (mut rounds, mut disturbed, mut longest, mut rows) = (0, 0, Duration::ZERO, 0);
    while start.elapsed() < Duration::from_secs(4) || rounds < 6 {
        for log in [&log, &reading] {
            let found = log.recount().await.unwrap();
            assert_eq!(found.drift, [], "round {rounds}");
            (rounds, disturbed) = (rounds + 1, disturbed + found.disturbed);
            (longest, rows) = (longest.max(found.longest), rows.max(found.rows));
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    println!(
        "{rounds} recounts of up to {rows} rows, {disturbed} disturbed, longest {longest:.1?}"
    );
    assert!(rows > 20_000, "several steps");
    log.close().await;
    let last = open(folder.path(), false).await.recount().await.unwrap();
    assert_eq!((last.drift, last.disturbed), (vec![], 0));
}

async fn recount_of(messages: usize) {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    let wide = GroupPolicy { in_flight_max: NonZeroU32::MAX, ..GroupPolicy::default() };
    declare(&log, "t", "g", wide).await;
    for _ in 0..messages / 1_000 {
        let batch = (0..1_000).map(|_| NewMessage::new(topic("t"), vec![7_u8; 256]));
        log.publish(batch.collect()).await.unwrap();
    }
    // A tenth waits for later.
    for _ in 0..messages / 10_000 {
        let claims = claim(&log, "t", "g", 1_000).await;
        let later = claims.iter().map(|claim| settlement(claim.token, retried(s(3_600))));
        for answer in log.settle(later.collect()).await {
            answer.unwrap();
        }
    }
    let start = Instant::now();
    let found = log.recount().await.unwrap();
    println!(
        "{messages} messages: {} rows in {:.1?}, no snapshot longer than {:.1?}",
        found.rows,
        start.elapsed(),
        found.longest
    );
    assert_eq!((found.drift.len(), found.disturbed), (0, 0));
    assert!(found.rows >= messages as u64 && found.longest < SNAPSHOT_MAX, "{found:?}");
    run(folder.path(), "update topic set removed = 1").await;
    let found = told(&log.recount().await.unwrap());
    assert_eq!(found, [("t/ stored messages".to_owned(), -1)].into());
    log.close().await;
}

/// However much is stored, no read of the file lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recount_of_many_holds_no_snapshot_for_long() {
    recount_of(100_000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the same with a million"]
async fn a_recount_of_a_million_holds_no_snapshot_for_long() {
    recount_of(1_000_000).await;
}
