//! Faults that tests inject into the SQLite log, and what they may look at.

use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is to go wrong.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// So many of the next commits go through before any of them fails.
    pub spared_commits: Arc<AtomicU32>,
    /// So many of the commits after these fail in SQLite itself.
    pub failing_commits: Arc<AtomicU32>,
    /// What `pragma synchronous` said at each commit: 1 is NORMAL, 2 is FULL.
    pub commits: Arc<Mutex<Vec<i64>>>,
    /// So many of the next steps that cut the file fail.
    pub failing_cuts: Arc<AtomicU32>,
    /// How many steps that cut the file were begun.
    pub cuts: Arc<AtomicU32>,
    /// Bytes written before the log's own checkpoint; 0: as always.
    pub checkpoint_every: Arc<AtomicU64>,
    /// Every commit with synchronous = NORMAL: what a power loss then takes shows that a test sees it.
    pub never_sync: Arc<AtomicBool>,
}

impl Faults {
    /// A step that cuts the file is begun; whether it is to fail.
    pub(super) fn cut(&self) -> bool {
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        self.cuts.fetch_add(1, order);
        self.failing_cuts.fetch_update(order, order, one_less).is_ok()
    }

    /// Looks at the connection before a COMMIT; whether that is to fail.
    pub(super) async fn before_commit(&self, conn: &mut SqliteConnection) -> sqlx::Result<bool> {
        let row = query("pragma synchronous").fetch_one(&mut *conn).await?;
        self.commits.lock().unwrap_or_else(PoisonError::into_inner).push(row.try_get(0)?);
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.spared_commits.fetch_update(order, order, one_less).is_ok() {
            return Ok(false);
        }
        Ok(self.failing_commits.fetch_update(order, order, one_less).is_ok())
    }
}
