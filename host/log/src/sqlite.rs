//! The SQLite log: one file, one writer, commits shared by all callers that wait.
//!
//! This is the door: it hands wishes to the writer and reads for operators. How the file is laid
//! out is in `schema.sql`, what a wish does in the files named after it.

mod admin;
mod again;
mod age;
mod agenda;
mod bell;
mod bury;
mod cache;
mod cancel;
mod catalog;
mod checkpoint;
mod claim;
mod command;
mod copies;
mod counts;
mod dedup;
mod deliveries;
#[cfg(feature = "testing")]
mod faults;
mod files;
mod find;
mod floors;
mod fresh;
mod gather;
mod grant;
mod groups;
mod heads;
mod health;
mod keys;
mod known;
mod letters;
mod location;
mod needed;
mod open;
mod pending;
mod publish;
mod purge;
mod quota;
mod readonly;
mod record;
mod recount;
mod redrive;
mod removal;
mod repair;
mod replace;
mod rows;
mod seek;
mod settle;
mod show;
mod space;
mod sql;
mod start;
mod stream;
mod sweep;
mod sweeper;
mod tail;
mod topics;
mod touched;
mod transaction;
mod transfer;
mod turnstile;
mod upkeep;
mod walk;
mod writer;

#[cfg(feature = "testing")]
pub use faults::Faults;
pub use open::{FILE_NAME, OpenError, OpenOptions};

use crate::api::{
    Capabilities, Claim, ClaimRequest, Extended, Extension, Fence, MessageLog, Published, Settled,
    Settlement,
};
use crate::clock::{Clock, LogTime, SystemClock};
use crate::error::LogError;
use crate::health::Recount;
use crate::waiter::{Waiter, Waiters};
use async_trait::async_trait;
use command::{Command, Reply, storage_error};
use files::FileId;
use health::Chores;
use location::Location;
use sqlx::query;
use sqlx::sqlite::SqliteConnection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass_core::{Group, NewMessage, Timestamp, Topic};

/// Callers that may queue for the writer before the next one waits.
const QUEUE: usize = 4_096;

/// A log in one SQLite file.
#[derive(Debug)]
pub struct SqliteLog {
    place: Location,
    /// To the writer; none where the log is only read.
    commands: Option<mpsc::Sender<Command>>,
    /// A log that is only read was closed.
    closed: AtomicBool,
    /// With the file it has open.
    reader: Mutex<Option<(SqliteConnection, FileId)>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waiters: Arc<Waiters>,
    time: LogTime,
    chores: Arc<Chores>,
    /// The last recount that was made unasked.
    recounted: std::sync::Mutex<Option<Recount>>,
}

impl SqliteLog {
    /// Opens the log in `folder` (`.windlass/`).
    pub async fn open(folder: &Path, options: OpenOptions) -> Result<Arc<Self>, OpenError> {
        let place = Location::new(folder);
        let (conn, time) = open::open(&place, &options).await?;
        let nonce = getrandom::u64().map_err(|_| OpenError::Random)?;
        let waiters = Arc::new(Waiters::default());
        let chores = Arc::new(Chores::default());
        let (commands, queue) = mpsc::channel(QUEUE);
        let writer = writer::Writer::new(
            place.clone(),
            conn,
            time.clone(),
            nonce,
            waiters.clone(),
            chores.clone(),
            &options,
        );
        let writer = Mutex::new(Some(tokio::spawn(writer.run(queue))));
        let commands = Some(commands);
        let (closed, reader) = (AtomicBool::new(false), Mutex::new(None));
        let recounted = std::sync::Mutex::default();
        let log = Arc::new(Self {
            place,
            commands,
            closed,
            reader,
            writer,
            waiters,
            time,
            chores,
            recounted,
        });
        if options.serve {
            tokio::spawn(recount::now_and_then(Arc::downgrade(&log)));
        }
        Ok(log)
    }

