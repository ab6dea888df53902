//! Leases whose record cannot be read (law 12).
//!
//! Such a slot says which sequences it spanned. What of those is in no other place becomes a dead
//! letter: better shown twice than lost.

use super::cache::unsigned;
use super::command::Fail;
use super::pending::DeadRow;
use super::record;
use super::rows::TopicId;
use super::writer::Writer;
use sqlx::{Row, query};
use windlass_core::passing::key_hash;
use windlass_core::{AttemptRecord, Sequence};

impl Writer {
    /// Replaces slots that could not be read by dead letters.
    pub(super) async fn repair_broken(&mut self) -> Result<(), Fail> {
        for (id, broken) in std::mem::take(&mut self.cache.broken) {
            self.flush().await?;
            let now = self.time.now();
            let (conn, cache) = self.parts()?;
            let gone = query("delete from lease where id = ? and grp = ?")
                .bind(broken.slot.cast_signed())
                .bind(id.cast_signed())
                .execute(&mut *conn)
                .await?;
            if cache.group_by_id(conn, id).await?.is_none() {
                continue;
            }
            let Some(group) = cache.group_row(id) else { continue };
            let topic = group.topic_name.clone();
            if gone.rows_affected() == 0 {
                continue;
            }
            let rows = query(
                "select id, size, record from message
                  where id >= ?1 and id <= ?2
                    and not exists (select 1 from waiting where grp = ?3 and seq = message.id - ?4)
                    and not exists (select 1 from dead where grp = ?3 and seq = message.id - ?4)",
            )
            .bind(group.topic.rowid(Sequence(broken.lo)))
            .bind(group.topic.rowid(Sequence(broken.hi)))
            .bind(id.cast_signed())
            .bind(group.topic.rowid(Sequence(0)))
            .fetch_all(&mut *conn)
            .await?;
            for row in rows {
                let sequence = TopicId::sequence(row.try_get(0)?);
                let leased = self
                    .cache
                    .group_row(id)
                    .is_some_and(|group| group.leases.get(sequence).is_some());
                if leased {
                    continue;
                }
                // Its key is not known from the lease; it may hold up others.
                let message = record::decode_message(&topic, sequence, row.try_get(2)?).ok();
                let key_hash = message.and_then(|message| message.key).map(|key| key_hash(&key));
                let record = AttemptRecord {
                    attempt: 1,
                    at: now,
                    worker: String::new(),
                    revision: String::new(),
                    outcome: "unreadable-lease".into(),
                    text: "the record of who held the message cannot be read".into(),
                };
                let (conn, _) = self.parts()?;
                let last = query("select max(n) from history where grp = ? and seq = ?")
                    .bind(id.cast_signed())
                    .bind(sequence.0.cast_signed())
                    .fetch_one(conn)
                    .await?;
                let failures = u32::try_from(unsigned(&last, 0)?).unwrap_or(u32::MAX - 1);
                self.note_history(id, sequence, failures, &record)?;
                self.give_up_on(DeadRow {
                    group: id,
                    sequence,
                    at: now,
                    reason: "unreadable-lease".into(),
                    attempts: 1,
                    failures: failures + 1,
                    size: unsigned(&row, 1)?,
                    key_hash,
                });
            }
            self.pending.groups.insert(id);
        }
        Ok(())
    }
}
