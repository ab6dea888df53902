//! A topic's stream in pages: what is stored behind a reader's position, and whether anything is
//! missing there. Each page is one snapshot; nothing is held between pages.

use super::cache::unsigned;
use super::rows::TopicId;
use super::{find, record, topics};
use crate::inspect::{READ_BYTES, ReadFrom, ReadGap, ReadMessage, ReadPage, ReadRequest};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::sync::Arc;
use windlass_core::{MessageId, Sequence, Timestamp, Topic};

/// Most messages of a page, whatever is asked.
const MESSAGES_MAX: usize = 4_096;

/// Where a reader stands, and whether it would miss what was removed behind that.
struct At {
    position: Sequence,
    misses: bool,
}

/// The next page.
pub(super) async fn page(
    conn: &mut SqliteConnection,
    request: &ReadRequest,
) -> sqlx::Result<ReadPage> {
    let row = query("select next_sequence from state where id = 1").fetch_one(&mut *conn).await?;
    let newest = Sequence(unsigned(&row, 0)?.saturating_sub(1));
    let row = query("select id, gone from topic where name = ?")
        .bind(request.topic.as_str())
        .fetch_optional(&mut *conn)
        .await?;
    let (topic, gone) = match &row {
        Some(row) => (Some(TopicId(unsigned(row, 0)?)), Sequence(unsigned(row, 1)?)),
        None => (None, topics::former(conn, &request.topic).await?.unwrap_or_default()),
    };
    let at = start(conn, topic, request.from, newest).await?;
    let gap =
        (at.misses && gone > at.position).then_some(ReadGap { after: at.position, through: gone });
    let (messages, more) = match topic {
        Some(topic) => {
            messages(conn, (topic, &request.topic), at.position, request.limit.get()).await?
        }
        None => (Vec::new(), false),
    };
    let last = messages.last().map_or(at.position, |last| last.id.sequence);
    // Where nothing more is stored, what was removed has been told of.
    let position = if more { last } else { last.max(gone) };
    Ok(ReadPage { gap, messages, position, more })
}

async fn start(
    conn: &mut SqliteConnection,
    topic: Option<TopicId>,
    from: ReadFrom,
    newest: Sequence,
) -> sqlx::Result<At> {
    let fresh = |position| At { position, misses: false };
    Ok(match (from, topic) {
        (ReadFrom::Earliest, _) => fresh(Sequence(0)),
        (ReadFrom::Latest, _) | (ReadFrom::Time(_), None) => fresh(newest),
        (ReadFrom::Time(time), Some(topic)) => {
            let found = find::at_or_after(conn, topic, time).await?;
            fresh(found.map_or(newest, |found| Sequence(found.0 - 1)))
        }
        // One that is not there yet would hide what comes.
        (ReadFrom::After(MessageId { sequence, .. }) | ReadFrom::Position(sequence), _) => {
            At { position: sequence.min(newest), misses: true }
        }
    })
}

/// What is stored behind a position, and whether there is more.
async fn messages(
    conn: &mut SqliteConnection,
    (topic, name): (TopicId, &Topic),
    position: Sequence,
    limit: usize,
) -> sqlx::Result<(Vec<ReadMessage>, bool)> {
    let limit = limit.min(MESSAGES_MAX);
    // Sizes first: data is read of what the page takes.
    let sizes = query("select id, size from message where id > ? and id <= ? order by id limit ?")
        .bind(topic.rowid(position))
        .bind(topic.rowid(Sequence::MAX))
        .bind(limit as i64 + 1)
        .fetch_all(&mut *conn)
        .await?;
    let (mut taken, mut bytes, mut last) = (0, 0, None);
    for row in sizes.iter().take(limit) {
        if bytes >= READ_BYTES {
            break;
        }
        bytes += unsigned(row, 1)?;
        last = Some(row.try_get::<i64, _>(0)?);
        taken += 1;
    }
    let Some(last) = last else { return Ok((Vec::new(), false)) };
    let rows = query("select id, record from message where id > ? and id <= ? order by id")
        .bind(topic.rowid(position))
        .bind(last)
        .fetch_all(conn)
        .await?;
    let mut messages = Vec::with_capacity(rows.len());
    // The time of one that cannot be read is not known; ids rise all the same.
    let mut millis = Timestamp(0);
    for row in rows {
        let sequence = TopicId::sequence(row.try_get(0)?);
        let stored = record::decode_stored(name, sequence, row.try_get(1)?).ok();
        let (message, due) =
            stored.map_or((None, None), |(message, due)| (Some(Arc::new(message)), due));
        millis = message.as_ref().map_or(millis, |message| message.id.millis);
        messages.push(ReadMessage { id: MessageId { millis, sequence }, due, message });
    }
    Ok((messages, sizes.len() > taken))
}
