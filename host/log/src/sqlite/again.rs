//! After a failed sync: what SQLite's own log file holds is written once more.
//!
//! A commit that need not be on the disk before its answer (a claim, say) lies in that file until a
//! later sync brings it there. When that sync fails, the system takes what it could not write for
//! written: the next sync answers well and leaves it out. What is committed then lies behind a
//! hole, and a power loss takes it, acknowledged or not. Written again, with the same bytes, it is
//! on the disk with the next sync.

use super::writer::Writer;
use sqlx::raw_sql;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PIECE: usize = 1 << 18;

impl Writer {
    /// Writes the file again, and syncs it. Under the write lock, so that nobody appends to it or
    /// begins it anew meanwhile; the connection is in no transaction.
    pub(super) async fn write_again(&mut self) -> Result<(), sqlx::Error> {
        let wal = self.place.wal();
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        raw_sql("begin immediate").execute(&mut *conn).await?;
        let written = tokio::task::spawn_blocking(move || write_same(&wal)).await;
        raw_sql("rollback").execute(&mut *conn).await?;
        written.map_err(io::Error::other).flatten()?;
        self.syncing.doubted = false;
        Ok(())
    }
}

/// SQLite takes no locks on this file, so that it may be opened beside.
fn write_same(wal: &PathBuf) -> io::Result<()> {
    let file = match OpenOptions::new().read(true).write(true).open(wal) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
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
