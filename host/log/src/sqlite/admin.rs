//! The operator's side of the door: what reads one snapshot, and what the writer is asked to do.

use super::command::{Command, Place, PurgeDone};
use super::replace::Replacement;
use super::{SqliteLog, counts, deliveries, health, letters, recount, show, stream};
use crate::admin::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery, Declared, Gap, GroupSpec, LogAdmin,
    Purged, Redriven, TopicLimits, TopicState, TopicsMode,
};
use crate::api::{Claim, MessageLog, Start};
use crate::error::LogError;
use crate::health::{ClockHealth, Health, Recount};
use crate::inspect::{
    GroupLag, MessageState, Pending, PendingQuery, ReadPage, ReadRequest, TransferRequest,
};
use crate::waiter::Waiter;
use async_trait::async_trait;
use sqlx::Connection;
use sqlx::sqlite::SqliteConnection;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::{Group, GroupPolicy, MessageId, Topic};

#[async_trait]
impl LogAdmin for SqliteLog {
    async fn declare_topics(&self, mode: TopicsMode, topics: Vec<Topic>) -> Result<(), LogError> {
        self.ask(|reply| Command::DeclareTopics(mode, topics, reply)).await
    }

    async fn declare_groups(&self, groups: Vec<GroupSpec>) -> Result<Vec<Declared>, LogError> {
        self.ask(|reply| Command::DeclareGroups(groups, reply)).await
    }

    async fn set_limits(
        &self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), LogError> {
        let topic = topic.clone();
        self.ask(|reply| Command::SetLimits(topic, limits, force, reply)).await
    }

    async fn replace_limits(
        &self,
        topic: &Topic,
        old: Option<TopicLimits>,
        new: TopicLimits,
        force: bool,
    ) -> Result<bool, LogError> {
        let what = Replacement::Limits { topic: topic.clone(), old, new, force };
        self.ask(|reply| Command::Replace(what, reply)).await
    }

    async fn purge_topic(&self, topic: &Topic, with_dead: bool) -> Result<Purged, LogError> {
        let step = async |through| {
            let topic = topic.clone();
            self.ask(|reply| Command::PurgeTopic(topic, with_dead, through, reply)).await
        };
        let PurgeDone { mut purged, mut next } = step(None).await?;
        if with_dead {
            purged.dead = self.purge_dead(topic, None).await?;
        }
        while next.is_some() {
            next = step(next).await?.next;
        }
        while self.ask(Command::ClearGone).await? {}
        Ok(purged)
    }

    async fn remove_topic(&self, topic: &Topic, force: bool) -> Result<Purged, LogError> {
        let name = topic.clone();
        let removed = self.ask(|reply| Command::RemoveTopic(name, force, reply)).await?;
        while self.ask(Command::ClearGone).await? {}
        Ok(removed)
    }

    async fn topics(&self) -> Result<Vec<TopicState>, LogError> {
        let now = self.time.now();
        self.read(async |conn| counts::topics(conn, None, now).await).await
    }

    async fn lags(&self) -> Result<Vec<GroupLag>, LogError> {
        self.read(async |conn| counts::lags(conn).await).await
    }

    async fn topic(&self, topic: &Topic) -> Result<Option<TopicState>, LogError> {
        let now = self.time.now();
        let found = self.read(async |conn| counts::topics(conn, Some(topic), now).await).await?;
        Ok(found.into_iter().next())
    }

    async fn dead_letters(&self, wanted: DeadLetterQuery) -> Result<Vec<DeadLetter>, LogError> {
        self.read(async |conn| letters::dead_letters(conn, &wanted).await).await?
    }

    async fn add_group(&self, group: GroupSpec) -> Result<(), LogError> {
        self.ask(|reply| Command::AddGroup(group, reply)).await
    }

    async fn replace_policy(
        &self,
        topic: &Topic,
        group: &Group,
        old: &GroupPolicy,
        new: &GroupPolicy,
    ) -> Result<bool, LogError> {
        let (topic, group) = (topic.clone(), group.clone());
        let what = Replacement::Policy { topic, group, both: Box::new((old.clone(), new.clone())) };
        self.ask(|reply| Command::Replace(what, reply)).await
    }

    async fn remove_group(
        &self,
        topic: &Topic,
        group: &Group,
        force: bool,
    ) -> Result<Counts, LogError> {
        let (topic, group) = (topic.clone(), group.clone());
        let counts = self.ask(|reply| Command::RemoveGroup(topic, group, force, reply)).await?;
        while self.ask(Command::ClearGone).await? {}
        Ok(counts)
    }

