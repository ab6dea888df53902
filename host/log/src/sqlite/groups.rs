//! Declaring topics and groups; redrive and purge of dead letters.

use super::cache::unsigned;
use super::command::Fail;
use super::command::{Place, StepDone};
use super::rows::{GroupRow, TopicId};
use super::sql::json_list;
use super::writer::Writer;
use crate::admin::{Declared, GroupSpec, TopicsMode};
use crate::api::Start;
use crate::error::LogError;
use sqlx::query;
use std::collections::BTreeMap;
use std::time::Duration;
use windlass_core::lease::LeaseBook;
use windlass_core::{Group, GroupPolicy, Sequence, Topic, time::millis};

/// Most dead letters one transaction moves: a million of them must not hold up everybody else.
const STEP: i64 = 4_096;

impl Writer {
    /// Says whether a publish may create its topic, and declares topics.
    pub(super) async fn declare_topics(
        &mut self,
        mode: TopicsMode,
        topics: &[Topic],
    ) -> Result<(), Fail> {
        self.check_new_topics(topics.iter()).await?;
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        state.declared_only = mode == TopicsMode::Declared;
        self.pending.settings = true;
        for topic in topics {
            self.topic_or_new(topic).await?;
        }
        Ok(())
    }

    /// Declares groups; a known one keeps its position and takes the policy.
    pub(super) async fn declare_groups(
        &mut self,
        groups: Vec<GroupSpec>,
    ) -> Result<Vec<Declared>, Fail> {
        self.check_new_topics(groups.iter().map(|spec| &spec.topic)).await?;
        let mut answers = Vec::with_capacity(groups.len());
        for spec in groups {
            let topic = self.topic_or_new(&spec.topic).await?;
            let (conn, cache) = self.parts()?;
            if let Some(id) = cache.group(conn, topic, &spec.group).await? {
                if let Some(group) = cache.group_row_mut(id) {
                    group.policy = spec.policy;
                    self.pending.policies.insert(id);
                    self.pending.groups.insert(id);
                }
                answers.push(Declared::Known);
            } else {
                self.create_group(topic, &spec.group, spec.policy, spec.start).await?;
                answers.push(Declared::Created);
            }
        }
        Ok(answers)
    }

