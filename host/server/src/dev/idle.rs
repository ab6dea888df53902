//! When a run has nothing left to do.

use crate::cli::Failure;
use crate::dispatch::Dispatcher;
use std::collections::HashMap;
use std::time::Duration;
use windlass_core::Topic;
use windlass_log::{DynLog, GroupSpec, LogError, TopicState};

const LOOK_FIRST: Duration = Duration::from_millis(10);
const LOOK_MOST: Duration = Duration::from_millis(200);

/// How a run came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Idle {
    /// No group has anything left.
    Done,
    /// A consumer is paused for what does not mend itself.
    Stuck,
}

/// Returns when every group has nothing ready, leased, retrying, delayed or parked, or when a
/// consumer is stuck.
pub(super) async fn reached(dispatcher: &Dispatcher, log: &DynLog, groups: &[GroupSpec]) -> Idle {
    let mut wait = LOOK_FIRST;
    loop {
        if dispatcher.is_stuck() {
            return Idle::Stuck;
        }
        // A message on its way from one topic to the next is seen by what was claimed meanwhile.
        let before = dispatcher.activity();
        let busy = before.1 > 0;
        if !busy && matches!(lag(log, groups).await, Ok(0)) && dispatcher.activity() == before {
            return Idle::Done;
        }
        wait = if busy { LOOK_FIRST } else { (wait * 2).min(LOOK_MOST) };
        tokio::time::sleep(wait).await;
    }
}

/// What the groups have left to settle.
async fn lag(log: &DynLog, groups: &[GroupSpec]) -> Result<u64, LogError> {
    sum(log, groups, |state, group| {
        let found = state.groups.iter().find(|of| of.group == group.group);
        found.map_or(0, |of| of.counts.lag())
    })
    .await
}

/// How many dead letters the groups have.
pub(super) async fn dead(log: &DynLog, groups: &[GroupSpec]) -> Result<u64, Failure> {
    let count = sum(log, groups, |state, group| {
        let found = state.groups.iter().find(|of| of.group == group.group);
        found.map_or(0, |of| of.counts.dead)
    });
    Ok(count.await?)
}

/// All topics are read at once: one moment, and one query however many groups there are.
async fn sum(
    log: &DynLog,
    groups: &[GroupSpec],
    figure: impl Fn(&TopicState, &GroupSpec) -> u64,
) -> Result<u64, LogError> {
    let states = log.topics().await?;
    let states: HashMap<&Topic, &TopicState> = states.iter().map(|s| (&s.topic, s)).collect();
    let figures = groups.iter().filter_map(|group| Some(figure(states.get(&group.topic)?, group)));
    Ok(figures.sum())
}
