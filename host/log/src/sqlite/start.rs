//! Making groups: where one starts, and what it finds there.
//!
//! What lies before a start is never counted: each message says how many came before it. Only what
//! the sweep has passed by has holes, and is counted.

use super::command::Fail;
use super::find::{self, Before};
use super::rows::{GroupRow, TopicId, TopicRow, Unclaimed};
use super::writer::Writer;
use crate::api::Start;
use sqlx::query;
use sqlx::sqlite::SqliteConnection;
use std::collections::BTreeMap;
use windlass_core::lease::LeaseBook;
use windlass_core::{Group, GroupPolicy, Sequence};

impl Writer {
    /// Makes a group that is not there yet.
    pub(super) async fn create_group(
        &mut self,
        topic: TopicId,
        name: &Group,
        policy: GroupPolicy,
        start: Start,
    ) -> Result<u64, Fail> {
        // Its topic, and groups made before it, must be in the file to give it a number.
        self.flush().await?;
        let (conn, cache) = self.parts()?;
        let newest = Sequence(cache.state(conn).await?.next_sequence - 1);
        let Some(row) = cache.topic_row_mut(topic) else {
            return Err(Fail::Storage(sqlx::Error::RowNotFound));
        };
        let topic_name = row.name.clone();
        let cursor = cursor_of(conn, topic, start, newest).await?;
        let passed = passed(conn, row, cursor, newest).await?;
        let inserted = query(
            "insert into grp(topic, name, cursor, passed, passed_bytes, version, waiting, waiting_bytes,
               dead, skips, parked, copies_missed, policy)
             values (?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, '{}')",
        )
        .bind(topic.0.cast_signed())
        .bind(name.as_str())
        .bind(cursor.0.cast_signed())
        .bind(passed.messages.cast_signed())
        .bind(passed.bytes.cast_signed())
        .execute(&mut *conn)
        .await?;
        let id = inserted.last_insert_rowid().cast_unsigned();
        row.groups.push(id);
        row.unclaimed = still_unclaimed(conn, row, cursor, newest).await?;
        let group = GroupRow {
            epoch: 0,
            id,
            topic,
            topic_name,
            name: name.clone(),
            cursor,
            passed: passed.messages,
            passed_bytes: passed.bytes,
            version: 0,
            policy,
            leases: LeaseBook::default(),
            slots: BTreeMap::new(),
            next_due: None,
            waiting: 0,
            waiting_bytes: 0,
            dead: 0,
            skips: 0,
            parked: 0,
            full: false,
        };
        cache.new_group(group);
        self.pending.topics.insert(topic);
        self.pending.policies.insert(id);
        self.pending.groups.insert(id);
        self.owe_sync();
        Ok(id)
    }
}

/// The position of a start: everything up to it is passed.
pub(super) async fn cursor_of(
    conn: &mut SqliteConnection,
    topic: TopicId,
    start: Start,
    newest: Sequence,
) -> sqlx::Result<Sequence> {
    Ok(match start {
        Start::Earliest => Sequence(0),
        Start::Latest => newest,
        Start::Time(time) => {
            let found = find::at_or_after(conn, topic, time).await?;
            found.map_or(newest, |found| Sequence(found.0 - 1))
        }
        // One that is not there yet would hide what comes.
        Start::At(id) => Sequence(id.sequence.0.saturating_sub(1)).min(newest),
        Start::After(id) => id.sequence.min(newest),
    })
}

/// What a group that starts at `cursor` has passed; what was removed counts as passed.
pub(super) async fn passed(
    conn: &mut SqliteConnection,
    row: &TopicRow,
    cursor: Sequence,
    newest: Sequence,
) -> sqlx::Result<Before> {
    let all = Before { messages: row.published, bytes: row.published_bytes };
    if cursor >= newest {
        return Ok(all);
    }
    if cursor.0 >= row.swept {
        if let Some(found) = find::before_next(conn, row.id, cursor, Sequence::MAX).await? {
            return Ok(found);
        }
        let behind = find::count(conn, row.id, cursor, Sequence::MAX).await?;
        return Ok(all.less(behind));
    }
    let stragglers = find::count(conn, row.id, Sequence(0), cursor).await?;
    Ok(Before {
        messages: row.removed + stragglers.messages,
        bytes: row.removed_bytes + stragglers.bytes,
    })
}

/// A group needs what lies after its start; what lies before still waits for another.
pub(super) async fn still_unclaimed(
    conn: &mut SqliteConnection,
    row: &TopicRow,
    cursor: Sequence,
    newest: Sequence,
) -> sqlx::Result<Vec<Unclaimed>> {
    let mut ranges = Vec::with_capacity(row.unclaimed.len());
    for range in &row.unclaimed {
        let whole = match range.hi {
            Some(hi) => Unclaimed { hi: Some(hi), ..range.clone() },
            None => Unclaimed {
                lo: range.lo,
                hi: Some(newest.0),
                messages: row.published - range.messages,
                bytes: row.published_bytes - range.bytes,
            },
        };
        let hi = whole.hi.unwrap_or(newest.0);
        if range.lo >= cursor.0 {
            continue;
        }
        let kept = if hi <= cursor.0 { whole } else { up_to(conn, row.id, whole, cursor).await? };
        if kept.messages > 0 {
            ranges.push(kept);
        }
    }
    Ok(ranges)
}

/// The part of a range up to `cursor`, which lies in it. Nothing of a range was ever removed.
async fn up_to(
    conn: &mut SqliteConnection,
    topic: TopicId,
    range: Unclaimed,
    cursor: Sequence,
) -> sqlx::Result<Unclaimed> {
    let end = Sequence(range.hi.unwrap_or(cursor.0));
    let first = find::before_next(conn, topic, Sequence(range.lo), end).await?;
    let behind = find::before_next(conn, topic, cursor, end).await?;
    let kept = if let (Some(first), Some(behind)) = (first, behind) {
        behind.less(first)
    } else {
        let behind = find::count(conn, topic, cursor, end).await?;
        Before { messages: range.messages, bytes: range.bytes }.less(behind)
    };
    Ok(Unclaimed { lo: range.lo, hi: Some(cursor.0), messages: kept.messages, bytes: kept.bytes })
}
