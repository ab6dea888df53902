//! What is leased and what waits in a group, as operators see it.

use super::cache::unsigned;
use super::known;
use super::record::{self, PLACED_BYTES};
use super::rows::TopicId;
use crate::error::LogError;
use crate::inspect::{Pending, PendingQuery, Place};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use windlass_core::lease::Lease;
use windlass_core::{MessageId, Sequence, Timestamp};

/// A delivery, and how many of its attempts have an entry in the history.
pub(super) struct Delivery {
    pub(super) sequence: Sequence,
    pub(super) pending: Pending,
    pub(super) failures: u32,
}

/// A page of what is leased, waiting or parked, at `now`.
pub(super) async fn pending(
    conn: &mut SqliteConnection,
    wanted: &PendingQuery,
    now: Timestamp,
) -> sqlx::Result<Result<Vec<Pending>, LogError>> {
    let (topic, group) = match known::both(conn, &wanted.topic, &wanted.group).await? {
        Ok(known) => known,
        Err(unknown) => return Ok(Err(unknown)),
    };
    let after = wanted.after.map_or(Sequence(0), |id| id.sequence);
    let mut page = waiting(conn, group, after, Sequence::MAX, wanted.limit.get()).await?;
    page.extend(leased(conn, group, after, Sequence::MAX, now).await?);
    page.sort_by_key(|delivery| delivery.sequence);
    page.truncate(wanted.limit.get());
    let mut found = Vec::with_capacity(page.len());
    for mut delivery in page {
        delivery.pending.id = id_of(conn, topic, delivery.sequence).await?;
        found.push(delivery.pending);
    }
    Ok(Ok(found))
}

/// The delivery of one message, where it is leased or waits.
pub(super) async fn of_message(
    conn: &mut SqliteConnection,
    group: u64,
    id: MessageId,
    now: Timestamp,
) -> sqlx::Result<Option<Delivery>> {
    let before = Sequence(id.sequence.0.saturating_sub(1));
    let mut found = waiting(conn, group, before, id.sequence, 1).await?;
    found.extend(leased(conn, group, before, id.sequence, now).await?);
    Ok(found
        .pop()
        .map(|delivery| Delivery { pending: Pending { id, ..delivery.pending }, ..delivery }))
}

/// What waits after `after`, up to `up_to`.
async fn waiting(
    conn: &mut SqliteConnection,
    group: u64,
    after: Sequence,
    up_to: Sequence,
    limit: usize,
) -> sqlx::Result<Vec<Delivery>> {
    let rows = query(
        "select seq, state, due, attempts, failures, first_at, last_at from waiting
          where grp = ? and seq > ? and seq <= ? order by seq limit ?",
    )
    .bind(group.cast_signed())
    .bind(after.0.cast_signed())
    .bind(up_to.0.cast_signed())
    .bind(limit as i64)
    .fetch_all(conn)
    .await?;
    rows.iter().map(of_row).collect()
}

fn of_row(row: &SqliteRow) -> sqlx::Result<Delivery> {
    let time = |at: usize| -> sqlx::Result<Option<Timestamp>> {
        Ok(row.try_get::<Option<i64>, _>(at)?.map(|at| Timestamp(at.cast_unsigned())))
    };
    let place = match unsigned(row, 1)? {
        0 => Place::Retrying,
        1 => Place::Delayed,
        _ => Place::Parked,
    };
    let sequence = Sequence(unsigned(row, 0)?);
    let pending = Pending {
        id: MessageId { millis: Timestamp(0), sequence },
        place,
        worker: None,
        idle: None,
        attempts: row.try_get(3)?,
        first_at: time(5)?,
        last_at: time(6)?,
        until: if place == Place::Parked { None } else { time(2)? },
    };
    Ok(Delivery { sequence, pending, failures: row.try_get(4)? })
}

/// What is leased after `after`, up to `up_to`; at most as much as may be in flight.
async fn leased(
    conn: &mut SqliteConnection,
    group: u64,
    after: Sequence,
    up_to: Sequence,
    now: Timestamp,
) -> sqlx::Result<Vec<Delivery>> {
    let rows = query("select id, batch from lease where grp = ? and hi > ? and lo <= ?")
        .bind(group.cast_signed())
        .bind(after.0.cast_signed())
        .bind(up_to.0.cast_signed())
        .fetch_all(conn)
        .await?;
    let mut found = Vec::new();
    for row in &rows {
        // What cannot be read becomes dead letters as soon as somebody writes.
        let leases = record::decode_leases(unsigned(row, 0)?, row.try_get(1)?).unwrap_or_default();
        let meant = leases.iter().filter(|lease| lease.sequence > after && lease.sequence <= up_to);
        found.extend(meant.map(|lease| of_lease(lease, now)));
    }
    Ok(found)
}

fn of_lease(lease: &Lease, now: Timestamp) -> Delivery {
    let id = MessageId { millis: Timestamp(0), sequence: lease.sequence };
    let pending = Pending::leased(id, lease, now);
    Delivery { sequence: lease.sequence, pending, failures: lease.failures }
}

/// The id of a stored message; of one whose record cannot be read only the sequence is known.
pub(super) async fn id_of(
    conn: &mut SqliteConnection,
    topic: TopicId,
    sequence: Sequence,
) -> sqlx::Result<MessageId> {
    let row = query("select substr(record, 1, ?) from message where id = ?")
        .bind(PLACED_BYTES)
        .bind(topic.rowid(sequence))
        .fetch_optional(conn)
        .await?;
    let placed = match &row {
        Some(row) => record::decode_placed(row.try_get(0)?).ok(),
        None => None,
    };
    Ok(MessageId { millis: Timestamp(placed.map_or(0, |placed| placed.millis)), sequence })
}
