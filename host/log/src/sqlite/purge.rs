//! Emptying a topic but for its dead letters, a step at a time.
//!
//! The first transaction moves every group behind all that is there: nothing of it is new to anybody,
//! and no claim of it acts any more. What waits goes next, then the messages, as they do when they
//! have grown too old, and what was known of them. Every step leaves a log as it may be; the answer
//! comes after the last one.

use super::cache::{next_due, unsigned};
use super::command::{Fail, PurgeDone};
use super::pending::{WaitingState, int};
use super::redrive::STEP;
use super::rows::{TopicId, Unclaimed};
use super::sql::json_list;
use super::writer::Writer;
use crate::admin::Purged;
use sqlx::{Row, query};
use std::collections::BTreeSet;
use windlass_core::{Sequence, Topic};

/// What is known of a topic's messages up to one, a step's worth: dedup ids, and delays of those that
/// are gone.
const FORGET: [&str; 2] = [
    "delete from dedup where topic = ?1 and dedup_id in
       (select dedup_id from dedup where topic = ?1 and seq <= ?2 limit ?3)",
    "delete from delayed where topic = ?1 and (due, seq) in
       (select due, seq from delayed d where topic = ?1 and seq <= ?2
           and not exists (select 1 from message where id = (?1 << 43) + d.seq) limit ?3)",
];

impl Writer {
    /// The next step of a purge that goes up to `through`; without that its first one.
    pub(super) async fn purge_topic(
        &mut self,
        name: &Topic,
        with_dead: bool,
        through: Option<Sequence>,
    ) -> Result<PurgeDone, Fail> {
        let groups = self.groups_meant(name, None).await?;
        let (conn, cache) = self.parts()?;
        let newest = Sequence(cache.state(conn).await?.next_sequence - 1);
        let Some(topic) = cache.topic(conn, name).await? else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        for group in &groups {
            self.void_claims(*group, through.unwrap_or(newest)).await?;
        }
        let Some(through) = through else {
            let purged = self.measure_purge(topic, &groups, with_dead).await?;
            self.pass_everything(name, topic, groups, newest).await?;
            return Ok(PurgeDone { purged, next: Some(newest) });
        };
        let more = self.purge_waiting(&groups, through).await?
            || self.purge_messages(topic, through).await?
            || self.forget_messages(topic, through).await?;
        Ok(PurgeDone { purged: Purged::default(), next: more.then_some(through) })
    }

    /// What a purge will remove: all that is stored, but for what is dead where that stays.
    async fn measure_purge(
        &mut self,
        topic: TopicId,
        groups: &[u64],
        with_dead: bool,
    ) -> Result<Purged, Fail> {
        let (conn, cache) = self.parts()?;
        let stored = cache.topic_row(topic).map(super::rows::TopicRow::stored).unwrap_or_default();
        let purged = Purged { messages: stored.messages, bytes: stored.bytes, dead: 0 };
        if with_dead {
            return Ok(purged);
        }
        let dead = query(
            "select count(*), sum(size) from
               (select max(size) as size from dead
                 where grp in (select value from json_each(?)) group by seq)",
        )
        .bind(json_list(groups.iter().copied()))
        .fetch_one(conn)
        .await?;
        Ok(Purged {
            messages: purged.messages.saturating_sub(unsigned(&dead, 0)?),
            bytes: purged.bytes.saturating_sub(unsigned(&dead, 1)?),
            ..purged
        })
    }

    /// Moves every group behind all that is there, and lets go of what waits for a first one.
    async fn pass_everything(
        &mut self,
        name: &Topic,
        topic: TopicId,
        groups: Vec<u64>,
        newest: Sequence,
    ) -> Result<(), Fail> {
        let (_, cache) = self.parts()?;
        let Some(row) = cache.topic_row_mut(topic) else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let (messages, bytes) = (row.published, row.published_bytes);
        let (swept, stragglers) = (row.swept, row.stragglers);
        row.unclaimed.clear();
        if groups.is_empty() {
            row.unclaimed.push(Unclaimed { lo: newest.0, hi: None, messages, bytes });
        }
        cache.tail.forget(name);
        self.pending.topics.insert(topic);
        for id in groups {
            let Some(group) = self.cache.group_row_mut(id) else { continue };
            group.cursor = newest;
            (group.passed, group.passed_bytes) = (messages, bytes);
            if group.skips > 0 {
                self.drop_marks(id).await?;
            }
            self.pending.groups.insert(id);
            self.touched.again.insert(id);
        }
        if stragglers > 0 {
            self.clear_behind_the_sweep(topic, swept).await?;
        }
        Ok(())
    }

