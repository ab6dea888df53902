//! The memory log: a real backend made of pure decisions, and the oracle for the SQLite log.
//!
//! Everything it knows is one value behind one lock (`state`); this file brings it the time,
//! wakes whom it says, and runs the task that acts on lease ends and due times while nobody claims.
//! Nothing survives the process.

mod admin;
mod age;
mod claim;
mod copies;
mod deployments;
mod group;
mod groups;
mod inspect;
mod purge;
mod quota;
mod settle;
mod state;
mod stream;
mod sweep;
mod transfer;
mod waiting;

use crate::admin::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery, Declared, Gap, GroupSpec, LogAdmin,
    Purged, RETAIN, Redriven, TopicLimits, TopicState, TopicsMode,
};
use crate::api::{
    Capabilities, Claim, ClaimRequest, Extended, Extension, Fence, MessageLog, Published, Settled,
    Settlement, Start,
};
use crate::clock::{Clock, LogTime, offset_after_boot};
use crate::error::LogError;
use crate::health::{ClockHealth, Health, Recount};
use crate::inspect::{
    GroupLag, MessageState, Pending, PendingQuery, ReadPage, ReadRequest, TransferRequest,
};
use crate::waiter::{Waiter, Waiters};
use async_trait::async_trait;
use state::{Moment, State, Wakes};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use windlass_core::{Group, GroupPolicy, MessageId, NewMessage, Timestamp, Topic};

/// How often the log sweeps; also each time as much was settled as `retain` keeps.
const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// What a [`MemoryLog`] does by itself.
#[derive(Debug, Clone, Copy)]
pub struct MemoryOptions {
    /// Act on lease ends and due times by itself, and sweep. Without it everything happens when
    /// it is asked, so that one log can be compared with another step by step.
    pub serve: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { serve: true }
    }
}

/// A log that lives as long as its process.
#[derive(Debug)]
pub struct MemoryLog {
    state: Mutex<State>,
    waiters: Waiters,
    time: LogTime,
    alarm: Arc<Notify>,
}

