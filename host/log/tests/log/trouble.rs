//! Several processes, failed commits, damaged records: what a review found, as the right value.

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use windlass_core::{Disposition, GroupPolicy};
use windlass_log::DeadLetterFilter;
use windlass_log::clock::{SystemClock, TestClock};
use windlass_log::conformance::kit::{
    acked, claim, claim_one, declare, group, message, policy, publish, retried, s, settle,
    settlement, topic,
};
use windlass_log::sqlite::{FILE_NAME, Faults, OpenOptions, SqliteLog};
use windlass_log::{Claim, DynLog, LogError, Waiter};

/// Long enough on any machine for what takes milliseconds.
const SOON: Duration = Duration::from_secs(20);

async fn open(folder: &Path, serve: bool) -> DynLog {
    open_at(folder, serve, None, Faults::default()).await
}

async fn open_at(
    folder: &Path,
    serve: bool,
    clock: Option<&Arc<TestClock>>,
    faults: Faults,
) -> DynLog {
    let clock: Arc<dyn windlass_log::clock::Clock> = match clock {
        Some(clock) => Arc::<TestClock>::clone(clock),
        None => Arc::new(SystemClock),
    };
    let options = OpenOptions { create: true, serve, clock, faults };
    SqliteLog::open(folder, options).await.unwrap()
}

async fn file(folder: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join(FILE_NAME));
    options.connect().await.unwrap()
}

async fn ack_each(log: &DynLog, claims: &[Claim]) {
    let settlements = claims.iter().map(|claim| settlement(claim.token, acked())).collect();
    for answer in log.settle(settlements).await {
        answer.unwrap();
    }
}

async fn is_woken(waiter: &Waiter) -> bool {
    tokio::time::timeout(SOON, waiter.woken()).await.is_ok()
}

/// Takes wake-ups until none has come for a moment.
async fn settle_down(waiter: &Waiter) {
    while tokio::time::timeout(s(0) + Duration::from_millis(100), waiter.woken()).await.is_ok() {}
}

/// The sweep of one process must not write what it remembers over another's commit: with a
/// publisher beside a consumer whose settled messages go at once, the counts stay the file's.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_sweep_never_overwrites_another_processes_commit() {
    let folder = tempfile::tempdir().unwrap();
    let here = open(folder.path(), true).await;
    here.set_retain(Duration::ZERO, 0).await.unwrap();
    declare(&here, "t", "g", GroupPolicy::default()).await;
    let there = open(folder.path(), false).await;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let beside = tokio::spawn(async move {
        let mut published = 0;
        while !stopped.load(Ordering::Relaxed) {
            publish(&there, "t", 1).await;
            published += 1;
            tokio::task::yield_now().await;
        }
        published
    });
    let (mut published, mut given) = (0, 0);
    for _ in 0..12 {
        published += publish(&here, "t", 3_000).await.len();
        loop {
            let claims = claim(&here, "t", "g", 500).await;
            given += claims.len();
            ack_each(&here, &claims).await;
            if claims.len() < 500 {
                break;
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    published += beside.await.unwrap();
    loop {
        let claims = claim(&here, "t", "g", 5_000).await;
        if claims.is_empty() {
            break;
        }
        given += claims.len();
        ack_each(&here, &claims).await;
    }
    assert_eq!(given, published);
    let counts = here.topic(&topic("t")).await.unwrap().unwrap().counts;
    assert_eq!(counts.lag(), 0);
    let mut file = file(folder.path()).await;
    let (of_topic, passed): (i64, i64) =
        sqlx::query_as("select t.published, g.passed from topic t join grp g on g.topic = t.id")
            .fetch_one(&mut file)
            .await
            .unwrap();
    assert_eq!((of_topic, passed), (published as i64, published as i64));
    file.close().await.unwrap();
}

/// Whichever transaction of ours first sees that another process has committed, the waiters hear
/// of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_publish_of_another_process_wakes_a_busy_one() {
    let folder = tempfile::tempdir().unwrap();
    let here = open(folder.path(), true).await;
    declare(&here, "t", "g", GroupPolicy::default()).await;
    let there = open(folder.path(), false).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut busy = Vec::new();
    for _ in 0..4 {
        let (here, stop) = (Arc::clone(&here), Arc::clone(&stop));
        busy.push(tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                publish(&here, "elsewhere", 1).await;
            }
        }));
    }
    let waiter = here.waiter(&topic("t"), &group("g"));
    for round in 0..10 {
        settle_down(&waiter).await;
        publish(&there, "t", 1).await;
        assert!(is_woken(&waiter).await, "round {round}");
    }
    stop.store(true, Ordering::Relaxed);
    for task in busy {
        task.await.unwrap();
    }
}

