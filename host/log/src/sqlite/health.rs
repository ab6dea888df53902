//! What the file and its surroundings say of themselves.

use super::checkpoint::WAL_CAP;
use super::location::Location;
use crate::health::FileHealth;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_core::Timestamp;

/// Options of SQLite's build that decide on what it promises.
const OPTIONS: [&str; 8] = [
    "DEFAULT_SYNCHRONOUS",
    "DEFAULT_WAL_SYNCHRONOUS",
    "THREADSAFE",
    "SECURE_DELETE",
    "DISABLE_",
    "OMIT_",
    "TEMP_STORE",
    "DEFAULT_AUTOVACUUM",
];

/// When the writer last did what it does by itself: log time, 0 for never.
#[derive(Debug, Default)]
pub(super) struct Chores {
    checkpoint: AtomicU64,
    sweep: AtomicU64,
}

impl Chores {
    pub(super) fn checkpointed(&self, at: Timestamp) {
        self.checkpoint.store(at.0, Ordering::Relaxed);
    }

    pub(super) fn swept(&self, at: Timestamp) {
        self.sweep.store(at.0, Ordering::Relaxed);
    }
}

/// A file, and which boot its log time goes on in.
pub(super) async fn read(
    conn: &mut SqliteConnection,
    place: &Location,
    chores: &Chores,
    only_read: bool,
) -> sqlx::Result<(FileHealth, String)> {
    let row = query(
        "select sqlite_version(), j.journal_mode, a.auto_vacuum, s.page_size, p.page_count,
           f.freelist_count, u.user_version, (select boot_id from state where id = 1)
         from pragma_journal_mode j, pragma_auto_vacuum a, pragma_page_size s, pragma_page_count p,
           pragma_freelist_count f, pragma_user_version u",
    )
    .fetch_one(&mut *conn)
    .await?;
    let built = query("select compile_options from pragma_compile_options").fetch_all(conn).await?;
    let built =
        built.iter().map(|row| row.try_get::<String, _>(0)).collect::<Result<Vec<_>, _>>()?;
    let number = |at: usize| row.try_get::<i64, _>(at).map(|n| u64::try_from(n).unwrap_or(0));
    let when =
        |chore: &AtomicU64| Some(chore.load(Ordering::Relaxed)).filter(|at| *at > 0).map(Timestamp);
    // Of a file that is read as it lies SQLite says `delete`, whatever its header says.
    let journal_mode = row.try_get::<String, _>(1)?;
    let journal_mode = (!only_read || journal_mode == "wal").then_some(journal_mode);
    let health = FileHealth {
        path: place.file.clone(),
        sqlite: row.try_get(0)?,
        compile_options: built
            .into_iter()
            .filter(|option| OPTIONS.iter().any(|known| option.starts_with(known)))
            .collect(),
        journal_mode,
        synchronous: "full",
        auto_vacuum: number(2)? > 0,
        page_size: number(3)?,
        pages: number(4)?,
        free_pages: number(5)?,
        schema: row.try_get(6)?,
        bytes: size(&place.file),
        wal_bytes: size(&place.wal()),
        wal_cap_bytes: WAL_CAP,
        listeners: listeners(&place.folder.join("bells")),
        checkpoint_at: when(&chores.checkpoint),
        sweep_at: when(&chores.sweep),
    };
    Ok((health, row.try_get::<Option<String>, _>(7)?.unwrap_or_default()))
}

/// The file's size only: to open it by another descriptor would drop SQLite's locks.
fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |meta| meta.len())
}

/// How many bells hang: whoever lives holds the lock of its own.
fn listeners(folder: &Path) -> usize {
    let Ok(bells) = std::fs::read_dir(folder) else { return 0 };
    let lives = |path: &Path| File::open(path).is_ok_and(|bell| bell.try_lock_shared().is_err());
    bells.flatten().filter(|bell| lives(&bell.path())).count()
}
