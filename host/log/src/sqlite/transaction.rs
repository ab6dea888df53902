//! The transaction: taking the write lock, committing, and what follows from a failure.

use super::cache::Cache;
use super::command::storage_error;
use super::files::FileId;
use super::pending::Pending;
use super::touched::Touched;
use super::turnstile::pause;
use super::writer::{TICK, Writer};
use crate::error::LogError;
use sqlx::{Connection, Row, query};
use std::time::{Duration, Instant};

/// How long to wait for another process's transaction.
pub(super) const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// After storage has failed, those who kept a settlement write it before anybody acts on the end
/// of its lease (law 26). They try again each second.
const GRACE: Duration = Duration::from_secs(3);
/// How long to wait for a broken connection to close.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Whether commits reach the disk before they are answered.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not by itself")]
pub(super) struct Syncing {
    /// Whether the connection syncs its commits now.
    pub(super) on: bool,
    /// An unsynced transaction did what must be on the disk before its answer.
    pub(super) owed: bool,
    /// Something was committed unsynced.
    pub(super) behind: bool,
    /// A sync has failed: what lies in SQLite's log file is to be written again.
    pub(super) doubted: bool,
}

impl Writer {
    /// Connects again after a failure.
    pub(super) async fn connect(&mut self) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            self.opened = FileId::of(&self.place);
            self.conn = Some(self.place.connect_writer().await?);
            self.syncing.on = true;
        }
        Ok(())
    }

    /// Takes the write lock and looks whether somebody else has committed.
    pub(super) async fn begin(&mut self, synced: bool) -> Result<(), sqlx::Error> {
        self.turnstile.enter().await;
        let since = Instant::now();
        let answer = loop {
            match self.try_begin(synced).await {
                Err(error) if is_busy(&error) && since.elapsed() < BUSY_PATIENCE => {
                    pause(since).await;
                }
                answer => break answer,
            }
        };
        self.turnstile.leave();
        answer
    }

    async fn try_begin(&mut self, synced: bool) -> Result<(), sqlx::Error> {
        #[cfg(feature = "testing")]
        let synced = synced && !self.faults.never_sync.load(std::sync::atomic::Ordering::Relaxed);
        self.connect().await?;
        if self.syncing.doubted {
            self.write_again().await?;
        }
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        if self.syncing.on != synced {
            // Not allowed inside a transaction, so it goes before. Not a prepared statement: a
            // pragma may act when it is prepared, and then only once.
            let mode =
                if synced { "pragma synchronous = full" } else { "pragma synchronous = normal" };
            sqlx::raw_sql(mode).execute(&mut *conn).await?;
            self.syncing.on = synced;
        }
        // The row is of the last statement, so stopping at it leaves nothing undone.
        let row = query("begin immediate; pragma data_version").fetch_one(&mut *conn).await?;
        // Whoever takes notice first, the waiters must hear of it.
        self.foreign |= self.cache.seen(row.try_get(0)?);
        Ok(())
    }

    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        let mut script = self.pending.finish(conn, &mut self.cache).await?;
        #[cfg(feature = "testing")]
        if self.faults.before_commit(conn).await? {
            script.add("rollback");
        }
        // In one string: an error of any statement, COMMIT's too, is this call's error.
        script.add("commit");
        script.run(conn).await?;
        FileId::check(self.opened, &self.place)?;
        self.syncing.behind |= !self.syncing.on;
        self.checkpoints.committed(std::mem::take(&mut self.pending.written_bytes));
        Ok(())
    }

    /// A synced commit syncs all that the file's log holds. It must change something: SQLite writes
    /// nothing for a row that stays as it is, and then syncs nothing.
    pub(super) async fn sync(&mut self) -> Result<(), sqlx::Error> {
        self.begin(true).await?;
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        self.cache.state(conn).await?.next_slot += 1;
        self.pending.state = true;
        self.commit().await
    }

    /// What was committed unsynced: SQLite syncs it when it closes, and tells nobody when that fails.
    /// It also copies the rest then, which must not be behind a hole.
    pub(super) async fn sync_before_closing(&mut self) {
        self.end_doubt().await;
        if self.syncing.behind
            && let Err(error) = self.sync().await
        {
            self.give_up(error).await;
        }
    }

    /// Has a checkpoint done where one is due; `tick`: and looks whether one is.
    pub(super) async fn checkpoint(&mut self, tick: bool) {
        if tick {
            self.checkpoints.look();
        }
        if !self.end_doubt().await {
            return;
        }
        if let Some(conn) = &mut self.conn {
            let ended = self.checkpoints.go_on(conn, &mut self.turnstile).await;
            if ended {
                self.chores.checkpointed(self.time.now());
            }
        }
        self.syncing.doubted |= self.checkpoints.take_doubt();
    }

    /// Mends what a failed sync left, where one failed; whether nothing is in doubt now.
    async fn end_doubt(&mut self) -> bool {
        if self.syncing.doubted
            && self.conn.is_some()
            && let Err(error) = self.write_again().await
        {
            tracing::warn!(%error, "what a failed sync left could not be written again yet");
        }
        !self.syncing.doubted
    }

    /// After a failure nothing that was remembered is trusted, and the connection is replaced:
    /// SQLite may have rolled back by itself, and sqlx would not know.
    pub(super) async fn give_up(&mut self, error: sqlx::Error) -> LogError {
        tracing::warn!(%error, "a transaction of the log failed");
        self.cache = Cache::default();
        self.pending = Pending::default();
        self.touched = Touched::default();
        self.syncing.owed = false;
        self.agenda.clear();
        self.sweeper.clear();
        self.tick_at = self.time.now().after(TICK);
        self.foreign = true;
        self.grace_until = self.time.now().after(GRACE);
        self.syncing.doubted |= is_failed_sync(&error);
        if self.syncing.doubted {
            // Before the connection is closed: the last one to close moves all to the database.
            if let Some(conn) = &mut self.conn {
                let _ended_by_itself = sqlx::raw_sql("rollback").execute(conn).await;
            }
            let _tried_again_before_the_next = self.write_again().await;
        }
        if let Some(conn) = self.conn.take() {
            // Waited for, as the next one could not write while this one still closes.
            let _closed = tokio::time::timeout(CLOSE_PATIENCE, conn.close()).await;
        }
        storage_error("the transaction failed", error)
    }
}

/// Whether another connection is in the way.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == libsqlite3_sys::SQLITE_BUSY)
}

/// Whether a sync failed, and not a write: then SQLite knows what is not in the file.
pub(super) fn is_failed_sync(error: &sqlx::Error) -> bool {
    use libsqlite3_sys::{SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC};
    matches!(code(error), Some(SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC))
}

/// Whether a reader that may not write found SQLite's index of the log file between two states. It
/// asks next whether a writer is at work; one that has just ended is taken for one that died
/// (`walIndexReadHdr` in SQLite's wal.c). The next look finds it whole.
pub(super) fn is_half_written(error: &sqlx::Error) -> bool {
    code(error) == Some(libsqlite3_sys::SQLITE_READONLY_RECOVERY)
}

/// SQLite's code, in full.
fn code(error: &sqlx::Error) -> Option<i32> {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code)?;
    code.parse().ok()
}
