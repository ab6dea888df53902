//! Checkpoints: what is committed moves from the write-ahead log into the database, off the commit
//! path.
//!
//! A connection of its own copies the bulk while commits go on, in passes that get shorter. When
//! it has caught up the writer does the short rest between two commits, so that the next commit
//! begins the write-ahead log anew; else that would grow for as long as there is always somebody
//! writing. Every process does this for what it writes; SQLite lets one checkpoint at a time.

use super::open::{Location, OpenOptions};
use super::transaction::is_failed_sync;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Row, query};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Bytes written before the next checkpoint.
const EVERY: u64 = 16 << 20;
/// Bytes written before the next one after a reader, or another process at the same, hindered it.
const AGAIN: u64 = 4 << 20;
/// The write-ahead log is cut back to this where it had to grow beyond.
pub(super) const WAL_CAP: u64 = 64 << 20;
/// Pages that each commit writes whatever it holds.
const COMMIT_BYTES: u64 = 5 * 4_096;
/// A pass over at most so many pages has caught up.
const SHORT: i64 = 512;
/// The rest is the writer's after so many passes, however much it is.
const PASSES_MAX: usize = 16;
/// How long a commit waits for a checkpoint that falls behind.
const PAUSE: Duration = Duration::from_millis(20);

/// When to checkpoint, and who does it.
#[derive(Debug)]
pub(super) struct Checkpoints {
    place: Location,
    wal: PathBuf,
    /// Bytes written before the next one: [`EVERY`], but in tests.
    every: u64,
    /// By this process, about, since a checkpoint was begun.
    written: u64,
    signs: Arc<Signs>,
    work: Work,
    /// The last one failed, and that was told.
    failing: bool,
    /// A sync failed in one.
    doubted: bool,
}

#[derive(Debug, Default)]
struct Signs {
    /// Commits write faster than the passes copy.
    behind: AtomicBool,
    /// The log closes.
    closing: AtomicBool,
}

/// The passes' connection comes back with how far they came.
type Done = (Option<SqliteConnection>, sqlx::Result<Reached>);

#[derive(Debug)]
enum Work {
    Idle(Option<SqliteConnection>),
    Running(JoinHandle<Done>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// Little is left.
    End,
    /// A reader still needs what the write-ahead log holds, or another process checkpoints.
    Hindrance,
}

/// What SQLite says of a checkpoint.
#[derive(Debug, Clone, Copy)]
struct Said {
    busy: bool,
    /// Pages in the write-ahead log, and how many of them are in the database by now.
    pages: i64,
    copied: i64,
}

impl OpenOptions {
    /// Bytes written before a checkpoint, where a test says so.
    #[cfg(feature = "testing")]
    pub(super) fn checkpoint_every(&self) -> Option<u64> {
        let every = self.faults.checkpoint_every.load(std::sync::atomic::Ordering::Relaxed);
        (every > 0).then_some(every)
    }

    #[cfg(not(feature = "testing"))]
    #[expect(clippy::unused_self, reason = "in tests it is used")]
    pub(super) fn checkpoint_every(&self) -> Option<u64> {
        None
    }
}

impl Checkpoints {
    pub(super) fn new(place: &Location, every: Option<u64>) -> Self {
        Self {
            place: place.clone(),
            wal: place.wal(),
            every: every.unwrap_or(EVERY),
            written: 0,
            signs: Arc::default(),
            work: Work::Idle(None),
            failing: false,
            doubted: false,
        }
    }

    /// So much is taken for written where the next one is to come soon.
    fn before_again(&self) -> u64 {
        self.every.saturating_sub(AGAIN)
    }

    /// The file's size only: to open it by another descriptor would drop SQLite's locks.
    fn wal_size(&self) -> u64 {
        std::fs::metadata(&self.wal).map_or(0, |meta| meta.len())
    }

    /// One is wanted soon, whatever was written.
    pub(super) fn ask(&mut self) {
        self.written = self.every;
    }

    /// A commit wrote about so many bytes.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.written += bytes + COMMIT_BYTES;
    }

    /// What a reader held up may go on now, with nobody writing.
    pub(super) fn look(&mut self) {
        if self.wal_size() > WAL_CAP {
            self.ask();
        }
    }

    /// Between two transactions: begins a checkpoint that is due, or ends one; whether one has ended
    /// well.
    pub(super) async fn go_on(&mut self, writer: &mut SqliteConnection) -> bool {
        let done = match &mut self.work {
            Work::Idle(conn) if self.written >= self.every => {
                self.written = 0;
                self.signs.behind.store(false, Ordering::Relaxed);
                let (place, conn, signs) = (self.place.clone(), conn.take(), self.signs.clone());
                self.work = Work::Running(tokio::spawn(passes(place, conn, signs)));
                return false;
            }
            Work::Running(task)
                if task.is_finished() || self.signs.behind.load(Ordering::Relaxed) =>
            {
                match tokio::time::timeout(PAUSE, task).await {
                    Ok(done) => done.unwrap_or((None, Ok(Reached::Hindrance))),
                    Err(_) => return false,
                }
            }
            Work::Idle(_) | Work::Running(_) => return false,
        };
        let (conn, reached) = done;
        self.work = Work::Idle(conn);
        let finished = match reached {
            Ok(Reached::End) => self.finish(writer).await,
            Ok(Reached::Hindrance) => Ok(false),
            // Without the passes the writer does it all.
            Err(error) => {
                self.tell(&error);
                self.finish(writer).await
            }
        };
        match finished {
            Ok(true) => self.failing = false,
            Ok(false) => self.written = self.written.max(self.before_again()),
            Err(error) => {
                self.tell(&error);
                self.written = self.written.max(self.before_again());
                return false;
            }
        }
        true
    }

