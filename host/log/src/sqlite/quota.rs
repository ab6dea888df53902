//! Quotas: whether there is room for what a transaction adds, by its net effect (law 4).
//!
//! What is stored is no less than what is needed, so a topic that is far from full is judged by two
//! numbers. Close to it, what one group needs is known by arithmetic; with several groups sums over
//! them bound it, and only where those do not fit is it counted.

use super::command::Fail;
use super::counts;
use super::dedup::Known;
use super::pending::int;
use super::rows::{TopicId, TopicRow};
use super::sql::json_list;
use super::writer::Writer;
use crate::admin::TopicLimits;
use crate::error::LogError;
use sqlx::query;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;
use windlass_core::quota::Amount;
use windlass_core::{NewMessage, Sequence, Topic, time::millis};

/// A leased message that the same transaction settles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freeing {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
}

impl TopicRow {
    /// All that is stored.
    pub(super) fn stored(&self) -> Amount {
        Amount {
            messages: self.published.saturating_sub(self.removed),
            bytes: self.published_bytes.saturating_sub(self.removed_bytes),
        }
    }

    /// What no group has claimed.
    fn unclaimed(&self) -> Amount {
        let of = |range: &super::rows::Unclaimed| match range.hi {
            Some(_) => Amount { messages: range.messages, bytes: range.bytes },
            None => Amount {
                messages: self.published.saturating_sub(range.messages),
                bytes: self.published_bytes.saturating_sub(range.bytes),
            },
        };
        self.unclaimed.iter().map(of).fold(Amount::default(), Amount::and)
    }
}

impl Writer {
    /// Sets what a topic may hold, and makes it where there is none.
    pub(super) async fn set_limits(
        &mut self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), Fail> {
        if !force {
            self.check_limits(topic, &limits).await?;
        }
        self.check_new_topics(std::iter::once(topic)).await?;
        let id = self.topic_or_new(topic).await?;
        self.flush().await?;
        let (conn, _) = self.parts()?;
        let most = i64::MAX.cast_unsigned();
        let ms = |span| Duration::from_millis(millis(span).min(most));
        let limits = TopicLimits {
            max_messages: limits.max_messages.min(most),
            max_bytes: limits.max_bytes.min(most),
            dedup_window: ms(limits.dedup_window),
            retain: limits.retain.map(|(span, messages)| (ms(span), messages.min(most))),
            max_age: limits.max_age.map(ms),
        };
        query(
            "update topic set max_messages = ?, max_bytes = ?, dedup_ms = ?, retain_ms = ?,
               retain_messages = ?, max_age_ms = ? where id = ?",
        )
        .bind(int(limits.max_messages))
        .bind(int(limits.max_bytes))
        .bind(int(millis(limits.dedup_window)))
        .bind(limits.retain.map(|(span, _)| int(millis(span))))
        .bind(limits.retain.map(|(_, messages)| int(messages)))
        .bind(limits.max_age.map(|span| int(millis(span))))
        .bind(int(id.0))
        .execute(conn)
        .await?;
        if self.serve {
            let now = self.time.now();
            self.sweeper.look(topic, now);
        }
        let (_, cache) = self.parts()?;
        if let Some(row) = cache.topic_row_mut(id) {
            row.limits = limits;
        }
        Ok(())
    }

