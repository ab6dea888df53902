//! What the dispatcher's tests are made of: handlers that do as scripted over a log that can be
//! told to fail, and a run of both.

use super::faulty::FaultyLog;
use crate::delivery::{BoxFuture, Invoke};
use crate::dispatch::{Consumer, Dispatcher, HOST_PERMITS, Shared};
use crate::drain::{Stopper, phases};
use crate::event::{Delivered, Event, Events};
use crate::pause::Health;
use crate::permits::Permits;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use windlass_core::{Group, GroupPolicy, NewMessage, Outcome, Topic};
use windlass_log::{Counts, GroupSpec, LogAdmin as _, MessageLog as _, Start};
use windlass_runtime::{Delivery, Invocation, Output, Stop};

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
    revision: Arc<str>,
}

impl Script {
    pub(super) fn new(answer: impl Fn(&Delivery) -> Answer + Send + Sync + 'static) -> Self {
        let wall = Duration::from_secs(30);
        Self { answer: Box::new(answer), wall, revision: "script".into() }
    }
}

impl Invoke for Script {
    fn wall(&self) -> Duration {
        self.wall
    }
    fn revision(&self) -> &Arc<str> {
        &self.revision
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
                biased;
                () = std::future::ready(()), if span.is_zero() => outcome,
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
    /// Messages a second.
    pub(super) rate: Option<f64>,
}

impl Default for Wanted {
    fn default() -> Self {
        let policy = GroupPolicy::default();
        Self { concurrency: 8, topics: vec!["t"], policy, failures_max: 20, rate: None }
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
        Self { log: Arc::new(FaultyLog::new()) }
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
    add_named(dispatcher, "c", script, wanted, topics);
}

fn add_named(
    dispatcher: &Dispatcher,
    name: &str,
    script: Script,
    wanted: &Wanted,
    topics: Vec<Topic>,
) {
    let concurrency = NonZeroUsize::new(wanted.concurrency).unwrap();
    dispatcher.add(Consumer {
        name: name.into(),
        group: Group::work_queue(),
        start: Start::Earliest,
        policy: wanted.policy.clone(),
        topics,
        invoke: Arc::new(script),
        seat: dispatcher.seat(name, concurrency),
        pace: dispatcher.pace(name, wanted.rate),
        health: Arc::new(Health::guarded(wanted.failures_max)),
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

    /// Another consumer of a topic of its own.
    pub(super) async fn add_other(&self, name: &str, on: &str, script: Script) {
        let (topic, group) = (Topic::new(on).unwrap(), Group::work_queue());
        let (policy, start) = (GroupPolicy::default(), Start::Earliest);
        let spec = GroupSpec { topic: topic.clone(), group, policy, start };
        self.log.declare_groups(vec![spec]).await.unwrap();
        add_named(&self.dispatcher, name, script, &Wanted::default(), vec![topic]);
    }

    /// Reads events from now on, so that they hold up nobody; all deliveries once the run has ended.
    pub(super) fn read_on(&mut self) -> tokio::task::JoinHandle<Vec<Delivered>> {
        let mut events = std::mem::replace(&mut self.events, mpsc::channel(1).1);
        tokio::spawn(async move {
            let mut delivered = Vec::new();
            while let Some(event) = events.recv().await {
                if let Event::Delivered(one) = event {
                    delivered.push(*one);
                }
            }
            delivered
        })
    }

    /// Returns when the topic has nothing left to settle.
    pub(super) async fn until_empty(&self, topic: &str) {
        let topic = Topic::new(topic).unwrap();
        while self.log.topic(&topic).await.unwrap().is_some_and(|state| state.counts.lag() > 0) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The same of a consumer of two topics, with a rate.
    pub(super) fn swap_both(&self, script: Script, rate: f64) {
        let wanted = Wanted { rate: Some(rate), ..Wanted::default() };
        let topics = ["t", "u"].map(|topic| Topic::new(topic).unwrap());
        add(&self.dispatcher, script, &wanted, topics.into());
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
            let other = match event {
                Event::Delivered(one) => {
                    delivered.push(*one);
                    continue;
                }
                Event::Paused { reason, .. } => format!("paused {reason}"),
                Event::Resumed { .. } => "resumed".into(),
                Event::StorageLost { .. } => "storage lost".into(),
                Event::StorageBack => "storage back".into(),
                Event::LogEnded => "log ended".into(),
                Event::Ready { .. }
                | Event::Building { .. }
                | Event::Built { .. }
                | Event::Serving { .. }
                | Event::Retired { .. }
                | Event::Problem(_)
                | Event::Mended { .. }
                | Event::OwnFiles { .. }
                | Event::Remark { .. }
                | Event::Listening { .. }
                | Event::RolledBack { .. }
                | Event::Lag(_)
                | Event::Tick
                | Event::End => continue,
            };
            others.push(other);
        }
        (delivered, others)
    }
}
