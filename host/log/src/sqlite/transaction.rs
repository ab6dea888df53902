//! The transaction: taking the write lock, committing, and what follows from a failure.

use super::cache::Cache;
use super::command::{Fail, storage_error};
use super::pending::Pending;
use super::writer::{TICK, Touched, Writer};
use crate::error::LogError;
use sqlx::{Connection, Row, query};
use std::time::{Duration, Instant};

/// How long to wait for another process's transaction.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);

impl Writer {
    /// Takes the write lock and looks whether somebody else has committed.
    pub(super) async fn begin(&mut self, synced: bool) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            self.conn = Some(self.place.connect_writer().await?);
            self.synced = true;
        }
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        if self.synced != synced {
            // Not allowed inside a transaction, so it goes before.
            let mode =
                if synced { "pragma synchronous = full" } else { "pragma synchronous = normal" };
            sqlx::raw_sql(mode).execute(&mut *conn).await?;
            self.synced = synced;
        }
        let since = Instant::now();
        loop {
            // The row is of the last statement, so stopping at it leaves nothing undone.
            match query("begin immediate; pragma data_version").fetch_one(&mut *conn).await {
                Ok(row) => {
                    self.cache.seen(row.try_get(0)?);
                    return Ok(());
                }
                Err(error) if is_busy(&error) && since.elapsed() < BUSY_PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) async fn commit(&mut self) -> Result<(), sqlx::Error> {
        match self.flush().await {
            Ok(()) => {}
            Err(Fail::Storage(error)) => return Err(error),
            Err(Fail::Refused(_)) => return Err(sqlx::Error::PoolClosed),
        }
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        #[cfg(feature = "testing")]
        self.faults.before_commit(conn).await?;
        query("commit").execute(conn).await?;
        Ok(())
    }

    /// After a failure nothing that was remembered is trusted, and the connection is replaced:
    /// SQLite may have rolled back by itself, and sqlx would not know.
    pub(super) async fn give_up(&mut self, error: sqlx::Error) -> LogError {
        tracing::warn!(%error, "a transaction of the log failed");
        self.cache = Cache::default();
        self.pending = Pending::default();
        self.touched = Touched::default();
        self.owes_sync = false;
        self.agenda.clear();
        self.tick_at = self.time.now().after(TICK);
        if let Some(conn) = self.conn.take() {
            let _broken_anyway = conn.close_hard().await;
        }
        storage_error("the transaction failed", error)
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse::<i32>().ok())
        .is_some_and(|code| code & 0xff == libsqlite3_sys::SQLITE_BUSY)
}
