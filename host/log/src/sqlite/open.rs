//! Opening a log's file: versions, settings, schema, log time.

use super::location::Location;
use super::pending::int;
use super::sql::Args;
use super::transaction::{BUSY_PATIENCE, is_busy};
use super::turnstile::pause;
use crate::admin::RETAIN;
use crate::clock::{Clock, END, LogTime, SystemClock, offset_after_boot};
use sqlx::sqlite::{SqliteAutoVacuum, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor, Row};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use windlass_core::Timestamp;
use windlass_core::time::millis;

/// The database's name in the log's folder.
pub const FILE_NAME: &str = "windlass.db";

/// `Wdls`: marks a file as ours (SQLite's `application_id`).
const APPLICATION_ID: i64 = 0x5764_6c73;
const SCHEMA_VERSION: i64 = 7;
/// Earlier ones can lose commits when a checkpoint races a commit in WAL mode.
const SQLITE_OLDEST: [u32; 3] = [3, 51, 3];

/// SQLite's code for a file that is not a database.
const NOT_A_DATABASE: &str = "26";

/// How a log is opened.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Make the log where there is none.
    pub create: bool,
    /// Stay for long: act on ended leases by itself, sweep, listen for other processes.
    pub serve: bool,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// What is to go wrong.
    #[cfg(feature = "testing")]
    pub faults: super::faults::Faults,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            create: false,
            serve: false,
            clock: Arc::new(SystemClock),
            #[cfg(feature = "testing")]
            faults: super::faults::Faults::default(),
        }
    }
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none.
    #[error("there is no log in `{0}`")]
    Missing(PathBuf),
    /// The folder could not be made or written.
    #[error("the log's folder `{path}` cannot be used")]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The linked SQLite is too old to be trusted.
    #[error("SQLite {0} can lose commits; Windlass needs 3.51.3 or newer")]
    SqliteTooOld(String),
    /// The file is another program's.
    #[error("`{0}` is not a Windlass log")]
    Foreign(PathBuf),
    /// The file was written by a newer Windlass.
    #[error("`{path}` has schema {found}; this Windlass knows up to {known}. Use a newer Windlass")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The file was written by an older Windlass.
    #[error("`{path}` has schema {found}, which this Windlass (schema {known}) does not read")]
    Older {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// SQLite failed.
    #[error("the log `{path}` cannot be opened")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: sqlx::Error,
    },
    /// The file lacks what every log has.
    #[error("`{path}` is damaged: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers, which claim tokens need")]
    Random,
}

impl Location {
    fn other_schema(&self, found: i64) -> OpenError {
        let (path, known) = (self.file.clone(), SCHEMA_VERSION);
        if found > known {
            OpenError::Newer { path, found, known }
        } else {
            OpenError::Older { path, found, known }
        }
    }

    pub(super) fn sqlite(&self, source: sqlx::Error) -> OpenError {
        let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code);
        if code.is_some_and(|code| code == NOT_A_DATABASE) {
            return OpenError::Foreign(self.file.clone());
        }
        OpenError::Sqlite { path: self.file.clone(), source }
    }
}

/// Whether the SQLite that runs may be used at all. Asked of itself: a build can be made to link
/// the system's, whatever the headers say.
pub(super) async fn check_version(
    conn: &mut SqliteConnection,
) -> sqlx::Result<Result<(), OpenError>> {
    let row = sqlx::query("select sqlite_version()").fetch_one(conn).await?;
    let version: String = row.try_get(0)?;
    let new_enough = is_new_enough(&version);
    Ok(if new_enough { Ok(()) } else { Err(OpenError::SqliteTooOld(version)) })
}

fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let found: [u32; 3] = std::array::from_fn(|_| numbers.next().unwrap_or(0));
    found >= SQLITE_OLDEST
}

