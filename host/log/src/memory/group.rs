//! One group of the memory log: what is leased, what waits, what is dead, and what became of the
//! attempts so far.
//!
//! Owns the moves between these places, so that a message is never in two of them or in none.
//! Knows nothing of messages, topics or clocks.

use crate::api::UNTRIED_LOOK;
use crate::inspect::{Pending, Place};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use windlass_core::history::{TEXT_BYTES_MAX, cut, gives_way};
use windlass_core::lease::{Lease, LeaseBook};
use windlass_core::{AttemptRecord, Group, GroupPolicy, History, MessageId, Sequence, Timestamp};

/// The outcome of an attempt whose worker never answered.
const LEASE_ENDED: &str = "lease-ended";
const LEASE_ENDED_TEXT: &str = "the lease ended without an answer";

/// A delivery that waits for its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    due: Timestamp,
    attempts: u32,
    first_at: Option<Timestamp>,
    last_at: Option<Timestamp>,
}

/// A delivery given up.
#[derive(Debug, Clone)]
pub(super) struct Dead {
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
    waiting: BTreeMap<Sequence, Waiting>,
    by_due: BTreeSet<(Timestamp, Sequence)>,
    past: HashMap<Sequence, Past>,
    /// Cancelled before it came to them.
    skipped: BTreeSet<Sequence>,
    /// Given up since somebody last asked, where copies are wanted.
    buried: Vec<(Sequence, String)>,
    /// Dead letters whose copy was not taken.
    pub(super) copies_missed: u64,
}

