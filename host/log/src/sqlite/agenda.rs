//! When which group next wants attention: a lease ends, or something that waits becomes due.

use std::collections::{BTreeSet, HashMap};
use windlass_core::Timestamp;

/// One time a group.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    by_time: BTreeSet<(Timestamp, u64)>,
    of_group: HashMap<u64, Timestamp>,
    /// Whether all groups of the file have been entered.
    pub(super) complete: bool,
}

impl Agenda {
    /// Sets a group's next time.
    pub(super) fn set(&mut self, group: u64, at: Option<Timestamp>) {
        if let Some(old) = self.of_group.remove(&group) {
            self.by_time.remove(&(old, group));
        }
        if let Some(at) = at {
            self.of_group.insert(group, at);
            self.by_time.insert((at, group));
        }
    }

    /// The earliest time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Takes out the groups whose time has come.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Vec<u64> {
        let mut due = Vec::new();
        while let Some((at, group)) = self.by_time.first().copied().filter(|(at, _)| *at <= now) {
            self.by_time.remove(&(at, group));
            self.of_group.remove(&group);
            due.push(group);
        }
        due
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.by_time.clear();
        self.of_group.clear();
        self.complete = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_one_time() {
        let mut agenda = Agenda::default();
        agenda.set(1, Some(Timestamp(10)));
        agenda.set(2, Some(Timestamp(5)));
        agenda.set(1, Some(Timestamp(3)));
        assert_eq!(agenda.next(), Some(Timestamp(3)));
        assert_eq!(agenda.take_due(Timestamp(4)), [1]);
        agenda.set(2, None);
        assert_eq!(agenda.next(), None);
    }
}
