//! What the quota counts of a topic: each needed message once, however many groups need it.

use super::cache::unsigned;
use super::counts::{GroupRow, TopicRow};
use super::record;
use super::sql::json_list;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::{BTreeMap, BTreeSet};

/// What the quota counts, and what is dead beside it.
pub(super) struct Needed {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) dead_only: u64,
    /// The lowest needed sequence is this, or the first stored one after it.
    pub(super) oldest: Option<Oldest>,
    /// But for these, which nobody needs though somebody has still to pass them.
    pub(super) cancelled: BTreeSet<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Oldest {
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

pub(super) async fn needed(
    conn: &mut SqliteConnection,
    topic: &TopicRow,
    groups: &[GroupRow],
) -> sqlx::Result<Needed> {
    let mut needed =
        Needed { messages: 0, bytes: 0, dead_only: 0, oldest: None, cancelled: BTreeSet::new() };
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
    let cancelled =
        if slowest.skips == 0 { BTreeMap::new() } else { cancelled(conn, slowest, groups).await? };
    let (skipped, skipped_bytes) = (cancelled.len() as u64, cancelled.values().sum::<u64>());
    let unread = topic.published.saturating_sub(slowest.passed + skipped);
    needed.messages += unread;
    needed.bytes += topic.published_bytes.saturating_sub(slowest.passed_bytes + skipped_bytes);
    needed.cancelled = cancelled.into_keys().collect();
    let dead_there = dead_among(conn, groups, &needed.cancelled).await?;
    if !needed.cancelled.is_empty() {
        // What it was moved back before and has all the same is not passed over.
        let own = held(conn, std::slice::from_ref(slowest), u64::MAX >> 1).await?;
        needed.cancelled.retain(|sequence| !own.live.contains_key(sequence));
    }
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
    let dead_only = held.dead.iter().filter(|seq| !held.live.contains_key(seq)).count() as u64;
    needed.dead_only = dead_only + dead_there;
    if let Some(sequence) = held.live.keys().next() {
        older(&mut needed, Oldest::At(*sequence));
    }
    Ok(needed)
}

/// What the slowest group was to read and is not any more, and no other group needs: sequences and
/// sizes.
async fn cancelled(
    conn: &mut SqliteConnection,
    slowest: &GroupRow,
    groups: &[GroupRow],
) -> sqlx::Result<BTreeMap<u64, u64>> {
    let mut cancelled = BTreeMap::new();
    let rows = query("select seq, size from skip where grp = ? and hurry = 0")
        .bind(slowest.id.cast_signed())
        .fetch_all(&mut *conn)
        .await?;
    for row in &rows {
        cancelled.insert(unsigned(row, 0)?, unsigned(row, 1)?);
    }
    if groups.len() > 1 {
        // A dead letter that it was moved back before and that was redriven is needed; of a group
        // alone what it holds is counted apart.
        let own = held(conn, std::slice::from_ref(slowest), u64::MAX >> 1).await?;
        cancelled.retain(|sequence, _| !own.live.contains_key(sequence));
    }
    for group in groups.iter().filter(|group| group.id != slowest.id) {
        let skips = query("select seq from skip where grp = ? and hurry = 0")
            .bind(group.id.cast_signed())
            .fetch_all(&mut *conn)
            .await?;
        let mut skips_of: BTreeSet<u64> = BTreeSet::new();
        for row in &skips {
            skips_of.insert(unsigned(row, 0)?);
        }
        let held = held(conn, std::slice::from_ref(group), u64::MAX >> 1).await?;
        cancelled.retain(|sequence, _| {
            let needs = *sequence > group.cursor && !skips_of.contains(sequence);
            !needs && !held.live.contains_key(sequence)
        });
    }
    Ok(cancelled)
}

/// How many of these are dead in some group.
async fn dead_among(
    conn: &mut SqliteConnection,
    groups: &[GroupRow],
    sequences: &BTreeSet<u64>,
) -> sqlx::Result<u64> {
    if sequences.is_empty() {
        return Ok(0);
    }
    let row = query(
        "select count(distinct seq) from dead
          where grp in (select value from json_each(?)) and seq in (select value from json_each(?))",
    )
    .bind(json_list(groups.iter().map(|group| group.id)))
    .bind(json_list(sequences.iter().copied()))
    .fetch_one(conn)
    .await?;
    unsigned(&row, 0)
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
