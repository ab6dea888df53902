//! Topics as JSON: their counts, their limits, and what was removed of them.

use super::CountsBody;
use super::group::GroupBody;
use serde::Serialize;
use windlass_core::{Timestamp, time};
use windlass_log::{Purged, TopicLimits, TopicState};

/// A topic in `topic ls`, `show`, `add` and `set`.
#[derive(Debug, Serialize)]
pub(crate) struct TopicBody {
    topic: String,
    #[serde(flatten)]
    counts: CountsBody,
    bytes: u64,
    retained: u64,
    oldest_ms: Option<u64>,
    /// The group that has had the oldest to settle; the empty name is the work queue's.
    pinned_by: Option<String>,
    limits: LimitsBody,
    groups: Vec<GroupBody>,
}

/// What a topic may hold. `retain` is null where it is the log's, `max_age_ms` where nothing grows
/// too old.
#[derive(Debug, Serialize)]
struct LimitsBody {
    max_messages: u64,
    max_bytes: u64,
    retain_ms: Option<u64>,
    retain_messages: Option<u64>,
    max_age_ms: Option<u64>,
    dedup_window_ms: u64,
}

impl TopicBody {
    /// A topic as it stands at `now`.
    pub(crate) fn new(state: &TopicState, now: Timestamp) -> Self {
        Self {
            topic: state.topic.to_string(),
            counts: (&state.counts).into(),
            bytes: state.bytes,
            retained: state.retained,
            oldest_ms: state.oldest.map(|oldest| time::millis(now.since(oldest))),
            pinned_by: state.pinned_by().map(|group| group.group.to_string()),
            limits: (&state.limits).into(),
            groups: state.groups.iter().map(GroupBody::from).collect(),
        }
    }
}

impl From<&TopicLimits> for LimitsBody {
    fn from(limits: &TopicLimits) -> Self {
        let TopicLimits { max_messages, max_bytes, dedup_window, retain, max_age } = *limits;
        Self {
            max_messages,
            max_bytes,
            retain_ms: retain.map(|(span, _)| time::millis(span)),
            retain_messages: retain.map(|(_, messages)| messages),
            max_age_ms: max_age.map(time::millis),
            dedup_window_ms: time::millis(dedup_window),
        }
    }
}

/// What `topic purge` and `topic rm` removed.
#[derive(Debug, Serialize)]
pub(crate) struct PurgedBody<'a> {
    topic: &'a str,
    messages: u64,
    bytes: u64,
    dead: u64,
}

impl<'a> PurgedBody<'a> {
    /// Of `topic`.
    pub(crate) fn new(topic: &'a str, purged: &Purged) -> Self {
        let Purged { messages, bytes, dead } = *purged;
        Self { topic, messages, bytes, dead }
    }
}
