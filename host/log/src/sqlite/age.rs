//! Letting go of what has grown too old before anybody read it (law 14).
//!
//! Each group that had still to read some of it is moved behind it and gets a gap. What a group has
//! begun on stays with that group. Where the sweep has passed by, at most a step's worth goes at a
//! time.

use super::cache::unsigned;
use super::command::Fail;
use super::find;
use super::redrive::STEP;
use super::rows::{TopicId, TopicRow, Unclaimed};
use super::start::passed;
use super::writer::Writer;
use crate::admin::Gap;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use windlass_core::{Group, Sequence, Timestamp, Topic, time::millis};

/// A group's gap.
pub(super) async fn gap(conn: &mut SqliteConnection, group: u64) -> sqlx::Result<Option<Gap>> {
    let row = query("select lo, hi, messages, at from gap where grp = ?")
        .bind(group.cast_signed())
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(Gap {
        after: Sequence(unsigned(&row, 0)?),
        through: Sequence(unsigned(&row, 1)?),
        messages: unsigned(&row, 2)?,
        at: Timestamp(unsigned(&row, 3)?),
    }))
}

/// What one look at a topic's age came to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aged {
    /// All up to here has grown too old.
    pub(super) end: Sequence,
    /// Whether there is more to let go of.
    pub(super) more: bool,
}

impl Writer {
    /// Up to where a topic's messages have grown too old; groups and what waits for a first group
    /// are moved behind that.
    pub(super) async fn pass_aged(&mut self, topic: TopicId, now: Timestamp) -> Result<Aged, Fail> {
        let Some(row) = self.cache.topic_row(topic) else { return Ok(Aged::default()) };
        let Some(span) = row.limits.max_age else { return Ok(Aged::default()) };
        let groups = row.groups.clone();
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let (conn, _) = self.parts()?;
        let cutoff = Timestamp(now.0.saturating_sub(millis(span)));
        let Some(end) = last_until(conn, topic, cutoff).await? else {
            return Ok(Aged::default());
        };
        let mut more = false;
        for group in groups {
            more |= self.move_behind(topic, group, end, now).await?;
        }
        more |= self.drop_unclaimed(topic, end).await?;
        Ok(Aged { end, more })
    }

    /// Moves a group behind what is too old; whether there is more of it.
    async fn move_behind(
        &mut self,
        topic: TopicId,
        id: u64,
        end: Sequence,
        now: Timestamp,
    ) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        cache.group_by_id(conn, id).await?;
        let newest = Sequence(cache.state(conn).await?.next_sequence - 1);
        let (Some(group), Some(row)) = (cache.group_row(id), cache.topic_row(topic)) else {
            return Ok(false);
        };
        if group.cursor >= end {
            return Ok(false);
        }
        let (from, was, skips) = (group.cursor, group.passed, group.skips);
        let swept = Sequence(row.swept);
        let behind = stored_after(conn, topic, from, end.min(swept)).await?;
        let more = behind.len() as i64 >= STEP;
        let to = if more { Sequence(behind[behind.len() - 1]) } else { end };
        let passed = passed(conn, row, to, newest).await?;
        let cancelled = query("select count(*) from skip where grp = ? and seq <= ? and hurry = 0")
            .bind(id.cast_signed())
            .bind(to.0.cast_signed())
            .fetch_one(&mut *conn)
            .await?;
        let messages = passed.messages.saturating_sub(was + unsigned(&cancelled, 0)?);
        if messages > 0 {
            let new = Gap { after: from, through: to, messages, at: now };
            let gap = gap(conn, id).await?.map_or(new, |earlier| earlier.and(new));
            write_gap(conn, id, gap).await?;
        }
        if let Some(group) = cache.group_row_mut(id) {
            group.cursor = to;
            (group.passed, group.passed_bytes) = (passed.messages, passed.bytes);
        }
        if skips > 0 {
            self.drop_marks(id).await?;
        }
        self.let_go_of(topic, swept.0, behind);
        self.pending.groups.insert(id);
        Ok(more)
    }

    /// What waits for a first group does so no more where it is too old; whether there is more.
    async fn drop_unclaimed(&mut self, topic: TopicId, end: Sequence) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        let Some(row) = cache.topic_row(topic) else { return Ok(false) };
        let (ranges, swept) = (row.unclaimed.clone(), Sequence(row.swept));
        if ranges.iter().all(|range| range.lo >= end.0) {
            return Ok(false);
        }
        let row = row.clone();
        let (mut kept, mut let_go, mut more) =
            (Vec::with_capacity(ranges.len()), Vec::new(), false);
        for range in ranges {
            if range.lo >= end.0 || more {
                kept.push(range);
                continue;
            }
            let to = end.min(Sequence(range.hi.unwrap_or(end.0)));
            let mut behind = stored_after(conn, topic, Sequence(range.lo), to.min(swept)).await?;
            more = behind.len() as i64 >= STEP;
            let to = if more { Sequence(behind[behind.len() - 1]) } else { to };
            let_go.append(&mut behind);
            if let Some(rest) = rest_of(conn, &row, range, to).await? {
                kept.push(rest);
            }
        }
        if let Some(row) = cache.topic_row_mut(topic) {
            row.unclaimed = kept;
        }
        self.let_go_of(topic, swept.0, let_go);
        self.pending.topics.insert(topic);
        Ok(more)
    }

    /// Takes note of a group's gap; which it was.
    pub(super) async fn acknowledge_gap(
        &mut self,
        topic: &Topic,
        group: &Group,
    ) -> Result<Option<Gap>, Fail> {
        let id = self.groups_meant(topic, Some(group)).await?[0];
        let (conn, _) = self.parts()?;
        let found = gap(conn, id).await?;
        query("delete from gap where grp = ?").bind(id.cast_signed()).execute(conn).await?;
        Ok(found)
    }
}

