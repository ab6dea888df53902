//! Settling one message without handling it, and making one due.
//!
//! What is decided on a message that a group has not come to yet is a row in `skip`; a group that has
//! such rows takes them out as its cursor passes them, one that has none does nothing for it.

use super::cache::{next_due, unsigned};
use super::command::Fail;
use super::pending::WaitingState;
use super::show::{self, Stored};
use super::writer::Writer;
use crate::error::LogError;
use sqlx::{Row, query};
use std::collections::BTreeSet;
use windlass_core::{Group, MessageId, Sequence};

/// What was decided on messages before a group came to them.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Not to be handled.
    pub(super) cancelled: BTreeSet<Sequence>,
    /// Not to wait for their time.
    pub(super) hurried: BTreeSet<Sequence>,
}

impl Marks {
    /// Whether there are any.
    pub(super) fn any(&self) -> bool {
        !self.cancelled.is_empty() || !self.hurried.is_empty()
    }
}

impl Writer {
    /// Settles a message without handling it; in how many groups something changed.
    pub(super) async fn cancel(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
    ) -> Result<u64, Fail> {
        let (stored, groups) = self.groups_of(id, group).await?;
        let mut changed = 0;
        for group in groups {
            let done = match self.cache.group_row(group) {
                // Moved back before a dead letter that was redriven, a group has it all the same.
                Some(row) if id.sequence > row.cursor => {
                    self.skip(group, id.sequence, stored.size).await?
                        || self.cancel_delivery(group, id.sequence).await?
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
        let (stored, groups) = self.groups_of(id, group).await?;
        let now = self.time.now();
        let mut changed = 0;
        for group in groups {
            if self.cache.group_row(group).is_none_or(|row| id.sequence > row.cursor) {
                let waits = stored.due.is_some_and(|due| due > now);
                if waits && self.mark(group, id.sequence, stored.size, true).await? {
                    changed += 1;
                    continue;
                }
            }
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

    /// A stored message, and the groups that are meant of its topic.
    async fn groups_of(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
    ) -> Result<(Stored, Vec<u64>), Fail> {
        self.flush().await?;
        let (conn, _) = self.parts()?;
        let Some(stored) = show::find(conn, id).await? else {
            return Err(LogError::NoMessage(id).into());
        };
        let groups = self.groups_meant(&stored.name, group).await?;
        Ok((stored, groups))
    }

    /// Has the group's cursor pass a message by; whether it was not to already.
    async fn skip(&mut self, group: u64, sequence: Sequence, size: u64) -> Result<bool, Fail> {
        let (conn, _) = self.parts()?;
        let was_made_due =
            query("update skip set hurry = 0 where grp = ? and seq = ? and hurry = 1")
                .bind(group.cast_signed())
                .bind(sequence.0.cast_signed())
                .execute(conn)
                .await?;
        if was_made_due.rows_affected() > 0 {
            self.pending.groups.insert(group);
            return Ok(true);
        }
        self.mark(group, sequence, size, false).await
    }

    /// Notes what was decided on a message, unless something was already.
    async fn mark(
        &mut self,
        group: u64,
        sequence: Sequence,
        size: u64,
        hurry: bool,
    ) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        let inserted =
            query("insert or ignore into skip(grp, seq, size, hurry) values (?, ?, ?, ?)")
                .bind(group.cast_signed())
                .bind(sequence.0.cast_signed())
                .bind(size.cast_signed())
                .bind(hurry)
                .execute(&mut *conn)
                .await?;
        if inserted.rows_affected() == 0 {
            return Ok(false);
        }
        if let Some(row) = cache.group_row_mut(group) {
            row.skips += 1;
        }
        self.write_skips(group).await?;
        self.touched.again.insert(group);
        Ok(true)
    }

    /// Takes a delivery out; whether there was one.
    async fn cancel_delivery(&mut self, group: u64, sequence: Sequence) -> Result<bool, Fail> {
        let Some(row) = self.cache.group_row_mut(group) else { return Ok(false) };
        let (failures, freed) = if let Some(lease) = row.unlease(sequence, &mut self.pending.slots)
        {
            (lease.failures, lease.key_hash)
        } else {
            let (conn, cache) = self.parts()?;
            let gone = query(
                "delete from waiting where grp = ? and seq = ?
                 returning failures, key_hash, state, size",
            )
            .bind(group.cast_signed())
            .bind(sequence.0.cast_signed())
            .fetch_all(&mut *conn)
            .await?;
            let Some(gone) = gone.first() else { return Ok(false) };
            let due = next_due(conn, group).await?;
            let size = unsigned(gone, 3)?;
            let parked = unsigned(gone, 2)? == WaitingState::Parked as u64;
            if let Some(row) = cache.group_row_mut(group) {
                row.waiting = row.waiting.saturating_sub(1);
                row.waiting_bytes = row.waiting_bytes.saturating_sub(size);
                row.parked = row.parked.saturating_sub(u64::from(parked));
                row.next_due = due;
            }
            let key = gone.try_get::<Option<i64>, _>(1)?.map(i64::cast_unsigned);
            (gone.try_get(0)?, key.filter(|_| !parked))
        };
        if failures > 0 {
            self.pending.history_done.entry(group).or_default().push(sequence.0);
        }
        self.pending.groups.insert(group);
        self.let_go(group, sequence);
        let now = self.time.now();
        self.free_key(group, freed, now);
        Ok(true)
    }

    /// What was decided on messages that the cursor is about to pass, up to `last`.
    pub(super) async fn marks(&mut self, group: u64, last: Sequence) -> Result<Marks, Fail> {
        let mut marks = Marks::default();
        if self.cache.group_row(group).is_none_or(|row| row.skips == 0) {
            return Ok(marks);
        }
        let (conn, _) = self.parts()?;
        let rows = query("select seq, hurry from skip where grp = ? and seq <= ?")
            .bind(group.cast_signed())
            .bind(last.0.cast_signed())
            .fetch_all(conn)
            .await?;
        for row in &rows {
            let sequence = Sequence(unsigned(row, 0)?);
            let of = if unsigned(row, 1)? == 0 { &mut marks.cancelled } else { &mut marks.hurried };
            of.insert(sequence);
        }
        Ok(marks)
    }

    /// Takes out the marks that the cursor has passed.
    pub(super) async fn drop_marks(&mut self, group: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let Some(row) = cache.group_row_mut(group) else { return Ok(()) };
        let gone = query("delete from skip where grp = ? and seq <= ?")
            .bind(group.cast_signed())
            .bind(row.cursor.0.cast_signed())
            .execute(conn)
            .await?;
        row.skips = row.skips.saturating_sub(gone.rows_affected());
        self.write_skips(group).await
    }

    pub(super) async fn write_skips(&mut self, group: u64) -> Result<(), Fail> {
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
