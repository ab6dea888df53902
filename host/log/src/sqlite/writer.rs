//! The one writer: gathers what callers want, does it in one transaction, and answers after COMMIT
//! said Ok.
//!
//! Owns the connection, the cache and the agenda. What a command means is in the files beside.

use super::agenda::Agenda;
use super::bell::Bell;
use super::cache::Cache;
use super::checkpoint::Checkpoints;
use super::command::{Answer, Command, Fail, answer, split};
use super::files::FileId;
use super::gather::gather;
use super::health::Chores;
use super::location::Location;
use super::open::OpenOptions;
use super::pending::Pending;
use super::rows::TopicId;
use super::space::Space;
use super::sweeper::Sweeper;
use super::touched::Touched;
use super::transaction::Syncing;
use super::turnstile::Turnstile;
use super::upkeep::exhausted;
use crate::clock::LogTime;
use crate::error::LogError;
use crate::waiter::Waiters;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use windlass_core::{Timestamp, Topic};

/// How often a log that stays open looks after itself.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// Tells everybody who waits when the writer ends, whatever ends it.
struct Last(Arc<Waiters>);

impl Drop for Last {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The writer of one open log.
pub(super) struct Writer {
    pub(super) place: Location,
    pub(super) conn: Option<SqliteConnection>,
    /// The file it has open.
    pub(super) opened: Option<FileId>,
    pub(super) syncing: Syncing,
    /// Another process has committed, and the waiters have not heard of it.
    pub(super) foreign: bool,
    /// Storage has failed; until then ended leases wait for settlements that could not be written.
    pub(super) grace_until: Timestamp,
    pub(super) time: LogTime,
    pub(super) nonce: u64,
    pub(super) serial: u64,
    pub(super) cache: Cache,
    pub(super) pending: Pending,
    pub(super) touched: Touched,
    pub(super) waiters: Arc<Waiters>,
    pub(super) agenda: Agenda,
    pub(super) bell: Bell,
    pub(super) turnstile: Turnstile,
    pub(super) checkpoints: Checkpoints,
    pub(super) space: Space,
    /// Told of what was done unasked.
    pub(super) chores: Arc<Chores>,
    pub(super) serve: bool,
    pub(super) tick_at: Timestamp,
    /// Topics of the groups written last.
    pub(super) settled_topics: BTreeSet<TopicId>,
    pub(super) sweeper: Sweeper,
    /// Whether deleted groups may have left something to clear away.
    pub(super) clearing: bool,
    /// How many messages had been published to topics that somebody waits for, and the highest
    /// sequence that was gone.
    pub(super) seen_published: HashMap<Topic, (u64, u64)>,
    #[cfg(feature = "testing")]
    pub(super) faults: super::faults::Faults,
}

impl Writer {
    pub(super) fn new(
        place: Location,
        conn: SqliteConnection,
        time: LogTime,
        nonce: u64,
        waiters: Arc<Waiters>,
        chores: Arc<Chores>,
        options: &OpenOptions,
    ) -> Self {
        let serve = options.serve;
        let bell = Bell::new(&place.folder, nonce, serve);
        let turnstile = Turnstile::new(&place.folder);
        let checkpoints = Checkpoints::new(&place, options.checkpoint_every());
        let tick_at = time.now();
        let opened = FileId::of(&place);
        Self {
            place,
            conn: Some(conn),
            opened,
            syncing: Syncing { on: true, owed: false, behind: false, doubted: false },
            foreign: false,
            grace_until: Timestamp(0),
            time,
            nonce,
            serial: 0,
            cache: Cache::default(),
            pending: Pending::default(),
            touched: Touched::default(),
            waiters,
            agenda: Agenda::default(),
            bell,
            turnstile,
            checkpoints,
            space: Space::default(),
            chores,
            serve,
            tick_at,
            settled_topics: BTreeSet::new(),
            sweeper: Sweeper::default(),
            clearing: false,
            seen_published: HashMap::new(),
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
        self.syncing.owed |= !self.syncing.on;
    }

    /// Writes what queries may ask for.
    pub(super) async fn flush_rows(&mut self) -> Result<(), Fail> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed.into()) };
        Ok(self.pending.flush_rows(conn, &mut self.cache).await?)
    }

    /// Writes everything.
    pub(super) async fn flush(&mut self) -> Result<(), Fail> {
        let Some(conn) = &mut self.conn else { return Err(sqlx::Error::PoolClosed.into()) };
        let script = self.pending.finish(conn, &mut self.cache).await?;
        Ok(script.run(conn).await?)
    }

    /// Serves commands until nobody can send any, or one says close.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let last = Last(Arc::clone(&self.waiters));
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
            let (batch, begun) = gather(first, &mut commands, expected, self.begin(true)).await;
            expected = batch.len();
            let (closes, batch): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|command| matches!(command, Command::Close(_)));
            let closing = !closes.is_empty();
            if !batch.is_empty() {
                self.transact(batch, begun).await;
            }
            for close in closes {
                close.refuse()(None);
            }
            if closing {
                break;
            }
        }
        drop(last);
        commands.close();
        while let Some(command) = commands.recv().await {
            command.refuse()(Some(&LogError::Closed));
        }
        self.sync_before_closing().await;
        self.checkpoints.close().await;
        if let Some(conn) = self.conn.take() {
            let _closing_anyway = conn.close().await;
        }
    }

    fn until_next_event(&self) -> Duration {
        let next = self.agenda.next().map_or(self.tick_at, |next| next.min(self.tick_at));
        next.since(self.time.now())
    }

    /// One transaction for all of `batch`, then the answers. `begun`: what beginning it answered,
    /// where that was done already.
    async fn transact(&mut self, mut batch: Vec<Command>, begun: Option<Result<(), sqlx::Error>>) {
        batch.sort_by_key(Command::rank);
        let begun = match begun {
            Some(begun) => begun,
            None => self.begin(batch.iter().any(Command::must_sync)).await,
        };
        let mut answers = Vec::with_capacity(batch.len());
        match self.attempt(batch, begun, &mut answers).await {
            Ok(()) => {
                for answer in answers {
                    answer(None);
                }
                self.after_commit();
                self.sweep_surplus().await;
                self.checkpoint(false).await;
            }
            Err(error) => {
                let error = self.give_up(error).await;
                for answer in answers {
                    answer(Some(&error));
                }
            }
        }
    }

    /// Everything from BEGIN up to COMMIT. On an error the answers of all commands are in `answers`, and the
    /// transaction's fate is: not committed, or unknown to us.
    async fn attempt(
        &mut self,
        batch: Vec<Command>,
        begun: Result<(), sqlx::Error>,
        answers: &mut Vec<Answer>,
    ) -> Result<(), sqlx::Error> {
        let mut failed = begun.err();
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
        match self.repair_broken().await {
            Ok(()) => {}
            Err(Fail::Storage(error)) => return Err(error),
            Err(Fail::Refused(error)) => return Err(sqlx::Error::Protocol(error.to_string())),
        }
        self.publish_copies().await?;
        self.commit().await?;
        if std::mem::take(&mut self.syncing.owed) {
            self.sync().await?;
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
            // A claim whose caller is gone would hold messages for nobody.
            Command::Claim(_, reply) if reply.is_closed() => (answer(reply, Ok(Vec::new())), None),
            Command::Claim(request, reply) => outcome(reply, self.claim(request).await),
            Command::Extend(extensions, reply) => outcome(reply, self.extend(extensions).await),
            Command::Settle(settlements, reply) => outcome(reply, self.settle(settlements).await),
            Command::DeclareTopics(mode, topics, reply) => {
                outcome(reply, self.declare_topics(mode, &topics).await)
            }
            Command::DeclareGroups(groups, reply) => {
                outcome(reply, self.declare_groups(groups).await)
            }
            Command::SetLimits(topic, limits, force, reply) => {
                outcome(reply, self.set_limits(&topic, limits, force).await)
            }
            Command::Deploy(seen, changes, reply) => {
                outcome(reply, self.deploy(seen, changes).await)
            }
            Command::Tell(said, reply) => outcome(reply, self.tell(said).await),
            Command::Replace(what, reply) => outcome(reply, self.replace(what).await),
            Command::PurgeTopic(topic, with_dead, through, reply) => {
                outcome(reply, self.purge_topic(&topic, with_dead, through).await)
            }
            Command::RemoveTopic(topic, force, reply) => {
                outcome(reply, self.remove_topic(&topic, force).await)
            }
            Command::AddGroup(spec, reply) => outcome(reply, self.add_group(spec).await),
            Command::RemoveGroup(topic, group, force, reply) => {
                outcome(reply, self.remove_group(&topic, &group, force).await)
            }
            Command::Seek(topic, group, to, reply) => {
                outcome(reply, self.seek(&topic, &group, to).await)
            }
            // A transfer whose caller is gone would hold messages for nobody.
            Command::Transfer(_, reply) if reply.is_closed() => {
                (answer(reply, Ok(Vec::new())), None)
            }
            Command::Transfer(request, reply) => outcome(reply, self.transfer(request).await),
            Command::ReleaseWorker(topic, group, worker, reply) => {
                outcome(reply, self.release_worker(&topic, &group, &worker).await)
            }
            Command::AcknowledgeGap(topic, group, reply) => {
                outcome(reply, self.acknowledge_gap(&topic, &group).await)
            }
            Command::ClearGone(reply) => outcome(reply, self.clear_gone().await),
            Command::Cancel(id, group, reply) => {
                outcome(reply, self.cancel(id, group.as_ref()).await)
            }
            Command::MakeDue(id, group, reply) => {
                outcome(reply, self.make_due(id, group.as_ref()).await)
            }
            Command::Redrive(topic, group, filter, after, reply) => {
                outcome(reply, self.redrive(&topic, group.as_ref(), &filter, after).await)
            }
            Command::PurgeDead(topic, group, after, reply) => {
                outcome(reply, self.purge_dead(&topic, group.as_ref(), after).await)
            }
            Command::Sweep(from, reply) => outcome(reply, self.sweep_from(from).await),
            Command::SetRetain(span, messages, reply) => {
                outcome(reply, self.set_retain(span, messages).await)
            }
            Command::Close(reply) => (answer(reply, Ok(())), None),
        }
    }

    /// Wakes those who may now find something, and sets the agenda.
    pub(super) fn after_commit(&mut self) {
        let now = self.time.now();
        let touched = std::mem::take(&mut self.touched);
        let mut ring = !touched.topics.is_empty() || !touched.left.is_empty();
        for (topic, group) in touched.left {
            // Its claimers are to hear that it is not there any more.
            self.waiters.wake_group(&topic, &group);
            if self.serve {
                self.sweeper.look(&topic, now.after(TICK));
            }
        }
        for topic in touched.topics {
            if let Some(row) = self.cache.topic_row(topic) {
                self.waiters.wake_topic(&row.name);
                if let Some(span) = row.limits.max_age.filter(|_| self.serve) {
                    self.sweeper.look(&row.name, now.after(span));
                }
            }
        }
        for id in touched.again {
            if let Some(group) = self.cache.group_row(id) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                ring = true;
            }
        }
        for id in std::mem::take(&mut self.pending.written_groups) {
            let Some(group) = self.cache.group_row_mut(id) else { continue };
            if self.serve {
                self.settled_topics.insert(group.topic);
                self.sweeper.look(&group.topic_name, now.after(TICK));
            }
            // Room under the in-flight limit is news to whoever found none.
            let full = group.is_full();
            let was_full = std::mem::replace(&mut group.full, full);
            if group.has_due(now) || (was_full && !group.full) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                ring = true;
            }
            let act_now = now >= self.grace_until && exhausted(group, now);
            let next = if act_now { Some(now) } else { group.next_event(now) };
            self.agenda.set(id, next);
        }
        if ring {
            self.bell.ring();
        }
    }
}