async fn write_gap(conn: &mut SqliteConnection, group: u64, gap: Gap) -> sqlx::Result<()> {
    query("insert or replace into gap(grp, lo, hi, messages, at) values (?, ?, ?, ?, ?)")
        .bind(group.cast_signed())
        .bind(gap.after.0.cast_signed())
        .bind(gap.through.0.cast_signed())
        .bind(gap.messages.cast_signed())
        .bind(gap.at.0.cast_signed())
        .execute(conn)
        .await?;
    Ok(())
}

/// The last stored message published at or before `time`.
async fn last_until(
    conn: &mut SqliteConnection,
    topic: TopicId,
    time: Timestamp,
) -> sqlx::Result<Option<Sequence>> {
    let later = find::at_or_after(conn, topic, Timestamp(time.0.saturating_add(1))).await?;
    let before = later.map_or(Sequence::MAX, |later| Sequence(later.0 - 1));
    let row = query("select max(id) from message where id > ? and id <= ?")
        .bind(topic.rowid(Sequence(0)))
        .bind(topic.rowid(before))
        .fetch_one(conn)
        .await?;
    Ok(row.try_get::<Option<i64>, _>(0)?.map(TopicId::sequence))
}

/// The next stored messages, at most a step's worth.
async fn stored_after(
    conn: &mut SqliteConnection,
    topic: TopicId,
    after: Sequence,
    up_to: Sequence,
) -> sqlx::Result<Vec<u64>> {
    if up_to <= after {
        return Ok(Vec::new());
    }
    let rows = query("select id from message where id > ? and id <= ? order by id limit ?")
        .bind(topic.rowid(after))
        .bind(topic.rowid(up_to))
        .bind(STEP)
        .fetch_all(conn)
        .await?;
    rows.iter().map(|row| Ok(TopicId::sequence(row.try_get(0)?).0)).collect()
}

/// The part of a range behind `to`; none where nothing is left of one that does not grow.
async fn rest_of(
    conn: &mut SqliteConnection,
    row: &TopicRow,
    range: Unclaimed,
    to: Sequence,
) -> sqlx::Result<Option<Unclaimed>> {
    let Some(hi) = range.hi else {
        // What it counts from: all that was published up to there.
        let before = find::before_next(conn, row.id, to, Sequence::MAX).await?;
        let all = find::Before { messages: row.published, bytes: row.published_bytes };
        let before = before.unwrap_or(all);
        let (messages, bytes) = (before.messages, before.bytes);
        return Ok(Some(Unclaimed { lo: to.0, hi: None, messages, bytes }));
    };
    let gone = find::count(conn, row.id, Sequence(range.lo), to).await?;
    let (messages, bytes) = (range.messages, range.bytes);
    let rest = find::Before { messages, bytes }.less(gone);
    Ok((rest.messages > 0).then_some(Unclaimed {
        lo: to.0,
        hi: Some(hi),
        messages: rest.messages,
        bytes: rest.bytes,
    }))
}
