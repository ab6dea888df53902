//! The sweep: removes what nobody needs any more, off the claim path (law 14).
//!
//! It walks each topic once, in order, up to what every group has settled. What some group still
//! waits for or has buried is passed by, and goes when that group lets it go.

use super::cache::unsigned;
use super::command::{Fail, SweepFrom};
use super::floors::{aged_floor, next_look, note_floor};
use super::rows::TopicId;
use super::sql::json_list;
use super::walk::{Step, Walk};
use super::writer::Writer;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::BTreeSet;
use std::time::Duration;
use windlass_core::{Sequence, Timestamp, Topic, time::millis};

/// What one step of the sweep did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Swept {
    /// How many messages went.
    pub(super) gone: u64,
    /// Whether another step may find more.
    pub(super) more: bool,
    /// When there may be more to do, if no group moves before.
    pub(super) look_at: Option<Timestamp>,
}

const NOTHING: Swept = Swept { gone: 0, more: false, look_at: None };

/// What goes in one piece.
#[derive(Debug, Clone, Copy)]
struct Range {
    /// All up to here has been looked at.
    last: u64,
    /// The last message that goes.
    gone: u64,
    messages: u64,
    bytes: u64,
}

/// Most messages one step looks at.
pub(super) const CHUNK: u64 = 4_096;
/// Most topics one step of a sweep by command looks at.
const TOPICS_A_STEP: i64 = 64;

impl Writer {
    /// Sweeps topics by name, at most a chunk of messages and so many topics; how many messages
    /// went, and where to go on.
    pub(super) async fn sweep_from(
        &mut self,
        from: Option<SweepFrom>,
    ) -> Result<(u64, Option<SweepFrom>), Fail> {
        // Topics made in this transaction are not in the file yet.
        self.flush().await?;
        let (name, again) = match &from {
            Some(from) => (from.topic.as_str(), from.again),
            None => ("", false),
        };
        let (conn, _) = self.parts()?;
        let rows = query(
            "select name from topic where name > ? or (name = ? and ?) order by name limit ?",
        )
        .bind(name)
        .bind(name)
        .bind(again)
        .bind(TOPICS_A_STEP)
        .fetch_all(conn)
        .await?;
        let mut removed = 0;
        let mut last = None;
        for row in rows {
            let Ok(topic) = Topic::new(row.try_get(0)?) else { continue };
            let swept = self.sweep_topic(&topic).await?;
            removed += swept.gone;
            if swept.more || removed >= CHUNK {
                return Ok((removed, Some(SweepFrom { topic, again: swept.more })));
            }
            last = Some(SweepFrom { topic, again: false });
        }
        Ok((removed, last))
    }

    /// Sweeps at most a chunk of one topic: first what has grown too old unread, then what is settled.
    pub(super) async fn sweep_topic(&mut self, name: &Topic) -> Result<Swept, Fail> {
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        let Some(topic) = cache.topic(conn, name).await? else { return Ok(NOTHING) };
        let removed = cache.topic_row(topic).map_or(0, |row| row.removed);
        let old = self.pass_aged(topic, now).await?;
        if old.end.0 > 0 {
            // What it lets go is removed before what is left is looked at.
            self.flush().await?;
        }
        let (_, cache) = self.parts()?;
        let row = cache.topic_row(topic);
        let went = row.map_or(0, |row| row.removed.saturating_sub(removed));
        let max_age = row.and_then(|row| row.limits.max_age);
        let swept = self.sweep_settled(topic, old.end, now).await?;
        // Soon enough for what has grown too old by then.
        let again = max_age.map(|span| now.after((span / 16).max(Duration::from_secs(1))));
        let look_at = match (swept.look_at, again) {
            (Some(at), Some(again)) => Some(at.min(again)),
            (at, again) => at.or(again),
        };
        Ok(Swept { gone: swept.gone + went, more: swept.more || old.more, look_at })
    }