/// A failed commit empties every cache; what waits for its time is not forgotten with them.
#[tokio::test]
async fn a_retry_wakes_after_a_failed_commit() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let faults = Faults::default();
    let log = open_at(folder.path(), true, Some(&clock), faults.clone()).await;
    declare(&log, "t", "g", policy(5, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    settle(&log, &held, retried(s(20))).await;
    faults.failing_commits.store(u32::MAX, Ordering::Relaxed);
    assert!(log.publish(vec![message("x", "x")]).await.is_err());
    faults.failing_commits.store(0, Ordering::Relaxed);
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    let waiter = log.waiter(&topic("t"), &group("g"));
    clock.advance(s(2));
    settle_down(&waiter).await;
    assert!(claim(&log, "t", "g", 1).await.is_empty());
    clock.advance(s(20));
    assert!(is_woken(&waiter).await);
    assert_eq!(claim(&log, "t", "g", 1).await.len(), 1);
}

/// A handler succeeded on its last attempt, but its ack could not be written until after the
/// lease's end: the ack that was kept comes first.
#[tokio::test]
async fn a_kept_ack_comes_before_the_end_of_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let faults = Faults::default();
    let log = open_at(folder.path(), true, Some(&clock), faults.clone()).await;
    declare(&log, "t", "g", policy(1, s(30))).await;
    publish(&log, "t", 1).await;
    let held = claim_one(&log, "t", "g").await;
    clock.advance(s(29));
    // All commits fail for a while, those of the log's own upkeep too.
    faults.failing_commits.store(u32::MAX, Ordering::Relaxed);
    let ack = || vec![settlement(held.token, acked())];
    assert!(log.settle(ack()).await.remove(0).is_err());
    faults.failing_commits.store(0, Ordering::Relaxed);
    clock.advance(s(2));
    assert!(claim(&log, "t", "g", 1).await.is_empty(), "the lease has ended, the ack is kept");
    assert_eq!(log.settle(ack()).await.remove(0).unwrap(), windlass_log::Settled::Applied);
    let counts = log.topic(&topic("t")).await.unwrap().unwrap().counts;
    assert_eq!((counts.dead, counts.lag()), (0, 0));
}

/// The lease of a process that died wakes those who are left, when it ends.
#[tokio::test]
async fn the_lease_of_a_dead_process_wakes_another_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let here = open_at(folder.path(), true, Some(&clock), Faults::default()).await;
    declare(&here, "t", "g", policy(5, s(30))).await;
    publish(&here, "t", 1).await;
    let there = open_at(folder.path(), true, Some(&clock), Faults::default()).await;
    claim_one(&there, "t", "g").await;
    drop(there);
    let waiter = here.waiter(&topic("t"), &group("g"));
    assert!(claim(&here, "t", "g", 1).await.is_empty());
    clock.advance(s(2));
    settle_down(&waiter).await;
    clock.advance(s(30));
    assert!(is_woken(&waiter).await);
    assert_eq!(claim(&here, "t", "g", 1).await.len(), 1);
}

