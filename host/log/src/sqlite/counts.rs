//! What operators read: counts and dead letters, each answer from one snapshot of the file.

use super::age;
use super::cache::{limits, unsigned};
use super::deliveries::id_of;
use super::needed::{Needed, Oldest, needed};
use super::record;
use super::rows::{TopicId, Unclaimed};
use super::sql::json_list;
use crate::admin::{Counts, Gap, GroupState, TopicLimits, TopicState};
use crate::inspect::GroupLag;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use windlass_core::quota::Amount;
use windlass_core::{Group, GroupPolicy, Sequence, Timestamp, Topic};

/// A topic's row, as far as counts need it.
pub(super) struct TopicRow {
    pub(super) id: TopicId,
    pub(super) name: Topic,
    pub(super) published: u64,
    pub(super) published_bytes: u64,
    pub(super) stored: u64,
    pub(super) unclaimed: Vec<Unclaimed>,
    limits: TopicLimits,
}

/// A group's rows, counted.
pub(super) struct GroupRow {
    pub(super) id: u64,
    pub(super) name: Group,
    pub(super) cursor: u64,
    pub(super) passed: u64,
    pub(super) passed_bytes: u64,
    /// Cancelled, and still to be passed by its cursor.
    pub(super) skips: u64,
    /// Given a delay that is not over, and not read yet.
    pub(super) later: u64,
    pub(super) copies_missed: u64,
    pub(super) gap: Option<Gap>,
    pub(super) policy: GroupPolicy,
    pub(super) waiting: Waiting,
    pub(super) leased: u64,
    pub(super) leased_bytes: u64,
    pub(super) dead: u64,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Waiting {
    pub(super) due: u64,
    pub(super) retrying: u64,
    pub(super) delayed: u64,
    pub(super) parked: u64,
    pub(super) bytes: u64,
}

impl GroupRow {
    fn counts(&self, published: u64) -> Counts {
        Counts {
            ready: published.saturating_sub(self.passed + self.skips + self.later)
                + self.waiting.due,
            delayed: self.later + self.waiting.delayed,
            retrying: self.waiting.retrying,
            parked: self.waiting.parked,
            leased: self.leased,
            dead: self.dead,
        }
    }
}

/// All topics, or the one named, as they stand at `now`.
pub(super) async fn topics(
    conn: &mut SqliteConnection,
    only: Option<&Topic>,
    now: Timestamp,
) -> sqlx::Result<Vec<TopicState>> {
    let rows = query(TOPICS).bind(only.map(Topic::as_str)).fetch_all(&mut *conn).await?;
    let mut states = Vec::with_capacity(rows.len());
    for row in &rows {
        states.push(topic_state(conn, topic_row(row)?, now).await?);
    }
    Ok(states)
}

/// What each group has not settled, in one statement: topics may be thousands, and this is asked
/// again and again.
pub(super) async fn lags(conn: &mut SqliteConnection) -> sqlx::Result<Vec<GroupLag>> {
    let rows = query(
        "select t.name, g.name,
                max(0, t.published - g.passed
                  - (select count(*) from skip where grp = g.id and hurry = 0))
                + (select count(*) from waiting where grp = g.id)
                + (select coalesce(sum(n), 0) from lease where grp = g.id)
           from grp g join topic t on t.id = g.topic order by t.name, g.name",
    )
    .fetch_all(conn)
    .await?;
    let lag = |row: &SqliteRow| {
        Ok(GroupLag {
            topic: Topic::new(row.try_get(0)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
            group: Group::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
            messages: unsigned(row, 2)?,
        })
    };
    rows.iter().map(lag).collect()
}

const TOPICS: &str = "select id, name, published, published_bytes, published - removed, unclaimed,
      max_messages, max_bytes, dedup_ms, retain_ms, retain_messages, max_age_ms
    from topic where ?1 is null or name = ?1 order by name";

fn topic_row(row: &SqliteRow) -> sqlx::Result<TopicRow> {
    Ok(TopicRow {
        id: TopicId(unsigned(row, 0)?),
        name: Topic::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
        published: unsigned(row, 2)?,
        published_bytes: unsigned(row, 3)?,
        stored: unsigned(row, 4)?,
        unclaimed: serde_json::from_str(row.try_get(5)?).unwrap_or_default(),
        limits: limits(row, 6)?,
    })
}

/// What a topic's quota counts now.
pub(super) async fn needed_of(conn: &mut SqliteConnection, name: &Topic) -> sqlx::Result<Amount> {
    let rows = query(TOPICS).bind(name.as_str()).fetch_all(&mut *conn).await?;
    let Some(row) = rows.first() else { return Ok(Amount::default()) };
    let topic = topic_row(row)?;
    // Times tell ready from waiting, which is the same to a quota.
    let groups = group_rows(conn, topic.id, None, Timestamp(0)).await?;
    let needed = needed(conn, &topic, &groups).await?;
    Ok(Amount { messages: needed.messages, bytes: needed.bytes })
}

async fn topic_state(
    conn: &mut SqliteConnection,
    topic: TopicRow,
    now: Timestamp,
) -> sqlx::Result<TopicState> {
    let groups = group_rows(conn, topic.id, None, now).await?;
    let needed = needed(conn, &topic, &groups).await?;
    let mut counts = Counts::default();
    let mut states = Vec::with_capacity(groups.len());
    for group in &groups {
        let own = group.counts(topic.published);
        counts.add(&own);
        states.push(GroupState {
            group: group.name.clone(),
            counts: own,
            policy: group.policy.clone(),
            copies_missed: group.copies_missed,
            gap: group.gap,
            oldest: oldest_of(conn, &topic, group).await?,
        });
    }
    if groups.is_empty() {
        counts.delayed = delayed_unclaimed(conn, &topic, now).await?;
        counts.ready = needed.messages.saturating_sub(counts.delayed);
    }
    let oldest = oldest(conn, &topic, &needed).await?;
    Ok(TopicState {
        topic: topic.name,
        counts,
        bytes: needed.bytes,
        retained: topic.stored.saturating_sub(needed.messages + needed.dead_only),
        oldest,
        limits: topic.limits,
        groups: states,
    })
}

/// How many messages wait for a first group and for their time.
async fn delayed_unclaimed(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    now: Timestamp,
) -> sqlx::Result<u64> {
    let rows = query("select seq from delayed where topic = ? and due > ?")
        .bind(topic.id.0.cast_signed())
        .bind(now.0.cast_signed())
        .fetch_all(conn)
        .await?;
    let mut delayed = 0;
    for row in &rows {
        let sequence = unsigned(row, 0)?;
        let holds =
            |range: &Unclaimed| sequence > range.lo && range.hi.is_none_or(|hi| sequence <= hi);
        delayed += u64::from(topic.unclaimed.iter().any(holds));
    }
    Ok(delayed)
}

/// How one group of a topic stands.
pub(super) async fn of_group(
    conn: &mut SqliteConnection,
    topic: TopicId,
    group: u64,
    now: Timestamp,
) -> sqlx::Result<Counts> {
    let row = query("select published from topic where id = ?")
        .bind(topic.0.cast_signed())
        .fetch_one(&mut *conn)
        .await?;
    let published = unsigned(&row, 0)?;
    let found = group_rows(conn, topic, Some(group), now).await?;
    found.first().map(|group| group.counts(published)).ok_or(sqlx::Error::RowNotFound)
}

async fn group_rows(
    conn: &mut SqliteConnection,
    topic: TopicId,
    only: Option<u64>,
    now: Timestamp,
) -> sqlx::Result<Vec<GroupRow>> {
    let rows = query(
        "select id, name, cursor, passed, passed_bytes, policy, 0, copies_missed from grp
          where topic = ?1 and (?2 is null or id = ?2) order by name",
    )
    .bind(topic.0.cast_signed())
    .bind(only.map(u64::cast_signed))
    .fetch_all(&mut *conn)
    .await?;
    let mut groups = Vec::with_capacity(rows.len());
    for row in rows {
        let id = unsigned(&row, 0)?;
        let waiting = query(
            "select count(*) filter (where state < 2 and due <= ?1),
                    count(*) filter (where state = 0 and due > ?1),
                    count(*) filter (where state = 1 and due > ?1),
                    count(*) filter (where state = 2), sum(size)
               from waiting where grp = ?2",
        )
        .bind(now.0.cast_signed())
        .bind(id.cast_signed())
        .fetch_one(&mut *conn)
        .await?;
        let leased = query("select sum(n), sum(bytes) from lease where grp = ?")
            .bind(id.cast_signed())
            .fetch_one(&mut *conn)
            .await?;
        let marks = query("select count(*) from skip where grp = ? and hurry = 0")
            .bind(id.cast_signed())
            .fetch_one(&mut *conn)
            .await?;
        let skips = unsigned(&marks, 0)?;
        // What was removed before its time, as nobody needed it any more, has its row until then.
        let later = query(
            "select count(*) from delayed d where d.topic = ?1 and d.due > ?2 and d.seq > ?3
                and not exists (select 1 from skip s where s.grp = ?4 and s.seq = d.seq)
                and (d.seq > (select gone from topic where id = ?1)
                  or exists (select 1 from message where id = ?5 + d.seq))",
        )
        .bind(topic.0.cast_signed())
        .bind(now.0.cast_signed())
        .bind(unsigned(&row, 2)?.cast_signed())
        .bind(id.cast_signed())
        .bind(topic.rowid(Sequence(0)))
        .fetch_one(&mut *conn)
        .await?;
        let later = unsigned(&later, 0)?;
        let dead = query("select count(*) from dead where grp = ?")
            .bind(id.cast_signed())
            .fetch_one(&mut *conn)
            .await?;
        groups.push(GroupRow {
            id,
            name: Group::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
            cursor: unsigned(&row, 2)?,
            passed: unsigned(&row, 3)?,
            passed_bytes: unsigned(&row, 4)?,
            skips,
            later,
            copies_missed: unsigned(&row, 7)?,
            gap: age::gap(conn, id).await?,
            policy: serde_json::from_str(row.try_get(5)?).unwrap_or_default(),
            waiting: Waiting {
                due: unsigned(&waiting, 0)?,
                retrying: unsigned(&waiting, 1)?,
                delayed: unsigned(&waiting, 2)?,
                parked: unsigned(&waiting, 3)?,
                bytes: unsigned(&waiting, 4)?,
            },
            leased: unsigned(&leased, 0)?,
            leased_bytes: unsigned(&leased, 1)?,
            dead: unsigned(&dead, 0)?,
        });
    }
    Ok(groups)
}

/// When the oldest message was published that a group has not settled.
async fn oldest_of(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    group: &GroupRow,
) -> sqlx::Result<Option<Timestamp>> {
    let row = query(
        "select min(s) from (
           select min(seq) as s from waiting where grp = ?1
           union all select min(lo) from lease where grp = ?1
           union all select * from (select m.id - ?2 from message m
              where m.id > ?2 + ?3 and m.id <= ?4
                and not exists (select 1 from skip where grp = ?1 and seq = m.id - ?2 and hurry = 0)
              order by m.id limit 1))",
    )
    .bind(group.id.cast_signed())
    .bind(topic.id.rowid(Sequence(0)))
    .bind(group.cursor.cast_signed())
    .bind(topic.id.rowid(Sequence::MAX))
    .fetch_one(&mut *conn)
    .await?;
    let Some(lowest) = row.try_get::<Option<i64>, _>(0)? else { return Ok(None) };
    let id = id_of(conn, topic.id, Sequence(lowest.cast_unsigned())).await?;
    Ok(Some(id.millis).filter(|millis| millis.0 > 0))
}

/// When the oldest needed message was published.
async fn oldest(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    needed: &Needed,
) -> sqlx::Result<Option<Timestamp>> {
    let from = match needed.oldest {
        None => return Ok(None),
        Some(Oldest::At(sequence)) => sequence,
        Some(Oldest::After(sequence)) => sequence + 1,
    };
    let row = query(
        "select id, record from message
          where id >= ?1 and id <= ?2 and id not in (select ?3 + value from json_each(?4))
          order by id limit 1",
    )
    .bind(topic.id.rowid(Sequence(from)))
    .bind(topic.id.rowid(Sequence::MAX))
    .bind(topic.id.rowid(Sequence(0)))
    .bind(json_list(needed.cancelled.iter().copied()))
    .fetch_optional(conn)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let sequence = TopicId::sequence(row.try_get(0)?);
    let message = record::decode_message(&topic.name, sequence, row.try_get(1)?);
    Ok(message.ok().map(|message| message.id.millis))
}
