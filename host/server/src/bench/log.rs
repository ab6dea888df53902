//! What the log does without a component: publishing, and publish, claim, ack.

use super::figures::rate;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use tokio::task::JoinSet;
use windlass_core::{Disposition, Group, NewMessage, Topic};
use windlass_log::Prefer;
use windlass_log::{ClaimRequest, DynLog, LogError, Settled, Settlement, Start, TopicLimits};

/// Messages of one claim, acked in one settlement.
const BATCH: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// Publishes `messages` from `producers` tasks, each waiting for its answer before the next one.
pub(super) fn produce(
    log: &DynLog,
    topic: &Topic,
    producers: usize,
    messages: usize,
    payload: usize,
) -> JoinSet<Result<(), LogError>> {
    let mut tasks = JoinSet::new();
    let left = Arc::new(AtomicUsize::new(messages));
    let data = bytes::Bytes::from(vec![7_u8; payload]);
    for _ in 0..producers.max(1) {
        let (log, topic, left, data) =
            (Arc::clone(log), topic.clone(), Arc::clone(&left), data.clone());
        tasks.spawn(async move {
            let one_less = |left: usize| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
                log.publish(vec![NewMessage::new(topic.clone(), data.clone())]).await?;
            }
            Ok(())
        });
    }
    tasks
}

/// Waits for tasks; the first error is the answer.
pub(super) async fn finished(mut tasks: JoinSet<Result<(), LogError>>) -> anyhow::Result<()> {
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    Ok(())
}

/// Messages a second that are durable before their publishers are told.
pub(super) async fn publish(
    log: &DynLog,
    topic: &Topic,
    producers: usize,
    messages: usize,
    payload: usize,
) -> anyhow::Result<f64> {
    unbounded(log, topic).await?;
    let since = Instant::now();
    finished(produce(log, topic, producers, messages, payload)).await?;
    Ok(rate(messages, since.elapsed()))
}

/// Claimers of [`publish_claim_ack`].
const CLAIMERS: usize = 2;

/// Messages a second that are published, claimed by two claimers and acked; `topic` has a group.
pub(super) async fn publish_claim_ack(
    log: &DynLog,
    topic: &Topic,
    producers: usize,
    messages: usize,
    payload: usize,
) -> anyhow::Result<f64> {
    let since = Instant::now();
    let producers = produce(log, topic, producers, messages, payload);
    let acked = acked(log, topic, messages);
    let (published, acked) = tokio::join!(finished(producers), acked);
    published.and(acked)?;
    Ok(rate(messages, since.elapsed()))
}

/// Claims and acks `messages`.
pub(super) async fn acked(log: &DynLog, topic: &Topic, messages: usize) -> anyhow::Result<()> {
    let left = Arc::new(AtomicUsize::new(messages));
    let mut claimers = JoinSet::new();
    for _ in 0..CLAIMERS {
        claimers.spawn(claim_and_ack(Arc::clone(log), topic.clone(), Arc::clone(&left)));
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
async fn claim_and_ack(log: DynLog, topic: Topic, left: Arc<AtomicUsize>) -> anyhow::Result<()> {
    let group = Group::work_queue();
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
    log.set_limits(topic, limits).await
}

/// Declares the work queue of `topic`.
pub(super) async fn declare(log: &DynLog, topic: &Topic) -> Result<(), LogError> {
    unbounded(log, topic).await?;
    let policy = windlass_core::GroupPolicy::default();
    let (topic, group) = (topic.clone(), Group::work_queue());
    let spec = windlass_log::GroupSpec { topic, group, policy, start: Start::Earliest };
    log.declare_groups(vec![spec]).await.map(drop)
}
