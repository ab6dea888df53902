//! Where messages stand in groups, as JSON.

use super::message::{ContentBody, HistoryBody};
use super::when;
use serde::Serialize;
use windlass_core::time;
use windlass_log::{MessageState, Pending, Standing};

/// A delivery that is leased or waits.
#[derive(Debug, Default, Serialize)]
struct WaitBody {
    worker: Option<String>,
    idle_ms: Option<u64>,
    attempts: u32,
    first_at: Option<String>,
    last_at: Option<String>,
    due: Option<String>,
}

impl From<&Pending> for WaitBody {
    fn from(pending: &Pending) -> Self {
        Self {
            worker: pending.worker.clone(),
            idle_ms: pending.idle.map(time::millis),
            attempts: pending.attempts,
            first_at: pending.first_at.map(|at| when(at.0)),
            last_at: pending.last_at.map(|at| when(at.0)),
            due: pending.until.map(|at| when(at.0)),
        }
    }
}

/// A line of `group pending`. `due`: for what is leased, the lease's end.
#[derive(Debug, Serialize)]
pub(crate) struct PendingBody<'a> {
    topic: &'a str,
    group: &'a str,
    id: String,
    place: &'static str,
    #[serde(flatten)]
    wait: WaitBody,
}

impl<'a> PendingBody<'a> {
    /// A delivery of `group`.
    pub(crate) fn new(topic: &'a str, group: &'a str, pending: &Pending) -> Self {
        Self {
            topic,
            group,
            id: pending.id.to_string(),
            place: pending.place.name(),
            wait: pending.into(),
        }
    }
}

/// A message in `message show`.
#[derive(Debug, Serialize)]
pub(crate) struct MessageBody {
    topic: String,
    id: String,
    #[serde(flatten)]
    content: ContentBody,
    due: Option<String>,
    groups: Vec<StandingBody>,
}

#[derive(Debug, Serialize)]
struct StandingBody {
    group: String,
    place: &'static str,
    /// Null where none was begun, or the message is settled.
    attempts: Option<u32>,
    worker: Option<String>,
    idle_ms: Option<u64>,
    first_at: Option<String>,
    last_at: Option<String>,
    due: Option<String>,
    reason: Option<String>,
    died_at: Option<String>,
    #[serde(flatten)]
    history: HistoryBody,
}

impl From<&Standing> for StandingBody {
    fn from(standing: &Standing) -> Self {
        let (pending, dead) = (standing.pending.as_ref(), standing.dead.as_ref());
        let attempts = pending.map(|p| p.attempts).or(dead.map(|letter| letter.attempts));
        let wait = pending.map(WaitBody::from).unwrap_or_default();
        Self {
            group: standing.group.to_string(),
            place: standing.place.name(),
            attempts,
            worker: wait.worker,
            idle_ms: wait.idle_ms,
            first_at: wait.first_at,
            last_at: wait.last_at,
            due: wait.due,
            reason: dead.map(|letter| letter.reason.clone()),
            died_at: dead.map(|letter| when(letter.at.0)),
            history: (&standing.history).into(),
        }
    }
}

impl From<&MessageState> for MessageBody {
    fn from(state: &MessageState) -> Self {
        Self {
            topic: state.topic.to_string(),
            id: state.id.to_string(),
            content: ContentBody::whole(state.message.as_deref()),
            due: state.due.map(|due| when(due.0)),
            groups: state.groups.iter().map(StandingBody::from).collect(),
        }
    }
}
