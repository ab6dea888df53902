//! Dedup ids: what a topic has accepted under them within its window (law 3).

use super::cache::unsigned;
use super::command::Fail;
use super::pending::int;
use super::rows::TopicId;
use super::sql::ManyRows;
use super::writer::Writer;
use sqlx::{Row, query};
use std::collections::{BTreeMap, HashMap};
use windlass_core::time::millis;
use windlass_core::{MessageId, NewMessage, Sequence, Timestamp, Topic};

/// With each batch so many ids that are over are cleared away, and twice as many as it brings.
const CLEARED: u64 = 16;

static DEDUP: ManyRows = ManyRows::insert(
    "dedup(topic, dedup_id, seq, millis, expires)",
    5,
    "on conflict(topic, dedup_id) do update set seq = excluded.seq, millis = excluded.millis,
       expires = excluded.expires",
);

/// Ids that are known, by topic.
#[derive(Debug, Default)]
pub(super) struct Known {
    ids: HashMap<Topic, HashMap<String, MessageId>>,
}

impl Known {
    /// Under which id a message was accepted before.
    pub(super) fn id_of(&self, message: &NewMessage) -> Option<MessageId> {
        let dedup_id = message.dedup_id.as_ref()?;
        self.ids.get(&message.topic)?.get(dedup_id).copied()
    }

    /// One more.
    pub(super) fn add(&mut self, topic: Topic, dedup_id: String, id: MessageId) {
        self.ids.entry(topic).or_default().insert(dedup_id, id);
    }
}

/// A message accepted under a dedup id.
pub(super) struct Accepted {
    pub(super) topic: TopicId,
    pub(super) dedup_id: String,
    pub(super) id: MessageId,
}

impl Writer {
    /// Which messages of a batch are known already.
    pub(super) async fn known_ids(&mut self, batch: &[NewMessage]) -> Result<Known, Fail> {
        let mut wanted: BTreeMap<&Topic, Vec<&str>> = BTreeMap::new();
        for message in batch {
            if let Some(dedup_id) = &message.dedup_id {
                wanted.entry(&message.topic).or_default().push(dedup_id);
            }
        }
        let mut known = Known::default();
        if wanted.is_empty() {
            return Ok(known);
        }
        let now = self.time.now();
        for (name, dedup_ids) in wanted {
            let (conn, cache) = self.parts()?;
            let Some(topic) = cache.topic(conn, name).await? else { continue };
            let list = serde_json::to_string(&dedup_ids)
                .map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
            let rows = query(
                "select dedup_id, seq, millis from dedup
                  where topic = ? and dedup_id in (select value from json_each(?))
                    and expires > ?",
            )
            .bind(topic.0.cast_signed())
            .bind(list)
            .bind(now.0.cast_signed())
            .fetch_all(conn)
            .await?;
            for row in rows {
                let (millis, sequence) =
                    (Timestamp(unsigned(&row, 2)?), Sequence(unsigned(&row, 1)?));
                known.add(name.clone(), row.try_get(0)?, MessageId { millis, sequence });
            }
        }
        Ok(known)
    }

    /// Remembers ids for as long as their topics do, and forgets some that are over.
    pub(super) async fn remember_ids(
        &mut self,
        accepted: Vec<Accepted>,
        now: Timestamp,
    ) -> Result<(), Fail> {
        let cleared = CLEARED + 2 * accepted.len() as u64;
        let (conn, cache) = self.parts()?;
        query(
            "delete from dedup where (topic, dedup_id) in
               (select topic, dedup_id from dedup where expires <= ? order by expires limit ?)",
        )
        .bind(now.0.cast_signed())
        .bind(cleared.cast_signed())
        .execute(&mut *conn)
        .await?;
        let mut rows = Vec::with_capacity(accepted.len());
        for one in accepted {
            let window = cache.topic_row(one.topic).map(|row| row.limits.dedup_window);
            let expires = now.0.saturating_add(millis(window.unwrap_or_default()));
            rows.push((one, expires.min(i64::MAX.cast_unsigned())));
        }
        Ok(DEDUP
            .run(conn, rows, |args, (one, expires)| {
                args.push(int(one.topic.0));
                args.push(one.dedup_id);
                args.push_all([one.id.sequence.0, one.id.millis.0, expires].map(int));
            })
            .await?)
    }
}
