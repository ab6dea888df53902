//! What operators read: counts and dead letters, each answer from one snapshot of the file.

use super::cache::unsigned;
use super::record;
use super::rows::{TopicId, Unclaimed};
use super::sql::json_list;
use crate::admin::{Counts, GroupState, TopicState};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{Group, GroupPolicy, Sequence, Timestamp, Topic};

/// A topic's row, as far as counts need it.
struct TopicRow {
    id: TopicId,
    name: Topic,
    published: u64,
    published_bytes: u64,
    stored: u64,
    unclaimed: Vec<Unclaimed>,
}

/// A group's rows, counted.
struct GroupRow {
    id: u64,
    name: Group,
    cursor: u64,
    passed: u64,
    passed_bytes: u64,
    policy: GroupPolicy,
    waiting: Waiting,
    leased: u64,
    leased_bytes: u64,
    dead: u64,
}

#[derive(Clone, Copy, Default)]
struct Waiting {
    due: u64,
    retrying: u64,
    delayed: u64,
    parked: u64,
    bytes: u64,
}

impl GroupRow {
    fn counts(&self, published: u64) -> Counts {
        Counts {
            ready: published.saturating_sub(self.passed) + self.waiting.due,
            delayed: self.waiting.delayed,
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
    let rows = query(
        "select id, name, published, published_bytes, published - removed, unclaimed from topic
          where ?1 is null or name = ?1 order by name",
    )
    .bind(only.map(Topic::as_str))
    .fetch_all(&mut *conn)
    .await?;
    let mut states = Vec::with_capacity(rows.len());
    for row in rows {
        let topic = TopicRow {
            id: TopicId(unsigned(&row, 0)?),
            name: Topic::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
            published: unsigned(&row, 2)?,
            published_bytes: unsigned(&row, 3)?,
            stored: unsigned(&row, 4)?,
            unclaimed: serde_json::from_str(row.try_get(5)?).unwrap_or_default(),
        };
        states.push(topic_state(conn, topic, now).await?);
    }
    Ok(states)
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
            copies_missed: 0,
        });
    }
    if groups.is_empty() {
        counts.ready = needed.messages;
    }
    let oldest = oldest(conn, &topic, needed.oldest).await?;
    Ok(TopicState {
        topic: topic.name,
        counts,
        bytes: needed.bytes,
        retained: topic.stored.saturating_sub(needed.messages + needed.dead_only),
        oldest,
        groups: states,
    })
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
        "select id, name, cursor, passed, passed_bytes, policy from grp
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

