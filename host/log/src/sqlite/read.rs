//! What operators read: counts and dead letters, each answer from one snapshot of the file.

use super::cache::{TopicId, Unclaimed, unsigned};
use super::record;
use super::sql::json_list;
use crate::admin::{Counts, DeadLetter, DeadLetterQuery, GroupState, TopicState};
use crate::error::LogError;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{
    AttemptRecord, Group, GroupPolicy, History, MessageId, Sequence, Timestamp, Topic,
};

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
    fn counts(&self, topic: &TopicRow) -> Counts {
        Counts {
            ready: topic.published - self.passed + self.waiting.due,
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
    let groups = group_rows(conn, topic.id, now).await?;
    let needed = needed(conn, &topic, &groups).await?;
    let mut counts = Counts::default();
    let mut states = Vec::with_capacity(groups.len());
    for group in &groups {
        let own = group.counts(&topic);
        counts.add(&own);
        states.push(GroupState {
            group: group.name.clone(),
            counts: own,
            policy: group.policy.clone(),
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

async fn group_rows(
    conn: &mut SqliteConnection,
    topic: TopicId,
    now: Timestamp,
) -> sqlx::Result<Vec<GroupRow>> {
    let rows = query(
        "select id, name, cursor, passed, passed_bytes, policy from grp
          where topic = ? order by name",
    )
    .bind(topic.0.cast_signed())
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
            None => (topic.published - range.messages, topic.published_bytes - range.bytes),
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
    let unread = topic.published - slowest.passed;
    needed.messages += unread;
    needed.bytes += topic.published_bytes - slowest.passed_bytes;
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

/// A page of dead letters.
pub(super) async fn dead_letters(
    conn: &mut SqliteConnection,
    wanted: &DeadLetterQuery,
) -> sqlx::Result<Result<Vec<DeadLetter>, LogError>> {
    let topic = query("select id from topic where name = ?")
        .bind(wanted.topic.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    let Some(topic) = topic else { return Ok(Err(LogError::NoTopic(wanted.topic.clone()))) };
    let topic = TopicId(unsigned(&topic, 0)?);
    if let Some(group) = &wanted.group {
        let known = query("select 1 from grp where topic = ? and name = ?")
            .bind(topic.0.cast_signed())
            .bind(group.as_str())
            .fetch_optional(&mut *conn)
            .await?;
        if known.is_none() {
            let (topic, group) = (wanted.topic.clone(), group.clone());
            return Ok(Err(LogError::NoGroup { topic, group }));
        }
    }
    let (after_group, after) = match &wanted.after {
        Some((group, id)) => (Some(group.as_str()), id.sequence.0),
        None => (None, 0),
    };
    let rows = query(
        "select g.id, g.name, d.seq, d.at, d.reason, d.attempts, d.failures, m.record
           from grp g join dead d on d.grp = g.id
           left join message m on m.id = ?1 + d.seq
          where g.topic = ?2 and (?3 is null or g.name = ?3) and (?4 is null or d.seq = ?4)
            and (?5 is null or g.name > ?5 or (g.name = ?5 and d.seq > ?6))
          order by g.name, d.seq limit ?7",
    )
    .bind(topic.rowid(Sequence(0)))
    .bind(topic.0.cast_signed())
    .bind(wanted.group.as_ref().map(Group::as_str))
    .bind(wanted.id.map(|id| id.sequence.0.cast_signed()))
    .bind(after_group)
    .bind(after.cast_signed())
    .bind(wanted.limit.get() as i64)
    .fetch_all(&mut *conn)
    .await?;
    let mut letters = Vec::with_capacity(rows.len());
    for row in &rows {
        letters.push(dead_letter(conn, &wanted.topic, row).await?);
    }
    Ok(Ok(letters))
}

async fn dead_letter(
    conn: &mut SqliteConnection,
    topic: &Topic,
    row: &SqliteRow,
) -> sqlx::Result<DeadLetter> {
    let sequence = Sequence(unsigned(row, 2)?);
    let failures: u32 = row.try_get(6)?;
    let entries = query("select record from history where grp = ? and seq = ? order by n")
        .bind(row.try_get::<i64, _>(0)?)
        .bind(sequence.0.cast_signed())
        .fetch_all(conn)
        .await?;
    let mut history = History::default();
    for entry in &entries {
        if let Ok(record) = serde_json::from_str::<AttemptRecord>(entry.try_get(0)?) {
            history.attempts.push(record);
        }
    }
    let kept = u32::try_from(entries.len()).unwrap_or(u32::MAX);
    history.omitted = failures.saturating_sub(kept);
    let record = row.try_get::<Option<Vec<u8>>, _>(7)?.unwrap_or_default();
    let message = record::decode_message(topic, sequence, record).ok();
    let at = Timestamp(unsigned(row, 3)?);
    Ok(DeadLetter {
        group: Group::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?,
        // Where the record cannot be read, its publish time is not known either.
        id: message.as_ref().map_or(MessageId { millis: at, sequence }, |message| message.id),
        reason: row.try_get(4)?,
        attempts: row.try_get(5)?,
        at,
        history,
        message,
    })
}
