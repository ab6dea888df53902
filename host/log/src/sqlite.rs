//! The SQLite log: one file, one writer, commits shared by all callers that wait.
//!
//! This is the door: it hands wishes to the writer and reads for operators. How the file is laid
//! out is in `schema.sql`, what a wish does in the files named after it.

mod agenda;
mod bell;
mod bury;
mod cache;
mod claim;
mod command;
mod counts;
#[cfg(feature = "testing")]
mod faults;
mod floors;
mod gather;
mod groups;
mod heads;
mod letters;
mod open;
mod pending;
mod publish;

mod record;
mod repair;
mod rows;
mod settle;
mod sql;
mod sweep;
mod sweeper;
mod tail;
mod transaction;
mod upkeep;
mod writer;

#[cfg(feature = "testing")]
pub use faults::Faults;
pub use open::{FILE_NAME, OpenError, OpenOptions};

use crate::admin::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery, Declared, GroupSpec, LogAdmin, Redriven,
    TopicState, TopicsMode,
};
use crate::api::{
    Capabilities, Claim, ClaimRequest, Extended, Extension, Fence, MessageLog, Published, Settled,
    Settlement,
};
use crate::clock::LogTime;
use crate::error::LogError;
use crate::inspect::{MessageState, Pending, PendingQuery, ReadPage, ReadRequest};
use crate::waiter::{Waiter, Waiters};
use async_trait::async_trait;
use command::{Command, Place, Reply, storage_error};
use open::Location;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, query};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use windlass_core::{Group, MessageId, NewMessage, Timestamp, Topic};

/// Callers that may queue for the writer before the next one waits.
const QUEUE: usize = 4_096;

/// A log in one SQLite file.
#[derive(Debug)]
pub struct SqliteLog {
    place: Location,
    commands: mpsc::Sender<Command>,
    reader: Mutex<Option<SqliteConnection>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    waiters: Arc<Waiters>,
    time: LogTime,
}

