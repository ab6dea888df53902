//! Where messages stand in groups, as JSON.

use super::when;
use serde::Serialize;
use windlass_core::time;
use windlass_log::Pending;

/// A delivery that is leased or waits.
#[derive(Debug, Serialize)]
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
