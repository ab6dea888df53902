//! Where a log's files are, and how each kind of connection is made.

use super::checkpoint::WAL_CAP;
use super::open::FILE_NAME;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The files of a log, and how to connect to them.
#[derive(Debug, Clone)]
pub(super) struct Location {
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
}

impl Location {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: folder.join(FILE_NAME) }
    }

    /// What is committed and not yet in the database lies here.
    pub(super) fn wal(&self) -> PathBuf {
        self.beside("-wal")
    }

    /// What connections know of that together.
    pub(super) fn index(&self) -> PathBuf {
        self.beside("-shm")
    }

    fn beside(&self, end: &str) -> PathBuf {
        let mut name = self.file.as_os_str().to_owned();
        name.push(end);
        name.into()
    }

    pub(super) fn options(&self) -> SqliteConnectOptions {
        SqliteConnectOptions::new()
            .filename(&self.file)
            .foreign_keys(false)
            .pragma("temp_store", "memory")
            .statement_cache_capacity(400)
            .row_buffer_size(512)
            .disable_statement_logging()
    }

    /// The one connection that writes. It does not wait inside SQLite for another process's
    /// transaction (that would sleep up to 100 ms at a time); the writer tries again by itself.
    pub(super) async fn connect_writer(&self) -> sqlx::Result<SqliteConnection> {
        self.options()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::ZERO)
            .pragma("cache_size", "-65536")
            // The writer has it done beside its commits (`checkpoint`).
            .pragma("wal_autocheckpoint", "0")
            .pragma("journal_size_limit", WAL_CAP.to_string())
            .connect()
            .await
    }

    /// A connection that only checkpoints. It has to be at FULL: a checkpoint syncs as its
    /// connection does.
    pub(super) async fn connect_checkpointer(&self) -> sqlx::Result<SqliteConnection> {
        self.options()
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::ZERO)
            .pragma("cache_size", "-256")
            .connect()
            .await
    }

    /// A connection that only reads.
    pub(super) async fn connect_reader(&self) -> sqlx::Result<SqliteConnection> {
        self.reader_options().connect().await
    }

    /// How those connect that only read.
    pub(super) fn reader_options(&self) -> SqliteConnectOptions {
        self.options()
            .busy_timeout(Duration::from_secs(5))
            .pragma("query_only", "on")
            .pragma("cache_size", "-8192")
    }
}
