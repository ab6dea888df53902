//! What the dispatcher's tests are made of: a memory log that can be told to fail, handlers that
//! do as scripted, and a run of both.

use crate::delivery::{BoxFuture, Invoke};
use crate::dispatch::{Consumer, Dispatcher, HOST_PERMITS, Shared};
use crate::drain::{Stopper, phases};
use crate::event::{Delivered, Event, Events};
use crate::pause::Health;
use crate::permits::Permits;
use async_trait::async_trait;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::{
    Disposition, Group, GroupPolicy, MessageId, NewMessage, Outcome, Timestamp, Topic,
};
use windlass_log::clock::Clock;
use windlass_log::memory::MemoryLog;
use windlass_log::{
    Capabilities, Claim, ClaimRequest, Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery,
    Declared, Extended, Extension, GroupSpec, LogAdmin, LogError, MessageLog, MessageState,
    Pending, PendingQuery, Published, ReadPage, ReadRequest, Redriven, Settled, Settlement, Start,
    TopicState, TopicsMode, Waiter,
};
use windlass_runtime::{Delivery, Invocation, Output, Stop};

/// Log time that goes with tokio's.
#[derive(Debug)]
struct TokioClock(Instant);

#[async_trait]
impl Clock for TokioClock {
    fn boot_ms(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
    fn wall_ms(&self) -> u64 {
        1_700_000_000_000 + self.boot_ms()
    }
    fn boot_id(&self) -> String {
        "boot".into()
    }
    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// A memory log that notes what it is asked, and fails as told.
#[derive(Debug)]
pub(super) struct FaultyLog {
    pub(super) inner: Arc<MemoryLog>,
    calls: Mutex<Vec<&'static str>>,
    dispositions: Mutex<Vec<Disposition>>,
    failing_settles: AtomicUsize,
    refusing_acks: AtomicBool,
    losing_leases: AtomicBool,
    leased: AtomicUsize,
    leased_most: AtomicUsize,
}

impl FaultyLog {
    /// So many settlements fail as if storage were gone.
    pub(super) fn fail_settles(&self, count: usize) {
        self.failing_settles.store(count, SeqCst);
    }
    /// Acks are refused as if storage were full.
    pub(super) fn refuse_acks(&self, refuse: bool) {
        self.refusing_acks.store(refuse, SeqCst);
    }
    /// Extensions answer that the lease is lost.
    pub(super) fn lose_leases(&self, lose: bool) {
        self.losing_leases.store(lose, SeqCst);
    }
    pub(super) fn all_calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }
    pub(super) fn calls(&self, name: &str) -> usize {
        self.all_calls().iter().filter(|call| **call == name).count()
    }
    pub(super) fn dispositions(&self) -> Vec<Disposition> {
        self.dispositions.lock().unwrap().clone()
    }
    /// The most messages that were claimed and not settled at a time.
    pub(super) fn leased_most(&self) -> usize {
        self.leased_most.load(SeqCst)
    }
    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push(call);
    }

    async fn settle_one(&self, settlement: Settlement) -> Result<Settled, LogError> {
        let failing = self.failing_settles.load(SeqCst);
        if failing > 0 {
            self.fail_settles(failing - 1);
            self.note("settle failed");
            return Err(LogError::Unavailable { what: "settling", source: None });
        }
        let is_ack = matches!(settlement.disposition, Disposition::Ack { .. });
        if is_ack && self.refusing_acks.load(SeqCst) {
            self.note("settle refused");
            let source = Arc::new(std::io::Error::other("disk full").into());
            return Err(LogError::StorageFull { source });
        }
        let disposition = settlement.disposition.clone();
        let answer = self.inner.settle(vec![settlement]).await.remove(0);
        if answer.is_ok() {
            self.note("settle");
            self.dispositions.lock().unwrap().push(disposition);
            self.leased.fetch_sub(1, SeqCst);
        } else {
            self.note("settle refused");
        }
        answer
    }
}

#[async_trait]
impl MessageLog for FaultyLog {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }
    async fn publish(&self, batch: Vec<NewMessage>) -> Result<Vec<Published>, LogError> {
        self.inner.publish(batch).await
    }
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>, LogError> {
        self.note("claim");
        let claims = self.inner.claim(request).await?;
        let leased = self.leased.fetch_add(claims.len(), SeqCst) + claims.len();
        self.leased_most.fetch_max(leased, SeqCst);
        Ok(claims)
    }
    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>, LogError> {
        self.note("extend");
        if self.losing_leases.load(SeqCst) {
            return Ok(vec![Extended::Lost; extensions.len()]);
        }
        self.inner.extend(extensions).await
    }
    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<Settled, LogError>> {
        let mut answers = Vec::new();
        for settlement in settlements {
            answers.push(self.settle_one(settlement).await);
        }
        answers
    }
    fn waiter(&self, topic: &Topic, group: &Group) -> Waiter {
        self.inner.waiter(topic, group)
    }
    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}

