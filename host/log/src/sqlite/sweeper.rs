//! When the sweep looks at which topic next.
//!
//! Only topics where something may have become removable are on the list, so that a log with many
//! quiet topics does nothing for them.

use std::collections::HashMap;
use windlass_core::{Timestamp, Topic};

/// One time a topic.
#[derive(Debug, Default)]
pub(super) struct Sweeper {
    at: HashMap<Topic, Timestamp>,
}

impl Sweeper {
    /// Has a topic looked at no later than `at`.
    pub(super) fn look(&mut self, topic: &Topic, at: Timestamp) {
        match self.at.get_mut(topic) {
            Some(known) => *known = at.min(*known),
            None => {
                self.at.insert(topic.clone(), at);
            }
        }
    }

    /// Takes out topics whose time has come, at most so many.
    pub(super) fn take_due(&mut self, now: Timestamp, most: usize) -> Vec<Topic> {
        let due = self.at.iter().filter(|(_, at)| **at <= now);
        let mut due: Vec<_> = due.map(|(topic, at)| (*at, topic.clone())).collect();
        due.sort();
        due.truncate(most);
        for (_, topic) in &due {
            self.at.remove(topic);
        }
        due.into_iter().map(|(_, topic)| topic).collect()
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.at.values().min().copied()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.at.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wish_counts_and_a_turn_is_bounded() {
        let topics = ["a", "b", "c"].map(|name| Topic::new(name).unwrap());
        let mut sweeper = Sweeper::default();
        sweeper.look(&topics[0], Timestamp(9));
        sweeper.look(&topics[0], Timestamp(5));
        sweeper.look(&topics[0], Timestamp(7));
        sweeper.look(&topics[1], Timestamp(4));
        sweeper.look(&topics[2], Timestamp(8));
        assert_eq!(sweeper.take_due(Timestamp(7), 1), [topics[1].clone()]);
        assert_eq!(sweeper.take_due(Timestamp(7), 9), [topics[0].clone()]);
        assert_eq!(sweeper.next(), Some(Timestamp(8)));
    }
}
