//! Files that are not a log, or not one of ours to open.

use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{NewMessage, Topic};
use windlass_log::clock::TestClock;
use windlass_log::sqlite::{FILE_NAME, OpenError, OpenOptions, SqliteLog};
use windlass_log::{LogAdmin, MessageLog};

async fn open(folder: &Path, create: bool) -> Result<(), OpenError> {
    let options = OpenOptions { create, ..OpenOptions::default() };
    let log = SqliteLog::open(folder, options).await?;
    log.close().await;
    Ok(())
}

async fn file(folder: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(folder.join(FILE_NAME))
        .create_if_missing(true);
    options.connect().await.unwrap()
}

#[tokio::test]
async fn a_log_that_is_not_there_is_not_made_unless_asked() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("deep").join(".windlass");
    assert!(matches!(open(&missing, false).await, Err(OpenError::Missing(_))));
    assert!(!missing.exists() && !folder.path().join("deep").exists());
    open(&missing, true).await.unwrap();
    open(&missing, false).await.unwrap();
}

/// the file and each record say which version they are.
#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), true).await.unwrap();
    let mut newer = file(folder.path()).await;
    sqlx::raw_sql("pragma user_version = 99").execute(&mut newer).await.unwrap();
    let error = open(folder.path(), true).await.unwrap_err();
    assert!(matches!(error, OpenError::Newer { found: 99, .. }), "{error}");
    let (found,): (i64,) =
        sqlx::query_as("pragma user_version").fetch_one(&mut newer).await.unwrap();
    assert_eq!(found, 99);
    newer.close().await.unwrap();
}

/// It is not misread.
#[tokio::test]
async fn an_older_schema_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), true).await.unwrap();
    let mut older = file(folder.path()).await;
    sqlx::raw_sql("pragma user_version = 1").execute(&mut older).await.unwrap();
    let error = open(folder.path(), true).await.unwrap_err();
    assert!(matches!(error, OpenError::Older { found: 1, .. }), "{error}");
    older.close().await.unwrap();
}

#[tokio::test]
async fn another_programs_file_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut other = file(folder.path()).await;
    sqlx::raw_sql("create table theirs(a); insert into theirs values(1)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    let before = std::fs::read(folder.path().join(FILE_NAME)).unwrap();
    assert!(matches!(open(folder.path(), true).await, Err(OpenError::Foreign(_))));
    assert_eq!(std::fs::read(folder.path().join(FILE_NAME)).unwrap(), before);

    let folder = tempfile::tempdir().unwrap();
    let garbage = "not a database, whatever its name says. ".repeat(100);
    std::fs::write(folder.path().join(FILE_NAME), &garbage).unwrap();
    assert!(matches!(open(folder.path(), true).await, Err(OpenError::Foreign(_))));
    assert_eq!(std::fs::read_to_string(folder.path().join(FILE_NAME)).unwrap(), garbage);
}

/// A time that ids cannot say would be there for good: it is not written, and not gone on from.
#[tokio::test]
async fn a_time_beyond_all_ids_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let open = async || {
        let clock = Arc::<TestClock>::clone(&clock);
        let options = OpenOptions { create: true, clock, ..OpenOptions::default() };
        SqliteLog::open(folder.path(), options).await
    };
    open().await.unwrap().close().await;
    // A wall clock at its end: the log goes on without it.
    clock.step_wall(i64::MAX);
    clock.reboot("boot-2");
    let log = open().await.unwrap();
    assert!(log.now().0 < 1_800_000_000_000, "{}", log.now());
    log.close().await;
    let mut file = file(folder.path()).await;
    for damage in [
        "update state set last_ms = 9223372036854775807, boot_id = 'other'",
        "update state set last_ms = 1, offset_ms = 9223372036854775807, boot_id = 'boot-2'",
    ] {
        sqlx::query(damage).execute(&mut file).await.unwrap();
        let state = "select last_ms || ' ' || offset_ms || boot_id from state";
        let before: String = sqlx::query_scalar(state).fetch_one(&mut file).await.unwrap();
        let error = open().await.unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        let after: String = sqlx::query_scalar(state).fetch_one(&mut file).await.unwrap();
        assert_eq!(after, before);
    }
    file.close().await.unwrap();
}

