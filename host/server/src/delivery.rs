//! One message in one attempt, from its claim to its settlement. The heart of the program.
//!
//! Every step hands its result to the next; none looks back, because redelivery is the log's
//! work. The outcome is read by `settle::decide` alone; jitter is drawn here, at the edge.

use crate::dispatch::{Consumer, Shared};
use crate::drain::Phase;
use crate::event::{Delivered, Event, Fate};
use crate::lease;
use crate::pause::{Lesson, News, Paused, Pupil, Remedy};
use crate::permits::PermitSet;
use crate::storage::{Patience, chain};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::settle::{Decision, Pause, decide};
use windlass_core::{AttemptRecord, Disposition, MessageId, NewMessage, Outcome};
use windlass_log::{Claim, LogError, Settled, Settlement};
use windlass_runtime::{Delivery, Invocation, Output, Stop};

/// How a delivery calls its component. Between here and the runtime, so that the dispatcher can
/// be tried without WebAssembly.
pub(crate) trait Invoke: Send + Sync {
    /// How long a handler may take.
    fn wall(&self) -> Duration;

    /// Code and configuration, short.
    fn revision(&self) -> &Arc<str>;

    /// Calls the handler; when `stop` ends first, the call ends at once with what it says.
    fn invoke<'a>(
        &'a self,
        delivery: Delivery,
        stop: BoxFuture<'a, Stop>,
    ) -> BoxFuture<'a, Invocation>;

    /// Called now and then: gives up what was kept for deliveries that did not come.
    fn rest(&self) {}
}

/// A future behind a pointer.
pub(crate) type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A message whose handler has ended, before anything of that is written.
pub(crate) struct Handled {
    claim: Claim,
    permit: PermitSet,
    pupil: Pupil,
    outcome: &'static str,
    text: String,
    output: Output,
    elapsed: Duration,
    cpu: Duration,
    memory_peak: u64,
    /// None where the lease is lost.
    plan: Option<Plan>,
}

/// What is to be written, and what follows if it is.
struct Plan {
    settlement: Settlement,
    patience: Patience,
    fate: Fate,
    lesson: Lesson,
}

/// What became of a settlement, and what that teaches about the consumer.
struct Settling {
    fate: Fate,
    lesson: Lesson,
    /// The name and text of what happened, where it is not the handler's.
    instead: Option<(&'static str, String)>,
}

impl Settling {
    fn lost() -> Self {
        Self { fate: Fate::Lost, lesson: Lesson::Nothing, instead: None }
    }
}

/// Calls the handler for one message, and decides what is done with that.
pub(crate) async fn handle(
    shared: Arc<Shared>,
    consumer: Arc<Consumer>,
    claim: Claim,
    permit: PermitSet,
) -> Handled {
    let pupil = consumer.health.pupil();
    let invocation = invoke_while_held(&shared, &consumer, &claim).await;
    let Invocation { outcome, output, elapsed, cpu, memory_peak } = invocation;
    let (name, text) = (outcome.name(), outcome.text());
    let plan = plan(&consumer, &claim, outcome, &text);
    let outcome = name;
    Handled { claim, permit, pupil, outcome, text, output, elapsed, cpu, memory_peak, plan }
}

impl Handled {
    /// What the log is to be told, if anything.
    pub(crate) fn settlement(&self) -> Option<&Settlement> {
        self.plan.as_ref().map(|plan| &plan.settlement)
    }

    /// Bytes of what is sent with the ack.
    pub(crate) fn sent_bytes(&self) -> u64 {
        match self.settlement().map(|settlement| &settlement.disposition) {
            Some(Disposition::Ack { sends }) => sends.iter().map(NewMessage::size).sum(),
            Some(Disposition::Retry { .. } | Disposition::DeadLetter | Disposition::Release)
            | None => 0,
        }
    }

