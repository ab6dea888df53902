//! Giving out messages, moving the ends of leases, and acting on those ends.
//!
//! Owns the order of a claim (ended leases, what is due, new ones) and the in-flight limit.

use super::group::Earlier;
use super::state::{State, Wakes};
use super::waiting::Waiting;
use crate::api::{Claim, ClaimRequest, Extended, Extension, Prefer};
use crate::error::LogError;
use crate::inspect::Place;
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;
use windlass_core::lease::{Lease, Standing};
use windlass_core::passing::{PARKED_MAX, Passing, SET_ASIDE_MAX, key_hash};
use windlass_core::{Sequence, Timestamp, Token};

impl State {
    /// Up to `max` messages under a lease.
    pub(super) fn claim(
        &mut self,
        request: &ClaimRequest,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Vec<Claim>, LogError> {
        let place = self.find_or_declare(&request.topic, &request.group, request.start)?;
        let max = request.max.get();
        let mut given = Vec::new();
        self.groups[place].give_up_used_up(now);
        self.note_buried(place);
        let passed = match request.prefer {
            Prefer::Order => {
                self.claim_ended(place, max, now, &mut given);
                self.claim_due(place, max, now, &mut given);
                self.claim_new(place, max, now, &mut given, wakes)
            }
            Prefer::Untried => {
                let passed = self.claim_new(place, max, now, &mut given, wakes);
                let group = &mut self.groups[place];
                let room = group.room().saturating_sub(given.len()).min(max - given.len());
                let due = group.waiting.take_least_tried(now, room);
                given.extend(due.into_iter().map(Earlier::waited));
                self.claim_ended(place, max, now, &mut given);
                passed
            }
        };
        let claims: Vec<_> =
            given.into_iter().filter_map(|one| self.lease(place, one, request, now)).collect();
        // Only now: what was redriven and is given here was among it where the group was moved back.
        let at = self.groups[place].topic;
        for sequence in passed {
            self.let_go(at, sequence);
        }
        if let Some(claim) = claims.first() {
            self.look_by(claim.lease_until, wakes);
        }
        Ok(claims)
    }

    /// Acts on ended leases, by end and sequence; those without an attempt left are dead by now, and
    /// were not charged to the batch.
    fn claim_ended(&mut self, place: usize, max: usize, now: Timestamp, given: &mut Vec<Earlier>) {
        let group = &mut self.groups[place];
        let room = (max - given.len()).min(group.room_for_ended(now).saturating_sub(given.len()));
        let ended: Vec<Lease> = group.leases.ended(now).take(room).cloned().collect();
        let again = |lease: Lease| {
            group.remember_silence(&lease, now);
            let Lease { sequence, attempt: attempts, first_at, key_hash: key, .. } = lease;
            Earlier { sequence, attempts, first_at: Some(first_at), key }
        };
        given.extend(ended.into_iter().map(again));
    }

    /// What waited and is due. Ended leases given again keep their place in the limit.
    fn claim_due(&mut self, place: usize, max: usize, now: Timestamp, given: &mut Vec<Earlier>) {
        let group = &mut self.groups[place];
        let most = (max - given.len()).min(group.room());
        let due = std::iter::from_fn(|| group.waiting.take_due(now)).take(most);
        given.extend(due.map(Earlier::waited));
    }

    /// New ones, by sequence; what must wait is passed into a place of its own, at most so many. What
    /// the cursor passed by and this group does not have.
    fn claim_new(
        &mut self,
        place: usize,
        max: usize,
        now: Timestamp,
        given: &mut Vec<Earlier>,
        wakes: &mut Wakes,
    ) -> Vec<Sequence> {
        let group = &mut self.groups[place];
        let not_leased = given.iter().filter(|one| group.leases.get(one.sequence).is_none());
        let room = group.room().saturating_sub(not_leased.count());
        let after = (Bound::Excluded(group.cursor), Bound::Unbounded);
        let mut room = room.min(max - given.len());
        let mut taken: HashSet<u64> = given.iter().filter_map(|one| one.key).collect();
        let (mut aside, mut later, mut skipped) = (0, None, Vec::new());
        let at = group.topic;
        let topic = &self.topics[at];
        for (sequence, message) in topic.messages.range(after) {
            if room == 0 {
                break;
            }
            let (sequence, key) = (*sequence, message.key.as_deref().map(key_hash));
            let busy = key.is_some_and(|key| taken.contains(&key) || group.is_busy(key));
            let due = topic.due.get(&sequence).copied();
            let due = due.filter(|_| !group.is_hurried(sequence));
            let passing = group.passing(sequence, busy, due, now);
            let (wait, full) = match passing {
                Passing::Skip | Passing::Give => (None, false),
                Passing::Park => (Some(Place::Parked), group.waiting.parked() >= PARKED_MAX),
                Passing::Delay(_) => (Some(Place::Delayed), false),
            };
            if full || (wait.is_some() && aside == SET_ASIDE_MAX) {
                // What is behind it is for the next claim.
                later = (!full).then_some(now).or(later);
                break;
            }
            group.pass(sequence);
            let (attempts, first_at, last_at) = (0, None, None);
            if let Some(place) = wait {
                aside += 1;
                let due = due.unwrap_or_default();
                if place == Place::Delayed {
                    later = Some(later.map_or(due, |later: Timestamp| later.min(due)));
                }
                let waiting = Waiting { place, due, attempts, first_at, last_at, key };
                group.waiting.enter(sequence, waiting);
            } else if passing == Passing::Give {
                taken.extend(key);
                given.push(Earlier { sequence, attempts, first_at, key });
                room -= 1;
            } else {
                skipped.push(sequence);
            }
        }
        if let Some(when) = later {
            if when <= now {
                let (topic, group) = self.names(place);
                wakes.group(&topic, &group);
            }
            self.look_by(when, wakes);
        }
        skipped
    }

    /// Makes one lease, in place of an earlier one if there is.
    fn lease(
        &mut self,
        place: usize,
        earlier: Earlier,
        request: &ClaimRequest,
        now: Timestamp,
    ) -> Option<Claim> {
        let group = &mut self.groups[place];
        let sequence = earlier.sequence;
        let message = Arc::clone(self.topics[group.topic].messages.get(&sequence)?);
        self.serial += 1;
        let lease = Lease {
            sequence,
            nonce: self.nonce,
            serial: self.serial,
            attempt: earlier.attempts.saturating_add(1),
            failures: group.failures(sequence),
            until: now.after(group.policy.lease),
            claimed_at: now,
            heard_at: now,
            first_at: earlier.first_at.unwrap_or(now),
            size: message.size(),
            key_hash: earlier.key,
            worker: Arc::clone(&request.worker),
            slot: 0,
        };
        let claim = Claim {
            token: Token {
                group: place as u64 + 1,
                sequence,
                nonce: self.nonce,
                serial: self.serial,
            },
            message,
            attempt: lease.attempt,
            max_attempts: group.policy.max_attempts,
            lease_until: lease.until,
        };
        group.leases.insert(lease);
        Some(claim)
    }

    /// Moves the end of a lease.
    pub(super) fn extend(
        &mut self,
        extension: &Extension,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Extended {
        let Some(place) = self.place_of(&extension.token) else { return Extended::Lost };
        let group = &mut self.groups[place];
        match group.leases.standing(&extension.token) {
            Standing::Lost | Standing::NotLeased => Extended::Lost,
            Standing::Current => {
                let until = now.after(extension.lease);
                group.leases.extend(extension.token.sequence, until, now);
                self.look_by(until, wakes);
                Extended::Held(until)
            }
        }
    }

    /// Gives up what has no attempt left, tells who has something to claim by now, and says when to
    /// look again.
    pub(super) fn reap(&mut self, now: Timestamp, wakes: &mut Wakes) -> Timestamp {
        let mut next = Timestamp(u64::MAX);
        for place in 0..self.groups.len() {
            let since = self.reaped_at;
            let (topic, name) = self.names(place);
            let group = &mut self.groups[place];
            if group.stirred(since, now) {
                wakes.group(&topic, &name);
            }
            if group.give_up_used_up(now) {
                wakes.group(&topic, &name);
                self.note_buried(place);
            }
            let group = &self.groups[place];
            for later in [group.leases.next_end_after(now), group.waiting.next_due_after(now)] {
                next = later.map_or(next, |later| next.min(later));
            }
        }
        self.reaped_at = now;
        self.alarm_at = next;
        next
    }

    /// The group a token speaks of.
    pub(super) fn place_of(&self, token: &Token) -> Option<usize> {
        let place = usize::try_from(token.group.checked_sub(1)?).ok()?;
        self.groups.get(place).is_some_and(|group| !group.gone).then_some(place)
    }
}
