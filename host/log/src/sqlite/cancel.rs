//! Settling one message without handling it, and making one due.
//!
//! A message that a group has not come to yet gets a row in `skip`; a group that has such rows takes
//! them out as its cursor passes them, one that has none does nothing for it.

use super::cache::{next_due, unsigned};
use super::command::Fail;
use super::show;
use super::writer::Writer;
use crate::error::LogError;
use sqlx::{Row, query};
use std::collections::BTreeSet;
use windlass_core::{Group, MessageId, Sequence};

impl Writer {
    /// Settles a message without handling it; in how many groups something changed.
    pub(super) async fn cancel(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
    ) -> Result<u64, Fail> {
        let (size, groups) = self.groups_of(id, group).await?;
        let mut changed = 0;
        for group in groups {
            let done = match self.cache.group_row(group) {
                Some(row) if id.sequence > row.cursor => {
                    self.skip(group, id.sequence, size).await?
                }
                Some(_) => self.cancel_delivery(group, id.sequence).await?,
                None => false,
            };
            changed += u64::from(done);
        }
        Ok(changed)
    }

    /// Makes a message due at once; in how many groups something changed.
    pub(super) async fn make_due(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
    ) -> Result<u64, Fail> {
        let (_, groups) = self.groups_of(id, group).await?;
        let now = self.time.now();
        let mut changed = 0;
        for group in groups {
            let (conn, cache) = self.parts()?;
            let moved = query(
                "update waiting set due = ?1
                  where grp = ?2 and seq = ?3 and state < 2 and due > ?1",
            )
            .bind(now.0.cast_signed())
            .bind(group.cast_signed())
            .bind(id.sequence.0.cast_signed())
            .execute(conn)
            .await?;
            if moved.rows_affected() > 0 {
                if let Some(row) = cache.group_row_mut(group) {
                    row.waits_until(now);
                }
                self.pending.groups.insert(group);
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// The size of a stored message, and the groups that are meant of its topic.
    async fn groups_of(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
    ) -> Result<(u64, Vec<u64>), Fail> {
        self.flush().await?;
        let (conn, _) = self.parts()?;
        let Some(stored) = show::find(conn, id).await? else {
            return Err(LogError::NoMessage(id).into());
        };
        Ok((stored.size, self.groups_meant(&stored.name, group).await?))
    }

    /// Has the group's cursor pass a message by; whether it was not to already.
    async fn skip(&mut self, group: u64, sequence: Sequence, size: u64) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        let inserted = query("insert or ignore into skip(grp, seq, size) values (?, ?, ?)")
            .bind(group.cast_signed())
            .bind(sequence.0.cast_signed())
            .bind(size.cast_signed())
            .execute(&mut *conn)
            .await?;
        if inserted.rows_affected() == 0 {
            return Ok(false);
        }
        if let Some(row) = cache.group_row_mut(group) {
            row.skips += 1;
        }
        self.write_skips(group).await?;
        Ok(true)
    }

    /// Takes a delivery out; whether there was one.
    async fn cancel_delivery(&mut self, group: u64, sequence: Sequence) -> Result<bool, Fail> {
        let Some(row) = self.cache.group_row_mut(group) else { return Ok(false) };
        let failures = if let Some(lease) = row.unlease(sequence, &mut self.pending.slots) {
            lease.failures
        } else {
            let (conn, cache) = self.parts()?;
            let gone = query("delete from waiting where grp = ? and seq = ? returning failures")
                .bind(group.cast_signed())
                .bind(sequence.0.cast_signed())
                .fetch_all(&mut *conn)
                .await?;
            let Some(gone) = gone.first() else { return Ok(false) };
            let due = next_due(conn, group).await?;
            if let Some(row) = cache.group_row_mut(group) {
                row.waiting = row.waiting.saturating_sub(1);
                row.next_due = due;
            }
            gone.try_get(0)?
        };
        if failures > 0 {
            self.pending.history_done.entry(group).or_default().push(sequence.0);
        }
        self.pending.groups.insert(group);
        self.let_go(group, sequence);
        Ok(true)
    }

    /// Takes out the cancelled messages that the cursor is about to pass, up to `last`.
    pub(super) async fn take_skips(
        &mut self,
        group: u64,
        last: Option<Sequence>,
    ) -> Result<BTreeSet<Sequence>, Fail> {
        let (Some(last), Some(row)) = (last, self.cache.group_row(group)) else {
            return Ok(BTreeSet::new());
        };
        if row.skips == 0 {
            return Ok(BTreeSet::new());
        }
        let (conn, cache) = self.parts()?;
        let rows = query("delete from skip where grp = ? and seq <= ? returning seq")
            .bind(group.cast_signed())
            .bind(last.0.cast_signed())
            .fetch_all(conn)
            .await?;
        let mut taken = BTreeSet::new();
        for row in &rows {
            taken.insert(Sequence(unsigned(row, 0)?));
        }
        if let Some(row) = cache.group_row_mut(group) {
            row.skips = row.skips.saturating_sub(taken.len() as u64);
        }
        if !taken.is_empty() {
            self.write_skips(group).await?;
        }
        for sequence in &taken {
            self.let_go(group, *sequence);
        }
        Ok(taken)
    }

    async fn write_skips(&mut self, group: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let skips = cache.group_row(group).map_or(0, |row| row.skips);
        query("update grp set skips = ? where id = ?")
            .bind(skips.cast_signed())
            .bind(group.cast_signed())
            .execute(conn)
            .await?;
        self.pending.groups.insert(group);
        Ok(())
    }
}
