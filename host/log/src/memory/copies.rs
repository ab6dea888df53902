//! Copies of dead letters, published at the end of the operation that made them.

use super::state::{Moment, State, Wakes};
use windlass_core::copy::dead_letter_copy;

impl State {
    /// Notes what a group has given up, in order over all groups.
    pub(super) fn note_buried(&mut self, place: usize) {
        for (sequence, reason) in self.groups[place].take_buried() {
            self.buried.push((place, sequence, reason));
        }
    }

    /// Publishes the copies that are wanted of what was given up; what is refused is counted.
    pub(super) fn publish_copies(&mut self, at: Moment, wakes: &mut Wakes) {
        for (place, sequence, reason) in std::mem::take(&mut self.buried) {
            let group = &self.groups[place];
            let Some(to) = &group.policy.dead_letter_topic else { continue };
            let message = self.topics[group.topic].messages.get(&sequence);
            let copy = message.and_then(|one| dead_letter_copy(one, &group.name, &reason, to));
            match copy.filter(|copy| self.check(std::slice::from_ref(copy), None, at.now).is_ok()) {
                Some(copy) => {
                    self.store(copy, at, wakes);
                }
                None => self.groups[place].copies_missed += 1,
            }
        }
    }
}
