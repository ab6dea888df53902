//! Giving a message up, and keeping what became of its attempts.

use super::claim::{Before, Claiming};
use super::command::Fail;
use super::copies::Buried;
use super::pending::{DeadRow, HistoryRow};
use super::writer::Writer;
use windlass_core::history::gives_way;
use windlass_core::lease::Lease;
use windlass_core::{AttemptRecord, Sequence, Timestamp};

/// Most ended leases one transaction turns into dead letters.
const BURIALS_MAX: usize = 1_000;

impl Writer {
    /// Makes a dead letter of a lease that was taken out.
    pub(super) fn bury(
        &mut self,
        group: u64,
        lease: &Lease,
        failures: u32,
        reason: &str,
        now: Timestamp,
    ) {
        self.give_up_on(DeadRow {
            group,
            sequence: lease.sequence,
            at: now,
            reason: reason.to_owned(),
            attempts: lease.attempt,
            failures,
            size: lease.size,
            key_hash: lease.key_hash,
        });
    }

    /// Enters a dead letter, and counts it.
    pub(super) fn give_up_on(&mut self, row: DeadRow) {
        if let Some(group) = self.cache.group_row_mut(row.group) {
            group.dead += 1;
            if group.policy.dead_letter_topic.is_some() {
                let (group, sequence, reason) = (row.group, row.sequence, row.reason.clone());
                self.pending.buried.push(Buried { group, sequence, reason });
            }
        }
        self.pending.groups.insert(row.group);
        self.free_key(row.group, row.key_hash, row.at);
        self.pending.dead.push(row);
    }

    /// Dead-letters ended leases whose attempts are used up (law 9).
    pub(super) fn bury_exhausted(&mut self, id: u64, now: Timestamp) -> Result<usize, Fail> {
        if now < self.grace_until {
            return Ok(0);
        }
        let Some(group) = self.cache.group_row(id) else { return Ok(0) };
        let max_attempts = group.policy.max_attempts.get();
        let exhausted: Vec<Lease> = group
            .leases
            .ended(now)
            .filter(|lease| lease.attempt >= max_attempts)
            .take(BURIALS_MAX)
            .cloned()
            .collect();
        for lease in &exhausted {
            self.note_ended(id, lease, now)?;
            if let Some(group) = self.cache.group_row_mut(id) {
                group.unlease(lease.sequence, &mut self.pending.slots);
            }
            self.bury(id, lease, lease.failures + 1, "lease-ended", now);
        }
        Ok(exhausted.len())
    }

    /// Enters a lease's end in the message's history.
    pub(super) fn note_ended(
        &mut self,
        group: u64,
        lease: &Lease,
        now: Timestamp,
    ) -> Result<(), Fail> {
        let record = AttemptRecord {
            attempt: lease.attempt,
            at: now,
            worker: lease.worker.to_string(),
            revision: String::new(),
            outcome: "lease-ended".into(),
            text: "the lease ended without an answer".into(),
        };
        self.note_history(group, lease.sequence, lease.failures, &record)
    }

    /// A record that cannot be read costs that record (law 12).
    pub(super) fn bury_unreadable(
        &mut self,
        claiming: &Claiming,
        before: &Before,
    ) -> Result<(), Fail> {
        if let Some(group) = self.cache.group_row_mut(claiming.group) {
            group.unlease(before.sequence, &mut self.pending.slots);
        }
        let record = AttemptRecord {
            attempt: before.attempts + 1,
            at: claiming.now,
            worker: claiming.worker.to_string(),
            revision: String::new(),
            outcome: "unreadable-record".into(),
            text: "the message's record in the log cannot be read".into(),
        };
        self.note_history(claiming.group, before.sequence, before.failures, &record)?;
        self.give_up_on(DeadRow {
            group: claiming.group,
            sequence: before.sequence,
            at: claiming.now,
            reason: "unreadable-record".into(),
            attempts: before.attempts,
            failures: before.failures + 1,
            size: before.size,
            key_hash: before.key_hash,
        });
        Ok(())
    }

    /// Enters an attempt in a message's history, after `earlier` others; the first five and the
    /// last twenty are kept.
    pub(super) fn note_history(
        &mut self,
        group: u64,
        sequence: Sequence,
        earlier: u32,
        record: &AttemptRecord,
    ) -> Result<(), Fail> {
        let record =
            serde_json::to_string(record).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        let n = earlier + 1;
        if let Some(old) = gives_way(n) {
            self.pending.history_dropped.push((group, sequence, old));
        }
        self.pending.history.push(HistoryRow { group, sequence, n, record });
        Ok(())
    }
}
