//! After a failed sync: what SQLite's own log file holds is written once more, to where it is and
//! into the database.
//!
//! When a sync fails, the system takes what it could not write for written: the next sync answers
//! well and leaves it out. Two files can have such holes.
//!
//! The log file: a commit that need not be on the disk before its answer (a claim, say) lies there
//! until a later sync. Written again, with the same bytes, it is on the disk with the next one.
//!
//! The database: a checkpoint that could not copy all counts what it copied as copied, and leaves
//! the sync to the one that ends. When that sync fails, the next goes on behind what was counted,
//! and the log begins anew over pages that are nowhere on the disk. All of them are still in the log
//! file then, as it begins anew only after a sync that went well. SQLite counts from nothing when
//! it has to make its index of the log file again, which it does when the index has no head
//! (<https://sqlite.org/walformat.html>, "WAL-Index Recovery").

#[cfg(test)]
mod tests;

use super::location::Location;
use super::writer::Writer;
use sqlx::raw_sql;
use sqlx::sqlite::SqliteConnection;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const PIECE: usize = 1 << 18;
/// The head of SQLite's index: two copies of 48 bytes.
const INDEX_HEAD: [u8; 96] = [0; 96];

/// Indexes that were opened beside SQLite. To close one would drop SQLite's locks on it, so that
/// they stay open; there are as many as syncs that failed.
static KEPT_OPEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

impl Writer {
    /// What a failed sync may have lost is on the disk, or will be before anything is lost with it.
    pub(super) async fn write_again(&mut self) -> Result<(), sqlx::Error> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        write_again(conn, &self.place).await?;
        self.syncing.doubted = false;
        Ok(())
    }
}

/// Writes the log file again, syncs it, and has the next checkpoint copy all of it. Under the write
/// lock, so that nobody appends to it or begins it anew meanwhile; `conn` is in no transaction.
async fn write_again(conn: &mut SqliteConnection, place: &Location) -> Result<(), sqlx::Error> {
    let (wal, index) = (place.wal(), place.index());
    raw_sql("begin immediate").execute(&mut *conn).await?;
    let written = tokio::task::spawn_blocking(move || {
        let written = write_same(&wal);
        behead(&index)?;
        written
    })
    .await;
    raw_sql("commit").execute(&mut *conn).await?;
    Ok(written.map_err(io::Error::other).flatten()?)
}

/// SQLite takes no locks on this file, so that it may be opened beside.
fn write_same(wal: &Path) -> io::Result<()> {
    let Some(file) = open(wal)? else { return Ok(()) };
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    loop {
        let read = file.read_at(&mut piece, at)?;
        if read == 0 {
            return file.sync_all();
        }
        file.write_all_at(&piece[..read], at)?;
        at += read as u64;
    }
}

/// Has SQLite make its index again, from the log file; whoever reads in it now goes on. What is
/// copied by a checkpoint that runs now is copied once more.
fn behead(index: &Path) -> io::Result<()> {
    let Some(file) = open(index)? else { return Ok(()) };
    let written = file.write_all_at(&INDEX_HEAD, 0);
    KEPT_OPEN.lock().unwrap_or_else(PoisonError::into_inner).push(file);
    written
}

fn open(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().read(true).write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened.map(Some),
    }
}
