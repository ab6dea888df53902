//! A `replay` as JSON.

use super::message::DataBody;
use super::{fine_ms, is_zero};
use crate::replay::Trial;
use serde::Serialize;
use windlass_core::settle::Pause;
use windlass_core::{Disposition, Message, Metadata, NewMessage, time};

/// What would have come of a delivery.
#[derive(Debug, Serialize)]
pub(crate) struct TrialBody<'a> {
    topic: &'a str,
    id: String,
    revision: &'a str,
    attempt: u32,
    max_attempts: u32,
    outcome: &'static str,
    text: String,
    disposition: &'static str,
    retry_ms: Option<u64>,
    pause: Option<&'static str>,
    elapsed_ms: f64,
    cpu_ms: f64,
    memory_bytes: u64,
    output: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    output_dropped: u64,
    sends_appear: bool,
    sends: Vec<SendBody<'a>>,
}

#[derive(Debug, Serialize)]
struct SendBody<'a> {
    topic: &'a str,
    content_type: Option<&'a str>,
    key: Option<&'a str>,
    metadata: &'a Metadata,
    size: u64,
    #[serde(flatten)]
    data: DataBody,
}

impl<'a> From<&'a NewMessage> for SendBody<'a> {
    fn from(message: &'a NewMessage) -> Self {
        Self {
            topic: message.topic.as_str(),
            content_type: message.content_type.as_deref(),
            key: message.key.as_deref(),
            metadata: &message.metadata,
            size: message.size(),
            data: DataBody::new(&message.data),
        }
    }
}

impl<'a> TrialBody<'a> {
    /// A trial of `message`.
    pub(crate) fn new(message: &'a Message, attempt: u32, most: u32, trial: &'a Trial) -> Self {
        let Trial { invocation, decision, sends, appear, revision } = trial;
        let (disposition, retry) = disposition(decision.disposition.as_ref());
        Self {
            topic: message.topic.as_str(),
            id: message.id.to_string(),
            revision,
            attempt,
            max_attempts: most,
            outcome: invocation.outcome.name(),
            text: invocation.outcome.text(),
            disposition,
            retry_ms: retry,
            pause: pause(&decision.pause),
            elapsed_ms: fine_ms(invocation.elapsed),
            cpu_ms: fine_ms(invocation.cpu),
            memory_bytes: invocation.memory_peak,
            output: &invocation.output.text,
            output_dropped: invocation.output.dropped_bytes,
            sends_appear: *appear,
            sends: sends.iter().map(SendBody::from).collect(),
        }
    }
}

/// Named as in the events of `dev`.
fn disposition(disposition: Option<&Disposition>) -> (&'static str, Option<u64>) {
    match disposition {
        None => ("lease-lost", None),
        Some(Disposition::Ack { .. }) => ("ack", None),
        Some(Disposition::Retry { delay, .. }) => ("retry", Some(time::millis(*delay))),
        Some(Disposition::DeadLetter) => ("dead-letter", None),
        Some(Disposition::Release) => ("release", None),
    }
}

/// Why the consumer would pause.
fn pause(pause: &Pause) -> Option<&'static str> {
    match pause {
        Pause::No => None,
        Pause::Start(_) => Some("start"),
        Pause::Grant(_) => Some("grant"),
        Pause::Room(_) => Some("room"),
    }
}
