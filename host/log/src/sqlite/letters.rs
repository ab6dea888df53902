//! Reading dead letters.

use super::cache::unsigned;
use super::known;
use super::record;
use super::rows::TopicId;
use crate::admin::{DeadLetter, DeadLetterQuery};
use crate::error::LogError;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use windlass_core::{AttemptRecord, Group, History, MessageId, Sequence, Timestamp, Topic};

/// A page of dead letters.
pub(super) async fn dead_letters(
    conn: &mut SqliteConnection,
    wanted: &DeadLetterQuery,
) -> sqlx::Result<Result<Vec<DeadLetter>, LogError>> {
    let Some(topic) = known::topic(conn, &wanted.topic).await? else {
        return Ok(Err(LogError::NoTopic(wanted.topic.clone())));
    };
    if let Some(group) = &wanted.group
        && let Err(unknown) = known::both(conn, &wanted.topic, group).await?
    {
        return Ok(Err(unknown));
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
            and (?8 is null or d.at >= ?8) and (?9 is null or d.reason = ?9)
            and (?5 is null or g.name > ?5 or (g.name = ?5 and d.seq > ?6))
          order by g.name, d.seq limit ?7",
    )
    .bind(topic.rowid(Sequence(0)))
    .bind(topic.0.cast_signed())
    .bind(wanted.group.as_ref().map(Group::as_str))
    .bind(wanted.filter.id.map(|id| id.sequence.0.cast_signed()))
    .bind(after_group)
    .bind(after.cast_signed())
    .bind(wanted.limit.get() as i64)
    .bind(wanted.filter.since.map(|since| since.0.cast_signed()))
    .bind(wanted.filter.reason.as_deref())
    .fetch_all(&mut *conn)
    .await?;
    let mut letters = Vec::with_capacity(rows.len());
    for row in &rows {
        letters.push(dead_letter(conn, &wanted.topic, row).await?);
    }
    if let Some(id) = wanted.filter.id {
        // Found by its sequence. Where its record cannot be read, that is all there is.
        letters.retain(|letter| letter.message.is_none() || letter.id == id);
    }
    Ok(Ok(letters))
}

/// The dead letter of one message in one group, where there is one.
pub(super) async fn of_message(
    conn: &mut SqliteConnection,
    topic: (TopicId, &Topic),
    group: u64,
    sequence: Sequence,
) -> sqlx::Result<Option<DeadLetter>> {
    let row = query(
        "select g.id, g.name, d.seq, d.at, d.reason, d.attempts, d.failures, m.record
           from grp g join dead d on d.grp = g.id
           left join message m on m.id = ?1 + d.seq
          where g.id = ?2 and d.seq = ?3",
    )
    .bind(topic.0.rowid(Sequence(0)))
    .bind(group.cast_signed())
    .bind(sequence.0.cast_signed())
    .fetch_optional(&mut *conn)
    .await?;
    match row {
        Some(row) => Ok(Some(dead_letter(conn, topic.1, &row).await?)),
        None => Ok(None),
    }
}

/// What became of a message's attempts in a group, `failures` in all.
pub(super) async fn history(
    conn: &mut SqliteConnection,
    group: u64,
    sequence: Sequence,
    failures: u32,
) -> sqlx::Result<History> {
    if failures == 0 {
        return Ok(History::default());
    }
    let entries = query("select record from history where grp = ? and seq = ? order by n")
        .bind(group.cast_signed())
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
    Ok(history)
}

async fn dead_letter(
    conn: &mut SqliteConnection,
    topic: &Topic,
    row: &SqliteRow,
) -> sqlx::Result<DeadLetter> {
    let sequence = Sequence(unsigned(row, 2)?);
    let history = history(conn, unsigned(row, 0)?, sequence, row.try_get(6)?).await?;
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
