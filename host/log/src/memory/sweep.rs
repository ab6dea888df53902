//! Letting go of what nobody needs.
//!
//! Each sweep notes up to where nothing is needed (below every cursor and every lease); what a
//! sweep at least `retain` ago had noted goes, and so does what is beyond the newest so many. What
//! waits or is dead in some group stays, and goes as soon as its last row goes.

use super::state::State;
use std::ops::Bound;
use windlass_core::{Sequence, Timestamp};

/// A small `retain` is not swept after each message.
const SETTLED_MIN: u64 = 1_000;

impl State {
    /// Removes what `retain` has let go; how many messages went.
    pub(super) fn sweep(&mut self, now: Timestamp) -> u64 {
        self.settled = 0;
        (0..self.topics.len()).map(|topic| self.sweep_topic(topic, now)).sum()
    }

    /// After how many settled messages a log that sweeps by itself does so: as many as it keeps.
    pub(super) fn sweep_after(&self) -> u64 {
        self.retain.1.max(SETTLED_MIN)
    }

    /// The topic's last holder of a message is done with it: where the sweep has been, it goes.
    pub(super) fn let_go(&mut self, topic: usize, sequence: Sequence) {
        if sequence <= self.topics[topic].swept_to && !self.is_held(topic, sequence) {
            self.topics[topic].messages.remove(&sequence);
        }
    }

    fn sweep_topic(&mut self, topic: usize, now: Timestamp) -> u64 {
        let Some(floor) = self.floor(topic) else { return 0 };
        let line = self.line(topic, floor, now);
        let swept_to = self.topics[topic].swept_to;
        if floor <= swept_to {
            return 0;
        }
        let mut unneeded: Vec<_> = self.topics[topic]
            .messages
            .range((Bound::Excluded(swept_to), Bound::Included(floor)))
            .map(|(sequence, _)| *sequence)
            .filter(|sequence| !self.is_held(topic, *sequence))
            .collect();
        let most = usize::try_from(self.retain.1).unwrap_or(usize::MAX);
        let beyond = unneeded.len().saturating_sub(most);
        let line = beyond.checked_sub(1).map_or(line, |last| line.max(unneeded[last]));
        unneeded.retain(|sequence| *sequence <= line);
        let topic = &mut self.topics[topic];
        for sequence in &unneeded {
            topic.messages.remove(sequence);
        }
        topic.swept_to = swept_to.max(line);
        unneeded.len() as u64
    }

    /// Up to here every group has read and nothing is leased. Without a group everything is needed.
    fn floor(&self, topic: usize) -> Option<Sequence> {
        let groups = self.topics[topic].groups.values();
        groups.map(|place| self.groups[*place].floor()).min()
    }

    /// Notes the floor, and says what was below it for long enough.
    fn line(&mut self, topic: usize, floor: Sequence, now: Timestamp) -> Sequence {
        let span = self.retain.0;
        let samples = &mut self.topics[topic].samples;
        if samples.back().is_none_or(|(_, last)| *last != floor) {
            samples.push_back((now, floor));
        }
        let is_old = |(at, _): &(Timestamp, Sequence)| at.after(span) <= now;
        while samples.get(1).is_some_and(is_old) {
            samples.pop_front();
        }
        samples
            .front()
            .filter(|sample| is_old(sample))
            .map_or(Sequence(0), |(_, at)| floor.min(*at))
    }
}