/// Makes the log's folder, and has its name on the disk: what is acknowledged in it must be found.
fn create_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    std::fs::File::open(parent.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

/// Opens the writer's connection, making the log where that is asked, and finds log time.
pub(super) async fn open(
    place: &Location,
    options: &OpenOptions,
) -> Result<(SqliteConnection, LogTime), OpenError> {
    let since = Instant::now();
    loop {
        match try_open(place, options).await {
            // For some locks SQLite does not wait by itself, as when a file's journal changes.
            Err(OpenError::Sqlite { source, .. })
                if is_busy(&source) && since.elapsed() < BUSY_PATIENCE =>
            {
                pause(since).await;
            }
            opened => return opened,
        }
    }
}

async fn try_open(
    place: &Location,
    options: &OpenOptions,
) -> Result<(SqliteConnection, LogTime), OpenError> {
    let unreadable = |source| OpenError::Folder { path: place.folder.clone(), source };
    // Another process may have made the file just now, and not written to it.
    let bytes = match std::fs::metadata(&place.file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        found => Some(found.map_err(unreadable)?.len()),
    };
    if bytes.is_none() {
        if !options.create {
            return Err(OpenError::Missing(place.folder.clone()));
        }
        create_folder(&place.folder).map_err(unreadable)?;
    }
    // The first connection waits for other processes that are opening at the same time.
    let mut wanted = place.options().create_if_missing(options.create).busy_timeout(BUSY_PATIENCE);
    if options.create && bytes.unwrap_or(0) == 0 {
        // Only an empty file takes it; asked of another one it would write to it all the same.
        wanted = wanted.auto_vacuum(SqliteAutoVacuum::Incremental);
    }
    let mut first = wanted.connect().await.map_err(|e| place.sqlite(e))?;
    check_version(&mut first).await.map_err(|e| place.sqlite(e))??;
    prepare(place, &mut first, options).await?;
    let offset = log_offset(place, &mut first, options.clock.as_ref()).await?;
    let time = LogTime::new(options.clock.clone(), offset);
    check_time(place, time.now())?;
    // While the first is there no other process can be the last to leave, which would hold the file
    // to itself for a moment; the writer does not wait for that.
    let writer = place.connect_writer().await.map_err(|e| place.sqlite(e))?;
    first.close().await.map_err(|e| place.sqlite(e))?;
    Ok((writer, time))
}

/// A log beyond the end of time could give nobody an id that rises.
fn check_time(place: &Location, time: Timestamp) -> Result<(), OpenError> {
    let what = "its time lies behind the year 2286";
    let damaged = OpenError::Damaged { path: place.file.clone(), what };
    if time < END { Ok(()) } else { Err(damaged) }
}

/// Checks the file's marks, and lays the schema in an empty one.
async fn prepare(
    place: &Location,
    conn: &mut SqliteConnection,
    options: &OpenOptions,
) -> Result<(), OpenError> {
    let sqlite = |e| place.sqlite(e);
    match check_marks(place, conn).await.map_err(sqlite)? {
        Err(OpenError::Missing(_)) if options.create => {}
        checked => return checked,
    }
    conn.execute("pragma journal_mode = wal").await.map_err(sqlite)?;
    conn.execute("begin immediate").await.map_err(sqlite)?;
    // Another process may have been faster.
    if check_marks(place, conn).await.map_err(sqlite)?.is_ok() {
        conn.execute("rollback").await.map_err(sqlite)?;
        return Ok(());
    }
    sqlx::raw_sql(include_str!("schema.sql")).execute(&mut *conn).await.map_err(sqlite)?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "pragma application_id = {APPLICATION_ID}; pragma user_version = {SCHEMA_VERSION};"
    )))
    .execute(&mut *conn)
    .await
    .map_err(sqlite)?;
    let offset = offset_after_boot(options.clock.as_ref(), Timestamp(0));
    let args = Args::default()
        .with(offset)
        .with(options.clock.boot_id())
        .with(int(millis(RETAIN.0)))
        .with(int(RETAIN.1));
    sqlx::query_with(
        "insert into state(id, next_sequence, last_ms, next_slot, offset_ms, boot_id,
           topics_declared, retain_ms, retain_messages) values (1, 1, 0, 1, ?, ?, 0, ?, ?)",
        args.done(),
    )
    .execute(&mut *conn)
    .await
    .map_err(sqlite)?;
    conn.execute("commit").await.map_err(sqlite)?;
    Ok(())
}

