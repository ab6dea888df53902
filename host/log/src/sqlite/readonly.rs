//! Reading a log without writing anything to its folder: a copy, a read-only file system, or the
//! log of a running process.
//!
//! SQLite's own shared memory is used where it is there. Where it is not, nobody has the log open,
//! and making it would write; so the file is read as it lies, and what was read counts only if
//! nobody has touched it meanwhile.

use super::cache::unsigned;
use super::location::Location;
use super::open::{OpenError, check_marks, check_version};
use super::transaction::is_half_written;
use crate::clock::{Clock, LogTime, offset_after_boot};
use crate::waiter::Waiters;
use sqlx::sqlite::SqliteConnection;
use sqlx::{ConnectOptions, Connection, Row, query};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};
use windlass_core::Timestamp;

/// How often to begin again where another process opens or closes the log meanwhile.
const TRIES: usize = 20;

/// How often those who wait look again: no bell hangs in a folder that is not written.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How the file can be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Somebody has it open, or has left without tidying up.
    Shared,
    /// There is a write-ahead log and nobody to share it with.
    Alone,
    /// Everything is in the file itself.
    Still,
}

/// What tells that nobody has touched the files.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    mode: Mode,
    file: Option<(u64, SystemTime)>,
    wal: Option<(u64, SystemTime)>,
}

fn beside(file: &Path, end: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Looks at names, sizes and times only: opening and closing the files by another descriptor would
/// drop SQLite's locks.
fn look(file: &Path) -> Seen {
    let of = |path: &Path| {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.len(), meta.modified().unwrap_or(SystemTime::UNIX_EPOCH)))
    };
    let wal = of(&beside(file, "-wal"));
    let mode = if of(&beside(file, "-shm")).is_some() && wal.is_some() {
        Mode::Shared
    } else if wal.is_some_and(|(size, _)| size > 0) {
        Mode::Alone
    } else {
        Mode::Still
    };
    Seen { mode, file: of(file), wal }
}

/// Runs `read` on one snapshot of the log in `place`.
pub(super) async fn read<T>(
    place: &Location,
    read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T> + Clone,
) -> sqlx::Result<T> {
    let mut last = sqlx::Error::PoolClosed;
    for _ in 0..TRIES {
        let before = look(&place.file);
        let result = read_once(place, before.mode, read.clone()).await;
        // A shared file is SQLite's to keep apart.
        let undisturbed = before.mode == Mode::Shared || look(&place.file) == before;
        match result {
            Ok(value) if undisturbed => return Ok(value),
            Ok(_) => {}
            Err(error) if is_half_written(&error) => last = error,
            Err(error) if undisturbed && look(&place.file).mode == before.mode => {
                return Err(error);
            }
            Err(error) => last = error,
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Err(last)
}

/// Wakes all who wait again and again, until the log is gone.
pub(super) async fn wake(waiters: Weak<Waiters>) {
    while let Some(waiters) = waiters.upgrade() {
        for topic in waiters.topics() {
            waiters.wake_topic(&topic);
        }
        drop(waiters);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn read_once<T>(
    place: &Location,
    mode: Mode,
    read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T>,
) -> sqlx::Result<T> {
    let mut conn = connect(place, mode).await?;
    query("begin").execute(&mut conn).await?;
    let value = read(&mut conn).await;
    let _nothing_to_lose = conn.close().await;
    value
}

async fn connect(place: &Location, mode: Mode) -> sqlx::Result<SqliteConnection> {
    let wanted = place.reader_options().read_only(true);
    match mode {
        Mode::Shared => {
            // Not one of the driver's own settings.
            let name = format!("file:{}?readonly_shm=1", percent(&place.file));
            wanted.filename(name).connect().await
        }
        // Without anybody to share with, its index can be in memory; without locks, as a lock on
        // the file would need it writable.
        Mode::Alone => wanted.vfs("unix-none").pragma("locking_mode", "exclusive").connect().await,
        Mode::Still => wanted.immutable(true).connect().await,
    }
}

/// A path as a URI's.
fn percent(path: &Path) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
        }
    }
    text
}

/// Checks the log in `place`, and finds its log time: as it goes on where this boot has set it,
/// else as the first to open would set it.
pub(super) async fn open(place: &Location, clock: Arc<dyn Clock>) -> Result<LogTime, OpenError> {
    let unreadable = |source| OpenError::Folder { path: place.folder.clone(), source };
    if !place.file.try_exists().map_err(unreadable)? {
        return Err(OpenError::Missing(place.folder.clone()));
    }
    let found = read(place, async |conn| {
        if let Err(error) = check_version(conn).await? {
            return Ok(Err(error));
        }
        if let Err(error) = check_marks(place, conn).await? {
            return Ok(Err(error));
        }
        let row = query("select offset_ms, boot_id, last_ms from state where id = 1")
            .fetch_optional(conn)
            .await?;
        let Some(row) = row else {
            let path = place.file.clone();
            return Ok(Err(OpenError::Damaged { path, what: "it has no state" }));
        };
        Ok(Ok((row.try_get(0)?, row.try_get::<String, _>(1)?, unsigned(&row, 2)?)))
    });
    let (offset, boot_id, last) = found.await.map_err(|error| place.sqlite(error))??;
    let offset = if boot_id == clock.boot_id() {
        offset
    } else {
        offset_after_boot(clock.as_ref(), Timestamp(last))
    };
    Ok(LogTime::new(clock, offset))
}
