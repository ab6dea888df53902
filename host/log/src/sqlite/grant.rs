//! Giving out one message: its lease, its token, and room for it.

use super::claim::{Before, Claiming};
use super::command::Fail;
use super::record;
use super::rows::TopicId;
use super::sql::json_list;
use super::writer::Writer;
use crate::api::Claim;
use sqlx::{Row, query};
use std::collections::HashMap;
use std::sync::Arc;
use windlass_core::lease::Lease;
use windlass_core::{Message, Sequence, Token};

/// Messages by sequence.
pub(super) const BY_SEQUENCE: &str =
    "select id, record from message where id in (select ?1 + value from json_each(?2))";

/// About how many bytes of messages one claim reads from the file.
const READ_BYTES_MAX: u64 = 32 << 20;

impl Writer {
    /// Room for more leases in this claim.
    pub(super) fn in_flight_room(&self, claiming: &Claiming) -> usize {
        let leased = self.cache.group_row(claiming.group).map_or(0, |group| group.leases.len());
        let most = usize::try_from(claiming.policy.in_flight_max.get()).unwrap_or(usize::MAX);
        claiming.room().min(most.saturating_sub(leased))
    }

    /// How many messages of this topic may be read at once, by their usual size.
    pub(super) fn rows_at_once(&self, claiming: &Claiming) -> usize {
        let usual = self
            .cache
            .topic_row(claiming.topic)
            .map_or(0, |topic| topic.published_bytes / topic.published.max(1));
        usize::try_from(READ_BYTES_MAX / (usual + 100)).unwrap_or(usize::MAX).max(1)
    }

    /// Leases one message to the claim's worker.
    pub(super) async fn grant(
        &mut self,
        claiming: &mut Claiming,
        before: Before,
        message: Arc<Message>,
    ) -> Result<(), Fail> {
        let slot = match claiming.slot {
            Some(slot) => slot,
            None => self.new_slot().await?,
        };
        claiming.slot = Some(slot);
        self.serial += 1;
        let (serial, nonce) = (self.serial, self.nonce);
        let lease = Lease {
            sequence: before.sequence,
            nonce,
            serial,
            attempt: before.attempts + 1,
            failures: before.failures,
            until: claiming.until,
            claimed_at: claiming.now,
            heard_at: claiming.now,
            first_at: before.first_at.unwrap_or(claiming.now),
            size: before.size,
            key_hash: before.key_hash,
            worker: claiming.worker.clone(),
            slot,
        };
        claiming.claims.push(Claim {
            token: Token { group: claiming.group, sequence: before.sequence, nonce, serial },
            message,
            attempt: lease.attempt,
            max_attempts: claiming.policy.max_attempts,
            lease_until: lease.until,
        });
        if let Some(group) = self.cache.group_row_mut(claiming.group) {
            group.lease(lease, &mut self.pending.slots);
        }
        self.pending.groups.insert(claiming.group);
        Ok(())
    }

    async fn new_slot(&mut self) -> Result<u64, Fail> {
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        let slot = state.next_slot;
        state.next_slot += 1;
        self.pending.state = true;
        Ok(slot)
    }

    /// Messages by sequence; those that cannot be read are missing.
    pub(super) async fn read_messages(
        &mut self,
        topic: TopicId,
        sequences: &[Sequence],
    ) -> Result<HashMap<Sequence, Arc<Message>>, Fail> {
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let (conn, cache) = self.parts()?;
        let Some(name) = cache.topic_row(topic).map(|row| row.name.clone()) else {
            return Ok(HashMap::new());
        };
        let rows = query(BY_SEQUENCE)
            .bind(topic.rowid(Sequence(0)))
            .bind(json_list(sequences.iter().map(|sequence| sequence.0)))
            .fetch_all(conn)
            .await?;
        let mut messages = HashMap::with_capacity(rows.len());
        for row in rows {
            let sequence = TopicId::sequence(row.try_get(0)?);
            if let Ok(message) = record::decode_message(&name, sequence, row.try_get(1)?) {
                messages.insert(sequence, Arc::new(message));
            }
        }
        Ok(messages)
    }
}
