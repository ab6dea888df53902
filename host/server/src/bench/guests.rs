//! What the dispatcher does with a component: fresh instances over the memory log, the whole way
//! over the SQLite log, and how soon a handler runs on an idle log.

use super::figures::{millis, rate};
use super::log::{Load, finished, produce};
use crate::delivery::{BoxFuture, Invoke};
use crate::dispatch::{Consumer, Dispatcher, Shared};
use crate::drain::{Stopper, phases};
use crate::event::{Event, Events, Fate};
use crate::manifest::ConsumerSpec;
use crate::pause::Health;
use crate::permits::Permits;
use crate::registry::{LogOutbox, Ready};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use windlass_core::{Group, NewMessage, Topic};
use windlass_log::DynLog;
use windlass_log::clock::SystemClock;
use windlass_log::memory::MemoryLog;
use windlass_runtime::{Component, Delivery, Engine, InstancePolicy, Invocation, Stop};

/// Deliveries at a time, end to end.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// As a consumer that keeps its instances.
pub(super) const WARM: InstancePolicy = InstancePolicy::Warm {
    messages: NonZeroU32::MIN.saturating_add(9_999),
    age: Duration::from_mins(5),
};
/// Messages of one publish while loading.
const LOAD: usize = 1_024;
/// Quiet time before a message on an idle log.
const QUIET: Duration = Duration::from_millis(5);
/// Most events that are counted before the count is told.
const TOLD_AT_ONCE: usize = 1_024;
/// Longest wait for anything to be handled.
const PATIENCE: Duration = Duration::from_mins(1);

/// The component, compiled by the runtime.
pub(super) struct Guests {
    component: Component,
    payload: usize,
}

/// A dispatcher at work.
struct Running {
    dispatcher: Dispatcher,
    stopper: Stopper,
    counted: watch::Sender<Counted>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    acked: usize,
    otherwise: usize,
    /// Who waits is told when so many are acked: being told of each takes a processor.
    wanted: usize,
}

impl Counted {
    fn is_enough(&self) -> bool {
        self.acked >= self.wanted || self.otherwise > 0
    }

    fn add(&mut self, event: &Event) {
        let Event::Delivered(delivered) = event else { return };
        match delivered.fate {
            Fate::Acked { .. } => self.acked += 1,
            Fate::Retry { .. } | Fate::Dead | Fate::Released | Fate::Lost | Fate::Unwritten => {
                self.otherwise += 1;
            }
        }
    }
}

/// Notes when the last call ended.
struct Timed {
    ready: Ready,
    ended: Arc<Mutex<Option<Instant>>>,
}

impl Invoke for Timed {
    fn wall(&self) -> Duration {
        self.ready.wall()
    }

    fn revision(&self) -> &Arc<str> {
        self.ready.revision()
    }

    fn invoke<'a>(
        &'a self,
        delivery: Delivery,
        stop: BoxFuture<'a, Stop>,
    ) -> BoxFuture<'a, Invocation> {
        Box::pin(async move {
            let invocation = self.ready.invoke(delivery, stop).await;
            *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            invocation
        })
    }
}

impl Guests {
    /// Compiles `component`.
    pub(super) fn new(
        engine: &Engine,
        component: &'static [u8],
        payload: usize,
    ) -> anyhow::Result<Self> {
        let component = Component::load(engine, component)?;
        Ok(Self { component, payload })
    }