impl MemoryLog {
    /// An empty log that serves. Must be called within a tokio runtime, on which its background
    /// task runs.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Self::with_options(clock, MemoryOptions::default())
    }

    /// An empty log that does by itself what `options` say.
    #[must_use]
    pub fn with_options(clock: Arc<dyn Clock>, options: MemoryOptions) -> Arc<Self> {
        // Without randomness tokens are still unique here: they do not outlive the process.
        let nonce = getrandom::u64().unwrap_or(0);
        let offset = offset_after_boot(clock.as_ref(), Timestamp(0));
        let log = Arc::new(Self {
            state: Mutex::new(State::new(nonce, RETAIN)),
            waiters: Waiters::default(),
            time: LogTime::new(clock, offset),
            alarm: Arc::new(Notify::new()),
        });
        if options.serve {
            tokio::spawn(look_after(Arc::downgrade(&log)));
        }
        log
    }

    /// Runs one operation on the state at one moment, then wakes whom it says.
    fn act<T>(
        &self,
        operation: impl FnOnce(&mut State, Moment, &mut Wakes) -> T,
    ) -> Result<T, LogError> {
        let mut wakes = Wakes::default();
        let answer = {
            let mut state = self.lock();
            if state.closed {
                return Err(LogError::Closed);
            }
            let moment = self.moment();
            let answer = operation(&mut state, moment, &mut wakes);
            state.publish_copies(moment, &mut wakes);
            answer
        };
        self.wake(&wakes);
        Ok(answer)
    }

    fn wake(&self, wakes: &Wakes) {
        for topic in &wakes.topics {
            self.waiters.wake_topic(topic);
        }
        for (topic, group) in &wakes.groups {
            self.waiters.wake_group(topic, group);
        }
        if wakes.alarm {
            self.alarm.notify_one();
        }
    }

    /// The moment is taken under the lock, so that time rises in the order of operations.
    fn moment(&self) -> Moment {
        Moment { now: self.time.now(), wall_ms: self.time.clock().wall_ms() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MemoryLog {
    fn drop(&mut self) {
        self.alarm.notify_one();
    }
}

/// Acts on lease ends and due times, and sweeps, until the log is dropped or closed.
async fn look_after(log: Weak<MemoryLog>) {
    let mut swept_at = Timestamp(0);
    loop {
        let Some(held) = log.upgrade() else { return };
        let Ok(sleep) = held.act(|state, at, wakes| {
            let next = state.reap(at.now, wakes).since(at.now);
            if at.now.since(swept_at) >= SWEEP_EVERY || state.settled >= state.sweep_after() {
                state.sweep(at.now);
                swept_at = at.now;
            }
            next.min(SWEEP_EVERY)
        }) else {
            return;
        };
        let (clock, alarm) = (Arc::clone(held.time.clock()), Arc::clone(&held.alarm));
        drop(held);
        // Nothing may wait between reading the time above and this.
        tokio::select! {
            () = clock.sleep(sleep) => {}
            () = alarm.notified() => {}
        }
    }
}

#[async_trait]
impl MessageLog for MemoryLog {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fence: Fence::Strict,
            release_keeps_attempt: true,
            sends_commit_with_ack: true,
            durable: false,
        }
    }

    async fn publish(&self, batch: Vec<NewMessage>) -> Result<Vec<Published>, LogError> {
        self.act(|state, at, wakes| state.publish(batch, at, wakes))?
    }

    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>, LogError> {
        self.act(|state, at, wakes| state.claim(&request, at.now, wakes))?
    }

    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>, LogError> {
        self.act(|state, at, wakes| {
            extensions.iter().map(|extension| state.extend(extension, at.now, wakes)).collect()
        })
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<Settled, LogError>> {
        let asked = settlements.len();
        self.act(|state, at, wakes| {
            let answers = settlements.into_iter().map(|one| state.settle(one, at, wakes)).collect();
            wakes.alarm |= state.settled >= state.sweep_after();
            answers
        })
        .unwrap_or_else(|closed| vec![Err(closed); asked])
    }

    fn waiter(&self, topic: &Topic, group: &Group) -> Waiter {
        self.waiters.add(topic, Some(group))
    }

    fn now(&self) -> Timestamp {
        self.time.now()
    }
}

#[async_trait]
impl LogAdmin for MemoryLog {
    async fn declare_topics(&self, mode: TopicsMode, topics: Vec<Topic>) -> Result<(), LogError> {
        self.act(|state, _, _| state.declare_topics(mode, &topics))
    }

    async fn declare_groups(&self, groups: Vec<GroupSpec>) -> Result<Vec<Declared>, LogError> {
        self.act(|state, _, wakes| {
            groups.into_iter().map(|spec| state.declare(spec, wakes)).collect()
        })
    }

    async fn set_limits(
        &self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), LogError> {
        self.act(|state, _, _| state.set_limits(topic, limits, force))?
    }

    async fn replace_limits(
        &self,
        topic: &Topic,
        old: Option<TopicLimits>,
        new: TopicLimits,
        force: bool,
    ) -> Result<bool, LogError> {
        self.act(|state, _, _| state.replace_limits(topic, old, new, force))?
    }

    async fn purge_topic(&self, topic: &Topic, with_dead: bool) -> Result<Purged, LogError> {
        self.act(|state, at, wakes| state.purge_topic(topic, with_dead, at.now, wakes))?
    }

    async fn remove_topic(&self, topic: &Topic, force: bool) -> Result<Purged, LogError> {
        self.act(|state, _, wakes| state.remove_topic(topic, force, wakes))?
    }

    async fn topics(&self) -> Result<Vec<TopicState>, LogError> {
        self.act(|state, at, _| state.topics(at.now))
    }

    async fn lags(&self) -> Result<Vec<GroupLag>, LogError> {
        let of = |state: TopicState| {
            let topic = state.topic;
            state.groups.into_iter().map(move |group| GroupLag {
                topic: topic.clone(),
                messages: group.counts.lag(),
                group: group.group,
            })
        };
        Ok(self.topics().await?.into_iter().flat_map(of).collect())
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicState>, LogError> {
        self.act(|state, at, _| state.topic(topic, at.now))
    }

    async fn dead_letters(&self, query: DeadLetterQuery) -> Result<Vec<DeadLetter>, LogError> {
        self.act(|state, _, _| state.dead_letters(&query))?
    }

    async fn add_group(&self, group: GroupSpec) -> Result<(), LogError> {
        self.act(|state, _, wakes| state.add_group(group, wakes))?
    }

    async fn replace_policy(
        &self,
        topic: &Topic,
        group: &Group,
        old: &GroupPolicy,
        new: &GroupPolicy,
    ) -> Result<bool, LogError> {
        self.act(|state, _, wakes| state.replace_policy(topic, group, old, new, wakes))?
    }

    async fn remove_group(
        &self,
        topic: &Topic,
        group: &Group,
        force: bool,
    ) -> Result<Counts, LogError> {
        self.act(|state, at, wakes| state.remove_group(topic, group, force, at.now, wakes))?
    }

    async fn seek(&self, topic: &Topic, group: &Group, to: Start) -> Result<(), LogError> {
        self.act(|state, _, wakes| state.seek(topic, group, to, wakes))?
    }

    async fn transfer(&self, request: TransferRequest) -> Result<Vec<Claim>, LogError> {
        self.act(|state, at, wakes| state.transfer(&request, at.now, wakes))?
    }

    async fn acknowledge_gap(&self, topic: &Topic, group: &Group) -> Result<Option<Gap>, LogError> {
        self.act(|state, _, _| state.acknowledge_gap(topic, group))?
    }

    async fn release_worker(
        &self,
        topic: &Topic,
        group: &Group,
        worker: &str,
    ) -> Result<u64, LogError> {
        self.act(|state, at, wakes| state.release_worker(topic, group, worker, at.now, wakes))?
    }

    async fn pending(&self, query: PendingQuery) -> Result<Vec<Pending>, LogError> {
        self.act(|state, at, _| state.pending(&query, at.now))?
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageState>, LogError> {
        self.act(|state, at, _| state.message(id, at.now))
    }

    async fn cancel(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        self.act(|state, at, wakes| state.cancel(id, group, at.now, wakes))?
    }

    async fn make_due(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        self.act(|state, at, wakes| state.make_due(id, group, at.now, wakes))?
    }

    async fn stream(&self, request: ReadRequest) -> Result<ReadPage, LogError> {
        self.act(|state, _, _| state.stream(&request))
    }

    fn arrivals(&self, topic: &Topic) -> Waiter {
        self.waiters.add(topic, None)
    }

    async fn redrive(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
    ) -> Result<Redriven, LogError> {
        self.act(|state, at, wakes| state.redrive(topic, group, filter, at.now, wakes))?
    }

    async fn purge_dead(&self, topic: &Topic, group: Option<&Group>) -> Result<u64, LogError> {
        self.act(|state, _, _| state.purge_dead(topic, group))?
    }

    async fn sweep(&self) -> Result<u64, LogError> {
        self.act(|state, at, _| state.sweep(at.now))
    }

    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError> {
        self.act(|state, _, _| state.retain = (span, messages))
    }

    async fn health(&self) -> Result<Health, LogError> {
        let clock = self.time.clock();
        let (wall_ms, boot_id) = (clock.wall_ms(), clock.boot_id());
        self.act(|_, at, _| Health {
            capabilities: self.capabilities(),
            clock: ClockHealth { now: at.now, wall_ms, boot_id, this_boot: true },
            file: None,
            recount: None,
        })
    }

    async fn recount(&self) -> Result<Recount, LogError> {
        self.act(|state, at, _| state.recount(at.now))
    }

    async fn close(&self) {
        self.lock().closed = true;
        for topic in self.waiters.topics() {
            self.waiters.wake_topic(&topic);
        }
        self.alarm.notify_one();
    }
}