/// What the quota counts, and what is dead beside it.
struct Needed {
    messages: u64,
    bytes: u64,
    dead_only: u64,
    /// The lowest needed sequence is this, or the first stored one after it.
    oldest: Option<Oldest>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Oldest {
    At(u64),
    After(u64),
}

impl Oldest {
    fn order(self) -> (u64, u8) {
        match self {
            Self::At(sequence) => (sequence, 0),
            Self::After(sequence) => (sequence, 1),
        }
    }
}

async fn needed(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    groups: &[GroupRow],
) -> sqlx::Result<Needed> {
    let mut needed = Needed { messages: 0, bytes: 0, dead_only: 0, oldest: None };
    let older = |needed: &mut Needed, candidate: Oldest| {
        needed.oldest = match needed.oldest {
            Some(known) if known.order() <= candidate.order() => Some(known),
            _ => Some(candidate),
        };
    };
    for range in &topic.unclaimed {
        let (messages, bytes) = match range.hi {
            Some(_) => (range.messages, range.bytes),
            None => (
                topic.published.saturating_sub(range.messages),
                topic.published_bytes.saturating_sub(range.bytes),
            ),
        };
        needed.messages += messages;
        needed.bytes += bytes;
        if messages > 0 {
            older(&mut needed, Oldest::After(range.lo));
        }
    }
    let Some(slowest) = groups.iter().min_by_key(|group| group.cursor) else {
        return Ok(needed);
    };
    let unread = topic.published.saturating_sub(slowest.passed);
    needed.messages += unread;
    needed.bytes += topic.published_bytes.saturating_sub(slowest.passed_bytes);
    if unread > 0 {
        older(&mut needed, Oldest::After(slowest.cursor));
    }
    if let [group] = groups {
        let waiting = group.waiting;
        let rows = waiting.due + waiting.retrying + waiting.delayed + waiting.parked;
        needed.messages += rows + group.leased;
        needed.bytes += waiting.bytes + group.leased_bytes;
        needed.dead_only = group.dead;
        let lowest = query(
            "select min(s) from (select min(seq) as s from waiting where grp = ?1
                                 union all select min(lo) from lease where grp = ?1)",
        )
        .bind(group.id.cast_signed())
        .fetch_one(&mut *conn)
        .await?;
        if let Some(sequence) = lowest.try_get::<Option<i64>, _>(0)? {
            older(&mut needed, Oldest::At(sequence.cast_unsigned()));
        }
        return Ok(needed);
    }
    // Several groups may hold the same message; each counts once.
    let held = held(conn, groups, slowest.cursor).await?;
    needed.messages += held.live.len() as u64;
    needed.bytes += held.live.values().sum::<u64>();
    needed.dead_only = held.dead.iter().filter(|seq| !held.live.contains_key(seq)).count() as u64;
    if let Some(sequence) = held.live.keys().next() {
        older(&mut needed, Oldest::At(*sequence));
    }
    Ok(needed)
}

struct Held {
    live: BTreeMap<u64, u64>,
    dead: BTreeSet<u64>,
}

/// What groups lease, wait for or have buried at or before `cursor`.
async fn held(conn: &mut SqliteConnection, groups: &[GroupRow], cursor: u64) -> sqlx::Result<Held> {
    let ids = json_list(groups.iter().map(|group| group.id));
    let mut held = Held { live: BTreeMap::new(), dead: BTreeSet::new() };
    let rows = query(
        "select seq, size from waiting
          where grp in (select value from json_each(?)) and seq <= ?",
    )
    .bind(&ids)
    .bind(cursor.cast_signed())
    .fetch_all(&mut *conn)
    .await?;
    for row in &rows {
        held.live.insert(unsigned(row, 0)?, unsigned(row, 1)?);
    }
    let rows = query("select id, batch from lease where grp in (select value from json_each(?))")
        .bind(&ids)
        .fetch_all(&mut *conn)
        .await?;
    for row in &rows {
        let leases = record::decode_leases(unsigned(row, 0)?, row.try_get(1)?).unwrap_or_default();
        let below = leases.iter().filter(|lease| lease.sequence.0 <= cursor);
        held.live.extend(below.map(|lease| (lease.sequence.0, lease.size)));
    }
    let rows =
        query("select seq from dead where grp in (select value from json_each(?)) and seq <= ?")
            .bind(&ids)
            .bind(cursor.cast_signed())
            .fetch_all(conn)
            .await?;
    for row in &rows {
        held.dead.insert(unsigned(row, 0)?);
    }
    Ok(held)
}

/// When the oldest needed message was published.
async fn oldest(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    oldest: Option<Oldest>,
) -> sqlx::Result<Option<Timestamp>> {
    let from = match oldest {
        None => return Ok(None),
        Some(Oldest::At(sequence)) => sequence,
        Some(Oldest::After(sequence)) => sequence + 1,
    };
    let row = query("select id, record from message where id >= ? and id <= ? order by id limit 1")
        .bind(topic.id.rowid(Sequence(from)))
        .bind(topic.id.rowid(Sequence::MAX))
        .fetch_optional(conn)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let sequence = TopicId::sequence(row.try_get(0)?);
    let message = record::decode_message(&topic.name, sequence, row.try_get(1)?);
    Ok(message.ok().map(|message| message.id.millis))
}