    async fn seek(&self, topic: &Topic, group: &Group, to: Start) -> Result<(), LogError> {
        let (topic, group) = (topic.clone(), group.clone());
        self.ask(|reply| Command::Seek(topic, group, to, reply)).await
    }

    async fn transfer(&self, request: TransferRequest) -> Result<Vec<Claim>, LogError> {
        self.ask(|reply| Command::Transfer(request, reply)).await
    }

    async fn acknowledge_gap(&self, topic: &Topic, group: &Group) -> Result<Option<Gap>, LogError> {
        let (topic, group) = (topic.clone(), group.clone());
        self.ask(|reply| Command::AcknowledgeGap(topic, group, reply)).await
    }

    async fn release_worker(
        &self,
        topic: &Topic,
        group: &Group,
        worker: &str,
    ) -> Result<u64, LogError> {
        let (topic, group, worker) = (topic.clone(), group.clone(), worker.to_owned());
        self.ask(|reply| Command::ReleaseWorker(topic, group, worker, reply)).await
    }

    async fn pending(&self, wanted: PendingQuery) -> Result<Vec<Pending>, LogError> {
        let now = self.time.now();
        self.read(async |conn| deliveries::pending(conn, &wanted, now).await).await?
    }

    async fn message(&self, id: MessageId) -> Result<Option<MessageState>, LogError> {
        let now = self.time.now();
        self.read(async |conn| show::message(conn, id, now).await).await
    }

    async fn cancel(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        let group = group.cloned();
        self.ask(|reply| Command::Cancel(id, group, reply)).await
    }

    async fn make_due(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError> {
        let group = group.cloned();
        self.ask(|reply| Command::MakeDue(id, group, reply)).await
    }

    async fn stream(&self, request: ReadRequest) -> Result<ReadPage, LogError> {
        self.read(async |conn| stream::page(conn, &request).await).await
    }

    fn arrivals(&self, topic: &Topic) -> Waiter {
        self.waiters.add(topic, None)
    }

    async fn redrive(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
    ) -> Result<Redriven, LogError> {
        let (mut moved, mut of, mut after) = (0, 0, Place::default());
        loop {
            let (topic, group, filter) = (topic.clone(), group.cloned(), filter.clone());
            let step =
                self.ask(|reply| Command::Redrive(topic, group, filter, after, reply)).await?;
            moved += step.moved;
            of += step.of;
            match step.next {
                Some(next) => after = next,
                None => return Ok(Redriven { moved, of }),
            }
        }
    }

    async fn purge_dead(&self, topic: &Topic, group: Option<&Group>) -> Result<u64, LogError> {
        let (mut purged, mut after) = (0, Place::default());
        loop {
            let (topic, group) = (topic.clone(), group.cloned());
            let step = self.ask(|reply| Command::PurgeDead(topic, group, after, reply)).await?;
            purged += step.moved;
            match step.next {
                Some(next) => after = next,
                None => return Ok(purged),
            }
        }
    }

    async fn sweep(&self) -> Result<u64, LogError> {
        while self.ask(Command::ClearGone).await? {}
        let (mut removed, mut from) = (0, None);
        loop {
            let (gone, next) = self.ask(|reply| Command::Sweep(from, reply)).await?;
            removed += gone;
            match next {
                Some(next) => from = Some(next),
                None => return Ok(removed),
            }
        }
    }

    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError> {
        self.ask(|reply| Command::SetRetain(span, messages, reply)).await
    }

    async fn health(&self) -> Result<Health, LogError> {
        let only_read = self.commands.is_none();
        let read = async |conn: &mut SqliteConnection| {
            health::read(conn, &self.place, &self.chores, only_read).await
        };
        let (file, boot_id) = self.read(read).await?;
        let clock = self.time.clock();
        Ok(Health {
            capabilities: self.capabilities(),
            clock: ClockHealth {
                now: self.time.now(),
                wall_ms: clock.wall_ms(),
                this_boot: boot_id == clock.boot_id(),
                boot_id,
            },
            file: Some(file),
            recount: self.recounted.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }

    async fn recount(&self) -> Result<Recount, LogError> {
        recount::Recounter::asked(self).run().await
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        if self.commands.is_none() {
            self.waiters.end();
        }
        // An error means that it is closed already.
        let _closed = self.ask(Command::Close).await;
        if let Some(writer) = self.writer.lock().await.take() {
            let _ended = writer.await;
        }
        if let Some((conn, _)) = self.reader.lock().await.take() {
            let _nothing_to_lose = conn.close().await;
        }
    }
}