    /// Opens the log in `folder` to be read only: nothing is written there, not even what SQLite
    /// keeps beside its file. It may be a copy, lie on a file system that cannot be written, or be
    /// the log of a running process. What would write answers [`LogError::ReadOnly`]; so does a
    /// claim. Who waits is woken again and again, as nothing tells when there is something new.
    pub async fn open_read_only(folder: &Path) -> Result<Arc<Self>, OpenError> {
        Self::open_read_only_at(folder, Arc::new(SystemClock)).await
    }

    /// The same on another clock.
    pub async fn open_read_only_at(
        folder: &Path,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, OpenError> {
        let place = Location::new(folder);
        let time = readonly::open(&place, clock).await?;
        let waiters = Arc::new(Waiters::default());
        tokio::spawn(readonly::wake(Arc::downgrade(&waiters)));
        let closed = AtomicBool::new(false);
        let (reader, writer) = (Mutex::new(None), Mutex::new(None));
        let (chores, recounted) = (Arc::default(), std::sync::Mutex::default());
        let commands = None;
        Ok(Arc::new(Self {
            place,
            commands,
            closed,
            reader,
            writer,
            waiters,
            time,
            chores,
            recounted,
        }))
    }

    /// How far log time is ahead of the wall clock. Much of it comes from a boot at a bad hour: log
    /// time never goes back, so it stays ahead when the hour is right again. Ids tell that time, and
    /// spans are as long as ever.
    #[must_use]
    pub fn ahead_of_wall(&self) -> Duration {
        self.time.now().since(Timestamp(self.time.clock().wall_ms()))
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, LogError> {
        let Some(commands) = &self.commands else {
            let closed = self.closed.load(Ordering::Acquire);
            return Err(if closed { LogError::Closed } else { LogError::ReadOnly });
        };
        let (reply, answer) = oneshot::channel();
        if commands.send(command(reply)).await.is_err() {
            return Err(LogError::Closed);
        }
        answer.await.unwrap_or(Err(LogError::Closed))
    }

    /// Runs `read` on one snapshot.
    async fn read<T>(
        &self,
        read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, LogError> {
        Ok(self.read_timed(read).await?.0)
    }

    /// The same, and how long the snapshot lasted.
    async fn read_timed<T>(
        &self,
        read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<(T, Duration), LogError> {
        let mut slot = self.reader.lock().await;
        let ended = self.commands.as_ref().is_some_and(mpsc::Sender::is_closed);
        if ended || self.closed.load(Ordering::Acquire) {
            return Err(LogError::Closed);
        }
        let since = Instant::now();
        if self.commands.is_none() {
            let result = readonly::read(&self.place, read).await;
            let result = result.map(|value| (value, since.elapsed()));
            return result.map_err(|error| storage_error("reading failed", error));
        }
        let result = async {
            let there = FileId::of(&self.place);
            let mut conn = match slot.take() {
                Some((conn, opened)) if Some(opened) == there => conn,
                _ => self.place.connect_reader().await?,
            };
            let since = Instant::now();
            query("begin").execute(&mut conn).await?;
            let value = read(&mut conn).await?;
            query("commit").execute(&mut conn).await?;
            let took = since.elapsed();
            // Only a connection that came through whole is used again.
            *slot = there.map(|opened| (conn, opened));
            Ok((value, took))
        }
        .await;
        result.map_err(|error| storage_error("reading failed", error))
    }
}

#[async_trait]
impl MessageLog for SqliteLog {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fence: Fence::Strict,
            release_keeps_attempt: true,
            sends_commit_with_ack: true,
            durable: true,
        }
    }

    async fn publish(&self, batch: Vec<NewMessage>) -> Result<Vec<Published>, LogError> {
        self.ask(|reply| Command::Publish(batch, reply)).await
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>, LogError> {
        self.ask(|reply| Command::Claim(request, reply)).await
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>, LogError> {
        self.ask(|reply| Command::Extend(extensions, reply)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<Settled, LogError>> {
        let asked = settlements.len();
        match self.ask(|reply| Command::Settle(settlements, reply)).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); asked],
        }
    }

    fn waiter(&self, topic: &Topic, group: &Group) -> Waiter {
        self.waiters.add(topic, Some(group))
    }

    fn now(&self) -> Timestamp {
        self.time.now()
    }
}