/// Who found no room under the in-flight limit hears of it when there is some.
#[tokio::test]
async fn room_under_the_in_flight_limit_wakes() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    let limited =
        GroupPolicy { in_flight_max: NonZeroU32::new(2).unwrap(), ..GroupPolicy::default() };
    declare(&log, "t", "g", limited.clone()).await;
    publish(&log, "t", 6).await;
    let held = claim(&log, "t", "g", 2).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    settle_down(&waiter).await;
    assert!(claim(&log, "t", "g", 2).await.is_empty());
    ack_each(&log, &held).await;
    assert!(is_woken(&waiter).await);
    assert_eq!(claim(&log, "t", "g", 2).await.len(), 2);
    settle_down(&waiter).await;
    let wider = GroupPolicy { in_flight_max: NonZeroU32::new(4).unwrap(), ..limited };
    declare(&log, "t", "g", wider).await;
    assert!(is_woken(&waiter).await, "the limit was raised");
}

/// An ack whose sends would need a topic for which no number is left changes nothing.
#[tokio::test]
async fn an_ack_that_finds_no_number_for_a_topic_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), false).await;
    declare(&log, "t", "g", GroupPolicy::default()).await;
    publish(&log, "t", 1).await;
    let mut file = file(folder.path()).await;
    sqlx::query(
        "insert into topic(id, name, published, published_bytes, removed, removed_bytes, swept,
           stragglers, unclaimed, floors, gone)
         values ((1 << 20) - 1, 'last', 0, 0, 0, 0, 0, 0, '[]', '[]', 0)",
    )
    .execute(&mut file)
    .await
    .unwrap();
    file.close().await.unwrap();
    let held = claim_one(&log, "t", "g").await;
    let both = || vec![message("last", "1"), message("fresh", "2")];
    let sending = settlement(held.token, Disposition::Ack { sends: both() });
    let refused = log.settle(vec![sending]).await.remove(0).unwrap_err();
    assert!(matches!(refused, LogError::Exhausted(_)), "{refused}");
    let refused = log.publish(both()).await.unwrap_err();
    assert!(matches!(refused, LogError::Exhausted(_)), "{refused}");
    let of_last = log.topic(&topic("last")).await.unwrap().unwrap();
    assert_eq!(of_last.counts.ready, 0, "nothing of a refused batch is stored");
    ack_each(&log, &[held]).await;
}

/// A lease whose record is damaged costs a dead letter, which lives on like any other.
#[tokio::test]
async fn an_unreadable_lease_becomes_a_dead_letter_that_can_be_redriven() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    declare(&log, "t", "g", policy(9, s(300))).await;
    publish(&log, "t", 2).await;
    for _ in 0..3 {
        let held = claim_one(&log, "t", "g").await;
        settle(&log, &held, retried(Duration::ZERO)).await;
    }
    let before = claim_one(&log, "t", "g").await;
    log.close().await;
    let mut file = file(folder.path()).await;
    sqlx::query("update lease set batch = x'ff'").execute(&mut file).await.unwrap();
    file.close().await.unwrap();
    let log = open(folder.path(), true).await;
    let other = claim_one(&log, "t", "g").await;
    assert_ne!(other.message.id, before.message.id, "the damage costs that record only");
    let counts = log.topic(&topic("t")).await.unwrap().unwrap().counts;
    assert_eq!((counts.dead, counts.leased), (1, 1));
    assert_eq!(
        log.redrive(&topic("t"), None, &DeadLetterFilter::default()).await.unwrap().moved,
        1
    );
    let again = claim_one(&log, "t", "g").await;
    assert_eq!((again.message.id, again.attempt), (before.message.id, 1));
    settle(&log, &again, retried(Duration::ZERO)).await;
    ack_each(&log, &[claim_one(&log, "t", "g").await, other]).await;
    assert_eq!(log.topic(&topic("t")).await.unwrap().unwrap().counts.lag(), 0);
}

/// Who waits when the log ends does not wait for ever.
#[tokio::test]
async fn the_end_of_the_log_wakes_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path(), true).await;
    let waiter = log.waiter(&topic("t"), &group("g"));
    settle_down(&waiter).await;
    log.close().await;
    assert!(is_woken(&waiter).await && waiter.is_over());
    assert!(is_woken(&log.waiter(&topic("t"), &group("g"))).await, "and who comes later");
}