#[async_trait]
impl LogAdmin for FaultyLog {
    async fn declare_topics(&self, mode: TopicsMode, topics: Vec<Topic>) -> Result<(), LogError> {
        self.inner.declare_topics(mode, topics).await
    }
    async fn declare_groups(&self, groups: Vec<GroupSpec>) -> Result<Vec<Declared>, LogError> {
        self.inner.declare_groups(groups).await
    }
    async fn topics(&self) -> Result<Vec<TopicState>, LogError> {
        self.inner.topics().await
    }
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicState>, LogError> {
        self.inner.topic(topic).await
    }
    async fn dead_letters(&self, query: DeadLetterQuery) -> Result<Vec<DeadLetter>, LogError> {
        self.inner.dead_letters(query).await
    }
    async fn add_group(&self, group: GroupSpec) -> Result<(), LogError> {
        self.inner.add_group(group).await
    }
    async fn remove_group(
        &self,
        topic: &Topic,
        group: &Group,
        force: bool,
    ) -> Result<Counts, LogError> {
        self.inner.remove_group(topic, group, force).await
    }
    async fn pending(&self, query: PendingQuery) -> Result<Vec<Pending>, LogError> {
        self.inner.pending(query).await
    }
    async fn message(&self, id: MessageId) -> Result<Option<MessageState>, LogError> {
        self.inner.message(id).await
    }
    async fn cancel(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        self.inner.cancel(id, group).await
    }
    async fn make_due(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        self.inner.make_due(id, group).await
    }
    async fn stream(&self, request: ReadRequest) -> Result<ReadPage, LogError> {
        self.inner.stream(request).await
    }
    fn arrivals(&self, topic: &Topic) -> Waiter {
        self.inner.arrivals(topic)
    }
    async fn redrive(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
    ) -> Result<Redriven, LogError> {
        self.inner.redrive(topic, group, filter).await
    }
    async fn purge_dead(&self, topic: &Topic, group: Option<&Group>) -> Result<u64, LogError> {
        self.inner.purge_dead(topic, group).await
    }
    async fn sweep(&self) -> Result<u64, LogError> {
        self.inner.sweep().await
    }
    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError> {
        self.inner.set_retain(span, messages).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

/// What a scripted handler does: takes so long, then comes to that.
pub(super) type Answer = (Duration, Outcome);

pub(super) fn ok() -> Answer {
    (Duration::ZERO, Outcome::Done { sends: Vec::new() })
}

pub(super) fn failed(text: &str) -> Answer {
    (Duration::ZERO, Outcome::Failed { kind: "other", text: text.into() })
}

pub(super) fn failed_after(span: Duration, outcome: Outcome) -> Answer {
    (span, outcome)
}

pub(super) fn sends_to(topic: &str) -> Outcome {
    Outcome::Done { sends: vec![NewMessage::new(Topic::new(topic).unwrap(), "sent")] }
}

/// A handler that does as told.
pub(super) struct Script {
    answer: Box<dyn Fn(&Delivery) -> Answer + Send + Sync>,
    pub(super) wall: Duration,
}

impl Script {
    pub(super) fn new(answer: impl Fn(&Delivery) -> Answer + Send + Sync + 'static) -> Self {
        Self { answer: Box::new(answer), wall: Duration::from_secs(30) }
    }
}

impl Invoke for Script {
    fn wall(&self) -> Duration {
        self.wall
    }
    fn revision(&self) -> &'static str {
        "script"
    }
    fn invoke<'a>(
        &'a self,
        delivery: Delivery,
        stop: BoxFuture<'a, Stop>,
    ) -> BoxFuture<'a, Invocation> {
        Box::pin(async move {
            let started = Instant::now();
            let (span, outcome) = (self.answer)(&delivery);
            let outcome = tokio::select! {
                stop = stop => match stop {
                    Stop::LeaseLost => Outcome::LeaseLost,
                    Stop::Interrupted => Outcome::Interrupted,
                },
                () = tokio::time::sleep(span) => outcome,
            };
            Invocation {
                outcome,
                output: Output::default(),
                elapsed: started.elapsed(),
                cpu: Duration::ZERO,
                memory_peak: 0,
            }
        })
    }
}

/// A consumer as a test wants it.
pub(super) struct Wanted {
    pub(super) concurrency: usize,
    pub(super) topics: Vec<&'static str>,
    pub(super) policy: GroupPolicy,
    /// So many different failures in a row pause it.
    pub(super) failures_max: usize,
}

impl Default for Wanted {
    fn default() -> Self {
        let policy = GroupPolicy::default();
        Self { concurrency: 8, topics: vec!["t"], policy, failures_max: 20 }
    }
}

/// A log, and what runs on it.
pub(super) struct Stage {
    pub(super) log: Arc<FaultyLog>,
}

