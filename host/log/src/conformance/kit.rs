//! Short words for what cases do: publish some, claim some, settle one, look at counts.
//!
//! Every function panics where the log refuses; cases that expect a refusal ask the log itself.

use super::Harness;
use crate::DeadLetterFilter;
use crate::Prefer;
use crate::{
    Claim, ClaimRequest, Counts, DeadLetter, DeadLetterQuery, DynLog, Extended, Extension,
    GroupSpec, Settled, Settlement, Start, TopicState, Waiter,
};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::{Duration, Instant};
use windlass_core::{
    AttemptRecord, Disposition, Group, GroupPolicy, MessageId, NewMessage, Timestamp, Token, Topic,
};

/// How long a case looks for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

/// A span in seconds.
#[must_use]
pub fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A topic.
#[must_use]
pub fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// A group.
#[must_use]
pub fn group(name: &str) -> Group {
    Group::new(name).unwrap()
}

/// A message whose data is `text`.
#[must_use]
pub fn message(on: &str, text: &str) -> NewMessage {
    NewMessage::new(topic(on), text.as_bytes().to_vec())
}

/// A number that is not nothing.
#[must_use]
pub fn some(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// Publishes `n` messages in one batch.
pub async fn publish(log: &DynLog, on: &str, n: usize) -> Vec<MessageId> {
    let batch = (0..n).map(|i| message(on, &format!("{on} {i}"))).collect();
    log.publish(batch).await.unwrap().into_iter().map(|published| published.id).collect()
}

/// A policy: so many attempts, such a lease, and the defaults.
#[must_use]
pub fn policy(attempts: u32, lease: Duration) -> GroupPolicy {
    GroupPolicy {
        max_attempts: NonZeroU32::new(attempts).unwrap(),
        lease,
        ..GroupPolicy::default()
    }
}

/// A group as wanted, from the earliest message on.
#[must_use]
pub fn spec(on: &str, name: &str, policy: GroupPolicy) -> GroupSpec {
    GroupSpec { topic: topic(on), group: group(name), policy, start: Start::Earliest }
}

/// Declares a group from the earliest message on.
pub async fn declare(log: &DynLog, on: &str, name: &str, policy: GroupPolicy) {
    log.declare_groups(vec![spec(on, name, policy)]).await.unwrap();
}

/// A claim for `worker-1` of a group that is there.
#[must_use]
pub fn request(on: &str, name: &str, max: usize) -> ClaimRequest {
    ClaimRequest {
        topic: topic(on),
        group: group(name),
        worker: "worker-1".into(),
        max: some(max),
        start: None,
        prefer: Prefer::Order,
    }
}

/// Claims up to `max`.
pub async fn claim(log: &DynLog, on: &str, name: &str, max: usize) -> Vec<Claim> {
    log.claim(request(on, name, max)).await.unwrap()
}

/// Claims exactly one.
pub async fn claim_one(log: &DynLog, on: &str, name: &str) -> Claim {
    let mut claims = claim(log, on, name, 1).await;
    assert_eq!(claims.len(), 1, "something to claim on {on} for `{name}`");
    claims.remove(0)
}

/// The ids of claims, in order.
#[must_use]
pub fn ids(claims: &[Claim]) -> Vec<MessageId> {
    claims.iter().map(|claim| claim.message.id).collect()
}

/// A record with an outcome and a text.
#[must_use]
pub fn record(outcome: &str, text: &str) -> AttemptRecord {
    AttemptRecord {
        attempt: 0,
        at: Timestamp(0),
        worker: String::new(),
        revision: "r1".into(),
        outcome: outcome.into(),
        text: text.into(),
    }
}

/// An ack without sends.
#[must_use]
pub fn acked() -> Disposition {
    Disposition::Ack { sends: Vec::new() }
}

/// A counted retry.
#[must_use]
pub fn retried(delay: Duration) -> Disposition {
    Disposition::Retry { delay, counted: true }
}

/// A settlement; with a record where the law asks for one.
#[must_use]
pub fn settlement(token: Token, disposition: Disposition) -> Settlement {
    let record = match &disposition {
        Disposition::Ack { .. } | Disposition::Release => None,
        Disposition::Retry { .. } => Some(record("failed", "it failed")),
        Disposition::DeadLetter => Some(record("rejected", "never again")),
    };
    Settlement { token, disposition, record }
}

/// Settles one.
pub async fn settle(log: &DynLog, claim: &Claim, disposition: Disposition) -> Settled {
    let mut answers = log.settle(vec![settlement(claim.token, disposition)]).await;
    assert_eq!(answers.len(), 1);
    answers.remove(0).unwrap()
}

/// Acks one, which must apply.
pub async fn ack(log: &DynLog, claim: &Claim) {
    assert_eq!(settle(log, claim, acked()).await, Settled::Applied);
}

/// Claims one and dead-letters it.
pub async fn bury_one(log: &DynLog, on: &str, name: &str) -> MessageId {
    let claim = claim_one(log, on, name).await;
    assert_eq!(settle(log, &claim, Disposition::DeadLetter).await, Settled::Applied);
    claim.message.id
}

/// Extends one.
pub async fn extend(log: &DynLog, claim: &Claim, lease: Duration) -> Extended {
    log.extend(vec![Extension { token: claim.token, lease }]).await.unwrap()[0]
}

/// A topic that is there. Where nothing moves its groups' lags are what its counts say.
pub async fn state(log: &DynLog, on: &str) -> TopicState {
    let found = log.topic(&topic(on)).await.unwrap().expect("the topic");
    let lags = log.lags().await.unwrap();
    if log.topic(&topic(on)).await.unwrap().as_ref() == Some(&found) {
        let told = lags.into_iter().filter(|lag| lag.topic == found.topic);
        let told: Vec<_> = told.map(|lag| (lag.group, lag.messages)).collect();
        let counted: Vec<_> =
            found.groups.iter().map(|group| (group.group.clone(), group.counts.lag())).collect();
        assert_eq!(told, counted);
    }
    found
}

/// A group's counts, as `(ready, retrying, leased, dead)`; nothing is delayed or parked.
pub async fn counts(log: &DynLog, on: &str, name: &str) -> (u64, u64, u64, u64) {
    let state = state(log, on).await;
    let found = state.groups.iter().find(|known| known.group == group(name));
    short(found.expect("the group").counts)
}

/// Counts as `(ready, retrying, leased, dead)`; nothing is delayed or parked.
#[must_use]
pub fn short(counts: Counts) -> (u64, u64, u64, u64) {
    assert_eq!((counts.delayed, counts.parked), (0, 0));
    (counts.ready, counts.retrying, counts.leased, counts.dead)
}

/// All dead letters of a topic.
pub async fn dead(log: &DynLog, on: &str) -> Vec<DeadLetter> {
    let limit = some(1_000);
    let query = DeadLetterQuery {
        topic: topic(on),
        group: None,
        filter: DeadLetterFilter::default(),
        after: None,
        limit,
    };
    log.dead_letters(query).await.unwrap()
}

/// Looks until the group's counts are these: for what the log does by itself.
pub async fn until_counts(log: &DynLog, on: &str, name: &str, wanted: (u64, u64, u64, u64)) {
    let start = Instant::now();
    loop {
        let found = counts(log, on, name).await;
        if found == wanted {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "counts are {found:?}, {wanted:?} are to come");
        tokio::task::yield_now().await;
    }
}

/// Waits for a wake-up, which must come.
pub async fn woken(waiter: &Waiter) {
    tokio::time::timeout(PATIENCE, waiter.woken()).await.expect("a wake-up");
}

/// Claims whenever woken until one is given, which must come.
pub async fn claim_when_woken(log: &DynLog, waiter: &Waiter, on: &str, name: &str) -> Claim {
    loop {
        if let Some(claim) = claim(log, on, name, 1).await.pop() {
            return claim;
        }
        woken(waiter).await;
    }
}

/// Lets a lease of `lease` end.
pub async fn let_end(h: &dyn Harness, lease: Duration) {
    h.advance(lease).await;
}