    /// Sweeps what is settled; what is not needed up to `old` goes at once.
    pub(super) async fn sweep_settled(
        &mut self,
        topic: TopicId,
        old: Sequence,
        now: Timestamp,
    ) -> Result<Swept, Fail> {
        let floor = self.floor(topic).await?;
        let (conn, cache) = self.parts()?;
        let state = *cache.state(conn).await?;
        let Some(row) = cache.topic_row_mut(topic) else { return Ok(NOTHING) };
        let (retain_ms, retain_messages) = match row.limits.retain {
            Some((span, messages)) => (millis(span), messages),
            None => (state.retain_ms, state.retain_messages),
        };
        let swept_before = row.swept;
        // What no group has claimed is needed as a whole: the sweep passes it by in one step.
        while let Some(range) = row.unclaimed.iter().find(|range| range.lo == row.swept)
            && let Some(hi) = range.hi.filter(|hi| *hi <= floor.0)
        {
            row.swept = hi;
            row.stragglers += range.messages;
        }
        let skipped = row.swept != swept_before;
        let next = row.unclaimed.iter().map(|range| range.lo).filter(|lo| *lo > row.swept).min();
        let floor = Sequence(next.map_or(floor.0, |next| next.min(floor.0)));
        let sampled = note_floor(&mut row.floors, now, floor, retain_ms);
        let aged = aged_floor(&row.floors, now, retain_ms).max(old.0);
        let (swept, groups) = (row.swept, json_list(row.groups.iter().copied()));
        let look_at = next_look(&row.floors, swept, floor, now, retain_ms);
        let nothing = Swept { look_at, ..NOTHING };
        if sampled || skipped {
            self.pending.topics.insert(topic);
        }
        if floor.0 <= swept {
            return Ok(nothing);
        }
        let total = self.stored(topic, swept, floor).await?;
        if aged <= swept && total <= retain_messages {
            return Ok(nothing);
        }
        let held = self.count_held(topic, &groups, swept, floor.0).await?;
        let unneeded = total.saturating_sub(held);
        let beyond = unneeded.saturating_sub(retain_messages);
        if aged <= swept && beyond == 0 {
            return Ok(nothing);
        }
        let walk = Walk { swept, floor, aged, beyond };
        let swept = if held == 0 {
            self.cut(topic, walk, total).await?
        } else {
            self.walk(topic, &groups, walk).await?
        };
        Ok(Swept { look_at: Some(now.after(Duration::from_millis(retain_ms / 16))), ..swept })
    }

    /// How many messages lie after `swept` up to `floor`.
    async fn stored(&mut self, topic: TopicId, swept: u64, floor: Sequence) -> Result<u64, Fail> {
        let (conn, cache) = self.parts()?;
        let count = async |conn: &mut SqliteConnection, after: u64, up_to: u64| {
            let row = query("select count(*) from message where id > ? and id <= ?")
                .bind(topic.rowid(Sequence(after)))
                .bind(topic.rowid(Sequence(up_to)))
                .fetch_one(conn)
                .await?;
            unsigned(&row, 0)
        };
        let Some(row) = cache.topic_row(topic) else { return Ok(0) };
        let groups = row.groups.iter().filter_map(|id| cache.group_row(*id));
        // How many the slowest group has passed is known, and how many of those are gone; what it
        // passed beyond the floor is mostly far less than what lies before.
        if let Some(slowest) = groups.min_by_key(|group| group.cursor)
            && slowest.cursor >= floor
            && slowest.cursor.0 - floor.0 < floor.0 - swept
        {
            let (passed, gone) = (slowest.passed, row.removed + row.stragglers);
            let beyond = count(conn, floor.0, slowest.cursor.0).await?;
            return Ok(passed.saturating_sub(gone + beyond));
        }
        Ok(count(conn, swept, floor.0).await?)
    }

