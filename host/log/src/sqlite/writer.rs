//! The one writer: gathers what callers want, does it in one transaction, and answers after COMMIT
//! said Ok.
//!
//! Owns the connection, the cache and the agenda. What a command means is in the files beside.

use super::agenda::Agenda;
use super::bell::Bell;
use super::cache::{Cache, GroupRow, TopicId, unsigned};
use super::command::{Answer, Command, Fail, answer, split, storage_error};
use super::gather::gather;
use super::open::{OpenOptions, Place};
use super::pending::Pending;
use crate::clock::LogTime;
use crate::error::LogError;
use crate::waiter::Waiters;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, query};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use windlass_core::Timestamp;

/// How long to wait for another process's transaction.
const BUSY_PATIENCE: Duration = Duration::from_secs(10);
/// How often a log that stays open looks after itself.
const TICK: Duration = Duration::from_secs(1);
/// More than this beyond `retain`, and the sweep does not wait for the tick.
const SWEEP_SURPLUS: u64 = super::sweep::CHUNK;

/// What the transaction under way has changed, for waking.
#[derive(Debug, Default)]
pub(super) struct Touched {
    pub(super) topics: BTreeSet<TopicId>,
}

/// The writer of one open log.
pub(super) struct Writer {
    place: Place,
    conn: Option<SqliteConnection>,
    /// Whether the connection syncs its commits now.
    synced: bool,
    /// An unsynced transaction did what must be on the disk before its answer.
    owes_sync: bool,
    pub(super) time: LogTime,
    pub(super) nonce: u64,
    pub(super) serial: u64,
    pub(super) cache: Cache,
    pub(super) pending: Pending,
    pub(super) touched: Touched,
    pub(super) waiters: Arc<Waiters>,
    pub(super) agenda: Agenda,
    bell: Bell,
    serve: bool,
    tick_at: Timestamp,
    /// Whether all groups have been looked at since the cache was last dropped.
    surveyed: bool,
    /// Topics of the groups written last.
    settled_topics: BTreeSet<TopicId>,
    #[cfg(feature = "testing")]
    faults: super::faults::Faults,
}

impl Writer {
    pub(super) fn new(
        place: Place,
        conn: SqliteConnection,
        time: LogTime,
        nonce: u64,
        waiters: Arc<Waiters>,
        options: &OpenOptions,
    ) -> Self {
        let serve = options.serve;
        let bell = Bell::new(&place.folder, nonce, serve);
        let tick_at = time.now();
        Self {
            place,
            conn: Some(conn),
            synced: true,
            owes_sync: false,
            time,
            nonce,
            serial: 0,
            cache: Cache::default(),
            pending: Pending::default(),
            touched: Touched::default(),
            waiters,
            agenda: Agenda::default(),
            bell,
            serve,
            tick_at,
            surveyed: false,
            settled_topics: BTreeSet::new(),
            #[cfg(feature = "testing")]
            faults: options.faults.clone(),
        }
    }

    /// The connection and the cache, side by side.
    pub(super) fn parts(&mut self) -> Result<(&mut SqliteConnection, &mut Cache), Fail> {
        match &mut self.conn {
            Some(conn) => Ok((conn, &mut self.cache)),
            None => Err(Fail::Storage(sqlx::Error::PoolClosed)),
        }
    }

    /// What this transaction does must be synced before its answer.
    pub(super) fn owe_sync(&mut self) {
        self.owes_sync |= !self.synced;
    }

