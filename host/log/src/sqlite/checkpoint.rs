//! Checkpoints: what is committed moves from the write-ahead log into the database, off the commit
//! path.
//!
//! A connection of its own copies the bulk while commits go on, in passes that get shorter. When
//! it has caught up the writer does the short rest between two commits, so that the next commit
//! begins the write-ahead log anew; else that would grow for as long as there is always somebody
//! writing. Every process does this for what it writes; SQLite lets one checkpoint at a time.

#[cfg(test)]
mod tests;

use super::location::Location;
use super::open::OpenOptions;
use super::transaction::is_failed_sync;
use super::turnstile::{Turnstile, pause};
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection, Row, query};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Bytes written before the next checkpoint.
const EVERY: u64 = 16 << 20;
/// Bytes written before the next one after a reader, or another process at the same, hindered it.
const AGAIN: u64 = 4 << 20;
/// The write-ahead log is cut back to this where it had to grow beyond.
pub(super) const WAL_CAP: u64 = 64 << 20;
/// Pages that a commit is thought to write beside its messages: until more is known, and within
/// what bounds then.
const COMMIT_PAGES: u64 = 16;
const COMMIT_PAGES_BOUNDS: std::ops::RangeInclusive<u64> = 5..=200;
const PAGE_BYTES: u64 = 4_096;
/// A pass over at most so many pages has caught up.
const SHORT: i64 = 512;
/// The rest is the writer's after so many passes, however much it is.
const PASSES_MAX: usize = 16;
/// How long a commit waits for a checkpoint that falls behind.
const PAUSE: Duration = Duration::from_millis(20);
/// How long commits wait for readers to let go of a write-ahead log that is half full; three times as
/// long beyond its cap.
const READERS: Duration = Duration::from_millis(100);
/// How often at most where one does not let go: a tenth of the time is lost then.
const READERS_EVERY: Duration = Duration::from_secs(1);

/// When to checkpoint, and who does it.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is true or not by itself")]
pub(super) struct Checkpoints {
    place: Location,
    wal: PathBuf,
    /// Bytes written before the next one: [`EVERY`], but in tests.
    every: u64,
    /// By this process, about, since a checkpoint was begun.
    written: u64,
    /// Of that, messages; and the commits it was written by.
    bytes: u64,
    commits: u64,
    /// What a commit writes beside its messages, as checkpoints have found, others' commits included.
    commit_pages: u64,
    /// One has found it.
    learnt: bool,
    /// Pages that the write-ahead log held when the last one was over.
    held: u64,
    signs: Arc<Signs>,
    work: Work,
    /// What its file takes is to go back to the file system.
    shrink: bool,
    /// When commits last waited for readers.
    waited: Option<Instant>,
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

/// The passes' connection comes back with how far they came, and how many pages there were.
type Done = (Option<SqliteConnection>, sqlx::Result<Reached>, u64);

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

impl Said {
    /// Whether nothing was done, as another connection checkpoints.
    fn is_refused(self) -> bool {
        self.busy && self.pages < 0
    }

