//! Rows of the file as the writer works with them.

use crate::admin::TopicLimits;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::lease::{Lease, LeaseBook, Standing};
use windlass_core::{Group, GroupPolicy, Sequence, Timestamp, Token, Topic};

/// Bits of a message's rowid that hold the sequence; the rest is the topic.
const SEQUENCE_BITS: u32 = 43;
/// Most topics a file can number.
pub(super) const TOPIC_ID_MAX: u64 = (1 << (63 - SEQUENCE_BITS)) - 1;

/// A topic's number in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TopicId(pub(super) u64);

impl TopicId {
    /// The rowid of a message of this topic.
    pub(super) fn rowid(self, sequence: Sequence) -> i64 {
        ((self.0 << SEQUENCE_BITS) | sequence.0).cast_signed()
    }

    /// The sequence in a rowid.
    pub(super) fn sequence(rowid: i64) -> Sequence {
        Sequence(rowid.cast_unsigned() & Sequence::MAX.0)
    }
}

/// Messages stored while no group was there to need them: after `lo`, up to `hi`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unclaimed {
    pub(super) lo: u64,
    /// None: still growing.
    pub(super) hi: Option<u64>,
    /// How many; where it grows: what the topic had published before it.
    pub(super) messages: u64,
    /// Their size, likewise.
    pub(super) bytes: u64,
}

/// At `at`, nothing up to `floor` was needed by its position any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Floor {
    pub(super) at: u64,
    pub(super) floor: u64,
}

/// A topic's row.
#[derive(Debug, Clone)]
pub(super) struct TopicRow {
    pub(super) epoch: u64,
    pub(super) id: TopicId,
    pub(super) name: Topic,
    pub(super) published: u64,
    pub(super) published_bytes: u64,
    pub(super) removed: u64,
    pub(super) removed_bytes: u64,
    pub(super) swept: u64,
    pub(super) stragglers: u64,
    pub(super) unclaimed: Vec<Unclaimed>,
    pub(super) floors: Vec<Floor>,
    /// The highest sequence that was removed.
    pub(super) gone: u64,
    pub(super) limits: TopicLimits,
    /// Its groups' numbers.
    pub(super) groups: Vec<u64>,
    /// The sweep found nothing to do; it looks again when its groups have passed so many. Not
    /// written.
    pub(super) look_after: u64,
}

/// A group's row, with its leases.
#[derive(Debug, Clone)]
pub(super) struct GroupRow {
    pub(super) epoch: u64,
    pub(super) id: u64,
    pub(super) topic: TopicId,
    pub(super) topic_name: Topic,
    pub(super) name: Group,
    pub(super) cursor: Sequence,
    pub(super) passed: u64,
    pub(super) passed_bytes: u64,
    pub(super) version: u64,
    pub(super) policy: GroupPolicy,
    pub(super) leases: LeaseBook,
    /// Which sequences a slot (a row of `lease`) holds.
    pub(super) slots: BTreeMap<u64, BTreeSet<Sequence>>,
    /// Earliest due time of what waits.
    pub(super) next_due: Option<Timestamp>,
    /// How many rows of `waiting` and `dead` it has.
    pub(super) waiting: u64,
    pub(super) waiting_bytes: u64,
    pub(super) dead: u64,
    /// How many of those in `waiting` are parked.
    pub(super) parked: u64,
    /// How many rows of `skip` it has: messages behind its cursor on which something was decided.
    pub(super) skips: u64,
    /// Whether its in-flight limit was reached after the last commit. Not written.
    pub(super) full: bool,
}

impl GroupRow {
    /// When something of this group will next want attention, after `now`.
    pub(super) fn next_event(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.next_due.filter(|due| *due > now);
        match (self.leases.next_end_after(now), due) {
            (Some(end), Some(due)) => Some(end.min(due)),
            (end, due) => end.or(due),
        }
    }

    /// Whether something that waits is due, or a lease has ended.
    pub(super) fn has_due(&self, now: Timestamp) -> bool {
        self.next_due.is_some_and(|due| due <= now)
            || self.leases.next_end().is_some_and(|end| end <= now)
    }

    /// Whether its in-flight limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.leases.len() >= usize::try_from(self.policy.in_flight_max.get()).unwrap_or(usize::MAX)
    }

    /// Notes that something waits until `due`.
    pub(super) fn waits_until(&mut self, due: Timestamp) {
        self.next_due = Some(self.next_due.map_or(due, |next| next.min(due)));
    }

    /// Enters a lease and notes which slots changed.
    pub(super) fn lease(&mut self, lease: Lease, dirty: &mut BTreeSet<(u64, u64)>) {
        dirty.insert((self.id, lease.slot));
        self.slots.entry(lease.slot).or_default().insert(lease.sequence);
        if let Some(earlier) = self.leases.insert(lease) {
            self.leave_slot(&earlier, dirty);
        }
    }

    /// Takes a lease out and notes which slot changed.
    pub(super) fn unlease(
        &mut self,
        sequence: Sequence,
        dirty: &mut BTreeSet<(u64, u64)>,
    ) -> Option<Lease> {
        let lease = self.leases.remove(sequence)?;
        self.leave_slot(&lease, dirty);
        Some(lease)
    }

    /// Takes the lease of `token` out, where that is the current one, and notes which slot changed;
    /// else what the token is worth.
    pub(super) fn take(
        &mut self,
        token: &Token,
        dirty: &mut BTreeSet<(u64, u64)>,
    ) -> Result<Lease, Standing> {
        let lease = self.leases.take(token)?;
        self.leave_slot(&lease, dirty);
        Ok(lease)
    }

    fn leave_slot(&mut self, lease: &Lease, dirty: &mut BTreeSet<(u64, u64)>) {
        dirty.insert((self.id, lease.slot));
        if let Some(sequences) = self.slots.get_mut(&lease.slot) {
            sequences.remove(&lease.sequence);
            if sequences.is_empty() {
                self.slots.remove(&lease.slot);
            }
        }
    }
}

/// The row of `state` that changes with most commits.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) next_sequence: u64,
    pub(super) last_ms: u64,
    pub(super) next_slot: u64,
    pub(super) declared_only: bool,
    pub(super) retain_ms: u64,
    pub(super) retain_messages: u64,
}

/// A slot whose record could not be read, to be replaced by dead letters.
#[derive(Debug, Clone)]
pub(super) struct BrokenSlot {
    pub(super) slot: u64,
    pub(super) lo: u64,
    pub(super) hi: u64,
}
