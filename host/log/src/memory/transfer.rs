//! Moving what one worker holds to another, or back into the queue.

use super::group::bare_record;
use super::state::{State, Wakes};
use crate::api::Claim;
use crate::error::LogError;
use crate::inspect::TransferRequest;
use std::sync::Arc;
use windlass_core::lease::Lease;
use windlass_core::{AttemptRecord, Group, Timestamp, Token, Topic};

impl State {
    /// Moves leased deliveries to another worker.
    pub(super) fn transfer(
        &mut self,
        request: &TransferRequest,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Vec<Claim>, LogError> {
        let place = self.meant(&request.topic, Some(&request.group))?[0];
        let group = &self.groups[place];
        let messages = &self.topics[group.topic].messages;
        let is_meant = |lease: &&Lease| {
            let id = messages.get(&lease.sequence).map(|message| message.id);
            now.since(lease.heard_at) >= request.idle
                && !group.is_last(lease.attempt)
                && (request.ids.is_empty() || id.is_some_and(|id| request.ids.contains(&id)))
        };
        let idle = group.leases.iter().filter(is_meant).take(request.max.get());
        let idle: Vec<Lease> = idle.cloned().collect();
        let claims: Vec<_> =
            idle.into_iter().filter_map(|one| self.hand_over(place, &one, request, now)).collect();
        if let Some(claim) = claims.first() {
            self.look_by(claim.lease_until, wakes);
        }
        Ok(claims)
    }

    fn hand_over(
        &mut self,
        place: usize,
        old: &Lease,
        request: &TransferRequest,
        now: Timestamp,
    ) -> Option<Claim> {
        let group = &mut self.groups[place];
        let message = Arc::clone(self.topics[group.topic].messages.get(&old.sequence)?);
        let record =
            AttemptRecord { text: "moved to another worker".into(), ..bare_record("transferred") };
        group.remember(old, record, now);
        self.serial += 1;
        let lease = Lease {
            nonce: self.nonce,
            serial: self.serial,
            attempt: old.attempt + 1,
            failures: group.failures(old.sequence),
            until: now.after(group.policy.lease),
            claimed_at: now,
            heard_at: now,
            worker: Arc::clone(&request.worker),
            ..old.clone()
        };
        let (sequence, nonce, serial) = (lease.sequence, lease.nonce, lease.serial);
        let claim = Claim {
            token: Token { group: place as u64 + 1, sequence, nonce, serial },
            message,
            attempt: lease.attempt,
            max_attempts: group.policy.max_attempts,
            lease_until: lease.until,
        };
        group.leases.insert(lease);
        Some(claim)
    }

    /// Gives back what a worker holds; how many deliveries.
    pub(super) fn release_worker(
        &mut self,
        topic: &Topic,
        group: &Group,
        worker: &str,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<u64, LogError> {
        let place = self.meant(topic, Some(group))?[0];
        let group_log = &mut self.groups[place];
        let held = group_log.leases.iter().filter(|lease| lease.worker.as_ref() == worker);
        let held: Vec<Lease> = held.cloned().collect();
        for lease in &held {
            group_log.put_back(lease, lease.attempt - 1, now);
        }
        wakes.group(topic, group);
        Ok(held.len() as u64)
    }
}
