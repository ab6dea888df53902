//! Declaring topics and groups; redrive and purge of dead letters.

use super::cache::unsigned;
use super::command::Fail;
use super::command::{Place, StepDone};
use super::sql::json_list;
use super::writer::Writer;
use crate::admin::{Declared, GroupSpec, TopicsMode};
use crate::error::LogError;
use sqlx::query;
use std::time::Duration;
use windlass_core::{Group, Sequence, Topic, time::millis};

/// Most dead letters one transaction moves: a million of them must not hold up everybody else.
pub(super) const STEP: i64 = 4_096;

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

    /// The groups of a topic that are meant: the named one, or all.
    pub(super) async fn groups_meant(
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
