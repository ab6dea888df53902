//! What waits in one group of the memory log: for a time, or behind another message of its key.

use crate::api::UNTRIED_LOOK;
use crate::inspect::Place;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use windlass_core::{Sequence, Timestamp};

/// A delivery that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) place: Place,
    pub(super) due: Timestamp,
    pub(super) attempts: u32,
    pub(super) first_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
    pub(super) key: Option<u64>,
}

/// How many wait, and how.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Waits {
    pub(super) due: u64,
    pub(super) retrying: u64,
    pub(super) delayed: u64,
    pub(super) parked: u64,
}

/// All that waits in a group.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    rows: BTreeMap<Sequence, Waiting>,
    /// But for what is parked.
    by_due: BTreeSet<(Timestamp, Sequence)>,
    by_key: HashMap<u64, BTreeSet<Sequence>>,
    parked: u64,
}

impl WaitingRoom {
    /// How a message waits, where it does.
    pub(super) fn get(&self, sequence: Sequence) -> Option<&Waiting> {
        self.rows.get(&sequence)
    }

    /// Whether a message of this key waits, parked ones included.
    pub(super) fn has_key(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// How many are parked.
    pub(super) fn parked(&self) -> u64 {
        self.parked
    }

    /// Enters a delivery.
    pub(super) fn enter(&mut self, sequence: Sequence, waiting: Waiting) {
        if waiting.place == Place::Parked {
            self.parked += 1;
        } else {
            self.by_due.insert((waiting.due, sequence));
        }
        if let Some(key) = waiting.key {
            self.by_key.entry(key).or_default().insert(sequence);
        }
        self.rows.insert(sequence, waiting);
    }

    /// Takes a delivery out.
    pub(super) fn take(&mut self, sequence: Sequence) -> Option<Waiting> {
        let waiting = self.rows.remove(&sequence)?;
        if waiting.place == Place::Parked {
            self.parked -= 1;
        } else {
            self.by_due.remove(&(waiting.due, sequence));
        }
        if let Some(key) = waiting.key
            && let Some(of_key) = self.by_key.get_mut(&key)
        {
            of_key.remove(&sequence);
            if of_key.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(waiting)
    }

    /// The first parked one of a key, whose way is free at `now`, waits for its time; due at once
    /// where it has none. Whether there was one.
    pub(super) fn unpark(&mut self, key: u64, now: Timestamp) -> bool {
        let first = self.by_key.get(&key).and_then(|of_key| of_key.first().copied());
        let Some(sequence) = first else { return false };
        let Some(waiting) = self.take(sequence) else { return false };
        let place = if waiting.due > now { Place::Delayed } else { Place::Retrying };
        self.enter(sequence, Waiting { place, due: waiting.due.max(now), ..waiting });
        true
    }

    /// Takes out the first one that is due, by due time and sequence.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Sequence, Waiting)> {
        let (due, sequence) = *self.by_due.first()?;
        if due > now {
            return None;
        }
        Some((sequence, self.take(sequence)?))
    }

    /// Takes out those with the fewest attempts of what is due, then by due time and sequence.
    pub(super) fn take_least_tried(
        &mut self,
        now: Timestamp,
        most: usize,
    ) -> Vec<(Sequence, Waiting)> {
        let due = self.by_due.iter().take_while(|(due, _)| *due <= now).take(UNTRIED_LOOK);
        let tried = |(due, sequence): &(Timestamp, Sequence)| {
            let attempts = self.rows.get(sequence).map_or(0, |waiting| waiting.attempts);
            (attempts, *due, *sequence)
        };
        let mut due: Vec<_> = due.map(tried).collect();
        due.sort_unstable();
        due.truncate(most);
        let take = |(_, _, sequence)| Some((sequence, self.take(sequence)?));
        due.into_iter().filter_map(take).collect()
    }

    /// What waits behind a message, in order.
    pub(super) fn after(&self, after: Sequence) -> impl Iterator<Item = Sequence> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.rows.range(behind).map(|(sequence, _)| *sequence)
    }

    /// How many wait, and how.
    pub(super) fn count(&self, now: Timestamp) -> Waits {
        let mut waits = Waits::default();
        for waiting in self.rows.values() {
            match waiting.place {
                Place::Parked => waits.parked += 1,
                _ if waiting.due <= now => waits.due += 1,
                Place::Delayed => waits.delayed += 1,
                Place::Retrying | Place::New | Place::Leased | Place::Dead | Place::Settled => {
                    waits.retrying += 1;
                }
            }
        }
        waits
    }

    /// When the next one becomes due that is not due at `now`.
    pub(super) fn next_due_after(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.0.checked_add(1).map(Timestamp)?, Sequence(0));
        self.by_due.range(later..).next().map(|(due, _)| *due)
    }

    /// Whether one became due, from `since` until `now`.
    pub(super) fn stirred(&self, since: Timestamp, now: Timestamp) -> bool {
        let due = self.by_due.range((since, Sequence(0))..).next();
        due.is_some_and(|(due, _)| *due <= now)
    }
}
