//! Faults that tests inject into the SQLite log.

use sqlx::query;
use sqlx::sqlite::SqliteConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What is to go wrong.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// So many of the next commits fail in SQLite itself.
    pub failing_commits: Arc<AtomicU32>,
}

impl Faults {
    /// Takes the transaction away, so that the COMMIT that follows answers an error.
    pub(super) async fn before_commit(&self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        let one_less = |left: u32| left.checked_sub(1);
        let order = Ordering::Relaxed;
        if self.failing_commits.fetch_update(order, order, one_less).is_ok() {
            query("rollback").execute(conn).await?;
        }
        Ok(())
    }
}