/// What an operator is to be told of a boot at a bad hour.
#[tokio::test]
async fn how_far_log_time_is_ahead_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let open = async || {
        let clock = Arc::<TestClock>::clone(&clock);
        let options = OpenOptions { create: true, clock, ..OpenOptions::default() };
        SqliteLog::open(folder.path(), options).await.unwrap()
    };
    let log = open().await;
    assert_eq!(log.ahead_of_wall(), Duration::ZERO);
    log.close().await;
    clock.step_wall(3_600_000);
    clock.reboot("boot-2");
    let log = open().await;
    log.publish(vec![NewMessage::new(Topic::new("t").unwrap(), "x")]).await.unwrap();
    assert_eq!(log.ahead_of_wall(), Duration::ZERO, "the hour is taken for the right one");
    log.close().await;
    clock.step_wall(-3_600_000);
    clock.reboot("boot-3");
    let log = open().await;
    assert_eq!(log.ahead_of_wall(), Duration::from_hours(1));
    clock.step_wall(7_200_000);
    assert_eq!(log.ahead_of_wall(), Duration::ZERO, "behind is not ahead");
    log.close().await;
}

/// one folder an environment; two folders share nothing.
#[tokio::test]
async fn each_folder_is_a_log_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let topic = Topic::new("t").unwrap();
    for name in ["production", "preview"] {
        let options = OpenOptions { create: true, ..OpenOptions::default() };
        let log = SqliteLog::open(&folder.path().join(name), options).await.unwrap();
        assert_eq!(log.topic(&topic).await.unwrap(), None, "{name}");
        log.publish(vec![NewMessage::new(topic.clone(), name)]).await.unwrap();
        assert_eq!(log.topic(&topic).await.unwrap().unwrap().counts.ready, 1);
        log.close().await;
    }
}

/// Looking does not write: a reader beside a busy log must not empty its caches.
#[tokio::test]
async fn opening_a_log_commits_nothing() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), true).await.unwrap();
    let mut watcher = file(folder.path()).await;
    let version = async |watcher: &mut SqliteConnection| -> i64 {
        sqlx::query_scalar("pragma data_version").fetch_one(watcher).await.unwrap()
    };
    let before = version(&mut watcher).await;
    open(folder.path(), false).await.unwrap();
    assert_eq!(version(&mut watcher).await, before);
    watcher.close().await.unwrap();
}

/// Short-lived processes that come and go: the last to leave has the file to itself for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_that_open_and_close_beside_each_other_find_no_locked_file() {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path(), true).await.unwrap();
    let come_and_go = |path: std::path::PathBuf| async move {
        for _ in 0..100 {
            let log = SqliteLog::open(&path, OpenOptions::default()).await.unwrap();
            let message = NewMessage::new(Topic::new("t").unwrap(), "x");
            log.publish(vec![message]).await.unwrap();
            log.close().await;
        }
    };
    let tasks: Vec<_> =
        (0..3).map(|_| tokio::spawn(come_and_go(folder.path().to_owned()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Goal: of those who make the same log at the same moment each has it. Method: a hundred times.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_log_that_several_make_at_once_is_made_once() {
    for round in 0..100 {
        let folder = tempfile::tempdir().unwrap();
        let place: Arc<Path> = folder.path().join("log").into();
        let openings: Vec<_> = (0..4)
            .map(|_| {
                let place = Arc::clone(&place);
                tokio::spawn(async move { open(&place, true).await })
            })
            .collect();
        for opening in openings {
            let opened = opening.await.unwrap();
            assert!(opened.is_ok(), "round {round}: {opened:?}");
        }
        let mut made = file(&place).await;
        let (kind,): (i64,) =
            sqlx::query_as("pragma auto_vacuum").fetch_one(&mut made).await.unwrap();
        assert_eq!(kind, 2, "round {round}: it gives space back");
        made.close().await.unwrap();
    }
}
