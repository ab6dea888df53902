//! Groups of the memory log as they come and go: where they start, and what they leave behind.

use super::admin::group_counts;
use super::group::GroupLog;
use super::state::{State, TopicLog, Wakes};
use crate::admin::{Counts, GroupSpec};
use crate::api::Start;
use crate::error::LogError;
use std::ops::Bound;
use windlass_core::{Group, GroupPolicy, Sequence, Timestamp, Topic};

impl State {
    /// Declares a group that must not be there yet.
    pub(super) fn add_group(&mut self, spec: GroupSpec, wakes: &mut Wakes) -> Result<(), LogError> {
        if self.find(&spec.topic, &spec.group).is_some() {
            return Err(LogError::BusyGroup { topic: spec.topic, group: spec.group });
        }
        self.declare(spec, wakes);
        Ok(())
    }

    /// Another policy for a group that has the old one.
    pub(super) fn replace_policy(
        &mut self,
        topic: &Topic,
        group: &Group,
        old: &GroupPolicy,
        new: &GroupPolicy,
        wakes: &mut Wakes,
    ) -> Result<bool, LogError> {
        let place = self.meant(topic, Some(group))?[0];
        if self.groups[place].policy != *old {
            return Ok(false);
        }
        let (topic, group, policy) = (topic.clone(), group.clone(), new.clone());
        // It is there, and stays where it is.
        self.declare(GroupSpec { topic, group, policy, start: Start::Latest }, wakes);
        Ok(true)
    }

    /// Deletes a group, and lets go of what only it held; how it stood.
    pub(super) fn remove_group(
        &mut self,
        topic: &Topic,
        group: &Group,
        force: bool,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Counts, LogError> {
        let place = self.meant(topic, Some(group))?[0];
        let at = self.groups[place].topic;
        let counts = group_counts(&self.topics[at], &self.groups[place], now);
        if counts.dead > 0 && !force {
            let (topic, group, dead) = (topic.clone(), group.clone(), counts.dead);
            return Err(LogError::GroupHasDead { topic, group, dead });
        }
        // Its place stays taken, so that no token of it speaks of another group.
        self.groups[place] = GroupLog::gone(at, group.clone());
        self.topics[at].groups.remove(group);
        if self.topics[at].groups.is_empty() {
            self.topics[at].unclaimed.push((self.last.sequence, None));
        }
        self.let_go_all(at);
        wakes.group(topic, group);
        Ok(counts)
    }

    /// Moves a group.
    pub(super) fn seek(
        &mut self,
        topic: &Topic,
        group: &Group,
        to: Start,
        wakes: &mut Wakes,
    ) -> Result<(), LogError> {
        let place = self.meant(topic, Some(group))?[0];
        let at = self.groups[place].topic;
        let cursor = self.position(at, to);
        self.groups[place].seek(cursor);
        // What it reads again is kept for `retain` again.
        self.topics[at].samples.retain(|(_, floor)| *floor <= cursor);
        self.topics[at].claim_after(cursor, self.last.sequence);
        self.let_go_all(at);
        wakes.group(topic, group);
        Ok(())
    }

    /// The position of a start: everything up to it is passed.
    fn position(&self, topic: usize, start: Start) -> Sequence {
        let newest = self.last.sequence;
        match start {
            Start::Earliest => Sequence(0),
            Start::Latest => newest,
            Start::Time(time) => self.before(Some(&self.topics[topic]), time),
            Start::At(id) => Sequence(id.sequence.0.saturating_sub(1)).min(newest),
            Start::After(id) => id.sequence.min(newest),
        }
    }

    /// What the sweep has passed by and nobody has any more goes.
    pub(super) fn let_go_all(&mut self, topic: usize) {
        let swept = ..=self.topics[topic].swept_to;
        let all: Vec<_> = self.topics[topic].messages.range(swept).map(|(at, _)| *at).collect();
        for sequence in all {
            self.let_go(topic, sequence);
        }
    }

    /// Makes a group that is not there.
    pub(super) fn make_group(
        &mut self,
        topic: &Topic,
        group: Group,
        policy: GroupPolicy,
        start: Start,
    ) -> usize {
        let at = self.topic_or_new(topic);
        let newest = self.last.sequence;
        let cursor = self.position(at, start);
        let place = self.groups.len();
        self.groups.push(GroupLog::new(at, group.clone(), policy, cursor));
        let topic = &mut self.topics[at];
        topic.groups.insert(group, place);
        topic.claim_after(cursor, newest);
        place
    }
}

impl TopicLog {
    /// A group takes over what lies after `cursor` and waited for one; what lies before still waits.
    fn claim_after(&mut self, cursor: Sequence, newest: Sequence) {
        let mut unclaimed = std::mem::take(&mut self.unclaimed);
        unclaimed.retain_mut(|(lo, hi)| {
            let end = hi.unwrap_or(newest).min(cursor);
            *hi = Some(end);
            *lo < end
                && self
                    .messages
                    .range((Bound::Excluded(*lo), Bound::Included(end)))
                    .next()
                    .is_some()
        });
        self.unclaimed = unclaimed;
    }

    /// Whether a message waits for a group that starts at or before it.
    pub(super) fn is_unclaimed(&self, sequence: Sequence) -> bool {
        let holds = |(lo, hi): &(Sequence, Option<Sequence>)| {
            sequence > *lo && hi.is_none_or(|hi| sequence <= hi)
        };
        self.unclaimed.iter().any(holds)
    }
}