/// A running dispatcher.
pub(super) struct Run {
    pub(super) dispatcher: Dispatcher,
    pub(super) stopper: Stopper,
    log: Arc<FaultyLog>,
    events: mpsc::Receiver<Event>,
}

impl Stage {
    pub(super) fn new() -> Self {
        let log = FaultyLog {
            inner: MemoryLog::new(Arc::new(TokioClock(Instant::now()))),
            calls: Mutex::default(),
            dispositions: Mutex::default(),
            failing_settles: AtomicUsize::new(0),
            refusing_acks: AtomicBool::new(false),
            losing_leases: AtomicBool::new(false),
            leased: AtomicUsize::new(0),
            leased_most: AtomicUsize::new(0),
        };
        Self { log: Arc::new(log) }
    }

    pub(super) async fn publish(&self, topic: &str, count: usize) {
        let message = NewMessage::new(Topic::new(topic).unwrap(), "x");
        self.log.publish(vec![message; count]).await.unwrap();
    }

    pub(super) async fn counts(&self, topic: &str) -> Counts {
        let state = self.log.topic(&Topic::new(topic).unwrap()).await.unwrap();
        state.map(|state| state.counts).unwrap_or_default()
    }

    pub(super) fn run(&self, script: Script) -> Run {
        self.run_with(script, |_| {})
    }

    pub(super) fn run_with(&self, script: Script, change: impl FnOnce(&mut Wanted)) -> Run {
        let mut wanted = Wanted::default();
        change(&mut wanted);
        let topics: Vec<_> = wanted.topics.iter().map(|topic| Topic::new(topic).unwrap()).collect();
        let spec = |topic: &Topic| GroupSpec {
            topic: topic.clone(),
            group: Group::work_queue(),
            policy: wanted.policy.clone(),
            start: Start::Earliest,
        };
        let groups = topics.iter().map(spec).collect();
        futures_now(self.log.declare_groups(groups)).unwrap();
        let (events, receiver) = Events::channel();
        let (stopper, phases) = phases();
        let shared = Shared::new(self.log.clone(), events, phases, "test");
        let permits = Permits::new(HOST_PERMITS);
        let dispatcher = Dispatcher::start(Arc::new(shared), permits);
        add(&dispatcher, script, &wanted, topics);
        Run { dispatcher, stopper, log: self.log.clone(), events: receiver }
    }
}

fn add(dispatcher: &Dispatcher, script: Script, wanted: &Wanted, topics: Vec<Topic>) {
    let concurrency = NonZeroUsize::new(wanted.concurrency).unwrap();
    dispatcher.add(Consumer {
        name: "c".into(),
        group: Group::work_queue(),
        start: Start::Earliest,
        policy: wanted.policy.clone(),
        topics,
        invoke: Arc::new(script),
        seat: dispatcher.seat("c", concurrency),
        health: Health::guarded(wanted.failures_max),
        retired: tokio::sync::watch::Sender::new(false),
    });
}

/// The memory log never waits.
fn futures_now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => panic!("the memory log waited"),
    }
}

impl Run {
    /// The next event.
    pub(super) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Another revision of the consumer takes the next claim.
    pub(super) fn swap(&self, script: Script, concurrency: usize) {
        let wanted = Wanted { concurrency, ..Wanted::default() };
        add(&self.dispatcher, script, &wanted, vec![Topic::new("t").unwrap()]);
    }

    /// Returns when the topic has nothing left to settle and no permit is held.
    pub(super) async fn until_settled(&self, topic: &str) {
        let topic = Topic::new(topic).unwrap();
        let settled = async {
            loop {
                let state = self.log.topic(&topic).await.unwrap();
                let lag = state.map_or(0, |state| state.counts.lag());
                if lag == 0 && self.dispatcher.activity().1 == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_hours(24), settled).await.expect("never settled");
    }

    /// Drains, and answers what was delivered.
    pub(super) async fn end(self) -> Vec<Delivered> {
        self.end_with_events().await.0
    }

    /// Drains, and answers what was delivered and what else happened.
    pub(super) async fn end_with_events(self) -> (Vec<Delivered>, Vec<String>) {
        let Self { dispatcher, stopper, mut events, .. } = self;
        dispatcher.drain(&stopper).await;
        let (mut delivered, mut others) = (Vec::new(), Vec::new());
        while let Ok(event) = events.try_recv() {
            match event {
                Event::Delivered(one) => delivered.push(*one),
                Event::Paused { reason, .. } => others.push(format!("paused {reason}")),
                Event::Resumed { .. } => others.push("resumed".into()),
                Event::StorageLost { .. } => others.push("storage lost".into()),
                Event::StorageBack => others.push("storage back".into()),
                Event::LogEnded => others.push("log ended".into()),
                other => others.push(format!("{other:?}")),
            }
        }
        (delivered, others)
    }
}
