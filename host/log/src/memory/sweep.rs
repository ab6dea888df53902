//! Letting go of what nobody needs.
//!
//! Each sweep notes up to where nothing is needed (at or before every cursor, below every lease);
//! what was noted `retain` ago goes, and so does what is beyond the newest so many. It walks each
//! topic once: what waits or is dead in some group is passed by, and goes as soon as its last row
//! goes.

use super::state::{State, TopicLog};
use std::ops::Bound;
use std::time::Duration;
use windlass_core::time::millis;
use windlass_core::{Sequence, Timestamp};

/// A small `retain` is not swept after each message.
const SETTLED_MIN: u64 = 1_000;
/// Most often the floor is noted within one `retain`.
const SAMPLES: u64 = 16;

impl State {
    /// Removes what `retain` has let go; how many messages went.
    pub(super) fn sweep(&mut self, now: Timestamp) -> u64 {
        self.settled = 0;
        (0..self.topics.len()).map(|topic| self.sweep_topic(topic, now)).sum()
    }

    /// After how many settled messages a log that serves sweeps: as many as it keeps.
    pub(super) fn sweep_after(&self) -> u64 {
        self.retain.1.max(SETTLED_MIN)
    }

    /// The topic's last holder of a message is done with it: where the sweep has been, it goes.
    pub(super) fn let_go(&mut self, topic: usize, sequence: Sequence) {
        if sequence <= self.topics[topic].swept_to && !self.is_held(topic, sequence) {
            self.topics[topic].remove(sequence);
        }
    }

    fn sweep_topic(&mut self, topic: usize, now: Timestamp) -> u64 {
        let before = self.topics[topic].messages.len();
        let old = self.pass_aged(topic, now);
        let went = (before - self.topics[topic].messages.len()) as u64;
        went + self.sweep_settled(topic, old, now)
    }

    /// Removes what is settled; what is not needed up to `old` goes at once.
    pub(super) fn sweep_settled(&mut self, topic: usize, old: Sequence, now: Timestamp) -> u64 {
        let floor = self.floor(topic);
        let (span, most) = self.topics[topic].limits.retain.unwrap_or(self.retain);
        let floor = self.topics[topic].pass_unclaimed(floor);
        self.topics[topic].note_floor(floor, now, span);
        let aged = self.topics[topic].aged_floor(now, span).max(old);
        let swept_to = self.topics[topic].swept_to;
        if floor <= swept_to {
            return 0;
        }
        let after = (Bound::Excluded(swept_to), Bound::Included(floor));
        let walked: Vec<_> = self.topics[topic]
            .messages
            .range(after)
            .map(|(sequence, _)| (*sequence, self.is_held(topic, *sequence)))
            .collect();
        let unneeded = walked.iter().filter(|(_, held)| !held).count() as u64;
        let beyond = unneeded.saturating_sub(most);
        if beyond == 0 && aged <= swept_to {
            return 0;
        }
        let topic = &mut self.topics[topic];
        let (mut gone, mut passing_by) = (0, false);
        for (sequence, held) in walked {
            passing_by = held;
            if !held {
                if gone >= beyond && sequence > aged {
                    return gone;
                }
                topic.remove(sequence);
                gone += 1;
                topic.swept_to = sequence;
            }
        }
        // What is held behind the last one that went may yet be kept for `retain`.
        if !passing_by {
            topic.swept_to = floor;
        }
        gone
    }

    /// Up to here every group has read and nothing is leased. Without a group, what still waits for
    /// one is needed.
    fn floor(&self, topic: usize) -> Sequence {
        let topic = &self.topics[topic];
        let groups = topic.groups.values().map(|place| self.groups[*place].floor());
        let growing = topic.unclaimed.iter().filter(|(_, hi)| hi.is_none()).map(|(lo, _)| *lo);
        groups.chain(growing).min().unwrap_or_default()
    }
}

impl TopicLog {
    fn remove(&mut self, sequence: Sequence) {
        if let Some(message) = self.messages.remove(&sequence) {
            self.bytes -= message.size();
            self.gone = self.gone.max(sequence);
            self.due.remove(&sequence);
        }
    }

    /// What waits for a group is needed as a whole: passed by in one step. Up to where the sweep may
    /// go before the next such piece.
    fn pass_unclaimed(&mut self, floor: Sequence) -> Sequence {
        let next = |topic: &Self| {
            let here = topic.unclaimed.iter().find(|(lo, _)| *lo == topic.swept_to);
            here.and_then(|(_, hi)| *hi).filter(|hi| *hi <= floor)
        };
        while let Some(hi) = next(self) {
            self.swept_to = hi;
        }
        let pieces = self.unclaimed.iter().map(|(lo, _)| *lo).filter(|lo| *lo > self.swept_to);
        pieces.min().map_or(floor, |lo| lo.min(floor))
    }

    /// Notes the floor where it has risen, not more often than needed.
    fn note_floor(&mut self, floor: Sequence, now: Timestamp, span: Duration) {
        let apart = millis(span) / SAMPLES;
        let is_due = |(at, last): &(Timestamp, Sequence)| *last < floor && now.0 - at.0 >= apart;
        if !self.samples.back().is_none_or(is_due) {
            return;
        }
        // Of those that have aged, only the newest tells anything.
        while self.samples.get(1).is_some_and(|(at, _)| at.after(span) <= now) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, floor));
    }

    /// The floor as it was `retain` ago.
    fn aged_floor(&self, now: Timestamp, span: Duration) -> Sequence {
        let aged = self.samples.iter().rev().find(|(at, _)| at.after(span) <= now);
        aged.map_or(Sequence(0), |(_, floor)| *floor)
    }
}
