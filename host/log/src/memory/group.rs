//! One group of the memory log: what is leased, what waits, what is dead, and what became of the
//! attempts so far.
//!
//! Owns the moves between these places, so that a message is never in two of them or in none.
//! Knows nothing of messages, topics or clocks.

use super::waiting::{Waiting, WaitingRoom};
use crate::admin::Gap;
use crate::inspect::{Pending, Place};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use windlass_core::history::{TEXT_BYTES_MAX, cut, gives_way};
use windlass_core::lease::{Lease, LeaseBook};
use windlass_core::passing::{Passing, passing};
use windlass_core::{AttemptRecord, Group, GroupPolicy, History, MessageId, Sequence, Timestamp};

/// The outcome of an attempt whose worker never answered.
const LEASE_ENDED: &str = "lease-ended";
const LEASE_ENDED_TEXT: &str = "the lease ended without an answer";

/// A delivery given up.
#[derive(Debug, Clone)]
pub(super) struct Dead {
    key: Option<u64>,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) at: Timestamp,
}

/// The attempts kept of one message, each with its number from 1, over redrives too.
#[derive(Debug, Default)]
struct Past {
    written: u32,
    kept: Vec<(u32, AttemptRecord)>,
    omitted: u32,
}

/// A group's durable reading position and everything on its way.
#[derive(Debug)]
pub(super) struct GroupLog {
    /// Where its topic stands in the state.
    pub(super) topic: usize,
    pub(super) name: Group,
    pub(super) policy: GroupPolicy,
    /// Everything after it is new to this group.
    pub(super) cursor: Sequence,
    pub(super) leases: LeaseBook,
    /// It was deleted.
    pub(super) gone: bool,
    pub(super) dead: BTreeMap<Sequence, Dead>,
    pub(super) waiting: WaitingRoom,
    past: HashMap<Sequence, Past>,
    /// Cancelled before it came to them.
    skipped: BTreeSet<Sequence>,
    /// Made due before it came to them.
    hurried: BTreeSet<Sequence>,
    /// Given up since somebody last asked, where copies are wanted.
    buried: Vec<(Sequence, String)>,
    /// Dead letters whose copy was not taken.
    pub(super) copies_missed: u64,
    /// What it could not read any more.
    pub(super) gap: Option<Gap>,
}

/// What the next lease of a message takes over from its last delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    pub(super) sequence: Sequence,
    pub(super) attempts: u32,
    pub(super) first_at: Option<Timestamp>,
    pub(super) key: Option<u64>,
}

impl Earlier {
    /// What waited.
    pub(super) fn waited((sequence, waiting): (Sequence, Waiting)) -> Self {
        let Waiting { attempts, first_at, key, .. } = waiting;
        Self { sequence, attempts, first_at, key }
    }
}

/// A record of nothing but an outcome.
pub(super) fn bare_record(outcome: &str) -> AttemptRecord {
    AttemptRecord {
        attempt: 0,
        at: Timestamp(0),
        worker: String::new(),
        revision: String::new(),
        outcome: outcome.into(),
        text: String::new(),
    }
}

impl GroupLog {
    pub(super) fn new(topic: usize, name: Group, policy: GroupPolicy, cursor: Sequence) -> Self {
        Self {
            topic,
            name,
            policy,
            cursor,
            leases: LeaseBook::default(),
            gone: false,
            dead: BTreeMap::new(),
            waiting: WaitingRoom::default(),
            past: HashMap::new(),
            skipped: BTreeSet::new(),
            hurried: BTreeSet::new(),
            buried: Vec::new(),
            copies_missed: 0,
            gap: None,
        }
    }

    /// What stands in the place of a group that was deleted.
    pub(super) fn gone(topic: usize, name: Group) -> Self {
        let gone = Self::new(topic, name, GroupPolicy::default(), Sequence::MAX);
        Self { gone: true, ..gone }
    }

    /// Moves to another position: nothing is leased or waits any more, and what is dead is passed by.
    pub(super) fn seek(&mut self, cursor: Sequence) {
        self.cursor = cursor;
        self.leases = LeaseBook::default();
        self.waiting = WaitingRoom::default();
        self.hurried.clear();
        let behind = (Bound::Excluded(cursor), Bound::Unbounded);
        self.skipped = self.dead.range(behind).map(|(sequence, _)| *sequence).collect();
        self.past.retain(|sequence, _| self.dead.contains_key(sequence));
    }

    /// Whether this group must still settle the message.
    pub(super) fn needs(&self, sequence: Sequence) -> bool {
        self.is_unread(sequence)
            || self.leases.get(sequence).is_some()
            || self.waiting.get(sequence).is_some()
    }

    /// Whether its cursor has still to come to the message.
    pub(super) fn is_unread(&self, sequence: Sequence) -> bool {
        sequence > self.cursor && !self.skipped.contains(&sequence)
    }

