//! Counting rows again and comparing with the figures that are kept (law 16).
//!
//! Steps of bounded size, each one snapshot, so that nobody is held up and no snapshot lasts. What
//! fits into one step is compared exactly. What takes several is compared only as far as nothing
//! moved between the first and the last: messages are written once, so those removed meanwhile are
//! the most by which a topic may differ; a group is counted again. Nothing is told that was not
//! found twice.

mod group;
mod topic;

use super::SqliteLog;
use crate::api::MessageLog;
use crate::error::LogError;
use crate::health::{Drift, Recount};
use group::GroupCount;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use std::sync::{Arc, PoisonError, Weak};
use std::time::Duration;
use topic::TopicCount;
use windlass_core::{Group, Topic};

/// Most rows a step reads.
const STEP: i64 = 8_192;
/// Most names a step reads.
const NAMES: i64 = 256;
/// How often a group or topic is counted until one count was not disturbed, or said the same twice.
const TRIES: usize = 4;

/// How often a log that is served is counted again, and how long after opening for the first time.
const EVERY: Duration = Duration::from_mins(10);
const FIRST: Duration = Duration::from_mins(1);
/// A step that nobody asked for is followed by so many times its own time for others.
const REST: u32 = 9;

/// A figure, kept and found.
type Pair = (&'static str, i64, i64);

/// What one count of a topic or a group came to.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It is not there any more.
    Gone,
    /// It changed meanwhile.
    Disturbed,
    /// These differ.
    Compared(Vec<Pair>),
}

/// What becomes of a count after a step.
enum Next {
    More,
    Done(Verdict),
}

/// A count that goes on from step to step.
#[derive(Debug, Clone)]
enum Count {
    Topic(TopicCount),
    Group(GroupCount),
}

impl Count {
    /// Reads at most [`STEP`] rows more, all from one snapshot. Answers itself, how many rows it
    /// read, and how it goes on.
    async fn step(self, conn: &mut SqliteConnection) -> sqlx::Result<(Self, u64, Next)> {
        match self {
            Self::Topic(mut count) => {
                let (rows, next) = count.step(conn).await?;
                Ok((Self::Topic(count), rows, next))
            }
            Self::Group(mut count) => {
                let (rows, next) = count.step(conn).await?;
                Ok((Self::Group(count), rows, next))
            }
        }
    }
}

/// Whose rows are counted. One that nobody asked for does not keep the log open.
enum Source<'a> {
    Asked(&'a SqliteLog),
    Unasked(Weak<SqliteLog>),
}

/// One recount of a log.
pub(super) struct Recounter<'a> {
    log: Source<'a>,
    /// After a step, so many times its own time belongs to others.
    rest: u32,
    done: Recount,
}

impl<'a> Recounter<'a> {
    /// One that somebody waits for.
    pub(super) fn asked(log: &'a SqliteLog) -> Self {
        Self { log: Source::Asked(log), rest: 0, done: Recount::default() }
    }

    fn unasked(log: Weak<SqliteLog>) -> Self {
        Self { log: Source::Unasked(log), rest: REST, done: Recount::default() }
    }

    /// Counts everything again.
    pub(super) async fn run(mut self) -> Result<Recount, LogError> {
        let mut after = -1;
        loop {
            let names = self.read(async |conn| names(conn, TOPICS, 0, after).await).await?;
            let Some((last, _)) = names.last() else { break };
            after = *last;
            for (id, name) in names {
                // What is no name is not one that we wrote, and has no place in an answer.
                let Ok(name) = Topic::new(&name) else { continue };
                self.topic(id, &name).await?;
            }
        }
        self.done.at = match &self.log {
            Source::Asked(log) => log.now(),
            Source::Unasked(log) => log.upgrade().map(|log| log.now()).unwrap_or_default(),
        };
        Ok(self.done)
    }

    async fn topic(&mut self, id: i64, name: &Topic) -> Result<(), LogError> {
        let found = self.twice(Count::Topic(TopicCount::new(id))).await?;
        self.done.topics += u64::from(found != Verdict::Gone);
        self.note(found, name, None);
        let mut after = -1;
        loop {
            let groups = self.read(async |conn| names(conn, GROUPS, id, after).await).await?;
            let Some((last, _)) = groups.last() else { return Ok(()) };
            after = *last;
            for (id, group) in groups {
                let Ok(group) = Group::new(&group) else { continue };
                let found = self.twice(Count::Group(GroupCount::new(id))).await?;
                self.done.groups += u64::from(found != Verdict::Gone);
                self.note(found, name, Some(&group));
            }
        }
    }