impl SqliteLog {
    /// Opens the log in `folder` (`.windlass/`).
    pub async fn open(folder: &Path, options: OpenOptions) -> Result<Arc<Self>, OpenError> {
        let place = Location::new(folder);
        let (conn, time) = open::open(&place, &options).await?;
        let nonce = getrandom::u64().map_err(|_| OpenError::Random)?;
        let waiters = Arc::new(Waiters::default());
        let (commands, queue) = mpsc::channel(QUEUE);
        let writer = writer::Writer::new(
            place.clone(),
            conn,
            time.clone(),
            nonce,
            waiters.clone(),
            &options,
        );
        let writer = Mutex::new(Some(tokio::spawn(writer.run(queue))));
        Ok(Arc::new(Self { place, commands, reader: Mutex::new(None), writer, waiters, time }))
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, LogError> {
        let (reply, answer) = oneshot::channel();
        if self.commands.send(command(reply)).await.is_err() {
            return Err(LogError::Closed);
        }
        answer.await.unwrap_or(Err(LogError::Closed))
    }

    /// Runs `read` on one snapshot.
    async fn read<T>(
        &self,
        read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T>,
    ) -> Result<T, LogError> {
        let mut slot = self.reader.lock().await;
        if self.commands.is_closed() {
            return Err(LogError::Closed);
        }
        let result = async {
            let mut conn = match slot.take() {
                Some(conn) => conn,
                None => self.place.connect_reader().await?,
            };
            query("begin").execute(&mut conn).await?;
            let value = read(&mut conn).await?;
            query("commit").execute(&mut conn).await?;
            // Only a connection that came through whole is used again.
            *slot = Some(conn);
            Ok(value)
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
        self.waiters.add(topic, group)
    }

    fn now(&self) -> Timestamp {
        self.time.now()
    }
}

#[async_trait]
impl LogAdmin for SqliteLog {
    async fn declare_topics(&self, mode: TopicsMode, topics: Vec<Topic>) -> Result<(), LogError> {
        self.ask(|reply| Command::DeclareTopics(mode, topics, reply)).await
    }

    async fn declare_groups(&self, groups: Vec<GroupSpec>) -> Result<Vec<Declared>, LogError> {
        self.ask(|reply| Command::DeclareGroups(groups, reply)).await
    }

    async fn topics(&self) -> Result<Vec<TopicState>, LogError> {
        let now = self.time.now();
        self.read(async |conn| counts::topics(conn, None, now).await).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicState>, LogError> {
        let now = self.time.now();
        let found = self.read(async |conn| counts::topics(conn, Some(topic), now).await).await?;
        Ok(found.into_iter().next())
    }

    async fn dead_letters(&self, wanted: DeadLetterQuery) -> Result<Vec<DeadLetter>, LogError> {
        self.read(async |conn| letters::dead_letters(conn, &wanted).await).await?
    }

    async fn add_group(&self, _group: GroupSpec) -> Result<(), LogError> {
        Err(LogError::NotBuilt("adding a group"))
    }

    async fn remove_group(
        &self,
        _topic: &Topic,
        _group: &Group,
        _force: bool,
    ) -> Result<Counts, LogError> {
        Err(LogError::NotBuilt("removing a group"))
    }

    async fn pending(&self, _query: PendingQuery) -> Result<Vec<Pending>, LogError> {
        Err(LogError::NotBuilt("listing deliveries"))
    }

    async fn message(&self, _id: MessageId) -> Result<Option<MessageState>, LogError> {
        Err(LogError::NotBuilt("showing a message"))
    }

    async fn cancel(&self, _id: MessageId, _group: Option<&Group>) -> Result<u64, LogError> {
        Err(LogError::NotBuilt("cancelling a message"))
    }

    async fn make_due(&self, _id: MessageId, _group: Option<&Group>) -> Result<u64, LogError> {
        Err(LogError::NotBuilt("making a message due"))
    }

    async fn stream(&self, _request: ReadRequest) -> Result<ReadPage, LogError> {
        Err(LogError::NotBuilt("reading a topic's stream"))
    }

    fn arrivals(&self, topic: &Topic) -> Waiter {
        self.waiters.add(topic, &Group::default())
    }

    async fn redrive(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        _filter: &DeadLetterFilter,
    ) -> Result<Redriven, LogError> {
        let (mut moved, mut after) = (0, Place::default());
        loop {
            let (topic, group) = (topic.clone(), group.cloned());
            let step = self.ask(|reply| Command::Redrive(topic, group, after, reply)).await?;
            moved += step.moved;
            match step.next {
                Some(next) => after = next,
                None => return Ok(Redriven { moved, of: moved }),
            }
        }
    }

    async fn purge_dead(&self, topic: &Topic, group: Option<&Group>) -> Result<u64, LogError> {
        let (mut purged, mut after) = (0, Place::default());
        loop {
            let (topic, group) = (topic.clone(), group.cloned());
            let step = self.ask(|reply| Command::PurgeDead(topic, group, after, reply)).await?;
            purged += step.moved;
            match step.next {
                Some(next) => after = next,
                None => return Ok(purged),
            }
        }
    }

    async fn sweep(&self) -> Result<u64, LogError> {
        let (mut removed, mut from) = (0, None);
        loop {
            let (gone, next) = self.ask(|reply| Command::Sweep(from, reply)).await?;
            removed += gone;
            match next {
                Some(next) => from = Some(next),
                None => return Ok(removed),
            }
        }
    }

    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError> {
        self.ask(|reply| Command::SetRetain(span, messages, reply)).await
    }

    async fn close(&self) {
        // An error means that it is closed already.
        let _closed = self.ask(Command::Close).await;
        if let Some(writer) = self.writer.lock().await.take() {
            let _ended = writer.await;
        }
        if let Some(conn) = self.reader.lock().await.take() {
            let _nothing_to_lose = conn.close().await;
        }
    }
}
