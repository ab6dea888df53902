//! The dispatcher: permit first, then claim as many as permits, then deliver.
//!
//! Owns one loop a consumer and topic. A topic with nothing to do waits without a permit; one
//! with work claims a batch for the permits it holds, and messages run as tasks that take their
//! permits along. Which of them share a task is `together`'s, what happens to a message
//! `delivery`'s, when a consumer pauses `pause`'s.
//!
//! A consumer is immutable. Other code or configuration is another consumer, which takes the next
//! claim while the retired one finishes what it has (law 25).

mod shared;
#[cfg(test)]
mod tests;

pub(crate) use shared::Shared;

use crate::delivery::Invoke;
use crate::drain::{DRAIN, Phase, Phases, Stopper};
use crate::pace::Pace;
use crate::pause::{Entry, Health, Lesson, Turn};
use crate::permits::{PermitSet, Permits, Seat};
use crate::together;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::{Group, GroupPolicy, Topic};
use windlass_log::Prefer;
use windlass_log::{Claim, ClaimRequest, GroupSpec, LogError, Start};

/// Deliveries of a process at a time.
pub(crate) const HOST_PERMITS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
/// Most messages one claim asks for.
const CLAIM_MAX: usize = 256;
/// How long releases may take once the drain time is over.
const STOP: Duration = Duration::from_secs(2);
/// How often consumers give up what they kept for deliveries that did not come.
const REST: Duration = Duration::from_secs(10);
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MOST: Duration = Duration::from_secs(5);

/// A consumer that is running.
pub(crate) struct Consumer {
    /// Its name.
    pub name: Arc<str>,
    /// As which group it reads.
    pub group: Group,
    /// Where that group starts if it is not known yet.
    pub start: Start,
    /// The group's policy.
    pub policy: GroupPolicy,
    /// What it reads.
    pub topics: Vec<Topic>,
    /// Its component.
    pub invoke: Arc<dyn Invoke>,
    /// Its permits.
    pub seat: Seat,
    /// How many messages a second it may claim, where that is limited.
    pub pace: Option<Pace>,
    /// Whether it claims.
    pub health: Arc<Health>,
    /// Whether it claims no more, for good.
    pub retired: watch::Sender<bool>,
}

/// All consumers of a process.
pub(crate) struct Dispatcher {
    shared: Arc<Shared>,
    permits: Arc<Permits>,
    /// Those that claim; retired ones live on in their deliveries.
    running: Arc<Mutex<Vec<Arc<Consumer>>>>,
    sources: Mutex<JoinSet<()>>,
}

/// One topic of a consumer.
struct Source {
    shared: Arc<Shared>,
    consumer: Arc<Consumer>,
    topic: Topic,
}

impl Dispatcher {
    /// Nothing runs yet.
    pub(crate) fn start(shared: Arc<Shared>, permits: Arc<Permits>) -> Self {
        let running = Arc::default();
        let mut sources = JoinSet::new();
        sources.spawn(rest(Arc::clone(&running), shared.phases.clone()));
        Self { shared, permits, running, sources: Mutex::new(sources) }
    }

    /// Starts `consumer`; its groups are declared. One of the same name is retired in the same
    /// moment.
    pub(crate) fn add(&self, consumer: Consumer) {
        let consumer = Arc::new(consumer);
        self.retire(&consumer.name);
        locked(&self.running).push(Arc::clone(&consumer));
        let mut sources = locked(&self.sources);
        // Those of retired consumers.
        while sources.try_join_next().is_some() {}
        for topic in &consumer.topics {
            let source = Source {
                shared: Arc::clone(&self.shared),
                consumer: Arc::clone(&consumer),
                topic: topic.clone(),
            };
            sources.spawn(source.run());
        }
    }

    /// The consumer claims nothing more; what it has it finishes.
    pub(crate) fn retire(&self, name: &str) {
        for retired in locked(&self.running).extract_if(.., |consumer| &*consumer.name == name) {
            retired.retired.send_replace(true);
        }
    }

    /// The same for a consumer that runs on this revision, and for no other.
    pub(crate) fn retire_revision(&self, name: &str, revision: &str) {
        let meant =
            |one: &mut Arc<Consumer>| &*one.name == name && **one.invoke.revision() == *revision;
        for retired in locked(&self.running).extract_if(.., meant) {
            retired.retired.send_replace(true);
        }
    }