    /// Whether all of it is in the database, with nobody in the way.
    fn all(self) -> bool {
        !self.busy && self.copied == self.pages
    }
}

impl Checkpoints {
    pub(super) fn new(place: &Location, every: Option<u64>) -> Self {
        Self {
            place: place.clone(),
            wal: place.wal(),
            every: every.unwrap_or(EVERY),
            written: 0,
            bytes: 0,
            commits: 0,
            commit_pages: COMMIT_PAGES,
            learnt: false,
            held: 0,
            signs: Arc::default(),
            work: Work::Idle(None),
            shrink: false,
            waited: None,
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

    /// The same, and the write-ahead log's own file is to be cut.
    pub(super) fn ask_for_space(&mut self) {
        self.shrink = true;
        self.ask();
    }

    /// A commit wrote about so many bytes.
    pub(super) fn committed(&mut self, bytes: u64) {
        self.written += bytes + self.commit_pages * PAGE_BYTES;
        self.bytes += bytes;
        self.commits += 1;
    }

    /// Whether to begin one. The file's size says too much once it has begun anew, but never too
    /// little: before anything is known of what commits write, that decides.
    fn is_due(&self) -> bool {
        self.written >= self.every || (!self.learnt && self.wal_size() >= self.every)
    }

    /// What a reader held up may go on now, with nobody writing.
    pub(super) fn look(&mut self) {
        if self.wal_size() > WAL_CAP {
            self.ask();
        }
    }

    /// Between two transactions: begins a checkpoint that is due, or ends one; whether one has ended
    /// well.
    pub(super) async fn go_on(
        &mut self,
        writer: &mut SqliteConnection,
        turnstile: &mut Turnstile,
    ) -> bool {
        let due = self.is_due();
        let done = match &mut self.work {
            Work::Idle(_) if !due => return false,
            Work::Idle(conn) => {
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
                    Ok(done) => done.unwrap_or((None, Ok(Reached::Hindrance), 0)),
                    Err(_) => return false,
                }
            }
            Work::Running(_) => return false,
        };
        let (conn, reached, pages) = done;
        self.work = Work::Idle(conn);
        self.learn(pages);
        let finished = match reached {
            Ok(Reached::End) => self.finish(writer, turnstile, true).await,
            Ok(Reached::Hindrance) if !self.is_half_full() => Ok(false),
            Ok(Reached::Hindrance) => self.finish(writer, turnstile, false).await,
            // What was copied may be lost: nothing may be copied behind it before that is mended.
            Err(error) if is_failed_sync(&error) => Err(error),
            // Without the passes the writer does it all.
            Err(error) => {
                self.tell(&error);
                self.finish(writer, turnstile, false).await
            }
        };
        match finished {
            Ok(true) => (self.failing, self.held, self.shrink) = (false, 0, false),
            Ok(false) => self.written = self.written.max(self.before_again()),
            Err(error) => {
                self.tell(&error);
                self.written = self.written.max(self.before_again());
                return false;
            }
        }
        true
    }

    /// What commits write, from how many pages the write-ahead log holds now; nothing where it could
    /// not be told. It may have begun anew in between, so that less is believed by halves.
    fn learn(&mut self, pages: u64) {
        if pages == 0 {
            return;
        }
        let new = if pages < self.held { pages } else { pages - self.held };
        self.held = pages;
        let beside = new.saturating_sub(std::mem::take(&mut self.bytes) / PAGE_BYTES);
        if let Some(each) = beside.checked_div(std::mem::take(&mut self.commits)) {
            let (least, most) = (*COMMIT_PAGES_BOUNDS.start(), *COMMIT_PAGES_BOUNDS.end());
            self.commit_pages = each.max(self.commit_pages / 2).clamp(least, most);
            self.learnt = true;
        }
    }

    /// By what the log held when this process last looked at it, as its file stays as long as it once
    /// was; but beyond the cap, to which it is cut, by the file: others may have kept us from looking.
    fn is_half_full(&self) -> bool {
        self.held * PAGE_BYTES > WAL_CAP / 2 || self.wal_size() > WAL_CAP
    }

    /// The rest, between two commits; whether the next commit can begin the log anew. Nothing here
    /// waits for a reader or another process before the log is half full, and then for a moment, in
    /// which no process commits.
    /// What fails leaves the write-ahead log as it is. `copied`: all was copied just now, so that
    /// whoever reads has begun since and is likely to end soon.
    async fn finish(
        &mut self,
        writer: &mut SqliteConnection,
        turnstile: &mut Turnstile,
        copied: bool,
    ) -> sqlx::Result<bool> {
        let how = match self.wal_size() {
            size if size > WAL_CAP || self.shrink => "truncate",
            // Nobody may commit meanwhile.
            _ if self.is_half_full() => "restart",
            // Others may; then it does not begin anew this time.
            _ => "passive",
        };
        let waited = self.waited.is_some_and(|waited| waited.elapsed() < READERS_EVERY);
        if (waited && !copied) || how == "passive" {
            return checkpoint(writer, how).await.map(Said::all);
        }
        // Who begins to read when all is copied reads the database alone, and is not waited for.
        let patience = if how == "truncate" { READERS * 3 } else { READERS };
        set_patience(writer, patience).await?;
        // It needs the write lock, which another process would take again and again meanwhile.
        turnstile.enter().await;
        let since = Instant::now();
        let said = loop {
            match checkpoint(writer, how).await {
                // For another process's checkpoint SQLite does not wait by itself.
                Ok(said) if said.is_refused() && since.elapsed() < patience => pause(since).await,
                said => break said,
            }
        };
        turnstile.leave();
        if since.elapsed() >= READERS / 2 {
            self.waited = Some(Instant::now());
        }
        set_patience(writer, Duration::ZERO).await?;
        said.map(Said::all)
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
            Work::Running(task) => task.await.ok().and_then(|(conn, ..)| conn),
        };
        if let Some(conn) = conn {
            let _nothing_to_lose = conn.close().await;
        }
    }
}

/// How long the writer's connection waits for locks; it polls for them itself otherwise.
async fn set_patience(conn: &mut SqliteConnection, span: Duration) -> sqlx::Result<()> {
    let text = AssertSqlSafe(format!("pragma busy_timeout = {}", span.as_millis()));
    sqlx::raw_sql(text).execute(conn).await.map(drop)
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
        Ok(mut conn) => {
            let mut pages = 0;
            match catch_up(&mut conn, &signs, &mut pages).await {
                Ok(reached) => (Some(conn), Ok(reached), pages),
                Err(error) => (None, Err(error), pages),
            }
        }
        Err(error) => (None, Err(error), 0),
    }
}

async fn catch_up(
    conn: &mut SqliteConnection,
    signs: &Signs,
    pages: &mut u64,
) -> sqlx::Result<Reached> {
    let (mut copied, mut before) = (-1, i64::MAX);
    for _ in 0..PASSES_MAX {
        if signs.closing.load(Ordering::Relaxed) {
            return Ok(Reached::Hindrance);
        }
        let said = checkpoint(conn, "passive").await?;
        *pages = u64::try_from(said.pages).unwrap_or(0);
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