    /// Whether what is needed of a topic fits into limits that are lower than those it has.
    async fn check_limits(&mut self, topic: &Topic, limits: &TopicLimits) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let Some(id) = cache.topic(conn, topic).await? else { return Ok(()) };
        let Some(row) = cache.topic_row(id) else { return Ok(()) };
        // What is stored is no less than what is needed.
        let (old, stored) = (row.limits, row.stored());
        if limits.must_hold(topic, stored, &old).is_ok() {
            return Ok(());
        }
        self.flush().await?;
        let (conn, _) = self.parts()?;
        let needed = counts::needed_of(conn, topic).await?;
        Ok(limits.must_hold(topic, needed, &old)?)
    }

    /// Whether there is room for a batch, of which some is known.
    pub(super) async fn check_room(
        &mut self,
        batch: &[NewMessage],
        known: &Known,
        freeing: Option<Freeing>,
    ) -> Result<(), Fail> {
        let Some(first) = batch.first() else { return Ok(()) };
        // Mostly one message, or some of one topic, and nothing to know them by.
        let plain =
            |message: &NewMessage| message.dedup_id.is_none() && message.topic == first.topic;
        if batch.iter().all(plain) {
            let sizes = batch.iter().map(|message| Amount::one(message.size()));
            let adding = sizes.fold(Amount::default(), Amount::and);
            return self.check_room_on(&first.topic, adding, freeing).await;
        }
        let mut adding: BTreeMap<&Topic, Amount> = BTreeMap::new();
        let mut seen = HashSet::new();
        for message in batch {
            let again = message.dedup_id.as_ref().is_some_and(|dedup_id| {
                known.id_of(message).is_some() || !seen.insert((&message.topic, dedup_id))
            });
            if !again {
                let of_topic = adding.entry(&message.topic).or_default();
                *of_topic = of_topic.and(Amount::one(message.size()));
            }
        }
        for (name, adding) in adding {
            self.check_room_on(name, adding, freeing).await?;
        }
        Ok(())
    }

    /// Whether one topic has room.
    async fn check_room_on(
        &mut self,
        name: &Topic,
        adding: Amount,
        freeing: Option<Freeing>,
    ) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let topic = cache.topic(conn, name).await?;
        let row = topic.and_then(|topic| cache.topic_row(topic));
        let most = row.map_or_else(TopicLimits::default, |row| row.limits).most();
        let stored = row.map_or(Amount::default(), TopicRow::stored);
        if stored.and(adding).over(most).is_none() {
            return Ok(());
        }
        let needed = match topic {
            Some(topic) => self.needed_with(topic, adding, most, freeing).await?,
            None => Amount::default(),
        };
        if let Some((what, most)) = needed.and(adding).over(most) {
            return Err(LogError::QuotaFull { topic: name.clone(), what, most }.into());
        }
        Ok(())
    }

    /// What is needed of a topic without what settling `freeing` lets go; no more is said than that
    /// `adding` fits, where it does.
    async fn needed_with(
        &mut self,
        topic: TopicId,
        adding: Amount,
        most: Amount,
        freeing: Option<Freeing>,
    ) -> Result<Amount, Fail> {
        let needed = self.needed(topic, adding, most).await?;
        if needed.and(adding).over(most).is_none() {
            return Ok(needed);
        }
        let Some(freeing) = freeing else { return Ok(needed) };
        let lease = self.cache.group_row(freeing.group).filter(|group| group.topic == topic);
        let lease = lease.and_then(|group| group.leases.get(freeing.sequence));
        let Some(size) = lease.map(|lease| lease.size) else { return Ok(needed) };
        let list = [freeing.sequence.0];
        let elsewhere = self.needed_elsewhere(topic, freeing.group, &list).await?;
        let freed = if elsewhere.is_empty() { Amount::one(size) } else { Amount::default() };
        Ok(needed.less(freed))
    }

    /// What is needed of a topic, or more than that where `adding` fits all the same.
    pub(super) async fn needed(
        &mut self,
        topic: TopicId,
        adding: Amount,
        most: Amount,
    ) -> Result<Amount, Fail> {
        let (conn, cache) = self.parts()?;
        let Some(row) = cache.topic_row(topic) else { return Ok(Amount::default()) };
        let (ids, unclaimed) = (row.groups.clone(), row.unclaimed());
        let published = Amount { messages: row.published, bytes: row.published_bytes };
        let name = row.name.clone();
        let (mut unread, mut held, mut skips) = (Amount::default(), Amount::default(), 0);
        for id in &ids {
            cache.group_by_id(conn, *id).await?;
            let Some(group) = cache.group_row(*id) else { continue };
            let passed = Amount { messages: group.passed, bytes: group.passed_bytes };
            let behind = published.less(passed);
            if behind.messages >= unread.messages {
                unread = behind;
            }
            let leases =
                Amount { messages: group.leases.len() as u64, bytes: group.leases.bytes() };
            let waiting = Amount { messages: group.waiting, bytes: group.waiting_bytes };
            held = held.and(leases).and(waiting);
            skips += group.skips;
        }
        let bound = unclaimed.and(unread).and(held);
        let exact = ids.len() <= 1 && skips == 0;
        if exact || bound.and(adding).over(most).is_none() {
            return Ok(bound);
        }
        self.flush().await?;
        let (conn, _) = self.parts()?;
        Ok(counts::needed_of(conn, &name).await?)
    }

    /// Which of a group's messages another group needs.
    pub(super) async fn needed_elsewhere(
        &mut self,
        topic: TopicId,
        group: u64,
        sequences: &[u64],
    ) -> Result<BTreeSet<u64>, Fail> {
        let mut found = BTreeSet::new();
        let ids = self.cache.topic_row(topic).map_or(Vec::new(), |row| row.groups.clone());
        for id in ids.into_iter().filter(|id| *id != group) {
            if self.pending.hides_rows() {
                self.flush_rows().await?;
            }
            let (conn, cache) = self.parts()?;
            cache.group_by_id(conn, id).await?;
            let Some(other) = cache.group_row(id) else { continue };
            let mut cancelled = BTreeSet::new();
            for (table, wanted, into) in [
                ("skip", other.skips > 0, &mut cancelled),
                ("waiting", other.waiting > 0, &mut found),
            ] {
                if !wanted {
                    continue;
                }
                let only = if table == "skip" { " and hurry = 0" } else { "" };
                let text = format!(
                    "select seq from {table}
                      where grp = ? and seq in (select value from json_each(?)){only}"
                );
                let rows = query(sqlx::AssertSqlSafe(text))
                    .bind(int(id))
                    .bind(json_list(sequences.iter().copied()))
                    .fetch_all(&mut *conn)
                    .await?;
                for row in &rows {
                    into.insert(super::cache::unsigned(row, 0)?);
                }
            }
            for sequence in sequences {
                let new = *sequence > other.cursor.0 && !cancelled.contains(sequence);
                if new || other.leases.get(Sequence(*sequence)).is_some() {
                    found.insert(*sequence);
                }
            }
        }
        Ok(found)
    }
}
