//! Groups as JSON: their counts and their policy.

use super::{CountsBody, when};
use serde::Serialize;
use windlass_core::{Backoff, time};
use windlass_log::{Gap, GroupState};

/// A group in `topic show`.
#[derive(Debug, Serialize)]
pub(super) struct GroupBody {
    group: String,
    #[serde(flatten)]
    counts: CountsBody,
    max_attempts: u32,
    lease_ms: u64,
    in_flight: u32,
    backoff: BackoffBody,
    dead_letter_topic: Option<String>,
    copies_missed: u64,
    /// Messages that went unread because they were too old.
    gap_messages: u64,
}

#[derive(Debug, Serialize)]
struct BackoffBody {
    initial_ms: u64,
    factor: f64,
    max_ms: u64,
    jitter: f64,
}

/// A group in `group ls`, `group show` and `group add`.
#[derive(Debug, Serialize)]
pub(crate) struct GroupOfTopicBody<'a> {
    topic: &'a str,
    #[serde(flatten)]
    group: GroupBody,
}

impl<'a> GroupOfTopicBody<'a> {
    /// A group of `topic`.
    pub(crate) fn new(topic: &'a str, state: &GroupState) -> Self {
        Self { topic, group: state.into() }
    }
}

impl From<&GroupState> for GroupBody {
    fn from(state: &GroupState) -> Self {
        let policy = &state.policy;
        Self {
            group: state.group.to_string(),
            counts: (&state.counts).into(),
            max_attempts: policy.max_attempts.get(),
            lease_ms: policy.lease_ms(),
            in_flight: policy.in_flight_max.get(),
            backoff: (&policy.backoff).into(),
            dead_letter_topic: policy.dead_letter_topic.as_ref().map(ToString::to_string),
            copies_missed: state.copies_missed,
            gap_messages: state.gap.map_or(0, |gap| gap.messages),
        }
    }
}

impl From<&Backoff> for BackoffBody {
    fn from(backoff: &Backoff) -> Self {
        let Backoff { initial, factor, max, jitter } = backoff;
        Self {
            initial_ms: time::millis(*initial),
            factor: *factor,
            max_ms: time::millis(*max),
            jitter: *jitter,
        }
    }
}

/// A group's gap in `group gap`; null where there is none. Places are the last part of ids.
#[derive(Debug, Serialize)]
pub(crate) struct GroupGapBody<'a> {
    topic: &'a str,
    group: &'a str,
    gap: Option<GapOfGroup>,
    acknowledged: bool,
}

#[derive(Debug, Serialize)]
struct GapOfGroup {
    messages: u64,
    after: String,
    through: String,
    at: String,
}

impl<'a> GroupGapBody<'a> {
    /// A gap of a group, and whether it is shown for the last time.
    pub(crate) fn new(
        topic: &'a str,
        group: &'a str,
        gap: Option<&Gap>,
        acknowledged: bool,
    ) -> Self {
        let gap = gap.map(|gap| GapOfGroup {
            messages: gap.messages,
            after: format!("{:016x}", gap.after.0),
            through: format!("{:016x}", gap.through.0),
            at: when(gap.at.0),
        });
        Self { topic, group, gap, acknowledged }
    }
}

/// What `group release` gave back.
#[derive(Debug, Serialize)]
pub(crate) struct ReleasedBody<'a> {
    /// Of this topic.
    pub topic: &'a str,
    /// Of this group.
    pub group: &'a str,
    /// Who held it.
    pub worker: &'a str,
    /// How many deliveries.
    pub released: u64,
}
