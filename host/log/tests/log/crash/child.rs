//! The child of the kill test: publishes, claims, settles, and says so, until it is killed.

use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::num::NonZeroU32;
use windlass_core::time::millis;
use windlass_log::DeadLetterFilter;
use windlass_log::{Claim, LogError, Settlement};

/// Where messages are published, and the groups that read them.
pub(super) const IN: &str = "in";
pub(super) const GROUPS: [&str; 2] = ["a", "b"];
/// Where an acked message sends to, and the verifier's group there.
pub(super) const OUT: &str = "out";
pub(super) const SINK: &str = "sink";
/// How many an acked message sends.
pub(super) const SENDS: u64 = 3;
/// Short, so that what a killed child held comes back to one of the next.
const LEASE: Duration = Duration::from_millis(250);

/// Declares the groups; with a lease that outlives a verification, or the child's short one.
pub(super) async fn declare(log: &DynLog, lease: Duration) {
    let policy = GroupPolicy {
        lease,
        max_attempts: NonZeroU32::new(4).unwrap(),
        in_flight_max: NonZeroU32::MAX,
        ..GroupPolicy::default()
    };
    let spec = |topic, group| kit::spec(topic, group, policy.clone());
    let groups = GROUPS.map(|group| spec(IN, group)).into_iter().chain([spec(OUT, SINK)]);
    log.declare_groups(groups.collect()).await.unwrap();
}

/// How many messages the ack of this one sends: half of all send nothing.
pub(super) fn sends_of(sequence: u64) -> u64 {
    if sequence.is_multiple_of(2) { SENDS } else { 0 }
}

pub(super) fn main(folder: &Path) {
    let (number, seed) = run();
    runtime().block_on(async {
        let log = open(folder, true).await;
        declare(&log, LEASE).await;
        // So that the sweep runs under the kills, too.
        log.set_retain(Duration::ZERO, 50).await.unwrap();
        say("open");
        let dice = |task: u64| StdRng::seed_from_u64(seed ^ (number << 8) ^ task);
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..3 {
            tasks.spawn(publish(log.clone(), dice(task), format!("{number}.{task}")));
        }
        for (task, group) in [(3, "a"), (4, "a"), (5, "b"), (6, "b")] {
            tasks.spawn(consume(log.clone(), dice(task), group));
        }
        tasks.spawn(redrive(log.clone(), dice(7)));
        // None of them ends by itself; one that panics ends the child with an error.
        tasks.join_next().await.unwrap().unwrap();
    });
}

/// Publishes batches of one to three. A payload names its batch, its place in it, and its size.
async fn publish(log: DynLog, mut dice: StdRng, name: String) {
    for batch in 0_u64.. {
        let size = dice.random_range(1..=3);
        let payloads: Vec<String> =
            (0..size).map(|place| format!("{name}.{batch}/{place}/{size}")).collect();
        let messages = payloads.iter().map(|payload| kit::message(IN, payload)).collect();
        match log.publish(messages).await {
            Ok(published) => {
                for (published, payload) in published.iter().zip(&payloads) {
                    say(&format!("published {} {payload}", published.id));
                }
            }
            Err(error) => complain(&error),
        }
        tokio::time::sleep(Duration::from_micros(dice.random_range(0..2_000))).await;
    }
}

async fn consume(log: DynLog, mut dice: StdRng, group: &'static str) {
    let waiter = log.waiter(&kit::topic(IN), &kit::group(group));
    loop {
        let claims = log.claim(kit::request(IN, group, dice.random_range(1..=16))).await;
        let claims = claims.unwrap_or_else(|error| {
            complain(&error);
            Vec::new()
        });
        if claims.is_empty() {
            waiter.woken().await;
        }
        for claim in &claims {
            let payload = String::from_utf8_lossy(&claim.message.data);
            let until = claim.lease_until.0;
            let from = until - millis(LEASE);
            say(&format!("claimed {} {group} {payload} {from} {until}", claim.message.id));
        }
        let settlements: Vec<_> =
            claims.iter().filter_map(|claim| settlement(&mut dice, claim, group)).collect();
        let answers = log.settle(settlements.clone()).await;
        for (settlement, answer) in settlements.iter().zip(answers) {
            let id = claims.iter().find(|claim| claim.token == settlement.token).unwrap();
            let id = id.message.id;
            match (&settlement.disposition, answer) {
                (Disposition::Ack { .. }, Ok(Settled::Applied)) => {
                    say(&format!("acked {id} {group}"));
                }
                (_, Ok(_)) => {}
                (_, Err(error)) => complain(&error),
            }
        }
    }
}

/// What to do with a claim; nothing: its lease ends. It is announced before it is asked for.
fn settlement(dice: &mut StdRng, claim: &Claim, group: &str) -> Option<Settlement> {
    let id = claim.message.id;
    let means = |what| say(&format!("means {id} {group} {what}"));
    let disposition = match dice.random_range(0..100) {
        0..70 => {
            means("ack");
            let send = |n| {
                let text = format!("{id} {group} {n}");
                NewMessage::new(Topic::new(OUT).unwrap(), text.into_bytes())
            };
            Disposition::Ack { sends: (0..sends_of(id.sequence.0)).map(send).collect() }
        }
        70..82 => {
            means("retry");
            kit::retried(Duration::from_millis(dice.random_range(0..50)))
        }
        82..88 => {
            means("dead-letter");
            Disposition::DeadLetter
        }
        88..95 => {
            means("release");
            Disposition::Release
        }
        _ => {
            means("leave");
            return None;
        }
    };
    Some(kit::settlement(claim.token, disposition))
}

/// Now and then brings the dead back.
async fn redrive(log: DynLog, mut dice: StdRng) {
    loop {
        tokio::time::sleep(Duration::from_millis(dice.random_range(10..400))).await;
        let group = kit::group(GROUPS[dice.random_range(0..2)]);
        if let Err(error) =
            log.redrive(&kit::topic(IN), Some(&group), &DeadLetterFilter::default()).await
        {
            complain(&error);
        }
    }
}

/// No call of this child may fail.
fn complain(error: &LogError) {
    say(&format!("error {error:?}"));
}