/// Whether a file that is only read is a log of this schema.
pub(super) async fn check_marks(
    place: &Location,
    conn: &mut SqliteConnection,
) -> sqlx::Result<Result<(), OpenError>> {
    Ok(match marks(conn).await? {
        Marks { application: APPLICATION_ID, schema: SCHEMA_VERSION, .. } => Ok(()),
        Marks { application: APPLICATION_ID, schema, .. } => Err(place.other_schema(schema)),
        Marks { application: 0, schema: 0, tables: 0 } => {
            Err(OpenError::Missing(place.folder.clone()))
        }
        Marks { .. } => Err(OpenError::Foreign(place.file.clone())),
    })
}

/// What tells whose file it is.
#[derive(Debug, Clone, Copy)]
struct Marks {
    application: i64,
    schema: i64,
    tables: i64,
}

/// In one statement, so that a log that is being made is seen before that or behind it.
async fn marks(conn: &mut SqliteConnection) -> sqlx::Result<Marks> {
    let text = "select application_id, user_version, (select count(*) from sqlite_schema)
                  from pragma_application_id, pragma_user_version";
    let row = sqlx::query(text).fetch_one(conn).await?;
    Ok(Marks { application: row.try_get(0)?, schema: row.try_get(1)?, tables: row.try_get(2)? })
}

/// Log time's offset from the boot clock. The first to open after a boot sets it (law 21).
async fn log_offset(
    place: &Location,
    conn: &mut SqliteConnection,
    clock: &dyn Clock,
) -> Result<i64, OpenError> {
    let sqlite = |e| place.sqlite(e);
    let boot_id = clock.boot_id();
    let state = "select offset_ms, boot_id, last_ms from state where id = 1";
    let read = |row: Option<sqlx::sqlite::SqliteRow>| -> Result<(i64, String, i64), OpenError> {
        let damaged = OpenError::Damaged { path: place.file.clone(), what: "it has no state" };
        let row = row.ok_or(damaged)?;
        Ok((
            row.try_get(0).map_err(sqlite)?,
            row.try_get(1).map_err(sqlite)?,
            row.try_get(2).map_err(sqlite)?,
        ))
    };
    let row = sqlx::query(state).fetch_optional(&mut *conn).await.map_err(sqlite)?;
    let (offset, stored, _) = read(row)?;
    if stored == boot_id {
        return Ok(offset);
    }
    conn.execute("begin immediate").await.map_err(sqlite)?;
    let row = sqlx::query(state).fetch_optional(&mut *conn).await.map_err(sqlite)?;
    let (offset, stored, last) = read(row)?;
    if stored == boot_id {
        conn.execute("rollback").await.map_err(sqlite)?;
        return Ok(offset);
    }
    let last = Timestamp(u64::try_from(last).unwrap_or(0));
    check_time(place, last)?;
    let offset = offset_after_boot(clock, last);
    let args = Args::default().with(offset).with(boot_id);
    sqlx::query_with("update state set offset_ms = ?, boot_id = ? where id = 1", args.done())
        .execute(&mut *conn)
        .await
        .map_err(sqlite)?;
    conn.execute("commit").await.map_err(sqlite)?;
    Ok(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_that_can_lose_commits_is_refused() {
        for (version, expected) in [
            ("3.51.3", true),
            ("3.51.2", false),
            ("3.50.9", false),
            ("3.100.0", true),
            ("4.0.0", true),
            ("", false),
        ] {
            assert_eq!(is_new_enough(version), expected, "{version}");
        }
    }
}
