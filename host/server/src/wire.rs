//! What the outside sees as JSON: one object a line, names that stay.
//!
//! Domain types are never serialised to the outside; they become one of these first. Times are
//! RFC 3339 in UTC, ages and spans are milliseconds.

mod doctor;
mod group;
mod message;
mod replay;
mod standing;
mod topic;

pub(crate) use doctor::DoctorBody;
pub(crate) use group::{GroupGapBody, GroupOfTopicBody, ReleasedBody};
pub(crate) use message::{GapBody, StreamedBody};
pub(crate) use replay::TrialBody;
pub(crate) use standing::{MessageBody, PendingBody};
pub(crate) use topic::{PurgedBody, TopicBody};

use crate::event::{Delivered, Event, Fate, Figures, Lag};
use message::{ContentBody, HistoryBody};
use serde::Serialize;
use std::time::{Duration, UNIX_EPOCH};
use windlass_core::{AttemptRecord, time};
use windlass_log::{Counts, DeadLetter};

/// A point in time as text.
pub(crate) fn when(ms: u64) -> String {
    // Beyond the year 9999 there is no such text.
    let ms = ms.min(253_402_300_799_999);
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

/// Milliseconds with three digits behind the point.
fn fine_ms(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}

/// Counts, flat in whatever has them.
#[derive(Debug, Serialize)]
pub(crate) struct CountsBody {
    ready: u64,
    delayed: u64,
    retrying: u64,
    parked: u64,
    leased: u64,
    dead: u64,
    lag: u64,
}

impl From<&Counts> for CountsBody {
    fn from(counts: &Counts) -> Self {
        let Counts { ready, delayed, retrying, parked, leased, dead } = *counts;
        Self { ready, delayed, retrying, parked, leased, dead, lag: counts.lag() }
    }
}

/// A dead letter in `dlq ls`; `dlq show` adds its data and its history.
#[derive(Debug, Serialize)]
pub(crate) struct DeadLetterBody {
    topic: String,
    group: String,
    id: String,
    reason: String,
    attempts: u32,
    at: String,
    #[serde(flatten)]
    content: ContentBody,
    #[serde(flatten)]
    history: Option<HistoryBody>,
}

#[derive(Debug, Serialize)]
struct AttemptBody {
    attempt: u32,
    at: String,
    worker: String,
    revision: String,
    outcome: String,
    text: String,
}

impl DeadLetterBody {
    /// One line of a list.
    pub(crate) fn brief(topic: &str, letter: &DeadLetter) -> Self {
        Self {
            topic: topic.to_owned(),
            group: letter.group.to_string(),
            id: letter.id.to_string(),
            reason: letter.reason.clone(),
            attempts: letter.attempts,
            at: when(letter.at.0),
            content: ContentBody::brief(letter.message.as_ref()),
            history: None,
        }
    }

    /// All there is.
    pub(crate) fn whole(topic: &str, letter: &DeadLetter) -> Self {
        Self {
            content: ContentBody::whole(letter.message.as_ref()),
            history: Some((&letter.history).into()),
            ..Self::brief(topic, letter)
        }
    }
}

impl From<&AttemptRecord> for AttemptBody {
    fn from(record: &AttemptRecord) -> Self {
        Self {
            attempt: record.attempt,
            at: when(record.at.0),
            worker: record.worker.clone(),
            revision: record.revision.clone(),
            outcome: record.outcome.clone(),
            text: record.text.clone(),
        }
    }
}

/// A publish's answer.
#[derive(Debug, Serialize)]
pub(crate) struct PublishedBody {
    /// The message's id.
    pub id: String,
    /// Whether it was known.
    pub duplicate: bool,
}

/// One event of a run.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum EventBody<'a> {
    /// Everything is declared, and all that can run claims.
    Ready { log: &'a str, consumers: &'a [String] },
    /// A delivery came to its end.
    Delivery(DeliveryBody<'a>),
    /// Builds began, because of what had changed.
    Building { consumers: &'a [String], changed: &'a [String] },
    /// They went well.
    Built { consumers: &'a [String], elapsed_ms: f64 },
    /// A consumer takes its next claim with this code and configuration.
    Serving {
        consumer: &'a str,
        topics: &'a [String],
        group: &'a str,
        revision: &'a str,
        before: Option<&'a str>,
    },
    /// A consumer is wanted no more.
    Retired { consumer: &'a str },
    /// Something is wrong until somebody mends it.
    Problem {
        about: &'a str,
        what: &'a str,
        why: &'a [String],
        next: Option<&'a str>,
        meanwhile: &'a str,
    },
    /// It is mended.
    Mended { about: &'a str },
    /// Files that builds write where they are watched.
    OwnFiles { files: &'a [String] },
    /// Something worth knowing.
    Remark { text: &'a str },
    /// Requests are answered here.
    Listening { address: &'a str },
    /// A revision was given up, and an earlier one serves again.
    RolledBack { consumer: &'a str, from: u64, to: u64, why: &'a str },
    /// A group falls behind.
    Lag { topic: &'a str, group: &'a str, messages: u64, before: u64, over_ms: u64 },
    /// A consumer stopped claiming.
    Paused {
        consumer: &'a str,
        reason: &'a str,
        text: &'a str,
        retry_ms: Option<u64>,
        mends_itself: bool,
    },
    /// A consumer claims again.
    Resumed { consumer: &'a str },
    /// Storage does not answer.
    StorageLost { text: &'a str },
    /// Storage answers again.
    StorageBack,
    /// The log ended by itself; so does the run.
    LogEnded,
    /// The run is over. Always the last line.
    Summary(SummaryBody),
}

/// A delivery.
#[derive(Debug, Serialize)]
pub(crate) struct DeliveryBody<'a> {
    consumer: &'a str,
    topic: &'a str,
    group: &'a str,
    id: String,
    attempt: u32,
    revision: &'a str,
    outcome: &'a str,
    disposition: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_ms: Option<u64>,
    sent: usize,
    elapsed_ms: f64,
    cpu_ms: f64,
    memory_bytes: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    output: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    output_dropped: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// How a run went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SummaryBody {
    /// Samples and sends.
    pub published: u64,
    /// Acks.
    pub handled: u64,
    /// Retries that were scheduled.
    pub retried: u64,
    /// Dead letters made by this run.
    pub dead: u64,
    /// Deliveries given back.
    pub released: u64,
    /// How long it ran.
    pub elapsed_ms: u64,
    /// The exit code.
    pub exit: u8,
}

impl From<Figures> for SummaryBody {
    fn from(figures: Figures) -> Self {
        let Figures { sent: published, handled, retried, dead, released } = figures;
        Self { published, handled, retried, dead, released, ..Self::default() }
    }
}

impl<'a> DeliveryBody<'a> {
    fn new(delivered: &'a Delivered) -> Self {
        let (retry, sent) = match delivered.fate {
            Fate::Retry { delay } => (Some(delay), 0),
            Fate::Acked { sent } => (None, sent),
            Fate::Dead | Fate::Released | Fate::Lost | Fate::Unwritten => (None, 0),
        };
        Self {
            consumer: &delivered.consumer,
            topic: delivered.message.topic.as_str(),
            group: delivered.group.as_str(),
            id: delivered.message.id.to_string(),
            attempt: delivered.attempt,
            revision: &delivered.revision,
            outcome: delivered.outcome,
            disposition: delivered.fate.name(),
            text: &delivered.text,
            retry_ms: retry.map(time::millis),
            sent,
            elapsed_ms: fine_ms(delivered.elapsed),
            cpu_ms: fine_ms(delivered.cpu),
            memory_bytes: delivered.memory_peak,
            output: &delivered.output.text,
            output_dropped: delivered.output.dropped_bytes,
        }
    }
}

impl<'a> EventBody<'a> {
    /// What the outside sees of an event, if anything.
    pub(crate) fn new(event: &'a Event) -> Option<Self> {
        Some(match event {
            Event::Delivered(delivered) => Self::Delivery(DeliveryBody::new(delivered)),
            Event::Paused { consumer, reason, text, retry, mends } => Self::Paused {
                consumer,
                reason,
                text,
                retry_ms: retry.map(time::millis),
                mends_itself: *mends,
            },
            Event::Ready { log, consumers } => Self::Ready { log, consumers },
            Event::Building { consumers, changed } => Self::Building { consumers, changed },
            Event::Built { consumers, elapsed } => {
                Self::Built { consumers, elapsed_ms: fine_ms(*elapsed) }
            }
            Event::Serving { consumer, topics, group, revision, before } => Self::Serving {
                consumer,
                topics,
                group: group.as_str(),
                revision,
                before: before.as_deref(),
            },
            Event::Retired { consumer } => Self::Retired { consumer },
            Event::Problem(problem) => Self::Problem {
                about: &problem.subject,
                what: &problem.what,
                why: &problem.why,
                next: problem.next.as_deref(),
                meanwhile: &problem.meanwhile,
            },
            Event::Mended { subject } => Self::Mended { about: subject },
            Event::OwnFiles { files } => Self::OwnFiles { files },
            Event::Remark { text } => Self::Remark { text },
            Event::Listening { address } => Self::Listening { address },
            Event::RolledBack { consumer, from, to, why } => {
                Self::RolledBack { consumer, from: *from, to: *to, why }
            }
            Event::Lag(Lag { topic, group, messages, before, over }) => Self::Lag {
                topic,
                group: group.as_str(),
                messages: *messages,
                before: *before,
                over_ms: time::millis(*over),
            },
            Event::Resumed { consumer } => Self::Resumed { consumer },
            Event::StorageLost { text } => Self::StorageLost { text },
            Event::StorageBack => Self::StorageBack,
            Event::LogEnded => Self::LogEnded,
            Event::Tick | Event::End => return None,
        })
    }
}