    fn note(&mut self, found: Verdict, topic: &Topic, group: Option<&Group>) {
        match found {
            Verdict::Gone => {}
            Verdict::Disturbed => self.done.disturbed += 1,
            Verdict::Compared(pairs) => {
                let drift = pairs.into_iter().map(|(figure, kept, found)| Drift {
                    topic: topic.clone(),
                    group: group.cloned(),
                    figure,
                    kept,
                    found,
                });
                self.done.drift.extend(drift);
            }
        }
    }

    /// Counts until the answer is that nothing differs, or twice that the same does.
    async fn twice(&mut self, start: Count) -> Result<Verdict, LogError> {
        let mut before: Option<Vec<Pair>> = None;
        for _ in 0..TRIES {
            match self.whole(start.clone()).await? {
                Verdict::Compared(pairs) if pairs.is_empty() => {
                    return Ok(Verdict::Compared(pairs));
                }
                Verdict::Compared(pairs) => {
                    if before.as_ref().is_some_and(|before| same(before, &pairs)) {
                        return Ok(Verdict::Compared(pairs));
                    }
                    before = Some(pairs);
                }
                Verdict::Disturbed => {}
                Verdict::Gone => return Ok(Verdict::Gone),
            }
        }
        Ok(Verdict::Disturbed)
    }

    async fn whole(&mut self, mut count: Count) -> Result<Verdict, LogError> {
        loop {
            let at = count;
            let (next, rows, what) = self.read(async |conn| at.clone().step(conn).await).await?;
            self.done.rows += rows;
            match what {
                Next::Done(verdict) => return Ok(verdict),
                Next::More => count = next,
            }
        }
    }

    /// One step, and the rest after it.
    async fn read<T>(
        &mut self,
        read: impl AsyncFnOnce(&mut SqliteConnection) -> sqlx::Result<T> + Clone,
    ) -> Result<T, LogError> {
        let (value, took) = match &self.log {
            Source::Asked(log) => log.read_timed(read).await?,
            Source::Unasked(log) => {
                let Some(log) = log.upgrade() else { return Err(LogError::Closed) };
                log.read_timed(read).await?
            }
        };
        self.done.longest = self.done.longest.max(took);
        if self.rest > 0 {
            tokio::time::sleep((took * self.rest).max(Duration::from_millis(1))).await;
        }
        Ok(value)
    }
}

/// Recounts again and again, until the log is closed or dropped. What differs is told once.
pub(super) async fn now_and_then(log: Weak<SqliteLog>) {
    let Some(clock) = log.upgrade().map(|log| Arc::clone(log.time.clock())) else { return };
    let (mut wait, mut told) = (FIRST, Vec::new());
    loop {
        clock.sleep(wait).await;
        wait = EVERY;
        match Recounter::unasked(log.clone()).run().await {
            Ok(done) => {
                let Some(log) = log.upgrade() else { return };
                let new = done.drift.iter().filter(|drift| !told.contains(*drift));
                new.for_each(|Drift { topic, group, figure, kept, found }| {
                    let group = group.as_ref().map(Group::as_str);
                    tracing::warn!(%topic, group, figure, kept, found, "a kept count has drifted");
                });
                told.clone_from(&done.drift);
                *log.recounted.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            }
            Err(LogError::Closed) => return,
            Err(error) => tracing::warn!(%error, "the log could not be counted again"),
        }
    }
}

/// Whether two counts found the same to be wrong, each by as much.
fn same(one: &[Pair], two: &[Pair]) -> bool {
    let by = |pair: &Pair| (pair.0, pair.1.wrapping_sub(pair.2));
    one.iter().map(by).eq(two.iter().map(by))
}

const TOPICS: &str = "select id, name from topic where ?1 = 0 and id > ?2 order by id limit ?3";
const GROUPS: &str = "select id, name from grp where topic = ?1 and id > ?2 order by id limit ?3";

async fn names(
    conn: &mut SqliteConnection,
    text: &'static str,
    of: i64,
    after: i64,
) -> sqlx::Result<Vec<(i64, String)>> {
    let rows = query(text).bind(of).bind(after).bind(NAMES).fetch_all(conn).await?;
    rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect()
}

/// A number of a row; nothing counts as none.
fn number(row: &SqliteRow, at: usize) -> sqlx::Result<i64> {
    Ok(row.try_get::<Option<i64>, _>(at)?.unwrap_or(0))
}

/// Those of `pairs` that differ.
fn differing(pairs: impl IntoIterator<Item = Pair>) -> Vec<Pair> {
    pairs.into_iter().filter(|(_, kept, found)| kept != found).collect()
}