    /// Whether this group must still settle the message or has buried it.
    pub(super) fn holds(&self, sequence: Sequence) -> bool {
        self.needs(sequence) || self.dead.contains_key(&sequence)
    }

    /// Whether the message must stay stored: its cursor has still to pass what was cancelled.
    pub(super) fn keeps(&self, sequence: Sequence) -> bool {
        self.holds(sequence) || self.skipped.contains(&sequence)
    }

    /// By the group's position alone: settled, acked or dead.
    pub(super) fn is_settled(&self, sequence: Sequence) -> bool {
        !self.needs(sequence)
    }

    /// Everything at or before it is settled, or waits.
    pub(super) fn floor(&self) -> Sequence {
        let lowest = self.leases.lowest().map(|lowest| Sequence(lowest.0.saturating_sub(1)));
        lowest.map_or(self.cursor, |lowest| lowest.min(self.cursor))
    }

    /// Whether a lease at its end has no attempt left.
    pub(super) fn is_last(&self, attempt: u32) -> bool {
        attempt >= self.policy.max_attempts.get()
    }

    /// How many of the ended leases a claim may give out again. Each takes its own place, unless
    /// the limit was lowered below what is leased: then the live ones come first.
    pub(super) fn room_for_ended(&self, now: Timestamp) -> usize {
        self.limit().saturating_sub(self.leases.len() - self.leases.ended(now).count())
    }

    /// How many more may be leased.
    pub(super) fn room(&self) -> usize {
        self.limit().saturating_sub(self.leases.len())
    }

    fn limit(&self) -> usize {
        usize::try_from(self.policy.in_flight_max.get()).unwrap_or(usize::MAX)
    }

    /// How many attempts have an entry in the history.
    pub(super) fn failures(&self, sequence: Sequence) -> u32 {
        self.past.get(&sequence).map_or(0, |past| past.written)
    }

    /// Writes down an attempt of a message that stays.
    pub(super) fn remember(&mut self, lease: &Lease, mut record: AttemptRecord, now: Timestamp) {
        record.attempt = lease.attempt;
        record.at = now;
        lease.worker.as_ref().clone_into(&mut record.worker);
        let kept = cut(&record.text, TEXT_BYTES_MAX).len();
        record.text.truncate(kept);
        let past = self.past.entry(lease.sequence).or_default();
        past.written += 1;
        if let Some(old) = gives_way(past.written) {
            past.kept.retain(|(n, _)| *n != old);
            past.omitted += 1;
        }
        past.kept.push((past.written, record));
    }

    /// Writes down that nobody answered.
    pub(super) fn remember_silence(&mut self, lease: &Lease, now: Timestamp) {
        let record = AttemptRecord { text: LEASE_ENDED_TEXT.into(), ..bare_record(LEASE_ENDED) };
        self.remember(lease, record, now);
    }

    /// The attempts kept of a message.
    pub(super) fn history(&self, sequence: Sequence) -> History {
        self.past.get(&sequence).map_or_else(History::default, |past| History {
            attempts: past.kept.iter().map(|(_, record)| record.clone()).collect(),
            omitted: past.omitted,
        })
    }

    /// Done with it: the lease is out and nothing is kept.
    pub(super) fn finish(&mut self, lease: &Lease, now: Timestamp) {
        self.leases.remove(lease.sequence);
        self.past.remove(&lease.sequence);
        self.free(lease.key_hash, now);
    }

    /// Whether a message of this key is leased or waits.
    pub(super) fn is_busy(&self, key: u64) -> bool {
        self.leases.has_key(key) || self.waiting.has_key(key)
    }

    /// The way is free for the next message of a key.
    fn free(&mut self, key: Option<u64>, now: Timestamp) {
        if let Some(key) = key {
            self.waiting.unpark(key, now);
        }
    }

    /// From leased to waiting, with so many attempts behind it.
    pub(super) fn put_back(&mut self, lease: &Lease, attempts: u32, due: Timestamp) {
        self.leases.remove(lease.sequence);
        let waiting = Waiting {
            place: Place::Retrying,
            due,
            attempts,
            first_at: Some(lease.first_at),
            last_at: Some(lease.claimed_at),
            key: lease.key_hash,
        };
        self.waiting.enter(lease.sequence, waiting);
    }

    /// From leased to dead.
    pub(super) fn give_up(&mut self, lease: &Lease, reason: &str, now: Timestamp) {
        self.leases.remove(lease.sequence);
        let (key, attempts) = (lease.key_hash, lease.attempt);
        let dead = Dead { key, reason: reason.to_owned(), attempts, at: now };
        self.free(key, now);
        self.dead.insert(lease.sequence, dead);
        if self.policy.dead_letter_topic.is_some() {
            self.buried.push((lease.sequence, reason.to_owned()));
        }
    }

    /// What was given up since this was last asked, where copies are wanted.
    pub(super) fn take_buried(&mut self) -> Vec<(Sequence, String)> {
        std::mem::take(&mut self.buried)
    }

