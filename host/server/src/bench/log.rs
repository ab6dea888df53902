//! What the log does without a component: publishing, and publish, claim, ack.

use super::figures::{millis, rate};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use windlass_core::{Disposition, Group, GroupPolicy, NewMessage, Topic};
use windlass_log::{
    ClaimRequest, DynLog, GroupSpec, LogError, Prefer, Settled, Settlement, Start, TopicLimits,
};

/// Messages of one claim, acked in one settlement.
const BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// What is published in one round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub messages: usize,
    /// Bytes of each.
    pub payload: usize,
    /// Tasks that publish, each waiting for its answer before the next one.
    pub producers: usize,
    /// So many keys in turn; none where it is 0.
    pub keys: usize,
}

/// Publishes a load; each producer answers how long its publishes took, in milliseconds.
pub(super) fn produce(
    log: &DynLog,
    topic: &Topic,
    load: Load,
) -> JoinSet<Result<Vec<f64>, LogError>> {
    let mut tasks = JoinSet::new();
    let left = Arc::new(AtomicUsize::new(load.messages));
    let message = NewMessage::new(topic.clone(), vec![7_u8; load.payload]);
    for _ in 0..load.producers.max(1) {
        let (log, left, message) = (Arc::clone(log), Arc::clone(&left), message.clone());
        tasks.spawn(async move {
            let mut times = Vec::new();
            let one_less = |left: usize| left.checked_sub(1);
            while let Ok(at) = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
                let mut message = message.clone();
                message.key = at.checked_rem(load.keys).map(|key| format!("key-{key}"));
                let since = Instant::now();
                log.publish(vec![message]).await?;
                times.push(millis(since.elapsed()));
            }
            Ok(times)
        });
    }
    tasks
}

/// Waits for producers: all their times. The first error is the answer.
pub(super) async fn finished(
    mut tasks: JoinSet<Result<Vec<f64>, LogError>>,
) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    while let Some(task) = tasks.join_next().await {
        times.extend(task??);
    }
    Ok(times)
}

/// A round of publishing.
#[derive(Debug)]
pub(super) struct Publishing {
    /// Messages a second that are durable before their publishers are told.
    pub rate: f64,
    /// How long each publish took, in milliseconds.
    pub times: Vec<f64>,
}

/// Publishes a load, and nothing else.
pub(super) async fn publish(log: &DynLog, topic: &Topic, load: Load) -> anyhow::Result<Publishing> {
    let since = Instant::now();
    let times = finished(produce(log, topic, load)).await?;
    Ok(Publishing { rate: rate(load.messages, since.elapsed()), times })
}

/// Claimers of each group.
const CLAIMERS: usize = 2;

/// How long a load took to be published, and how long until every group had acked it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Through {
    pub published: Duration,
    pub acked: Duration,
}

/// Publishes a load while two claimers of each group claim and ack it.
pub(super) async fn publish_claim_ack(
    log: &DynLog,
    topic: &Topic,
    groups: &[Group],
    load: Load,
) -> anyhow::Result<Through> {
    let since = Instant::now();
    let producers = produce(log, topic, load);
    let publish = async { finished(producers).await.map(|_| since.elapsed()) };
    let (published, acked) = tokio::join!(publish, acked(log, topic, groups, load.messages));
    let published = published?;
    acked?;
    Ok(Through { published, acked: since.elapsed() })
}

/// Claims and acks `messages` in each group.
pub(super) async fn acked(
    log: &DynLog,
    topic: &Topic,
    groups: &[Group],
    messages: usize,
) -> anyhow::Result<()> {
    let mut all = JoinSet::new();
    for group in groups {
        all.spawn(acked_by(Arc::clone(log), topic.clone(), group.clone(), messages));
    }
    while let Some(group) = all.join_next().await {
        group??;
    }
    Ok(())
}

async fn acked_by(log: DynLog, topic: Topic, group: Group, messages: usize) -> anyhow::Result<()> {
    let left = Arc::new(AtomicUsize::new(messages));
    let mut claimers = JoinSet::new();
    for _ in 0..CLAIMERS {
        let (log, topic, group) = (Arc::clone(&log), topic.clone(), group.clone());
        claimers.spawn(claim_and_ack(log, topic, group, Arc::clone(&left)));
    }
    // One of them acks the last message; the others would wait for ever.
    while left.load(Ordering::SeqCst) > 0 {
        let Some(task) = claimers.join_next().await else {
            anyhow::bail!("{} messages were never claimed", left.load(Ordering::SeqCst));
        };
        task??;
    }
    Ok(())
}

/// Claims batches and acks each in one settlement, until `left` messages are acked.
async fn claim_and_ack(
    log: DynLog,
    topic: Topic,
    group: Group,
    left: Arc<AtomicUsize>,
) -> anyhow::Result<()> {
    let waiter = log.waiter(&topic, &group);
    let request = ClaimRequest {
        topic,
        group,
        worker: "bench".into(),
        max: BATCH,
        start: None,
        prefer: Prefer::Order,
    };
    while left.load(Ordering::SeqCst) > 0 {
        let claims = log.claim(request.clone()).await?;
        if claims.is_empty() {
            waiter.woken().await;
            continue;
        }
        let ack = |claim: windlass_log::Claim| Settlement {
            token: claim.token,
            disposition: Disposition::Ack { sends: Vec::new() },
            record: None,
        };
        for settled in log.settle(claims.into_iter().map(ack).collect()).await {
            let settled = settled?;
            anyhow::ensure!(settled == Settled::Applied, "an ack was answered {settled:?}");
            left.fetch_sub(1, Ordering::SeqCst);
        }
    }
    Ok(())
}

/// Lets `topic` hold whatever is measured.
pub(super) async fn unbounded(log: &DynLog, topic: &Topic) -> Result<(), LogError> {
    let no_limit = i64::MAX.cast_unsigned();
    let limits =
        TopicLimits { max_messages: no_limit, max_bytes: no_limit, ..TopicLimits::default() };
    log.set_limits(topic, limits, true).await
}

/// Groups by number: the work queue first.
pub(super) fn groups(count: usize) -> anyhow::Result<Vec<Group>> {
    let named = (1..count.max(1)).map(|at| Group::new(&format!("group-{at}")));
    let named = named.collect::<Result<Vec<_>, _>>()?;
    Ok([Group::work_queue()].into_iter().chain(named).collect())
}

/// Declares groups of `topic`, which may hold whatever is measured.
pub(super) async fn declare(log: &DynLog, topic: &Topic, groups: &[Group]) -> Result<(), LogError> {
    unbounded(log, topic).await?;
    let spec = |group: &Group| GroupSpec {
        topic: topic.clone(),
        group: group.clone(),
        policy: GroupPolicy::default(),
        start: Start::Earliest,
    };
    log.declare_groups(groups.iter().map(spec).collect()).await.map(drop)
}
