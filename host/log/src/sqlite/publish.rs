//! Storing messages: those of publishers and those that guests send with their acks.

use super::cache::unsigned;
use super::command::Fail;
use super::dedup::{Accepted, Known};
use super::quota::Freeing;
use super::record::{self, Placed};
use super::rows::{TOPIC_ID_MAX, TopicId, TopicRow, Unclaimed};
use super::writer::Writer;
use crate::admin::TopicLimits;
use crate::api::Published;
use crate::error::LogError;
use crate::validate;
use std::collections::BTreeSet;
use std::sync::Arc;
use windlass_core::{Message, MessageId, NewMessage, Sequence, Timestamp, Topic};

impl Writer {
    /// Stores a batch, all or nothing.
    pub(super) async fn publish(&mut self, batch: Vec<NewMessage>) -> Result<Vec<Published>, Fail> {
        let known = self.check_messages(&batch, None).await?;
        self.store_messages(batch, known).await
    }

    /// Whether all of `batch` may be stored, with what settling `freeing` lets go; which of it is
    /// known already. Changes nothing.
    pub(super) async fn check_messages(
        &mut self,
        batch: &[NewMessage],
        freeing: Option<Freeing>,
    ) -> Result<Known, Fail> {
        for message in batch {
            validate::check(message)?;
        }
        let (conn, cache) = self.parts()?;
        let state = *cache.state(conn).await?;
        if state.next_sequence + batch.len() as u64 > Sequence::MAX.0 {
            return Err(LogError::Exhausted("messages").into());
        }
        if state.declared_only {
            for message in batch {
                if cache.topic(conn, &message.topic).await?.is_none() {
                    return Err(LogError::UndeclaredTopic(message.topic.clone()).into());
                }
            }
        }
        self.check_new_topics(batch.iter().map(|message| &message.topic)).await?;
        let known = self.known_ids(batch).await?;
        self.check_room(batch, &known, freeing).await?;
        Ok(known)
    }

    /// Whether there are numbers left for those of `topics` that are new. Changes nothing.
    pub(super) async fn check_new_topics(
        &mut self,
        topics: impl Iterator<Item = &Topic>,
    ) -> Result<(), Fail> {
        let mut new = BTreeSet::new();
        for topic in topics {
            let (conn, cache) = self.parts()?;
            if !new.contains(topic) && cache.topic(conn, topic).await?.is_none() {
                new.insert(topic);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        self.flush().await?;
        if self.last_topic().await? + new.len() as u64 > TOPIC_ID_MAX {
            return Err(LogError::Exhausted("topics").into());
        }
        Ok(())
    }

    /// The greatest number of a topic, deleted ones included while something is left of them; topics
    /// made in this transaction must be written.
    async fn last_topic(&mut self) -> Result<u64, Fail> {
        let (conn, _) = self.parts()?;
        // One at a time: of a union all rows would be read.
        let row = sqlx::query(
            "select max(coalesce((select max(id) from topic), 0),
                        coalesce((select max(id) from gone_topic), 0))",
        )
        .fetch_one(conn)
        .await?;
        Ok(unsigned(&row, 0)?)
    }

    /// Stores messages that were checked in this transaction.
    pub(super) async fn store_messages(
        &mut self,
        batch: Vec<NewMessage>,
        mut known: Known,
    ) -> Result<Vec<Published>, Fail> {
        let now = self.time.now();
        let wall = self.time.clock().wall_ms();
        let mut answers = Vec::with_capacity(batch.len());
        let mut accepted = Vec::new();
        for mut message in batch {
            if let Some(id) = known.id_of(&message) {
                answers.push(Published { id, duplicate: true });
                continue;
            }
            let topic = self.topic_or_new(&message.topic).await?;
            let name = message.dedup_id.take().map(|dedup_id| (message.topic.clone(), dedup_id));
            let id = self.store(topic, message, now, wall).await?;
            if let Some((name, dedup_id)) = name {
                accepted.push(Accepted { topic, dedup_id: dedup_id.clone(), id });
                known.add(name, dedup_id, id);
            }
            answers.push(Published { id, duplicate: false });
        }
        if !accepted.is_empty() {
            self.remember_ids(accepted, now).await?;
        }
        Ok(answers)
    }

    async fn store(
        &mut self,
        topic: TopicId,
        message: NewMessage,
        now: Timestamp,
        wall: u64,
    ) -> Result<MessageId, Fail> {
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        let millis = Timestamp(now.0.max(state.last_ms));
        let id = MessageId { millis, sequence: Sequence(state.next_sequence) };
        let before = Sequence(state.next_sequence - 1);
        state.last_ms = millis.0;
        state.next_sequence += 1;
        let size = message.size();
        let due = validate::due(&message, now);
        let Some(row) = cache.topic_row_mut(topic) else {
            return Err(Fail::Storage(sqlx::Error::RowNotFound));
        };
        let placed =
            Placed { millis: millis.0, before: row.published, before_bytes: row.published_bytes };
        let record = record::encode_message(&message, placed, due, wall)
            .map_err(|_| sqlx::Error::Encode("a message".into()))?;
        row.published += 1;
        row.published_bytes += size;
        if !row.groups.is_empty() {
            let message = Message {
                id,
                topic: row.name.clone(),
                data: message.data,
                content_type: message.content_type,
                metadata: message.metadata,
                key: message.key,
                published_at: wall,
                hops: message.hops,
            };
            cache.tail.push(Arc::new(message), due, before);
        }
        if let Some(due) = due {
            self.pending.delayed.push((topic, due, id.sequence));
        }
        self.touched.topics.insert(topic);
        self.pending.state = true;
        self.pending.published.insert(topic);
        self.pending.messages.push((topic.rowid(id.sequence), size, record));
        Ok(id)
    }

    /// A topic, made where there is none.
    pub(super) async fn topic_or_new(&mut self, name: &Topic) -> Result<TopicId, Fail> {
        let (conn, cache) = self.parts()?;
        if let Some(id) = cache.topic(conn, name).await? {
            return Ok(id);
        }
        // Rows of topics made earlier in this transaction are not written yet.
        self.flush().await?;
        let id = self.last_topic().await? + 1;
        if id > TOPIC_ID_MAX {
            // It was checked before anything changed; what did change must not be committed.
            return Err(sqlx::Error::Protocol("no number is left for a topic".into()).into());
        }
        let (conn, cache) = self.parts()?;
        let lo = cache.state(conn).await?.next_sequence - 1;
        let former = super::topics::former(conn, name).await?;
        if former.is_some() {
            sqlx::query("delete from former where name = ?")
                .bind(name.as_str())
                .execute(conn)
                .await?;
        }
        cache.new_topic(TopicRow {
            epoch: 0,
            id: TopicId(id),
            name: name.clone(),
            published: 0,
            published_bytes: 0,
            removed: 0,
            removed_bytes: 0,
            swept: lo,
            stragglers: 0,
            unclaimed: vec![Unclaimed { lo, hi: None, messages: 0, bytes: 0 }],
            floors: Vec::new(),
            gone: former.map_or(0, |gone| gone.0),
            limits: TopicLimits::default(),
            groups: Vec::new(),
            look_after: 0,
        });
        self.pending.topics.insert(TopicId(id));
        Ok(TopicId(id))
    }
}