    /// Runs the component on `topic`, whose work queue is declared; `wrap` may watch its calls.
    fn run<I: Invoke + 'static>(
        &self,
        log: &DynLog,
        topic: &Topic,
        instances: InstancePolicy,
        wrap: impl FnOnce(Ready) -> I,
    ) -> anyhow::Result<Running> {
        let spec = ConsumerSpec {
            concurrency: CONCURRENCY,
            instances,
            ..ConsumerSpec::plain("bench", PathBuf::new(), topic.clone())
        };
        let outbox = LogOutbox::new(Arc::clone(log));
        let ready = Ready::new(&self.component, &spec, &outbox)?;
        let (stopper, phases) = phases();
        let (events, mut told) = Events::channel();
        let counted = watch::Sender::new(Counted::default());
        let count = counted.clone();
        tokio::spawn(async move {
            let mut events = Vec::with_capacity(TOLD_AT_ONCE);
            while told.recv_many(&mut events, TOLD_AT_ONCE).await > 0 {
                count.send_if_modified(|counted| {
                    events.drain(..).for_each(|one| counted.add(&one));
                    counted.is_enough()
                });
            }
        });
        let permits = Permits::new(CONCURRENCY);
        let consumer = Consumer {
            name: spec.name.as_str().into(),
            group: spec.group,
            start: spec.start,
            policy: spec.policy,
            topics: spec.topics,
            invoke: Arc::new(wrap(ready)),
            seat: permits.seat(CONCURRENCY),
            pace: None,
            health: Arc::new(Health::new()),
            retired: tokio::sync::watch::Sender::new(false),
        };
        let shared = Shared::new(Arc::clone(log), events, phases, "bench");
        let dispatcher = Dispatcher::start(Arc::new(shared), permits);
        dispatcher.add(consumer);
        Ok(Running { dispatcher, stopper, counted })
    }

    /// Messages a second to fresh instances, over a memory log where they wait already.
    pub(super) async fn fresh(&self, topic: &Topic, messages: usize) -> anyhow::Result<f64> {
        let log: DynLog = MemoryLog::new(Arc::new(SystemClock));
        super::log::declare(&log, topic, &[Group::work_queue()]).await?;
        let data = bytes::Bytes::from(vec![7_u8; self.payload]);
        let mut left = messages;
        while left > 0 {
            let some = left.min(LOAD);
            log.publish(vec![NewMessage::new(topic.clone(), data.clone()); some]).await?;
            left -= some;
        }
        let since = Instant::now();
        let running = self.run(&log, topic, InstancePolicy::Fresh, |ready| ready)?;
        running.acked(messages).await?;
        let span = since.elapsed();
        running.end().await;
        log.close().await;
        Ok(rate(messages, span))
    }

    /// Messages a second all the way: published, claimed, handled, acked.
    pub(super) async fn end_to_end(
        &self,
        log: &DynLog,
        topic: &Topic,
        instances: InstancePolicy,
        load: Load,
    ) -> anyhow::Result<f64> {
        let running = self.run(log, topic, instances, |ready| ready)?;
        let since = Instant::now();
        let producing = produce(log, topic, load);
        let (published, acked) = tokio::join!(finished(producing), running.acked(load.messages));
        let span = since.elapsed();
        published?;
        acked?;
        running.end().await;
        Ok(rate(load.messages, span))
    }

    /// From when a publisher was told that its message is durable to when its handler has
    /// returned, on an idle log with fresh instances; one message at a time, in milliseconds.
    pub(super) async fn idle_latency(
        &self,
        log: &DynLog,
        topic: &Topic,
        messages: usize,
    ) -> anyhow::Result<Vec<f64>> {
        let last = Arc::new(Mutex::new(None));
        let watched = |ready| Timed { ready, ended: Arc::clone(&last) };
        let running = self.run(log, topic, InstancePolicy::Fresh, watched)?;
        let mut times = Vec::with_capacity(messages);
        for at in 0..messages {
            tokio::time::sleep(QUIET).await;
            let message = NewMessage::new(topic.clone(), vec![7_u8; self.payload]);
            log.publish(vec![message]).await?;
            let durable = Instant::now();
            running.acked(at + 1).await?;
            let ended = *last.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = ended.unwrap_or(durable);
            // The handler may be done before this task has been told.
            times.push(millis(ended.saturating_duration_since(durable)));
        }
        running.end().await;
        Ok(times)
    }
}

impl Running {
    /// Waits until so many messages were acked since it began.
    async fn acked(&self, messages: usize) -> anyhow::Result<()> {
        let mut told = self.counted.subscribe();
        self.counted.send_modify(|counted| counted.wanted = messages);
        let enough = told.wait_for(Counted::is_enough);
        let counted = *tokio::time::timeout(PATIENCE, enough).await??;
        anyhow::ensure!(counted.otherwise == 0, "a message was not acked");
        Ok(())
    }

    async fn end(self) {
        self.dispatcher.drain(&self.stopper).await;
    }
}
