//! Moving a group's position (law 13).
//!
//! Its leases and what waits are gone in the same transaction. Dead letters stay, so those behind the
//! new position are marked: the cursor passes them by.

use super::cache::unsigned;
use super::command::Fail;
use super::start::{cursor_of, passed, still_unclaimed};
use super::writer::Writer;
use crate::api::Start;
use sqlx::{Row, query};
use std::collections::BTreeMap;
use windlass_core::lease::LeaseBook;
use windlass_core::{Group, Sequence, Topic};

impl Writer {
    /// Moves a group.
    pub(super) async fn seek(
        &mut self,
        topic: &Topic,
        group: &Group,
        to: Start,
    ) -> Result<(), Fail> {
        let id = self.groups_meant(topic, Some(group)).await?[0];
        let (conn, cache) = self.parts()?;
        let newest = Sequence(cache.state(conn).await?.next_sequence - 1);
        let Some(row) = cache.group_row(id) else { return Err(sqlx::Error::RowNotFound.into()) };
        let (at, old) = (row.topic, row.cursor);
        let mut let_go: Vec<u64> = row.leases.iter().map(|lease| lease.sequence.0).collect();
        let Some(topic_row) = cache.topic_row(at) else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let cursor = cursor_of(conn, at, to, newest).await?;
        let passed = passed(conn, topic_row, cursor, newest).await?;
        let unclaimed = still_unclaimed(conn, topic_row, cursor, newest).await?;
        let swept = topic_row.swept;
        let rows = query("delete from waiting where grp = ? returning seq")
            .bind(id.cast_signed())
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            let_go.push(unsigned(row, 0)?);
        }
        // What it had still to read behind the sweep, and does not read any more.
        let rows = query("select id from message where id > ? and id <= ?")
            .bind(at.rowid(old))
            .bind(at.rowid(cursor.min(Sequence(swept))))
            .fetch_all(&mut *conn)
            .await?;
        for row in &rows {
            let_go.push(super::rows::TopicId::sequence(row.try_get(0)?).0);
        }
        for statement in [
            "delete from lease where grp = ?",
            "delete from skip where grp = ?",
            "delete from history where grp = ?1
                and seq not in (select seq from dead where grp = ?1)",
        ] {
            query(statement).bind(id.cast_signed()).execute(&mut *conn).await?;
        }
        let marks = query(
            "insert into skip(grp, seq, size, hurry)
             select grp, seq, size, 0 from dead where grp = ? and seq > ?",
        )
        .bind(id.cast_signed())
        .bind(cursor.0.cast_signed())
        .execute(&mut *conn)
        .await?;
        cache.broken.retain(|(broken, _)| *broken != id);
        if let Some(row) = cache.topic_row_mut(at) {
            row.unclaimed = unclaimed;
            // What it reads again is kept for `retain` again.
            row.floors.retain(|sample| sample.floor <= cursor.0);
        }
        if let Some(row) = cache.group_row_mut(id) {
            row.cursor = cursor;
            (row.passed, row.passed_bytes) = (passed.messages, passed.bytes);
            row.leases = LeaseBook::default();
            row.slots = BTreeMap::new();
            row.next_due = None;
            (row.waiting, row.waiting_bytes, row.parked) = (0, 0, 0);
            row.skips = marks.rows_affected();
        }
        self.write_skips(id).await?;
        self.let_go_of(at, swept, let_go);
        self.pending.topics.insert(at);
        self.pending.groups.insert(id);
        self.touched.again.insert(id);
        Ok(())
    }
}