    /// Removes what may go of the next so many messages where nothing is held: one range, of which
    /// only its end and its size are read. There are `total` up to the floor.
    async fn cut(&mut self, topic: TopicId, walk: Walk, total: u64) -> Result<Swept, Fail> {
        let (conn, _) = self.parts()?;
        let mut range = Range { last: walk.swept, gone: 0, messages: 0, bytes: 0 };
        for (up_to, most) in [(walk.floor.0, walk.beyond), (walk.aged.min(walk.floor.0), CHUNK)] {
            if most == 0 || up_to <= range.last {
                continue;
            }
            let row = query(
                "select max(id), count(*), sum(size) from
                   (select id, size from message where id > ? and id <= ? order by id limit ?)",
            )
            .bind(topic.rowid(Sequence(walk.swept)))
            .bind(topic.rowid(Sequence(up_to)))
            .bind(most.min(CHUNK).cast_signed())
            .fetch_one(&mut *conn)
            .await?;
            let messages = unsigned(&row, 1)?;
            if messages > range.messages {
                let last = TopicId::sequence(row.try_get(0)?).0;
                range = Range { last, gone: last, messages, bytes: unsigned(&row, 2)? };
            }
        }
        if range.messages >= total {
            range.last = walk.floor.0;
        }
        let more = range.messages >= CHUNK && total > range.messages;
        self.remove_range(topic, walk.swept, &range, &[]).await?;
        Ok(Swept { gone: range.messages, more, look_at: None })
    }

    /// Removes what may go of the next so many messages.
    async fn walk(&mut self, topic: TopicId, groups: &str, walk: Walk) -> Result<Swept, Fail> {
        let (conn, _) = self.parts()?;
        let rows = query("select id from message where id > ? and id <= ? order by id limit ?")
            .bind(topic.rowid(Sequence(walk.swept)))
            .bind(topic.rowid(walk.floor))
            .bind(CHUNK.cast_signed())
            .fetch_all(&mut *conn)
            .await?;
        let mut ids = Vec::with_capacity(rows.len());
        for row in &rows {
            ids.push(TopicId::sequence(row.try_get(0)?).0);
        }
        let whole = (ids.len() as u64) < CHUNK;
        let held = self.held(groups, walk.swept, ids.last().copied().unwrap_or(0)).await?;
        let step = walk.step(&ids, &held, whole);
        let range = self.measure(topic, walk.swept, &step).await?;
        self.remove_range(topic, walk.swept, &range, &step.passed_by).await?;
        Ok(Swept { gone: step.gone, more: step.more, look_at: None })
    }

    /// What a step removes, measured.
    async fn measure(&mut self, topic: TopicId, swept: u64, step: &Step) -> Result<Range, Fail> {
        let (conn, _) = self.parts()?;
        let row = query(
            "select count(*), sum(size), max(id) from message
              where id > ?1 and id <= ?2 and id not in (select ?3 + value from json_each(?4))",
        )
        .bind(topic.rowid(Sequence(swept)))
        .bind(topic.rowid(Sequence(step.last)))
        .bind(topic.rowid(Sequence(0)))
        .bind(json_list(step.passed_by.iter().copied()))
        .fetch_one(conn)
        .await?;
        let gone = row.try_get::<Option<i64>, _>(2)?.map_or(0, |id| TopicId::sequence(id).0);
        let (messages, bytes) = (unsigned(&row, 0)?, unsigned(&row, 1)?);
        Ok(Range { last: step.last, gone, messages, bytes })
    }

