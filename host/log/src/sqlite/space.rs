//! Space: gives free pages of the file back to the file system while the log runs.
//!
//! What the sweep removed leaves free pages, which the next messages use. When there are far more
//! than those will need, the file is cut, a few pages a transaction, so that nobody waits long. It
//! gets shorter with the next checkpoint.

use super::cache::unsigned;
use super::command::Fail;
use super::writer::Writer;
use sqlx::{Executor, query};
use std::time::{Duration, Instant};
use windlass_core::Timestamp;

/// So many free pages stay, or an eighth of what is in use.
const KEEP: u64 = 4_096;
/// The pages of one step.
const STEP: &str = "pragma incremental_vacuum(256)";
/// A step is followed by so many times its own time for others.
const REST: u32 = 4;

/// After a step that failed nothing is tried for so long, and twice as long each time, up to this.
const FAILED_WAIT: Duration = Duration::from_secs(10);
const FAILED_WAIT_MAX: Duration = Duration::from_mins(10);

/// What is under way.
#[derive(Debug, Default)]
pub(super) struct Space {
    /// The file is being cut.
    cutting: bool,
    /// So many steps in a row have failed: there is no room for them, most likely.
    failed: u32,
    /// Not tried again before.
    not_before: Timestamp,
}

impl Writer {
    /// One step, where there is too much free space; then the next one comes soon.
    pub(super) async fn give_space_back(&mut self, now: Timestamp) -> Result<(), Fail> {
        if now < self.space.not_before {
            return Ok(());
        }
        let (conn, _) = self.parts()?;
        let row = query(
            "select freelist_count, page_count, auto_vacuum
               from pragma_freelist_count, pragma_page_count, pragma_auto_vacuum",
        )
        .fetch_one(conn)
        .await?;
        let [free, all, can] = [unsigned(&row, 0)?, unsigned(&row, 1)?, unsigned(&row, 2)?];
        if can == 0 || free <= KEEP.max((all - free.min(all)) / 8) {
            if std::mem::take(&mut self.space.cutting) {
                self.checkpoints.ask_for_space();
            }
            return Ok(());
        }
        let start = Instant::now();
        if let Err(fail) = self.cut_file().await {
            // Each failure costs the log its connection and all that it remembers.
            let wait = FAILED_WAIT * 2_u32.saturating_pow(self.space.failed);
            self.space.failed = self.space.failed.saturating_add(1);
            self.space.not_before = now.after(wait.min(FAILED_WAIT_MAX));
            return Err(fail);
        }
        self.space.failed = 0;
        self.space.cutting = true;
        let rest = (start.elapsed() * REST).max(Duration::from_millis(1));
        self.tick_at = self.tick_at.min(now.after(rest));
        Ok(())
    }

    async fn cut_file(&mut self) -> Result<(), Fail> {
        self.begin(false).await?;
        #[cfg(feature = "testing")]
        if self.faults.cut() {
            return Err(sqlx::Error::WorkerCrashed.into());
        }
        let (conn, _) = self.parts()?;
        conn.execute(sqlx::raw_sql(STEP)).await?;
        self.commit().await?;
        self.after_commit();
        Ok(())
    }
}