    /// The rest, between two commits; whether the next commit can begin the log anew. Nothing here
    /// waits for a reader or another process. What fails leaves the write-ahead log as it is.
    async fn finish(&mut self, writer: &mut SqliteConnection) -> sqlx::Result<bool> {
        let how = match self.wal_size() {
            // Others may commit meanwhile; then it does not begin anew this time.
            size if size <= WAL_CAP / 2 => "passive",
            // Nobody may.
            size if size <= WAL_CAP => "restart",
            _ => "truncate",
        };
        let said = checkpoint(writer, how).await?;
        Ok(!said.busy && said.copied == said.pages)
    }

    /// Whether a sync failed since this was asked last: what lies in the write-ahead log may then
    /// be taken for written.
    pub(super) fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubted)
    }

    fn tell(&mut self, error: &sqlx::Error) {
        self.doubted |= is_failed_sync(error);
        if !std::mem::replace(&mut self.failing, true) {
            tracing::warn!(%error, "a checkpoint failed; it is tried again and again");
        }
    }

    /// Ends the passes and closes their connection.
    pub(super) async fn close(&mut self) {
        self.signs.closing.store(true, Ordering::Relaxed);
        let conn = match std::mem::replace(&mut self.work, Work::Idle(None)) {
            Work::Idle(conn) => conn,
            Work::Running(task) => task.await.ok().and_then(|(conn, _)| conn),
        };
        if let Some(conn) = conn {
            let _nothing_to_lose = conn.close().await;
        }
    }
}

async fn checkpoint(conn: &mut SqliteConnection, how: &str) -> sqlx::Result<Said> {
    let text = AssertSqlSafe(format!("pragma wal_checkpoint({how})"));
    let row = query(text).fetch_one(conn).await?;
    Ok(Said {
        busy: row.try_get::<i64, _>(0)? != 0,
        pages: row.try_get(1)?,
        copied: row.try_get(2)?,
    })
}

async fn passes(place: Location, conn: Option<SqliteConnection>, signs: Arc<Signs>) -> Done {
    let conn = match conn {
        Some(conn) => Ok(conn),
        None => place.connect_checkpointer().await,
    };
    match conn {
        Ok(mut conn) => match catch_up(&mut conn, &signs).await {
            Ok(reached) => (Some(conn), Ok(reached)),
            Err(error) => (None, Err(error)),
        },
        Err(error) => (None, Err(error)),
    }
}

async fn catch_up(conn: &mut SqliteConnection, signs: &Signs) -> sqlx::Result<Reached> {
    let (mut copied, mut before) = (-1, i64::MAX);
    for _ in 0..PASSES_MAX {
        if signs.closing.load(Ordering::Relaxed) {
            return Ok(Reached::Hindrance);
        }
        let said = checkpoint(conn, "passive").await?;
        // A commit that is just ending holds it up, too, but not twice at the same place.
        if said.busy || (said.copied < said.pages && said.copied == copied) {
            return Ok(Reached::Hindrance);
        }
        // What was written while the last pass copied.
        let new = said.pages - copied.max(0);
        if new <= SHORT && said.copied == said.pages {
            break;
        }
        signs.behind.store(new > SHORT.max(before / 2), Ordering::Relaxed);
        (copied, before) = (said.copied, new);
    }
    Ok(Reached::End)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::ConnectOptions;
    use sqlx::sqlite::SqliteConnectOptions;
    use tokio::sync::oneshot;
    use tokio::time::Instant;

    /// Goal: commits wait a little for passes that cannot keep up, so that the write-ahead log does
    /// not grow for as long as somebody writes, and for passes that can they do not. Method: passes
    /// that end when they are told, on a clock that moves only where somebody waits for it.
    #[tokio::test(start_paused = true)]
    async fn a_commit_waits_a_little_for_a_checkpoint_that_falls_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut checkpoints = Checkpoints::new(&Location::new(folder.path()), None);
        let mut writer = SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
        let (end, ended) = oneshot::channel();
        checkpoints.work = Work::Running(tokio::spawn(async move {
            ended.await.unwrap();
            (None, Ok(Reached::Hindrance))
        }));
        let mut waited = async |checkpoints: &mut Checkpoints| {
            let start = Instant::now();
            let ended = checkpoints.go_on(&mut writer).await;
            (ended, start.elapsed())
        };
        assert_eq!(waited(&mut checkpoints).await, (false, Duration::ZERO), "they keep up");
        checkpoints.signs.behind.store(true, Ordering::Relaxed);
        for _ in 0..2 {
            let (ended, span) = waited(&mut checkpoints).await;
            assert!(!ended && span >= PAUSE && span < PAUSE * 2, "{span:?}");
        }
        assert!(matches!(checkpoints.work, Work::Running(_)), "they go on");
        end.send(()).unwrap();
        assert_eq!(waited(&mut checkpoints).await, (true, Duration::ZERO));
        assert!(matches!(checkpoints.work, Work::Idle(None)));
        assert_eq!(checkpoints.written, EVERY - AGAIN, "the next one comes soon");
    }
}
