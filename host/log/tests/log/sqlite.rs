//! The SQLite log against the suite.

use async_trait::async_trait;
use sqlx::{ConnectOptions, Connection};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use windlass_core::MessageId;
use windlass_log::DynLog;
use windlass_log::clock::TestClock;
use windlass_log::conformance::Harness;
use windlass_log::sqlite::{FILE_NAME, Faults, OpenOptions, SqliteLog};

/// A log in a folder of its own, on a clock that stands still.
pub(crate) struct SqliteHarness {
    folder: TempDir,
    clock: Arc<TestClock>,
    log: Mutex<Arc<SqliteLog>>,
    serve: bool,
    faults: Faults,
}

impl SqliteHarness {
    pub(crate) async fn open() -> Self {
        Self::with(true).await
    }

    /// A log that does nothing by itself and whose commits can be made to fail. Nothing is synced:
    /// no power is lost here.
    pub(crate) async fn faulty() -> (Self, Faults) {
        let harness = Self::with(false).await;
        harness.faults.never_sync.store(true, Ordering::Relaxed);
        let faults = harness.faults.clone();
        (harness, faults)
    }

    async fn with(serve: bool) -> Self {
        let (folder, faults) = (tempfile::tempdir().unwrap(), Faults::default());
        let clock = Arc::new(TestClock::default());
        let log = open(&folder, &clock, serve, &faults).await;
        Self { folder, clock, log: Mutex::new(log), serve, faults }
    }
}

async fn open(
    folder: &TempDir,
    clock: &Arc<TestClock>,
    serve: bool,
    faults: &Faults,
) -> Arc<SqliteLog> {
    let (clock, faults) = (Arc::<TestClock>::clone(clock), faults.clone());
    let options = OpenOptions { create: true, serve, clock, faults };
    SqliteLog::open(folder.path(), options).await.unwrap()
}

#[async_trait]
impl Harness for SqliteHarness {
    fn log(&self) -> DynLog {
        Arc::<SqliteLog>::clone(&self.log.lock().unwrap())
    }

    async fn reopen(&self) -> DynLog {
        self.log().close().await;
        self.crash().await
    }

    async fn crash(&self) -> DynLog {
        let log = open(&self.folder, &self.clock, self.serve, &self.faults).await;
        *self.log.lock().unwrap() = Arc::clone(&log);
        log
    }

    async fn second_process(&self) -> Option<DynLog> {
        Some(open(&self.folder, &self.clock, self.serve, &self.faults).await)
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }

    async fn corrupt(&self, id: MessageId) -> bool {
        let mut conn = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(self.folder.path().join(FILE_NAME))
            .connect()
            .await
            .unwrap();
        let changed = sqlx::query("update message set record = x'01ff' where id & ? = ?")
            .bind((1_i64 << 43) - 1)
            .bind(id.sequence.0.cast_signed())
            .execute(&mut conn)
            .await
            .unwrap();
        conn.close().await.unwrap();
        changed.rows_affected() == 1
    }
}

windlass_log::conformance!(SqliteHarness::open());
