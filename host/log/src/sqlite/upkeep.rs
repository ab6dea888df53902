//! What the writer does unasked: it acts on ended leases, sweeps, and listens to other processes.

use super::cache::unsigned;
use super::command::Fail;
use super::rows::GroupRow;
use super::sweep::CHUNK;
use super::writer::{TICK, Writer};
use sqlx::{Row, query};
use std::collections::BTreeSet;
use windlass_core::{Timestamp, Topic};

/// More than this beyond `retain`, and the sweep does not wait for the tick.
const SWEEP_SURPLUS: u64 = CHUNK;
/// Most topics one transaction of the sweep looks at.
const TOPICS_A_TURN: usize = 64;

impl Writer {
    /// A lease has ended, something is due, or it is time to look around.
    pub(super) async fn on_time(&mut self) {
        let now = self.time.now();
        let due = self.agenda.take_due(now);
        for id in &due {
            if let Some(group) = self.cache.group_as_known(*id) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                self.agenda.set(*id, group.next_event(now));
            }
        }
        let exhausted =
            now >= self.grace_until && due.into_iter().any(|id| self.has_exhausted(id, now));
        let look_around = now >= self.tick_at;
        if look_around {
            self.tick_at = now.after(TICK);
        }
        if let Err(fail) = self.upkeep(exhausted, look_around).await {
            self.void(fail).await;
        }
    }

    /// Another process has committed: wakes whoever waits where something has changed.
    pub(super) async fn on_bell(&mut self) {
        if let Err(fail) = self.refresh().await {
            self.void(fail).await;
        }
    }

    /// What was done unasked did not go through; it is tried again at the next tick.
    async fn void(&mut self, fail: Fail) {
        let error = match fail {
            Fail::Storage(error) => error,
            Fail::Refused(error) => sqlx::Error::Protocol(error.to_string()),
        };
        let _told_in_the_trace = self.give_up(error).await;
    }

    fn has_exhausted(&self, id: u64, now: Timestamp) -> bool {
        self.cache.group_as_known(id).is_some_and(|group| exhausted(group, now))
    }

    async fn upkeep(&mut self, exhausted: bool, look_around: bool) -> Result<(), Fail> {
        if look_around {
            self.refresh().await?;
        }
        let now = self.time.now();
        let ids = self.cache.known_groups();
        let graced = now < self.grace_until;
        if exhausted || !graced && ids.iter().any(|id| self.has_exhausted(*id, now)) {
            self.bury_all_exhausted(ids, now).await?;
        }
        if self.clearing {
            self.begin(false).await?;
            self.clearing = self.clear_gone().await?;
            self.commit().await?;
            self.after_commit();
            if self.clearing {
                self.tick_at = now;
            }
        }
        if self.sweeper.next().is_some_and(|at| at <= now) {
            self.sweep_due(now).await?;
        }
        if look_around {
            self.give_space_back(now).await?;
        }
        self.checkpoint(look_around).await;
        Ok(())
    }

    /// Dead-letters ended leases whose attempts are used up, with nobody claiming; a bounded number
    /// in each transaction.
    async fn bury_all_exhausted(&mut self, ids: Vec<u64>, now: Timestamp) -> Result<(), Fail> {
        loop {
            self.begin(true).await?;
            let mut buried = 0;
            for id in &ids {
                let (conn, cache) = self.parts()?;
                cache.group_by_id(conn, *id).await?;
                buried += self.bury_exhausted(*id, now)?;
                if buried > 0 {
                    break;
                }
            }
            self.publish_copies().await?;
            self.commit().await?;
            self.after_commit();
            if buried == 0 {
                return Ok(());
            }
        }
    }

    /// One turn of the sweep: some topics, at most a chunk of messages.
    async fn sweep_due(&mut self, now: Timestamp) -> Result<(), Fail> {
        let topics = self.sweeper.take_due(now, TOPICS_A_TURN);
        self.begin(false).await?;
        let mut gone = 0;
        for name in topics {
            if gone >= CHUNK {
                self.sweeper.look(&name, now);
                continue;
            }
            let swept = self.sweep_topic(&name).await?;
            gone += swept.gone;
            if let Some(at) = if swept.more { Some(now) } else { swept.look_at } {
                self.sweeper.look(&name, at);
            }
        }
        self.commit().await?;
        self.after_commit();
        self.chores.swept(now);
        if self.sweeper.next().is_some_and(|at| at <= now) {
            // Not done; whoever waits with a command has a turn in between.
            self.tick_at = now;
        }
        Ok(())
    }

    /// Sweeps topics that have piled up more than `retain` lets stay.
    pub(super) async fn sweep_surplus(&mut self) {
        if !self.serve {
            return;
        }
        let surplus = self.surplus_topics();
        if surplus.is_empty() {
            return;
        }
        let result = async {
            self.begin(false).await?;
            for topic in surplus {
                self.sweep_topic(&topic).await?;
            }
            self.commit().await?;
            Ok::<(), Fail>(())
        }
        .await;
        match result {
            Ok(()) => self.after_commit(),
            Err(fail) => self.void(fail).await,
        }
    }

    /// Topics last written whose settled messages exceed `retain` by a chunk. By arithmetic, and
    /// rather too few than too many: what waits and what is dead is not settled.
    fn surplus_topics(&mut self) -> Vec<Topic> {
        let Some(of_log) = self.cache.retain_messages() else { return Vec::new() };
        let mut surplus = Vec::new();
        for id in std::mem::take(&mut self.settled_topics) {
            let Some(row) = self.cache.topic_row(id) else { continue };
            let retain = row.limits.retain.map_or(of_log, |(_, messages)| messages);
            let (mut passed, mut held) = (u64::MAX, 0);
            for group in &row.groups {
                // A group that is not known may have passed nothing.
                let Some(group) = self.cache.group_row(*group) else {
                    passed = 0;
                    break;
                };
                passed = passed.min(group.passed.saturating_sub(group.leases.len() as u64));
                held += group.waiting + group.dead;
            }
            let gone = row.removed + row.stragglers + held.saturating_sub(row.stragglers);
            if passed >= row.look_after
                && passed.saturating_sub(gone) > retain.saturating_add(SWEEP_SURPLUS)
                && !row.groups.is_empty()
            {
                surplus.push(row.name.clone());
                if let Some(row) = self.cache.topic_row_mut(id) {
                    row.look_after = passed + CHUNK.max(held / 4);
                }
            }
        }
        surplus
    }

    /// Reads what other processes have changed. Outside a transaction, so only good for waking.
    async fn refresh(&mut self) -> Result<(), Fail> {
        self.connect().await?;
        let (conn, cache) = self.parts()?;
        let row = query("pragma data_version").fetch_one(&mut *conn).await?;
        let moved = cache.seen(row.try_get(0)?);
        let foreign = std::mem::take(&mut self.foreign);
        let first = !std::mem::replace(&mut self.agenda.complete, true);
        if !(moved || foreign || first) {
            return Ok(());
        }
        self.refresh_groups().await?;
        self.refresh_topics().await?;
        if first {
            self.sweep_everything_once().await?;
        }
        Ok(())
    }

    /// Groups that changed are read again; those that wait for them are woken.
    async fn refresh_groups(&mut self) -> Result<(), Fail> {
        let now = self.time.now();
        let (conn, _) = self.parts()?;
        let rows = query("select id, version from grp").fetch_all(&mut *conn).await?;
        let left =
            query("select exists(select 1 from gone_grp) or exists(select 1 from gone_topic)")
                .fetch_one(conn)
                .await?;
        self.clearing |= unsigned(&left, 0)? > 0;
        let mut there = BTreeSet::new();
        for row in rows {
            let (id, version) = (unsigned(&row, 0)?, unsigned(&row, 1)?);
            there.insert(id);
            let known = self.cache.group_as_known(id).is_some_and(|group| group.version == version);
            if !known {
                let (conn, cache) = self.parts()?;
                cache.group_by_id(conn, id).await?;
            }
            let Some(group) = self.cache.group_as_known(id) else { continue };
            self.agenda.set(id, group.next_event(now));
            if !known {
                self.waiters.wake_group(&group.topic_name, &group.name);
                self.sweeper.look(&group.topic_name, now.after(TICK));
            }
        }
        for id in self.cache.known_groups().into_iter().filter(|id| !there.contains(id)) {
            if let Some(group) = self.cache.group_as_known(id) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                self.sweeper.look(&group.topic_name, now.after(TICK));
            }
            self.cache.forget_group(id);
            self.agenda.set(id, None);
        }
        Ok(())
    }

    /// Topics that somebody waits for and that have new messages.
    async fn refresh_topics(&mut self) -> Result<(), Fail> {
        let waited_for = self.waiters.topics();
        if waited_for.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = waited_for.iter().map(Topic::as_str).collect();
        let names =
            serde_json::to_string(&names).map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        let (conn, _) = self.parts()?;
        let rows = query(
            "select name, published, gone from topic
              where name in (select value from json_each(?))",
        )
        .bind(names)
        .fetch_all(conn)
        .await?;
        let mut seen = std::collections::HashMap::with_capacity(rows.len());
        for row in rows {
            let Ok(topic) = Topic::new(row.try_get(0)?) else { continue };
            // A topic of a deleted one's name may have as many; but more is gone then.
            let published = (unsigned(&row, 1)?, unsigned(&row, 2)?);
            if self.seen_published.get(&topic) != Some(&published) {
                self.waiters.wake_topic(&topic);
            }
            seen.insert(topic, published);
        }
        self.seen_published = seen;
        Ok(())
    }

    /// After opening, every topic is looked at once.
    async fn sweep_everything_once(&mut self) -> Result<(), Fail> {
        let now = self.time.now();
        let (conn, _) = self.parts()?;
        let rows = query(
            "select t.name from topic t
              where published > removed or exists (select 1 from grp where grp.topic = t.id)",
        )
        .fetch_all(conn)
        .await?;
        for row in rows {
            if let Ok(topic) = Topic::new(row.try_get(0)?) {
                self.sweeper.look(&topic, now);
            }
        }
        Ok(())
    }
}

/// Whether a lease has ended whose attempts are used up.
pub(super) fn exhausted(group: &GroupRow, now: Timestamp) -> bool {
    let max = group.policy.max_attempts.get();
    group.leases.ended(now).any(|lease| lease.attempt >= max)
}