    /// Settles a message that is new, leased or waits; whether it did.
    pub(super) fn cancel(&mut self, sequence: Sequence, now: Timestamp) -> bool {
        if sequence > self.cursor && self.skipped.insert(sequence) {
            return true;
        }
        let freed = if let Some(waited) = self.waiting.take(sequence) {
            waited.key.filter(|_| waited.place != Place::Parked)
        } else if let Some(lease) = self.leases.remove(sequence) {
            lease.key_hash
        } else {
            return false;
        };
        self.past.remove(&sequence);
        self.free(freed, now);
        true
    }

    /// Makes due what waits for a time; whether it did.
    pub(super) fn make_due(&mut self, sequence: Sequence, now: Timestamp) -> bool {
        if sequence > self.cursor && !self.skipped.contains(&sequence) {
            return self.hurried.insert(sequence);
        }
        let waits = |one: &&Waiting| one.due > now && one.place != Place::Parked;
        let Some(waiting) = self.waiting.get(sequence).filter(waits).copied() else {
            return false;
        };
        self.waiting.take(sequence);
        self.waiting.enter(sequence, Waiting { due: now, ..waiting });
        true
    }

    /// What becomes of the next message, due at `due` where it was given a delay.
    pub(super) fn passing(
        &self,
        sequence: Sequence,
        key_busy: bool,
        due: Option<Timestamp>,
        now: Timestamp,
    ) -> Passing {
        passing(self.skipped.contains(&sequence), key_busy, due, now)
    }

    /// Moves the cursor over a message.
    pub(super) fn pass(&mut self, sequence: Sequence) {
        self.cursor = sequence;
        self.skipped.remove(&sequence);
        self.hurried.remove(&sequence);
    }

    /// Whether a message not read yet was made due.
    pub(super) fn is_hurried(&self, sequence: Sequence) -> bool {
        self.hurried.contains(&sequence)
    }

    /// Whether a message that was given a delay and not read yet is still to wait for it.
    pub(super) fn is_patient(&self, sequence: Sequence) -> bool {
        !self.skipped.contains(&sequence) && !self.hurried.contains(&sequence)
    }

    /// How many messages it will not read.
    pub(super) fn skips(&self) -> u64 {
        self.skipped.len() as u64
    }

    /// Ended leases of last attempts: dead, with a word about it. Whether there were any.
    pub(super) fn give_up_used_up(&mut self, now: Timestamp) -> bool {
        let max = self.policy.max_attempts.get();
        let last = self.leases.ended(now).filter(|lease| lease.attempt >= max);
        let last: Vec<Lease> = last.cloned().collect();
        for lease in &last {
            self.remember_silence(lease, now);
            self.give_up(lease, LEASE_ENDED, now);
        }
        !last.is_empty()
    }

    /// From dead to waiting, with fresh attempts and due at once.
    pub(super) fn redrive(&mut self, sequence: Sequence, now: Timestamp) {
        let Some(dead) = self.dead.remove(&sequence) else { return };
        let busy = dead.key.is_some_and(|key| self.is_busy(key));
        let (place, due) =
            if busy { (Place::Parked, Timestamp(0)) } else { (Place::Retrying, now) };
        let (attempts, first_at, last_at, key) = (0, None, None, dead.key);
        self.waiting.enter(sequence, Waiting { place, due, attempts, first_at, last_at, key });
    }

    /// Forgets the dead; which they were.
    pub(super) fn purge(&mut self) -> Vec<Sequence> {
        let dead: Vec<_> = std::mem::take(&mut self.dead).into_keys().collect();
        for sequence in &dead {
            self.past.remove(sequence);
        }
        dead
    }

    /// A delivery that is leased or waits.
    pub(super) fn pending(&self, id: MessageId, now: Timestamp) -> Option<Pending> {
        if let Some(lease) = self.leases.get(id.sequence) {
            return Some(Pending::leased(id, lease, now));
        }
        let waiting = self.waiting.get(id.sequence)?;
        Some(Pending {
            id,
            place: waiting.place,
            worker: None,
            idle: None,
            attempts: waiting.attempts,
            first_at: waiting.first_at,
            last_at: waiting.last_at,
            until: (waiting.place != Place::Parked).then_some(waiting.due),
        })
    }

    /// What is leased or waits behind a message, in order.
    pub(super) fn pending_after(&self, after: Sequence) -> BTreeSet<Sequence> {
        let waiting = self.waiting.after(after);
        let leased = self.leases.iter().map(|lease| lease.sequence);
        waiting.chain(leased.filter(|sequence| *sequence > after)).collect()
    }

    /// Whether a lease ended or a waiting one became due, from `since` until `now`.
    pub(super) fn stirred(&self, since: Timestamp, now: Timestamp) -> bool {
        self.waiting.stirred(since, now) || self.leases.ended(now).any(|lease| lease.until >= since)
    }
}
