//! A memory log that can be told to fail, on tokio's time.

use async_trait::async_trait;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{Disposition, Group, GroupPolicy, MessageId, NewMessage, Timestamp, Topic};
use windlass_log::clock::Clock;
use windlass_log::memory::MemoryLog;
use windlass_log::{
    Capabilities, Claim, ClaimRequest, Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery,
    Declared, Extended, Extension, Gap, GroupLag, GroupSpec, Health, LogAdmin, LogError,
    MessageLog, MessageState, Pending, PendingQuery, Published, Purged, ReadPage, ReadRequest,
    Recount, Redriven, Settled, Settlement, Start, TopicLimits, TopicState, TopicsMode,
    TransferRequest, Waiter,
};
use windlass_log::{Change, Deployed, Deployments, Revision, Told};

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
    batches: Mutex<Vec<usize>>,
    failing_settles: AtomicUsize,
    refusing_acks: AtomicBool,
    losing_leases: AtomicBool,
    leased: AtomicUsize,
    leased_most: AtomicUsize,
}

impl FaultyLog {
    /// Does all as it should, for now.
    pub(super) fn new() -> Self {
        Self {
            inner: MemoryLog::new(Arc::new(TokioClock(Instant::now()))),
            calls: Mutex::default(),
            dispositions: Mutex::default(),
            batches: Mutex::default(),
            failing_settles: AtomicUsize::new(0),
            refusing_acks: AtomicBool::new(false),
            losing_leases: AtomicBool::new(false),
            leased: AtomicUsize::new(0),
            leased_most: AtomicUsize::new(0),
        }
    }
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
    /// How many settlements came in each call.
    pub(super) fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
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
        self.batches.lock().unwrap().push(settlements.len());
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
    async fn set_limits(
        &self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), LogError> {
        self.inner.set_limits(topic, limits, force).await
    }
    async fn replace_limits(
        &self,
        topic: &Topic,
        old: Option<TopicLimits>,
        new: TopicLimits,
        force: bool,
    ) -> Result<bool, LogError> {
        self.inner.replace_limits(topic, old, new, force).await
    }
    async fn purge_topic(&self, topic: &Topic, with_dead: bool) -> Result<Purged, LogError> {
        self.inner.purge_topic(topic, with_dead).await
    }
    async fn remove_topic(&self, topic: &Topic, force: bool) -> Result<Purged, LogError> {
        self.inner.remove_topic(topic, force).await
    }
    async fn topics(&self) -> Result<Vec<TopicState>, LogError> {
        self.inner.topics().await
    }
    async fn lags(&self) -> Result<Vec<GroupLag>, LogError> {
        self.inner.lags().await
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
    async fn replace_policy(
        &self,
        topic: &Topic,
        group: &Group,
        old: &GroupPolicy,
        new: &GroupPolicy,
    ) -> Result<bool, LogError> {
        self.inner.replace_policy(topic, group, old, new).await
    }
    async fn remove_group(
        &self,
        topic: &Topic,
        group: &Group,
        force: bool,
    ) -> Result<Counts, LogError> {
        self.inner.remove_group(topic, group, force).await
    }
    async fn seek(&self, topic: &Topic, group: &Group, to: Start) -> Result<(), LogError> {
        self.inner.seek(topic, group, to).await
    }
    async fn transfer(&self, request: TransferRequest) -> Result<Vec<Claim>, LogError> {
        self.inner.transfer(request).await
    }
    async fn acknowledge_gap(&self, topic: &Topic, group: &Group) -> Result<Option<Gap>, LogError> {
        self.inner.acknowledge_gap(topic, group).await
    }
    async fn release_worker(
        &self,
        topic: &Topic,
        group: &Group,
        worker: &str,
    ) -> Result<u64, LogError> {
        self.inner.release_worker(topic, group, worker).await
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
    async fn health(&self) -> Result<Health, LogError> {
        self.inner.health().await
    }
    async fn recount(&self) -> Result<Recount, LogError> {
        self.inner.recount().await
    }
    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError> {
        self.inner.set_retain(span, messages).await
    }
    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Deployments for FaultyLog {
    async fn deployed(&self) -> Result<Deployed, LogError> {
        self.inner.deployed().await
    }
    async fn deployed_version(&self) -> Result<u64, LogError> {
        self.inner.deployed_version().await
    }
    async fn revisions(&self, consumer: &str) -> Result<Vec<Revision>, LogError> {
        self.inner.revisions(consumer).await
    }
    async fn deploy(&self, seen: u64, changes: Vec<Change>) -> Result<Option<u64>, LogError> {
        self.inner.deploy(seen, changes).await
    }
    async fn tell_deployment(&self, consumer: &str, told: Told) -> Result<(), LogError> {
        self.inner.tell_deployment(consumer, told).await
    }
    async fn tell_taken(&self, version: u64) -> Result<(), LogError> {
        self.inner.tell_taken(version).await
    }
}