    /// A place among the permits for a consumer of this name: the one that a running one has, if
    /// one does, so that both together keep to the maximum.
    pub(crate) fn seat(&self, name: &str, max: NonZeroUsize) -> Seat {
        let running = locked(&self.running);
        match running.iter().find(|consumer| &*consumer.name == name) {
            Some(consumer) => consumer.seat.resized(max),
            None => self.permits.seat(max),
        }
    }

    /// The pace of a consumer of this name: the one that a running one has, if one does, so that both
    /// together keep to it.
    pub(crate) fn pace(&self, name: &str, rate: Option<f64>) -> Option<Pace> {
        let rate = rate?;
        let running = locked(&self.running);
        let before = running.iter().find(|consumer| &*consumer.name == name);
        Some(match before.and_then(|consumer| consumer.pace.as_ref()) {
            Some(pace) => pace.changed(rate),
            None => Pace::new(rate),
        })
    }

    /// Returns when the log has ended by itself: nothing can be claimed or settled any more.
    pub(crate) async fn log_ended(&self) {
        // The sender is ours: this cannot fail.
        drop(self.shared.log_over.subscribe().wait_for(|over| *over).await);
    }

    /// Whether a consumer is paused for what does not mend itself.
    pub(crate) fn is_stuck(&self) -> bool {
        let running = locked(&self.running);
        running.iter().filter_map(|one| one.health.paused()).any(|paused| !paused.mends)
    }

    /// How many messages were claimed so far, and how many permits are held.
    pub(crate) fn activity(&self) -> (u64, usize) {
        (self.shared.claimed.load(Ordering::SeqCst), self.permits.held())
    }

    /// Ends the run: claims nothing more, waits for what is out, interrupts what takes longer than
    /// the drain time or is still running when `stopper` goes on to [`Phase::Stop`].
    pub(crate) async fn drain(&self, stopper: &Stopper) {
        stopper.advance(Phase::Drain);
        let phases = self.shared.phases.clone();
        let mut sources = std::mem::take(&mut *locked(&self.sources));
        let finished = async {
            while sources.join_next().await.is_some() {}
            self.permits.all_back().await;
        };
        let mut finished = std::pin::pin!(finished);
        tokio::select! {
            () = &mut finished => return,
            () = tokio::time::sleep(DRAIN) => {}
            () = phases.reached(Phase::Stop) => {}
        }
        stopper.advance(Phase::Stop);
        // What is not written by then is redelivered when its lease ends.
        drop(tokio::time::timeout(STOP, finished).await);
    }
}

/// Lets consumers give up what they kept, until the run ends.
async fn rest(running: Arc<Mutex<Vec<Arc<Consumer>>>>, phases: Phases) {
    while phases.or_drain(tokio::time::sleep(REST)).await.is_some() {
        let consumers = locked(&running).clone();
        for consumer in &consumers {
            consumer.invoke.rest();
        }
    }
}

fn locked<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Consumer {
    /// Returns when it claims no more, for good.
    async fn retired(&self) {
        // The sender is ours: this cannot fail.
        drop(self.retired.subscribe().wait_for(|retired| *retired).await);
    }
}

impl Source {
    async fn run(self) {
        let shared = &self.shared;
        let waiter = shared.storage.log().waiter(&self.topic, &self.consumer.group);
        while self.while_serving(waiter.woken()).await.is_some() {
            if waiter.is_over() {
                return shared.log_ended().await;
            }
            while self.claim_and_deliver().await {}
        }
    }

