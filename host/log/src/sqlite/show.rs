//! One message as it stands everywhere.

use super::cache::unsigned;
use super::rows::TopicId;
use super::{deliveries, letters, record};
use crate::inspect::{MessageState, Place, Standing};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::sync::Arc;
use windlass_core::{Group, History, Message, MessageId, Sequence, Timestamp, Topic};

/// The stored message of an id: a sequence is one topic's, and only its rowid says which.
const FIND: &str = "select t.id, t.name, m.record, m.size from topic t
    cross join message m on m.id = (t.id << 43) + ?";

/// A stored message; no message where its record cannot be read.
pub(super) struct Stored {
    pub(super) topic: TopicId,
    pub(super) name: Topic,
    pub(super) message: Option<Message>,
    pub(super) size: u64,
    /// When it may first be handled, where it was given a delay.
    pub(super) due: Option<Timestamp>,
}

/// Finds a message. Where its record cannot be read, its sequence is all that can be compared.
pub(super) async fn find(
    conn: &mut SqliteConnection,
    id: MessageId,
) -> sqlx::Result<Option<Stored>> {
    let row = query(FIND).bind(id.sequence.0.cast_signed()).fetch_optional(conn).await?;
    // A sequence beyond the last one would be of another topic.
    let Some(row) = row.filter(|_| id.sequence <= Sequence::MAX) else { return Ok(None) };
    let name = Topic::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
    let stored = record::decode_stored(&name, id.sequence, row.try_get(2)?).ok();
    let (message, due) = stored.map_or((None, None), |(message, due)| (Some(message), due));
    if message.as_ref().is_some_and(|message| message.id != id) {
        return Ok(None);
    }
    let (topic, size) = (TopicId(unsigned(&row, 0)?), unsigned(&row, 3)?);
    Ok(Some(Stored { topic, name, message, size, due }))
}

/// One message, and how it stands in every group of its topic at `now`.
pub(super) async fn message(
    conn: &mut SqliteConnection,
    id: MessageId,
    now: Timestamp,
) -> sqlx::Result<Option<MessageState>> {
    let Some(stored) = find(conn, id).await? else { return Ok(None) };
    let rows = query("select id, name, cursor from grp where topic = ? order by name")
        .bind(stored.topic.0.cast_signed())
        .fetch_all(&mut *conn)
        .await?;
    let mut groups = Vec::with_capacity(rows.len());
    for row in rows {
        let group = Group::new(row.try_get(1)?).map_err(|e| sqlx::Error::Decode(Box::new(e)))?;
        let number = unsigned(&row, 0)?;
        let mark = mark(conn, number, id).await?;
        groups.push(if id.sequence.0 > unsigned(&row, 2)? && mark != Some(0) {
            let waits = stored.due.is_some_and(|due| due > now);
            let place = if waits && mark.is_none() { Place::Delayed } else { Place::New };
            Standing { group, place, pending: None, dead: None, history: History::default() }
        } else {
            standing(conn, (stored.topic, &stored.name), (number, group), id, now).await?
        });
    }
    Ok(Some(MessageState {
        topic: stored.name,
        id,
        due: stored.due,
        message: stored.message.map(Arc::new),
        groups,
    }))
}

/// How a message stands that the group's cursor has passed.
async fn standing(
    conn: &mut SqliteConnection,
    topic: (TopicId, &Topic),
    (number, group): (u64, Group),
    id: MessageId,
    now: Timestamp,
) -> sqlx::Result<Standing> {
    if let Some(delivery) = deliveries::of_message(conn, number, id, now).await? {
        let history = letters::history(conn, number, id.sequence, delivery.failures).await?;
        let pending = delivery.pending;
        let (place, pending) = (pending.place, Some(pending));
        return Ok(Standing { group, place, pending, dead: None, history });
    }
    let dead = letters::of_message(conn, topic, number, id.sequence).await?;
    let place = if dead.is_some() { Place::Dead } else { Place::Settled };
    let history = dead.as_ref().map(|dead| dead.history.clone()).unwrap_or_default();
    Ok(Standing { group, place, pending: None, dead, history })
}

/// What was decided on a message before the group came to it: 0 that it is cancelled, 1 that it is
/// not to wait.
async fn mark(conn: &mut SqliteConnection, group: u64, id: MessageId) -> sqlx::Result<Option<u64>> {
    let row = query("select hurry from skip where grp = ? and seq = ?")
        .bind(group.cast_signed())
        .bind(id.sequence.0.cast_signed())
        .fetch_optional(conn)
        .await?;
    row.map(|row| unsigned(&row, 0)).transpose()
}
