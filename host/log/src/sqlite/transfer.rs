//! Moving what one worker holds to another, or back into the queue (law 15).

use super::claim::{Before, Claiming};
use super::command::Fail;
use super::writer::Writer;
use crate::api::Claim;
use crate::inspect::TransferRequest;
use windlass_core::lease::Lease;
use windlass_core::{AttemptRecord, Group, Sequence, Topic};

impl Writer {
    /// Moves leased deliveries to another worker.
    pub(super) async fn transfer(&mut self, request: TransferRequest) -> Result<Vec<Claim>, Fail> {
        let id = self.groups_meant(&request.topic, Some(&request.group)).await?[0];
        let now = self.time.now();
        let Some(row) = self.cache.group_row(id) else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let (topic, policy) = (row.topic, row.policy.clone());
        let is_meant = |lease: &&Lease| {
            let named = || request.ids.iter().any(|wanted| wanted.sequence == lease.sequence);
            now.since(lease.heard_at) >= request.idle
                && lease.attempt < policy.max_attempts.get()
                && (request.ids.is_empty() || named())
        };
        let idle: Vec<Lease> = row.leases.iter().filter(is_meant).cloned().collect();
        let until = now.after(policy.lease);
        let mut claiming = Claiming {
            group: id,
            topic,
            policy,
            worker: request.worker,
            now,
            until,
            slot: None,
            claims: Vec::new(),
            max: request.max.get(),
        };
        for lease in idle {
            if claiming.room() == 0 {
                break;
            }
            let sequence: Sequence = lease.sequence;
            // One that cannot be read stays until its lease ends; then it is a dead letter.
            let found = self.read_messages(topic, &[sequence]).await?.remove(&sequence);
            let Some(message) = found else { continue };
            if !request.ids.is_empty() && !request.ids.contains(&message.id) {
                continue;
            }
            let record = AttemptRecord {
                attempt: lease.attempt,
                at: now,
                worker: lease.worker.to_string(),
                revision: String::new(),
                outcome: "transferred".into(),
                text: "moved to another worker".into(),
            };
            self.note_history(id, sequence, lease.failures, &record)?;
            let before = Before {
                sequence,
                size: lease.size,
                attempts: lease.attempt,
                failures: lease.failures + 1,
                first_at: Some(lease.first_at),
                key_hash: lease.key_hash,
            };
            self.grant(&mut claiming, before, message).await?;
        }
        Ok(claiming.claims)
    }

    /// Gives back what a worker holds; how many deliveries.
    pub(super) async fn release_worker(
        &mut self,
        topic: &Topic,
        group: &Group,
        worker: &str,
    ) -> Result<u64, Fail> {
        let id = self.groups_meant(topic, Some(group)).await?[0];
        let now = self.time.now();
        let Some(row) = self.cache.group_row_mut(id) else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let held = row.leases.iter().filter(|lease| lease.worker.as_ref() == worker);
        let held: Vec<Lease> = held.cloned().collect();
        for lease in &held {
            row.unlease(lease.sequence, &mut self.pending.slots);
        }
        for lease in &held {
            self.wait(id, lease, now, lease.attempt - 1, lease.failures);
        }
        self.pending.groups.insert(id);
        Ok(held.len() as u64)
    }
}