    /// Waits for `work` unless this consumer is to claim no more.
    async fn while_serving<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.consumer.retired() => None,
            answer = self.shared.phases.or_drain(work) => answer,
        }
    }

    /// One round; whether there may be more to claim.
    async fn claim_and_deliver(&self) -> bool {
        let Some((entry, mut permits)) = self.while_serving(self.permitted()).await else {
            return false;
        };
        // The pause may have begun while this waited for its permits.
        if !self.consumer.health.still(entry) {
            return true;
        }
        let asked = permits.count();
        let claims = self.claim(asked, entry).await;
        if let Some(pace) = &self.consumer.pace {
            pace.give_back(asked.saturating_sub(claims.len()));
        }
        let full = claims.len() >= asked;
        if claims.is_empty() && entry == Entry::Trial {
            self.consumer.health.learn(Lesson::Nothing);
        }
        let workers = tokio::runtime::Handle::current().metrics().num_workers();
        let share = together::share(claims.len(), workers);
        let mut claims = claims.into_iter().map_while(|claim| Some((claim, permits.take_one()?)));
        loop {
            let some: Vec<_> = claims.by_ref().take(share).collect();
            if some.is_empty() {
                return full;
            }
            let (shared, consumer) = (Arc::clone(&self.shared), Arc::clone(&self.consumer));
            tokio::spawn(together::deliver(shared, consumer, some));
        }
    }

    /// Waits until this consumer may claim, and for permits to do so.
    async fn permitted(&self) -> (Entry, PermitSet) {
        let (consumer, storage) = (&self.consumer, &self.shared.storage);
        loop {
            storage.nothing_kept().await;
            let entry = match consumer.health.turn().await {
                Turn::Enter(entry) => entry,
                Turn::Look(needs) => {
                    let ready = match &needs {
                        None => true,
                        Some(topic) => matches!(storage.log().topic(topic).await, Ok(Some(_))),
                    };
                    consumer.health.look_again(ready);
                    continue;
                }
            };
            let most = match entry {
                Entry::Open => CLAIM_MAX,
                Entry::Trial => 1,
            };
            // Before the permits: who waits for its pace holds none.
            let Some(pace) = &consumer.pace else {
                let most = NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN);
                return (entry, consumer.seat.acquire(most).await);
            };
            let taken = pace.take(most).await;
            let most = NonZeroUsize::new(taken).unwrap_or(NonZeroUsize::MIN);
            let permits = consumer.seat.acquire(most).await;
            pace.give_back(taken.saturating_sub(permits.count()));
            return (entry, permits);
        }
    }

    /// Claims up to `max`, which is at least 1; waits while storage does not answer.
    async fn claim(&self, max: usize, entry: Entry) -> Vec<Claim> {
        let storage = &self.shared.storage;
        let request = ClaimRequest {
            topic: self.topic.clone(),
            group: self.consumer.group.clone(),
            worker: Arc::clone(&self.shared.worker),
            max: NonZeroUsize::new(max).unwrap_or(NonZeroUsize::MIN),
            start: None,
            prefer: match entry {
                Entry::Open => Prefer::Order,
                Entry::Trial => Prefer::Untried,
            },
        };
        let mut wait = RETRY_FIRST;
        let mut in_trouble = false;
        let claims = loop {
            // What could not be written may have begun to wait while this waited for permits.
            if self.while_serving(storage.nothing_kept()).await.is_none() {
                break Vec::new();
            }
            match storage.log().claim(request.clone()).await {
                Ok(claims) => break claims,
                Err(LogError::Closed) => break Vec::new(),
                // It was declared; an operator has deleted it. It begins anew, as it was wanted.
                Err(LogError::NoGroup { .. }) if self.declare_again().await => {}
                Err(error) => {
                    tracing::debug!(topic = %self.topic, %error, "nothing can be claimed");
                    if !in_trouble {
                        in_trouble = true;
                        storage.trouble_began(&error).await;
                    }
                    let pause = tokio::time::sleep(wait);
                    if self.while_serving(pause).await.is_none() {
                        break Vec::new();
                    }
                    wait = (wait * 2).min(RETRY_MOST);
                }
            }
        };
        if in_trouble {
            storage.trouble_ended().await;
        }
        self.shared.claimed.fetch_add(claims.len() as u64, Ordering::SeqCst);
        claims
    }

    /// Declares the consumer's group; whether that went well.
    async fn declare_again(&self) -> bool {
        let spec = GroupSpec {
            topic: self.topic.clone(),
            group: self.consumer.group.clone(),
            policy: self.consumer.policy.clone(),
            start: self.consumer.start,
        };
        self.shared.storage.log().declare_groups(vec![spec]).await.is_ok()
    }
}
