//! One message against one component, outside the dispatcher: what would come of it.
//!
//! Nothing is claimed, settled or published. What the guest sends is recorded whatever the consumer's
//! mode, and told apart by whether it would ever appear.

use crate::delivery::{BoxFuture, Invoke as _};
use crate::manifest::{ConsumerSpec, SendMode};
use crate::registry::Ready;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use windlass_core::settle::{Decision, decide};
use windlass_core::{Message, NewMessage, Outcome};
use windlass_runtime::{CheckError, Component, Delivery, Invocation, Outbox, SendRefused, Stop};

/// What would have come of a delivery.
#[derive(Debug)]
pub(crate) struct Trial {
    /// The call itself.
    pub invocation: Invocation,
    /// What law 26 makes of it, before any jitter.
    pub decision: Decision,
    /// What it sent.
    pub sends: Vec<NewMessage>,
    /// Whether that would have been published.
    pub appear: bool,
    /// The code that ran, short.
    pub revision: String,
}

/// Takes what a guest sends, and keeps it.
#[derive(Debug, Default)]
struct Recorder(Mutex<Vec<NewMessage>>);

#[async_trait::async_trait]
impl Outbox for Recorder {
    async fn publish(&self, message: NewMessage) -> Result<(), SendRefused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        Ok(())
    }
}

/// Delivers `message` as attempt number `attempt`. When `stop` ends first, so does the call.
pub(crate) async fn run(
    component: &Component,
    spec: &ConsumerSpec,
    message: Arc<Message>,
    attempt: u32,
    stop: BoxFuture<'_, Stop>,
) -> Result<Trial, CheckError> {
    let recorder = Arc::new(Recorder::default());
    // Sent at once, they are seen even where a failure would take them back.
    let played = ConsumerSpec { sends: SendMode::Immediate, ..spec.clone() };
    let ready = Ready::new(component, &played, &recorder)?;
    let delivery = Delivery { message, attempt, deadline: Instant::now() + ready.wall() };
    let invocation = ready.invoke(delivery, stop).await;
    let policy = &spec.policy;
    let outcome = invocation.outcome.clone();
    let appear = spec.sends == SendMode::Immediate || matches!(outcome, Outcome::Done { .. });
    let decision = decide(outcome, attempt, policy.max_attempts, &policy.backoff, 0.0);
    let sends = std::mem::take(&mut *recorder.0.lock().unwrap_or_else(PoisonError::into_inner));
    let revision = ready.revision().to_string();
    Ok(Trial { invocation, decision, sends, appear, revision })
}