    /// Writes what queries may ask for.
    pub(super) async fn flush_rows(&mut self) -> Result<(), Fail> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed.into()) };
        Ok(self.pending.flush_rows(conn).await?)
    }

    /// Writes everything.
    pub(super) async fn flush(&mut self) -> Result<(), Fail> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed.into()) };
        Ok(self.pending.flush(conn, &mut self.cache).await?)
    }

    /// Serves commands until nobody can send any, or one says close.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let heard = self.bell.heard();
        let clock = self.time.clock().clone();
        let mut expected = 1;
        loop {
            let wait = self.until_next_event();
            let first = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => command,
                    None => break,
                },
                () = clock.sleep(wait), if self.serve => {
                    self.on_time().await;
                    continue;
                }
                () = heard.notified(), if self.serve => {
                    self.on_bell().await;
                    continue;
                }
            };
            let batch = gather(first, &mut commands, expected).await;
            expected = batch.len();
            let closing = batch.iter().any(|command| matches!(command, Command::Close(_)));
            self.transact(batch).await;
            if closing {
                break;
            }
        }
        commands.close();
        while let Some(command) = commands.recv().await {
            command.refuse()(Some(&LogError::Closed));
        }
        if let Some(conn) = self.conn.take() {
            let _closing_anyway = conn.close().await;
        }
    }

    fn until_next_event(&self) -> Duration {
        let next = self.agenda.next().map_or(self.tick_at, |next| next.min(self.tick_at));
        next.since(self.time.now())
    }

    /// One transaction for all of `batch`, then the answers.
    async fn transact(&mut self, mut batch: Vec<Command>) {
        batch.sort_by_key(Command::rank);
        let synced = batch.iter().any(Command::must_sync);
        let mut answers = Vec::with_capacity(batch.len());
        match self.attempt(batch, synced, &mut answers).await {
            Ok(()) => {
                for answer in answers {
                    answer(None);
                }
                self.after_commit();
                self.sweep_surplus().await;
            }
            Err(error) => {
                let error = self.give_up(error).await;
                for answer in answers {
                    answer(Some(&error));
                }
            }
        }
    }

    /// Everything up to COMMIT. On an error the answers of all commands are in `answers`, and the
    /// transaction's fate is: not committed, or unknown to us.
    async fn attempt(
        &mut self,
        batch: Vec<Command>,
        synced: bool,
        answers: &mut Vec<Answer>,
    ) -> Result<(), sqlx::Error> {
        let mut failed = self.begin(synced).await.err();
        for command in batch {
            if failed.is_some() {
                answers.push(command.refuse());
                continue;
            }
            let (answer, error) = self.perform(command).await;
            answers.push(answer);
            failed = error;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        self.commit().await?;
        if std::mem::take(&mut self.owes_sync) {
            // A synced commit syncs all that the file's log holds.
            self.begin(true).await?;
            self.pending.state = true;
            self.commit().await?;
        }
        Ok(())
    }

    /// Does one command inside the transaction.
    async fn perform(&mut self, command: Command) -> (Answer, Option<sqlx::Error>) {
        fn outcome<T: Send + 'static>(
            reply: super::command::Reply<T>,
            result: Result<T, Fail>,
        ) -> (Answer, Option<sqlx::Error>) {
            let (result, error) = split(result);
            (answer(reply, result), error)
        }
        match command {
            Command::Publish(batch, reply) => outcome(reply, self.publish(batch).await),
            Command::Claim(request, reply) => outcome(reply, self.claim(request).await),
            Command::Extend(extensions, reply) => outcome(reply, self.extend(extensions).await),
            Command::Settle(settlements, reply) => outcome(reply, self.settle(settlements).await),
            Command::DeclareTopics(mode, topics, reply) => {
                outcome(reply, self.declare_topics(mode, &topics).await)
            }
            Command::DeclareGroups(groups, reply) => {
                outcome(reply, self.declare_groups(groups).await)
            }
            Command::Redrive(topic, group, reply) => {
                outcome(reply, self.redrive(&topic, group.as_ref()).await)
            }
            Command::PurgeDead(topic, group, reply) => {
                outcome(reply, self.purge_dead(&topic, group.as_ref()).await)
            }
            Command::Sweep(reply) => outcome(reply, self.sweep_all().await),
            Command::SetRetain(span, messages, reply) => {
                outcome(reply, self.set_retain(span, messages).await)
            }
            Command::Close(reply) => (answer(reply, Ok(())), None),
        }
    }

    /// Takes the write lock and looks whether somebody else has committed.
    async fn begin(&mut self, synced: bool) -> Result<(), sqlx::Error> {
        if self.conn.is_none() {
            self.conn = Some(self.place.connect_writer().await?);
            self.synced = true;
        }
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        if self.synced != synced {
            // Not allowed inside a transaction, so it goes before.
            let mode =
                if synced { "pragma synchronous = full" } else { "pragma synchronous = normal" };
            sqlx::raw_sql(mode).execute(&mut *conn).await?;
            self.synced = synced;
        }
        let since = Instant::now();
        loop {
            // The row is of the last statement, so stopping at it leaves nothing undone.
            match query("begin immediate; pragma data_version").fetch_one(&mut *conn).await {
                Ok(row) => {
                    self.cache.seen(row.try_get(0)?);
                    return Ok(());
                }
                Err(error) if is_busy(&error) && since.elapsed() < BUSY_PATIENCE => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn commit(&mut self) -> Result<(), sqlx::Error> {
        match self.flush().await {
            Ok(()) => {}
            Err(Fail::Storage(error)) => return Err(error),
            Err(Fail::Refused(_)) => return Err(sqlx::Error::PoolClosed),
        }
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed) };
        #[cfg(feature = "testing")]
        self.faults.before_commit(conn).await?;
        query("commit").execute(conn).await?;
        Ok(())
    }

    /// After a failure nothing that was remembered is trusted, and the connection is replaced:
    /// SQLite may have rolled back by itself, and sqlx would not know.
    async fn give_up(&mut self, error: sqlx::Error) -> LogError {
        tracing::warn!(%error, "a transaction of the log failed");
        self.cache = Cache::default();
        self.pending = Pending::default();
        self.touched = Touched::default();
        self.owes_sync = false;
        self.agenda.clear();
        self.surveyed = false;
        self.tick_at = self.time.now().after(TICK);
        if let Some(conn) = self.conn.take() {
            let _broken_anyway = conn.close_hard().await;
        }
        storage_error("the transaction failed", error)
    }

    /// Wakes those who may now find something, and sets the agenda.
    fn after_commit(&mut self) {
        let now = self.time.now();
        let touched = std::mem::take(&mut self.touched);
        let mut ring = !touched.topics.is_empty();
        for topic in touched.topics {
            if let Some(row) = self.cache.topics.get(&topic) {
                self.waiters.wake_topic(&row.name);
            }
        }
        for id in std::mem::take(&mut self.pending.written_groups) {
            let Some(group) = self.cache.groups.get(&id) else { continue };
            if self.serve {
                self.settled_topics.insert(group.topic);
            }
            if group.has_due(now) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                ring = true;
            }
            let next = if exhausted(group, now) { Some(now) } else { group.next_event(now) };
            self.agenda.set(id, next);
        }
        if ring {
            self.bell.ring();
        }
    }

    /// A lease has ended, something is due, or it is time to look around.
    async fn on_time(&mut self) {
        let now = self.time.now();
        let due = self.agenda.take_due(now);
        for id in &due {
            if let Some(group) = self.cache.groups.get(id) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                self.agenda.set(*id, group.next_event(now));
            }
        }
        let exhausted = due.into_iter().any(|id| self.has_exhausted(id, now));
        if now >= self.tick_at {
            self.tick_at = now.after(TICK);
            self.upkeep(true).await;
        } else if exhausted {
            self.upkeep(false).await;
        }
    }

    fn has_exhausted(&self, id: u64, now: Timestamp) -> bool {
        self.cache.groups.get(&id).is_some_and(|group| exhausted(group, now))
    }

    /// Buries what has used up its attempts; sweeps, where asked. Quiet when there is nothing.
    async fn upkeep(&mut self, look_around: bool) {
        let result = async {
            if look_around {
                self.refresh().await?;
            }
            let now = self.time.now();
            let ids: Vec<u64> = self.cache.groups.keys().copied().collect();
            if ids.iter().any(|id| self.has_exhausted(*id, now)) {
                self.begin(true).await?;
                for id in ids {
                    let (conn, cache) = self.parts()?;
                    cache.group_by_id(conn, id).await?;
                    while self.bury_exhausted(id, now)? > 0 {}
                }
                self.commit().await?;
                self.after_commit();
            }
            if look_around {
                self.begin(false).await?;
                self.repair_broken().await?;
                self.sweep_all().await?;
                self.commit().await?;
                self.after_commit();
            }
            Ok::<(), Fail>(())
        }
        .await;
        if let Err(Fail::Storage(error)) = result {
            let _told_in_the_trace = self.give_up(error).await;
        }
    }

    /// Sweeps topics that have piled up more than `retain` lets stay.
    async fn sweep_surplus(&mut self) {
        if !self.serve {
            return;
        }
        let surplus: Vec<TopicId> = self.surplus_topics();
        if surplus.is_empty() {
            return;
        }
        let result = async {
            self.begin(false).await?;
            for topic in surplus {
                self.sweep_topic(topic).await?;
            }
            self.commit().await?;
            Ok::<(), Fail>(())
        }
        .await;
        match result {
            Ok(()) => self.after_commit(),
            Err(Fail::Storage(error)) => drop(self.give_up(error).await),
            Err(Fail::Refused(_)) => {}
        }
    }

    /// Topics last written whose stored and passed messages exceed `retain` by a chunk.
    fn surplus_topics(&mut self) -> Vec<TopicId> {
        let Some(retain) = self.cache.retain_messages() else { return Vec::new() };
        let mut surplus = std::mem::take(&mut self.settled_topics);
        surplus.retain(|topic| {
            let Some(row) = self.cache.topics.get(topic) else { return false };
            let passed = row.groups.iter().map(|id| {
                self.cache
                    .groups
                    .get(id)
                    .map_or(0, |group| group.passed.saturating_sub(group.leases.len() as u64))
            });
            let gone = row.removed + row.stragglers;
            passed.min().unwrap_or(0).saturating_sub(gone) > retain + SWEEP_SURPLUS
        });
        surplus.into_iter().collect()
    }

    /// Another process has committed: wakes whoever waits where something has changed.
    async fn on_bell(&mut self) {
        if let Err(Fail::Storage(error)) = self.refresh().await {
            let _told_in_the_trace = self.give_up(error).await;
        }
    }

    /// Reads what other processes have changed. Outside a transaction, so only good for waking.
    async fn refresh(&mut self) -> Result<(), Fail> {
        if self.conn.is_none() {
            self.conn = Some(self.place.connect_writer().await?);
            self.synced = true;
        }
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        let row = query("pragma data_version").fetch_one(&mut *conn).await?;
        let moved = cache.seen(row.try_get(0)?);
        if !moved && std::mem::replace(&mut self.surveyed, true) {
            return Ok(());
        }
        let (conn, _) = self.parts()?;
        let rows = query("select id from grp").fetch_all(&mut *conn).await?;
        let ids = rows.iter().map(|row| unsigned(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
        for id in ids {
            let (conn, cache) = self.parts()?;
            let before = cache.groups.get(&id).map(|group| group.version);
            if cache.group_by_id(conn, id).await?.is_none() {
                continue;
            }
            let Some(group) = self.cache.groups.get(&id) else { continue };
            if before != Some(group.version) {
                self.agenda.set(id, group.next_event(now));
            }
        }
        // A topic may have new messages, a group something that is due; a claim tells.
        for topic in self.waiters.topics() {
            self.waiters.wake_topic(&topic);
        }
        Ok(())
    }
}

/// Whether a lease has ended whose attempts are used up.
fn exhausted(group: &GroupRow, now: Timestamp) -> bool {
    let max = group.policy.max_attempts.get();
    group.leases.ended(now).any(|lease| lease.attempt >= max)
}

fn is_busy(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse::<i32>().ok())
        .is_some_and(|code| code & 0xff == libsqlite3_sys::SQLITE_BUSY)
}
