//! Finding a place in a topic, and what was published before it: publish times rise with sequences,
//! so halving finds it, and each message says what came before.

use super::cache::unsigned;
use super::record::{self, PLACED_BYTES};
use super::rows::TopicId;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use windlass_core::{Sequence, Timestamp};

/// The first stored message published at or after `time`. A record that cannot be read tells no
/// time; the one behind it speaks for it.
pub(super) async fn at_or_after(
    conn: &mut SqliteConnection,
    topic: TopicId,
    time: Timestamp,
) -> sqlx::Result<Option<Sequence>> {
    let row = query("select max(id) from message where id > ? and id <= ?")
        .bind(topic.rowid(Sequence(0)))
        .bind(topic.rowid(Sequence::MAX))
        .fetch_one(&mut *conn)
        .await?;
    let Some(last) = row.try_get::<Option<i64>, _>(0)? else { return Ok(None) };
    // All up to `before` are earlier, all behind `up_to` are not.
    let (mut before, mut up_to, mut found) = (0, TopicId::sequence(last).0, None);
    while before < up_to {
        let middle = before + (up_to - before) / 2;
        match next(conn, topic, middle, up_to).await? {
            Some((sequence, millis)) if millis < time => before = sequence.0,
            Some((sequence, _)) => {
                found = Some(sequence);
                up_to = middle;
            }
            None => up_to = middle,
        }
    }
    Ok(found)
}

/// The next message that can be read, after `after` and up to `up_to`, and its time.
async fn next(
    conn: &mut SqliteConnection,
    topic: TopicId,
    after: u64,
    up_to: u64,
) -> sqlx::Result<Option<(Sequence, Timestamp)>> {
    let mut after = Sequence(after);
    loop {
        let row = query(
            "select id, substr(record, 1, ?) from message
              where id > ? and id <= ? order by id limit 1",
        )
        .bind(PLACED_BYTES)
        .bind(topic.rowid(after))
        .bind(topic.rowid(Sequence(up_to)))
        .fetch_optional(&mut *conn)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let sequence = TopicId::sequence(row.try_get(0)?);
        match record::decode_placed(row.try_get(1)?) {
            Ok(placed) => return Ok(Some((sequence, Timestamp(placed.millis)))),
            Err(record::Unreadable) => after = sequence,
        }
    }
}

/// How many messages were published before a place, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Before {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Before {
    /// This without what is `other`'s.
    pub(super) fn less(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// How much is stored after `after`, up to `up_to`, counted one by one.
pub(super) async fn count(
    conn: &mut SqliteConnection,
    topic: TopicId,
    after: Sequence,
    up_to: Sequence,
) -> sqlx::Result<Before> {
    let row = query("select count(*), sum(size) from message where id > ? and id <= ?")
        .bind(topic.rowid(after))
        .bind(topic.rowid(up_to))
        .fetch_one(conn)
        .await?;
    Ok(Before { messages: unsigned(&row, 0)?, bytes: unsigned(&row, 1)? })
}

/// What was published before the next stored message after `after`, up to `up_to`; none where none
/// is stored there. Where records cannot be read the next one that can speaks for them.
pub(super) async fn before_next(
    conn: &mut SqliteConnection,
    topic: TopicId,
    after: Sequence,
    up_to: Sequence,
) -> sqlx::Result<Option<Before>> {
    let (mut after, mut unread) = (after, Before { messages: 0, bytes: 0 });
    loop {
        let row = query(
            "select id, size, substr(record, 1, ?) from message
              where id > ? and id <= ? order by id limit 1",
        )
        .bind(PLACED_BYTES)
        .bind(topic.rowid(after))
        .bind(topic.rowid(up_to))
        .fetch_optional(&mut *conn)
        .await?;
        let Some(row) = row else { return Ok(None) };
        if let Ok(placed) = record::decode_placed(row.try_get(2)?) {
            let found = Before { messages: placed.before, bytes: placed.before_bytes };
            return Ok(Some(found.less(unread)));
        }
        after = TopicId::sequence(row.try_get(0)?);
        unread.messages += 1;
        unread.bytes += unsigned(&row, 1)?;
    }
}