/// What the next lease of a message takes over from its last delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Earlier {
    pub(super) sequence: Sequence,
    pub(super) attempts: u32,
    pub(super) first_at: Option<Timestamp>,
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
            waiting: BTreeMap::new(),
            by_due: BTreeSet::new(),
            past: HashMap::new(),
            skipped: BTreeSet::new(),
            buried: Vec::new(),
            copies_missed: 0,
        }
    }

    /// What stands in the place of a group that was deleted.
    pub(super) fn gone(topic: usize, name: Group) -> Self {
        let gone = Self::new(topic, name, GroupPolicy::default(), Sequence::MAX);
        Self { gone: true, ..gone }
    }

    /// Whether this group must still settle the message.
    pub(super) fn needs(&self, sequence: Sequence) -> bool {
        (sequence > self.cursor && !self.skipped.contains(&sequence))
            || self.leases.get(sequence).is_some()
            || self.waiting.contains_key(&sequence)
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
    pub(super) fn finish(&mut self, sequence: Sequence) {
        self.leases.remove(sequence);
        self.past.remove(&sequence);
    }

    /// From leased to waiting, with so many attempts behind it.
    pub(super) fn put_back(&mut self, lease: &Lease, attempts: u32, due: Timestamp) {
        self.leases.remove(lease.sequence);
        self.wait(
            lease.sequence,
            Waiting {
                due,
                attempts,
                first_at: Some(lease.first_at),
                last_at: Some(lease.claimed_at),
            },
        );
    }

    /// From leased to dead.
    pub(super) fn give_up(&mut self, lease: &Lease, reason: &str, now: Timestamp) {
        self.leases.remove(lease.sequence);
        let dead = Dead { reason: reason.to_owned(), attempts: lease.attempt, at: now };
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
    pub(super) fn cancel(&mut self, sequence: Sequence) -> bool {
        if sequence > self.cursor {
            return self.skipped.insert(sequence);
        }
        let waited = self.waiting.remove(&sequence);
        if let Some(waiting) = waited {
            self.by_due.remove(&(waiting.due, sequence));
        }
        if waited.is_none() && self.leases.remove(sequence).is_none() {
            return false;
        }
        self.past.remove(&sequence);
        true
    }

    /// Makes due what waits for a time; whether it did.
    pub(super) fn make_due(&mut self, sequence: Sequence, now: Timestamp) -> bool {
        let Some(waiting) = self.waiting.get(&sequence).copied().filter(|one| one.due > now) else {
            return false;
        };
        self.by_due.remove(&(waiting.due, sequence));
        self.wait(sequence, Waiting { due: now, ..waiting });
        true
    }

    /// Moves the cursor over a message; whether it is to be handled.
    pub(super) fn pass(&mut self, sequence: Sequence) -> bool {
        self.cursor = sequence;
        !self.skipped.remove(&sequence)
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
        if self.dead.remove(&sequence).is_some() {
            self.wait(sequence, Waiting { due: now, attempts: 0, first_at: None, last_at: None });
        }
    }

    /// Forgets the dead; which they were.
    pub(super) fn purge(&mut self) -> Vec<Sequence> {
        let dead: Vec<_> = std::mem::take(&mut self.dead).into_keys().collect();
        for sequence in &dead {
            self.past.remove(sequence);
        }
        dead
    }

    /// Takes out the first one that is due, by due time and sequence.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Earlier> {
        let (due, sequence) = *self.by_due.first()?;
        if due > now {
            return None;
        }
        self.by_due.pop_first();
        let waiting = self.waiting.remove(&sequence)?;
        let Waiting { attempts, first_at, .. } = waiting;
        Some(Earlier { sequence, attempts, first_at })
    }

    /// Takes out those with the fewest attempts of what is due, then by due time and sequence.
    pub(super) fn take_least_tried(&mut self, now: Timestamp, most: usize) -> Vec<Earlier> {
        let due = self.by_due.iter().take_while(|(due, _)| *due <= now).take(UNTRIED_LOOK);
        let tried = |(due, sequence): &(Timestamp, Sequence)| {
            let attempts = self.waiting.get(sequence).map_or(0, |waiting| waiting.attempts);
            (attempts, *due, *sequence)
        };
        let mut due: Vec<_> = due.map(tried).collect();
        due.sort_unstable();
        due.truncate(most);
        let take = |(_, due, sequence)| {
            self.by_due.remove(&(due, sequence));
            let Waiting { attempts, first_at, .. } = self.waiting.remove(&sequence)?;
            Some(Earlier { sequence, attempts, first_at })
        };
        due.into_iter().filter_map(take).collect()
    }

    /// A delivery that is leased or waits.
    pub(super) fn pending(&self, id: MessageId, now: Timestamp) -> Option<Pending> {
        if let Some(lease) = self.leases.get(id.sequence) {
            return Some(Pending::leased(id, lease, now));
        }
        let waiting = self.waiting.get(&id.sequence)?;
        Some(Pending {
            id,
            place: Place::Retrying,
            worker: None,
            idle: None,
            attempts: waiting.attempts,
            first_at: waiting.first_at,
            last_at: waiting.last_at,
            until: Some(waiting.due),
        })
    }

    /// What is leased or waits behind a message, in order.
    pub(super) fn pending_after(&self, after: Sequence) -> BTreeSet<Sequence> {
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        let waiting = self.waiting.range(behind).map(|(sequence, _)| *sequence);
        let leased = self.leases.iter().map(|lease| lease.sequence);
        waiting.chain(leased.filter(|sequence| *sequence > after)).collect()
    }

    /// How many wait and are due, and how many wait for their time.
    pub(super) fn waiting(&self, now: Timestamp) -> (u64, u64) {
        let due = self.by_due.iter().take_while(|(due, _)| *due <= now).count() as u64;
        (due, self.waiting.len() as u64 - due)
    }

    /// When the next one becomes due that is not due at `now`.
    pub(super) fn next_due_after(&self, now: Timestamp) -> Option<Timestamp> {
        let later = (now.0.checked_add(1).map(Timestamp)?, Sequence(0));
        self.by_due.range(later..).next().map(|(due, _)| *due)
    }

    /// Whether a lease ended or a waiting one became due, from `since` until `now`.
    pub(super) fn stirred(&self, since: Timestamp, now: Timestamp) -> bool {
        let due = self.by_due.range((since, Sequence(0))..).next();
        due.is_some_and(|(due, _)| *due <= now)
            || self.leases.ended(now).any(|lease| lease.until >= since)
    }

    fn wait(&mut self, sequence: Sequence, waiting: Waiting) {
        self.by_due.insert((waiting.due, sequence));
        self.waiting.insert(sequence, waiting);
    }
}