    /// Brings the message to its end after the log's first `answer` to its settlement, and tells what
    /// became of it. The permit may be given up then.
    pub(crate) async fn conclude(
        self,
        shared: &Shared,
        consumer: &Consumer,
        answer: Option<Result<Settled, LogError>>,
    ) -> PermitSet {
        let claim = &self.claim;
        let settling = match (self.plan, answer) {
            (Some(plan), Some(first)) => settle(shared, consumer, claim, plan, first).await,
            (None, _) | (_, None) => Settling::lost(),
        };
        let (outcome, text) = settling.instead.unwrap_or((self.outcome, self.text));
        let delivered = Delivered {
            consumer: Arc::clone(&consumer.name),
            group: consumer.group.clone(),
            attempt: self.claim.attempt,
            revision: Arc::clone(consumer.invoke.revision()),
            attempts_max: self.claim.max_attempts.get(),
            message: self.claim.message,
            outcome,
            text,
            fate: settling.fate,
            output: self.output,
            elapsed: self.elapsed,
            cpu: self.cpu,
            memory_peak: self.memory_peak,
        };
        // What comes of a retired revision is told; whether it would claim is nobody's concern.
        let news = self.pupil.teach(settling.lesson).filter(|_| !*consumer.retired.borrow());
        shared.events.tell(Event::Delivered(Box::new(delivered))).await;
        match news {
            None => {}
            Some(News::Paused(paused)) => tell_pause(shared, consumer, paused).await,
            Some(News::Resumed) => {
                let consumer = Arc::clone(&consumer.name);
                shared.events.tell(Event::Resumed { consumer }).await;
            }
        }
        self.permit
    }
}

/// The call, while its lease is extended. A lost lease ends it, and so does the end of the run.
async fn invoke_while_held(shared: &Shared, consumer: &Consumer, claim: &Claim) -> Invocation {
    let deadline = Instant::now() + consumer.invoke.wall();
    let delivery = Delivery { message: claim.message.clone(), attempt: claim.attempt, deadline };
    let stop = async move {
        tokio::select! {
            () = shared.phases.reached(Phase::Stop) => Stop::Interrupted,
            () = lease::hold(shared.storage.log(), claim, consumer.policy.lease, deadline) => {
                Stop::LeaseLost
            }
        }
    };
    consumer.invoke.invoke(delivery, Box::pin(stop)).await
}

/// What a delivery teaches unless it is acked or pauses its consumer.
fn if_it_fails(outcome: &Outcome, id: MessageId) -> Lesson {
    match outcome {
        Outcome::LeaseLost | Outcome::Interrupted | Outcome::StartFailed { .. } => Lesson::Nothing,
        // The guest's own verdict on the message: nothing is wrong with whom it depends on.
        Outcome::Rejected { .. } => Lesson::Rejected,
        Outcome::GrantMissing { .. }
        | Outcome::Trapped { .. }
        | Outcome::TimedOut { .. }
        | Outcome::OutOfCpu { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::TooMuch { .. }
        | Outcome::RetryAsked { .. }
        | Outcome::Denied { .. }
        | Outcome::Failed { .. }
        | Outcome::HopsExceeded { .. }
        | Outcome::Done { .. }
        | Outcome::Refused { .. } => Lesson::Failure(id, outcome.name()),
    }
}

fn decision(consumer: &Consumer, claim: &Claim, outcome: Outcome) -> Decision {
    let jitter = rand::random::<f64>();
    let backoff = &consumer.policy.backoff;
    decide(outcome, claim.attempt, claim.max_attempts, backoff, jitter)
}

/// What is done with the message; nothing where its lease is lost.
fn plan(consumer: &Consumer, claim: &Claim, outcome: Outcome, text: &str) -> Option<Plan> {
    let (name, if_it_fails) = (outcome.name(), if_it_fails(&outcome, claim.message.id));
    let decision = decision(consumer, claim, outcome);
    let disposition = decision.disposition?;
    let lesson = match (&disposition, decision.pause) {
        (Disposition::Ack { .. }, _) => Lesson::Success,
        (_, Pause::No) => if_it_fails,
        (_, pause) => Lesson::Pause(pause, Remedy::Time),
    };
    // Only a release has no other way out: anything else that finds no room is released.
    let (patience, record) = match disposition {
        Disposition::Release => (Patience::Written, None),
        // Nobody asks how an attempt went that was the last one.
        Disposition::Ack { .. } => (Patience::Available, None),
        Disposition::Retry { .. } | Disposition::DeadLetter => {
            (Patience::Available, Some(record(consumer, name, text)))
        }
    };
    let fate = fate(&disposition);
    let settlement = Settlement { token: claim.token, disposition, record };
    Some(Plan { settlement, patience, fate, lesson })
}

fn record(consumer: &Consumer, outcome: &'static str, text: &str) -> AttemptRecord {
    AttemptRecord {
        // The log fills in these three.
        attempt: 0,
        at: windlass_core::Timestamp(0),
        worker: String::new(),
        revision: consumer.invoke.revision().to_string(),
        outcome: outcome.to_owned(),
        text: text.to_owned(),
    }
}

async fn settle(
    shared: &Shared,
    consumer: &Consumer,
    claim: &Claim,
    plan: Plan,
    first: Result<Settled, LogError>,
) -> Settling {
    let Plan { settlement, patience, fate, lesson } = plan;
    match shared.storage.written(&settlement, patience, first).await {
        Ok(Settled::Applied) => Settling { fate, lesson, instead: None },
        Ok(Settled::DeadLettered) => Settling { fate: Fate::Dead, lesson, instead: None },
        Ok(Settled::LeaseLost | Settled::AlreadySettled) => {
            let outcome = Outcome::LeaseLost;
            Settling { instead: Some((outcome.name(), outcome.text())), ..Settling::lost() }
        }
        Err(error) if shared.storage_ended(&error) => {
            let instead = Some(("unwritten", chain(&error)));
            Settling { fate: Fate::Unwritten, lesson: Lesson::Nothing, instead }
        }
        Err(error) => refused(shared, consumer, claim, &error).await,
    }
}

/// The settlement was refused: nothing of it was written. The message is released, and the
/// consumer waits for room.
async fn refused(
    shared: &Shared,
    consumer: &Consumer,
    claim: &Claim,
    error: &LogError,
) -> Settling {
    let outcome = Outcome::Refused { text: chain(error) };
    let (name, text) = (outcome.name(), outcome.text());
    let Decision { pause, .. } = decision(consumer, claim, outcome);
    let disposition = Disposition::Release;
    let settlement = Settlement { token: claim.token, disposition, record: None };
    let fate = match shared.storage.settle(&settlement, Patience::Written).await {
        Ok(Settled::Applied) => Fate::Released,
        Ok(Settled::DeadLettered) => Fate::Dead,
        Ok(Settled::LeaseLost | Settled::AlreadySettled) => Fate::Lost,
        Err(_) => Fate::Unwritten,
    };
    Settling { fate, lesson: Lesson::Pause(pause, remedy(error)), instead: Some((name, text)) }
}

/// Without what a refused settlement will be refused again.
fn remedy(error: &LogError) -> Remedy {
    match error {
        LogError::UndeclaredTopic(topic) | LogError::NoTopic(topic) => Remedy::Topic(topic.clone()),
        LogError::StorageFull { .. }
        | LogError::QuotaFull { .. }
        | LogError::Unavailable { .. }
        | LogError::Closed => Remedy::Time,
        LogError::TooLarge { .. }
        | LogError::HoldsMore { .. }
        | LogError::TopicNotEmpty { .. }
        | LogError::NoGroup { .. }
        | LogError::BusyGroup { .. }
        | LogError::GroupHasDead { .. }
        | LogError::NoMessage(_)
        | LogError::ReadOnly
        | LogError::Exhausted(_) => Remedy::Somebody,
    }
}

/// What becomes of the message if the settlement is applied.
fn fate(disposition: &Disposition) -> Fate {
    match disposition {
        Disposition::Ack { sends } => Fate::Acked { sent: sends.len() },
        Disposition::Retry { delay, .. } => Fate::Retry { delay: *delay },
        Disposition::DeadLetter => Fate::Dead,
        Disposition::Release => Fate::Released,
    }
}

async fn tell_pause(shared: &Shared, consumer: &Consumer, paused: Paused) {
    let Paused { reason, text, retry, mends, .. } = paused;
    let consumer = consumer.name.clone();
    shared.events.tell(Event::Paused { consumer, reason, text, retry, mends }).await;
}