    /// Makes a group that is not there yet.
    pub(super) async fn create_group(
        &mut self,
        topic: TopicId,
        name: &Group,
        policy: GroupPolicy,
        start: Start,
    ) -> Result<u64, Fail> {
        // Its topic, and groups made before it, must be in the file to give it a number.
        self.flush().await?;
        let (conn, cache) = self.parts()?;
        let newest = cache.state(conn).await?.next_sequence - 1;
        let Some(row) = cache.topic_row_mut(topic) else {
            return Err(Fail::Storage(sqlx::Error::RowNotFound));
        };
        let topic_name = row.name.clone();
        let (cursor, passed, passed_bytes) = match start {
            Start::Earliest => (0, row.removed, row.removed_bytes),
            Start::Latest => (newest, row.published, row.published_bytes),
            Start::Time(_) | Start::At(_) | Start::After(_) => {
                return Err(Fail::Refused(LogError::NotBuilt("a start at a time or id")));
            }
        };
        let inserted = query(
            "insert into grp(topic, name, cursor, passed, passed_bytes, version, waiting, dead, skips,
               copies_missed, policy) values (?, ?, ?, ?, ?, 0, 0, 0, 0, 0, '{}')",
        )
        .bind(topic.0.cast_signed())
        .bind(name.as_str())
        .bind(u64::cast_signed(cursor))
        .bind(passed.cast_signed())
        .bind(passed_bytes.cast_signed())
        .execute(&mut *conn)
        .await?;
        let id = inserted.last_insert_rowid().cast_unsigned();
        row.groups.push(id);
        // What this group reads, it needs; what is stored before its start stays unclaimed.
        row.unclaimed.retain(|range| range.lo < cursor);
        for range in &mut row.unclaimed {
            if range.hi.is_none() {
                range.hi = Some(newest);
                range.messages = row.published - range.messages;
                range.bytes = row.published_bytes - range.bytes;
            }
        }
        row.unclaimed.retain(|range| range.messages > 0);
        let group = GroupRow {
            epoch: 0,
            id,
            topic,
            topic_name,
            name: name.clone(),
            cursor: Sequence(cursor),
            passed,
            passed_bytes,
            version: 0,
            policy,
            leases: LeaseBook::default(),
            slots: BTreeMap::new(),
            next_due: None,
            waiting: 0,
            dead: 0,
            full: false,
        };
        cache.new_group(group);
        self.pending.topics.insert(topic);
        self.pending.policies.insert(id);
        self.pending.groups.insert(id);
        self.owe_sync();
        Ok(id)
    }

    /// The groups of a topic that are meant: the named one, or all.
    async fn groups_meant(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
    ) -> Result<Vec<u64>, Fail> {
        let (conn, cache) = self.parts()?;
        let Some(id) = cache.topic(conn, topic).await? else {
            return Err(LogError::NoTopic(topic.clone()).into());
        };
        let ids = match group {
            Some(name) => {
                let Some(group) = cache.group(conn, id, name).await? else {
                    let (topic, group) = (topic.clone(), name.clone());
                    return Err(LogError::NoGroup { topic, group }.into());
                };
                vec![group]
            }
            None => cache.topic_row(id).map_or(Vec::new(), |row| row.groups.clone()),
        };
        for group in &ids {
            cache.group_by_id(conn, *group).await?;
        }
        // Dead letters made in this transaction are not in the file yet.
        self.flush().await?;
        Ok(ids)
    }

    /// Puts the next dead letters back: claimable at once, with fresh attempts, their history kept.
    pub(super) async fn redrive(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        after: Place,
    ) -> Result<StepDone, Fail> {
        let now = self.time.now();
        let Some((id, sequences, more)) = self.next_dead(topic, group, after).await? else {
            return Ok(StepDone { moved: 0, next: None });
        };
        let (conn, cache) = self.parts()?;
        let list = json_list(sequences.iter().copied());
        query(
            "insert into waiting(grp, seq, state, due, attempts, failures, size)
             select grp, seq, 0, ?, 0, failures, size from dead
              where grp = ? and seq in (select value from json_each(?))",
        )
        .bind(now.0.cast_signed())
        .bind(id.cast_signed())
        .bind(&list)
        .execute(&mut *conn)
        .await?;
        query("delete from dead where grp = ? and seq in (select value from json_each(?))")
            .bind(id.cast_signed())
            .bind(&list)
            .execute(&mut *conn)
            .await?;
        let moved = sequences.len() as u64;
        if let Some(row) = cache.group_row_mut(id) {
            row.waits_until(now);
            row.waiting += moved;
            row.dead = row.dead.saturating_sub(moved);
        }
        self.pending.groups.insert(id);
        let end = sequences.last().filter(|_| more);
        let next = end.map(|end| Place { group: id, sequence: *end });
        Ok(StepDone { moved, next })
    }

    /// Removes the next dead letters for good.
    pub(super) async fn purge_dead(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        after: Place,
    ) -> Result<StepDone, Fail> {
        let Some((id, sequences, more)) = self.next_dead(topic, group, after).await? else {
            return Ok(StepDone { moved: 0, next: None });
        };
        let (conn, cache) = self.parts()?;
        let list = json_list(sequences.iter().copied());
        for statement in [
            "delete from dead where grp = ? and seq in (select value from json_each(?))",
            "delete from history where grp = ? and seq in (select value from json_each(?))",
        ] {
            query(statement).bind(id.cast_signed()).bind(&list).execute(&mut *conn).await?;
        }
        let moved = sequences.len() as u64;
        if let Some(row) = cache.group_row_mut(id) {
            row.dead = row.dead.saturating_sub(moved);
        }
        for sequence in &sequences {
            self.let_go(id, Sequence(*sequence));
        }
        self.pending.groups.insert(id);
        let end = sequences.last().filter(|_| more);
        let next = end.map(|end| Place { group: id, sequence: *end });
        Ok(StepDone { moved, next })
    }

    /// The next dead letters behind `after`: of one group, at most a step's worth; and whether there
    /// may be others behind them.
    async fn next_dead(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        after: Place,
    ) -> Result<Option<(u64, Vec<u64>, bool)>, Fail> {
        let groups = self.groups_meant(topic, group).await?;
        let last = groups.last().copied();
        for id in groups.into_iter().filter(|id| *id >= after.group) {
            let behind = if id == after.group { after.sequence } else { 0 };
            let (conn, _) = self.parts()?;
            let rows = query("select seq from dead where grp = ? and seq > ? order by seq limit ?")
                .bind(id.cast_signed())
                .bind(behind.cast_signed())
                .bind(STEP)
                .fetch_all(conn)
                .await?;
            if !rows.is_empty() {
                let more = rows.len() as i64 >= STEP || Some(id) != last;
                let sequences = rows.iter().map(|row| unsigned(row, 0));
                return Ok(Some((id, sequences.collect::<sqlx::Result<_>>()?, more)));
            }
        }
        Ok(None)
    }

    /// Sets how long what is not needed is kept.
    pub(super) async fn set_retain(&mut self, span: Duration, messages: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        state.retain_ms = millis(span).min(i64::MAX.cast_unsigned());
        state.retain_messages = messages.min(i64::MAX.cast_unsigned());
        self.pending.settings = true;
        Ok(())
    }
}
