//! Giving out messages, moving the ends of leases, and acting on those ends.
//!
//! Owns the order of a claim (ended leases, what is due, new ones) and the in-flight limit.

use super::group::Earlier;
use super::state::{State, Wakes};
use crate::api::{Claim, ClaimRequest, Extended, Extension, Prefer};
use crate::error::LogError;
use std::ops::Bound;
use std::sync::Arc;
use windlass_core::lease::{Lease, Standing};
use windlass_core::{Timestamp, Token};

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
        match request.prefer {
            Prefer::Order => {
                self.claim_ended(place, max, now, &mut given);
                self.claim_due(place, max, now, &mut given);
                self.claim_new(place, max, &mut given);
            }
            Prefer::Untried => {
                self.claim_new(place, max, &mut given);
                let group = &mut self.groups[place];
                let room = group.room().saturating_sub(given.len()).min(max - given.len());
                given.extend(group.take_least_tried(now, room));
                self.claim_ended(place, max, now, &mut given);
            }
        }
        let claims: Vec<_> =
            given.into_iter().filter_map(|one| self.lease(place, one, request, now)).collect();
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
            let Lease { sequence, attempt: attempts, first_at, .. } = lease;
            Earlier { sequence, attempts, first_at: Some(first_at) }
        };
        given.extend(ended.into_iter().map(again));
    }

    /// What waited and is due. Ended leases given again keep their place in the limit.
    fn claim_due(&mut self, place: usize, max: usize, now: Timestamp, given: &mut Vec<Earlier>) {
        let group = &mut self.groups[place];
        let most = (max - given.len()).min(group.room());
        given.extend(std::iter::from_fn(|| group.take_due(now)).take(most));
    }

    /// New ones, by sequence.
    fn claim_new(&mut self, place: usize, max: usize, given: &mut Vec<Earlier>) {
        let group = &mut self.groups[place];
        let not_leased = given.iter().filter(|one| group.leases.get(one.sequence).is_none());
        let room = group.room().saturating_sub(not_leased.count());
        let after = (Bound::Excluded(group.cursor), Bound::Unbounded);
        let mut room = room.min(max - given.len());
        let mut skipped = Vec::new();
        for (sequence, _) in self.topics[group.topic].messages.range(after) {
            if room == 0 {
                break;
            }
            if group.pass(*sequence) {
                given.push(Earlier { sequence: *sequence, attempts: 0, first_at: None });
                room -= 1;
            } else {
                skipped.push(*sequence);
            }
        }
        let topic = group.topic;
        for sequence in skipped {
            self.let_go(topic, sequence);
        }
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
            key_hash: None,
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
            for later in [group.leases.next_end_after(now), group.next_due_after(now)] {
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