    /// What lies where the sweep has been is looked at once more, as if a group had been deleted that
    /// had read nothing of it.
    async fn clear_behind_the_sweep(&mut self, topic: TopicId, swept: u64) -> Result<(), Fail> {
        let (conn, _) = self.parts()?;
        // Numbers below zero are no group's.
        query(
            "insert into gone_grp(id, topic, cursor, swept)
             values ((select min(coalesce(min(id), 0), 0) - 1 from gone_grp), ?, 0, ?)",
        )
        .bind(int(topic.0))
        .bind(int(swept))
        .execute(conn)
        .await?;
        self.clearing = true;
        Ok(())
    }

    /// Takes out what is leased of a group up to a message.
    async fn void_claims(&mut self, id: u64, through: Sequence) -> Result<(), Fail> {
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        // What those held that cannot be read is not leased any more either.
        for (_, slot) in cache.broken.extract_if(.., |(broken, _)| *broken == id) {
            query("delete from lease where id = ?")
                .bind(int(slot.slot))
                .execute(&mut *conn)
                .await?;
        }
        let Some(row) = cache.group_row_mut(id) else { return Ok(()) };
        let leased = row.leases.iter().map(|lease| lease.sequence);
        let leased: Vec<_> = leased.filter(|sequence| *sequence <= through).collect();
        for sequence in leased {
            let Some(row) = self.cache.group_row_mut(id) else { break };
            let Some(lease) = row.unlease(sequence, &mut self.pending.slots) else { continue };
            if lease.failures > 0 {
                self.pending.history_done.entry(id).or_default().push(sequence.0);
            }
            self.let_go(id, sequence);
            self.free_key(id, lease.key_hash, now);
            self.pending.groups.insert(id);
            self.touched.again.insert(id);
        }
        Ok(())
    }

    /// Removes what waits up to a message, at most a step's worth; whether there was any.
    async fn purge_waiting(&mut self, groups: &[u64], through: Sequence) -> Result<bool, Fail> {
        let mut left = STEP;
        for id in groups {
            if self.cache.group_row(*id).is_some_and(|row| row.waiting > 0) {
                left -= self.purge_waiting_of(*id, through, left).await?;
            }
            if left <= 0 {
                break;
            }
        }
        Ok(left < STEP)
    }

    /// The same of one group; how many rows went.
    async fn purge_waiting_of(
        &mut self,
        id: u64,
        through: Sequence,
        most: i64,
    ) -> Result<i64, Fail> {
        self.flush_rows().await?;
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        // From the last one on: what is parked goes before what it waits for.
        let rows = query(
            "delete from waiting where grp = ?1 and seq in
               (select seq from waiting where grp = ?1 and seq <= ?2 order by seq desc limit ?3)
             returning seq, failures, key_hash, state, size",
        )
        .bind(int(id))
        .bind(int(through.0))
        .bind(most)
        .fetch_all(&mut *conn)
        .await?;
        let due = next_due(conn, id).await?;
        let (mut gone, mut bytes, mut parked) = (Vec::with_capacity(rows.len()), 0, 0);
        let (mut told, mut freed) = (Vec::new(), BTreeSet::new());
        for row in &rows {
            let sequence = unsigned(row, 0)?;
            gone.push(sequence);
            bytes += unsigned(row, 4)?;
            if unsigned(row, 1)? > 0 {
                told.push(sequence);
            }
            if unsigned(row, 3)? == WaitingState::Parked as u64 {
                parked += 1;
            } else if let Some(key) = row.try_get::<Option<i64>, _>(2)? {
                freed.insert(key.cast_unsigned());
            }
        }
        let Some(group) = cache.group_row_mut(id) else { return Ok(0) };
        let topic = group.topic;
        group.waiting = group.waiting.saturating_sub(rows.len() as u64);
        group.waiting_bytes = group.waiting_bytes.saturating_sub(bytes);
        group.parked = group.parked.saturating_sub(parked);
        group.next_due = due;
        let swept = cache.topic_row(topic).map_or(0, |row| row.swept);
        if !told.is_empty() {
            self.pending.history_done.entry(id).or_default().append(&mut told);
        }
        self.let_go_of(topic, swept, gone);
        for key in freed {
            self.free_key(id, Some(key), now);
        }
        self.pending.groups.insert(id);
        self.touched.again.insert(id);
        Ok(rows.len() as i64)
    }

    /// Removes messages up to one that nobody has, at most a chunk; whether there may be more.
    async fn purge_messages(&mut self, topic: TopicId, through: Sequence) -> Result<bool, Fail> {
        self.flush().await?;
        let now = self.time.now();
        Ok(self.sweep_settled(topic, through, now).await?.more)
    }

    /// Forgets what is known of messages up to one, a step's worth; whether there may be more.
    async fn forget_messages(&mut self, topic: TopicId, through: Sequence) -> Result<bool, Fail> {
        let (conn, _) = self.parts()?;
        let mut more = false;
        for statement in FORGET {
            let gone = query(statement)
                .bind(int(topic.0))
                .bind(int(through.0))
                .bind(STEP)
                .execute(&mut *conn)
                .await?;
            more |= gone.rows_affected() >= STEP.cast_unsigned();
        }
        Ok(more)
    }
}