    /// Removes what lies after `swept` in `range`, but for `passed_by`.
    async fn remove_range(
        &mut self,
        topic: TopicId,
        swept: u64,
        range: &Range,
        passed_by: &[u64],
    ) -> Result<(), Fail> {
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        let delete = if passed_by.is_empty() {
            "delete from message where id > ?1 and id <= ?2"
        } else {
            "delete from message where id > ?1 and id <= ?2
                and id not in (select ?3 + value from json_each(?4))"
        };
        query(delete)
            .bind(topic.rowid(Sequence(swept)))
            .bind(topic.rowid(Sequence(range.last)))
            .bind(topic.rowid(Sequence(0)))
            .bind(json_list(passed_by.iter().copied()))
            .execute(&mut *conn)
            .await?;
        query("delete from delayed where topic = ? and due <= ?")
            .bind(topic.0.cast_signed())
            .bind(now.0.cast_signed())
            .execute(&mut *conn)
            .await?;
        if let Some(row) = cache.topic_row_mut(topic) {
            row.removed += range.messages;
            row.removed_bytes += range.bytes;
            row.stragglers += passed_by.len() as u64;
            row.swept = range.last;
            row.gone = row.gone.max(range.gone);
        }
        self.pending.topics.insert(topic);
        Ok(())
    }

    /// Up to where every group has taken everything and nothing is leased. Without a group, what
    /// still waits for one is needed.
    async fn floor(&mut self, topic: TopicId) -> Result<Sequence, Fail> {
        let (conn, cache) = self.parts()?;
        let Some(row) = cache.topic_row(topic) else { return Ok(Sequence(0)) };
        let groups = row.groups.clone();
        let growing = row.unclaimed.iter().filter(|range| range.hi.is_none());
        let mut floor = growing.map(|range| range.lo).min();
        for id in groups {
            cache.group_by_id(conn, id).await?;
            let Some(group) = cache.group_row(id) else { continue };
            let lowest = group.leases.lowest().map_or(u64::MAX, |lowest| lowest.0 - 1);
            // What a lease held that cannot be read becomes a dead letter: not to be lost before.
            let broken = cache.broken.iter().filter(|(broken, _)| *broken == id);
            let broken = broken.map(|(_, slot)| slot.lo - 1).min().unwrap_or(u64::MAX);
            let own = group.cursor.0.min(lowest).min(broken);
            floor = Some(floor.map_or(own, |floor: u64| floor.min(own)));
        }
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        Ok(Sequence(floor.unwrap_or(0)))
    }

    /// How many messages of a range some group waits for or has buried.
    async fn count_held(
        &mut self,
        topic: TopicId,
        groups: &str,
        after: u64,
        up_to: u64,
    ) -> Result<u64, Fail> {
        self.flush().await?;
        let (conn, cache) = self.parts()?;
        let ids = cache.topic_row(topic).map_or(&[][..], |row| &row.groups);
        if ids.iter().all(|id| cache.group_row(*id).is_some_and(|g| g.waiting + g.dead == 0)) {
            return Ok(0);
        }
        let row = query(
            "select count(*) from (
               select seq from waiting
                where grp in (select value from json_each(?1)) and seq > ?2 and seq <= ?3
               union
               select seq from dead
                where grp in (select value from json_each(?1)) and seq > ?2 and seq <= ?3)",
        )
        .bind(groups)
        .bind(after.cast_signed())
        .bind(up_to.cast_signed())
        .fetch_one(conn)
        .await?;
        Ok(unsigned(&row, 0)?)
    }

    /// Messages of a range that some group waits for or has buried.
    async fn held(&mut self, groups: &str, after: u64, up_to: u64) -> Result<BTreeSet<u64>, Fail> {
        let (conn, _) = self.parts()?;
        let rows = query(
            "select seq from waiting
              where grp in (select value from json_each(?1)) and seq > ?2 and seq <= ?3
             union
             select seq from dead
              where grp in (select value from json_each(?1)) and seq > ?2 and seq <= ?3",
        )
        .bind(groups)
        .bind(after.cast_signed())
        .bind(up_to.cast_signed())
        .fetch_all(conn)
        .await?;
        Ok(rows.iter().map(|row| unsigned(row, 0)).collect::<sqlx::Result<_>>()?)
    }
}
