//! What the writer does unasked: it acts on ended leases, sweeps, and listens to other processes.

use super::cache::unsigned;
use super::command::Fail;
use super::rows::{GroupRow, TopicId};
use super::writer::{TICK, Writer};
use sqlx::{Row, query};
use windlass_core::Timestamp;

/// More than this beyond `retain`, and the sweep does not wait for the tick.
const SWEEP_SURPLUS: u64 = super::sweep::CHUNK;

impl Writer {
    /// A lease has ended, something is due, or it is time to look around.
    pub(super) async fn on_time(&mut self) {
        let now = self.time.now();
        let due = self.agenda.take_due(now);
        for id in &due {
            if let Some(group) = self.cache.groups.get(id) {
                self.waiters.wake_group(&group.topic_name, &group.name);
                self.agenda.set(*id, group.next_event(now));
            }
        }
        let exhausted = due.into_iter().any(|id| self.has_exhausted(id, now));
        if now >= self.tick_at {
            self.tick_at = now.after(TICK);
            self.upkeep(true).await;
        } else if exhausted {
            self.upkeep(false).await;
        }
    }

    fn has_exhausted(&self, id: u64, now: Timestamp) -> bool {
        self.cache.groups.get(&id).is_some_and(|group| exhausted(group, now))
    }

    /// Buries what has used up its attempts; sweeps, where asked. Quiet when there is nothing.
    async fn upkeep(&mut self, look_around: bool) {
        let result = async {
            if look_around {
                self.refresh().await?;
            }
            let now = self.time.now();
            let ids: Vec<u64> = self.cache.groups.keys().copied().collect();
            if ids.iter().any(|id| self.has_exhausted(*id, now)) {
                self.begin(true).await?;
                for id in ids {
                    let (conn, cache) = self.parts()?;
                    cache.group_by_id(conn, id).await?;
                    while self.bury_exhausted(id, now)? > 0 {}
                }
                self.commit().await?;
                self.after_commit();
            }
            if look_around {
                self.begin(false).await?;
                self.repair_broken().await?;
                self.sweep_all().await?;
                self.commit().await?;
                self.after_commit();
            }
            Ok::<(), Fail>(())
        }
        .await;
        if let Err(Fail::Storage(error)) = result {
            let _told_in_the_trace = self.give_up(error).await;
        }
    }

    /// Sweeps topics that have piled up more than `retain` lets stay.
    pub(super) async fn sweep_surplus(&mut self) {
        if !self.serve {
            return;
        }
        let surplus: Vec<TopicId> = self.surplus_topics();
        if surplus.is_empty() {
            return;
        }
        let result = async {
            self.begin(false).await?;
            for topic in surplus {
                self.sweep_topic(topic).await?;
            }
            self.commit().await?;
            Ok::<(), Fail>(())
        }
        .await;
        match result {
            Ok(()) => self.after_commit(),
            Err(Fail::Storage(error)) => drop(self.give_up(error).await),
            Err(Fail::Refused(_)) => {}
        }
    }

    /// Topics last written whose stored and passed messages exceed `retain` by a chunk.
    fn surplus_topics(&mut self) -> Vec<TopicId> {
        let Some(retain) = self.cache.retain_messages() else { return Vec::new() };
        let mut surplus = std::mem::take(&mut self.settled_topics);
        surplus.retain(|topic| {
            let Some(row) = self.cache.topics.get(topic) else { return false };
            let passed = row.groups.iter().map(|id| {
                self.cache
                    .groups
                    .get(id)
                    .map_or(0, |group| group.passed.saturating_sub(group.leases.len() as u64))
            });
            let gone = row.removed + row.stragglers;
            passed.min().unwrap_or(0).saturating_sub(gone) > retain + SWEEP_SURPLUS
        });
        surplus.into_iter().collect()
    }

    /// Another process has committed: wakes whoever waits where something has changed.
    pub(super) async fn on_bell(&mut self) {
        if let Err(Fail::Storage(error)) = self.refresh().await {
            let _told_in_the_trace = self.give_up(error).await;
        }
    }

    /// Reads what other processes have changed. Outside a transaction, so only good for waking.
    async fn refresh(&mut self) -> Result<(), Fail> {
        if self.conn.is_none() {
            self.conn = Some(self.place.connect_writer().await?);
            self.synced = true;
        }
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        let row = query("pragma data_version").fetch_one(&mut *conn).await?;
        let moved = cache.seen(row.try_get(0)?);
        if !moved && std::mem::replace(&mut self.agenda.complete, true) {
            return Ok(());
        }
        let (conn, _) = self.parts()?;
        let rows = query("select id from grp").fetch_all(&mut *conn).await?;
        let ids = rows.iter().map(|row| unsigned(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
        for id in ids {
            let (conn, cache) = self.parts()?;
            let before = cache.groups.get(&id).map(|group| group.version);
            if cache.group_by_id(conn, id).await?.is_none() {
                continue;
            }
            let Some(group) = self.cache.groups.get(&id) else { continue };
            if before != Some(group.version) {
                self.agenda.set(id, group.next_event(now));
            }
        }
        // A topic may have new messages, a group something that is due; a claim tells.
        for topic in self.waiters.topics() {
            self.waiters.wake_topic(&topic);
        }
        Ok(())
    }
}

/// Whether a lease has ended whose attempts are used up.
pub(super) fn exhausted(group: &GroupRow, now: Timestamp) -> bool {
    let max = group.policy.max_attempts.get();
    group.leases.ended(now).any(|lease| lease.attempt >= max)
}
