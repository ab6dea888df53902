//! Letting go of what has grown too old before anybody read it (law 14).

use super::state::State;
use crate::admin::Gap;
use crate::error::LogError;
use std::ops::Bound;
use windlass_core::{Group, Sequence, Timestamp, Topic};

impl State {
    /// Up to where a topic's messages have grown too old; groups that had still to read some of them
    /// are moved behind them and get a gap.
    pub(super) fn pass_aged(&mut self, place: usize, now: Timestamp) -> Sequence {
        let topic = &self.topics[place];
        let Some(span) = topic.limits.max_age else { return Sequence(0) };
        let cutoff = Timestamp(now.0.saturating_sub(windlass_core::time::millis(span)));
        let is_old =
            |message: &&std::sync::Arc<windlass_core::Message>| message.id.millis <= cutoff;
        let old = topic.messages.values().take_while(is_old).last();
        let Some(end) = old.map(|message| message.id.sequence) else { return Sequence(0) };
        let groups: Vec<_> = topic.groups.values().copied().collect();
        for at in groups {
            let group = &mut self.groups[at];
            if group.cursor >= end {
                continue;
            }
            let unread = (Bound::Excluded(group.cursor), Bound::Included(end));
            let unread: Vec<_> =
                self.topics[place].messages.range(unread).map(|(at, _)| *at).collect();
            let messages = unread.iter().filter(|at| group.is_unread(**at)).count() as u64;
            let gap = Gap { after: group.cursor, through: end, messages, at: now };
            for sequence in unread {
                group.pass(sequence);
            }
            group.cursor = end;
            if messages > 0 {
                group.gap = Some(group.gap.map_or(gap, |earlier| earlier.and(gap)));
            }
        }
        let messages = &self.topics[place].messages;
        let holds_some = |lo: Sequence, hi: Sequence| {
            messages.range((Bound::Excluded(lo), Bound::Included(hi))).next().is_some()
        };
        let mut unclaimed = self.topics[place].unclaimed.clone();
        unclaimed.retain_mut(|(lo, hi)| {
            *lo = (*lo).max(end);
            hi.is_none_or(|hi| *lo < hi && holds_some(*lo, hi))
        });
        self.topics[place].unclaimed = unclaimed;
        self.let_go_all(place);
        end
    }

    /// Takes note of a group's gap.
    pub(super) fn acknowledge_gap(
        &mut self,
        topic: &Topic,
        group: &Group,
    ) -> Result<Option<Gap>, LogError> {
        let place = self.meant(topic, Some(group))?[0];
        Ok(self.groups[place].gap.take())
    }
}
