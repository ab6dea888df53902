//! One of the two processes of the workers' proof: publishes its share, and has 32 workers claim
//! and settle until nothing is left. What each did it writes down at the end.

use super::workers::Hold;
use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::BufRead;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_core::time::millis;
use windlass_log::{Claim, Settlement, TopicLimits};

pub(super) const IN: &str = "work";
pub(super) const GROUPS: [&str; 2] = ["a", "b"];
const WORKERS: u64 = 32;
const PUBLISHERS: u64 = 4;
const BATCH: u64 = 100;
/// What is left comes back after so long.
const LEASE: Duration = Duration::from_secs(2);
/// Who finds nothing looks again after so long: of the last ack nobody is told.
const LOOK: Duration = Duration::from_millis(50);
/// A claim as it is written down.
const BYTES: usize = 30;

/// How a claim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    Retried,
    Released,
    /// Nothing was done with it.
    Left,
    /// Its lease had ended before it was settled.
    Lost,
    Acked,
}

const HOW: [How; 5] = [How::Retried, How::Released, How::Left, How::Lost, How::Acked];

pub(super) async fn declare(log: &DynLog) {
    let limits = TopicLimits { max_messages: u64::MAX >> 1, ..TopicLimits::default() };
    log.set_limits(&kit::topic(IN), limits, false).await.unwrap();
    let policy = GroupPolicy {
        lease: LEASE,
        max_attempts: NonZeroU32::new(10_000).unwrap(),
        in_flight_max: NonZeroU32::MAX,
        ..GroupPolicy::default()
    };
    let groups = GROUPS.map(|group| kit::spec(IN, group, policy.clone()));
    log.declare_groups(groups.into()).await.unwrap();
}

pub(super) fn main(folder: &Path) {
    let (number, _) = run();
    let runtime = runtime();
    let log = runtime.block_on(open(folder, true));
    say("ready");
    let share: u64 = order().parse().unwrap();
    let all_is_published = Arc::new(AtomicBool::new(false));
    let (mut publishers, mut workers) = (Vec::new(), Vec::new());
    for publisher in 0..PUBLISHERS {
        let share = share / PUBLISHERS + u64::from(publisher < share % PUBLISHERS);
        publishers.push(runtime.spawn(publish(log.clone(), share)));
    }
    for worker in 0..WORKERS {
        let dice = StdRng::seed_from_u64(number * WORKERS + worker);
        let name = format!("{number}.{worker}");
        let group = u8::from(worker % 2 == 1);
        workers.push(runtime.spawn(work(log.clone(), dice, name, group, all_is_published.clone())));
    }
    let published: Vec<Vec<u64>> = runtime.block_on(all(publishers));
    say("published");
    order();
    all_is_published.store(true, Ordering::Relaxed);
    let held: Vec<Vec<Hold>> = runtime.block_on(all(workers));
    write(folder, number, &published.concat(), &held.concat());
    runtime.block_on(log.close());
    say("done");
}

/// The next line of the parent.
fn order() -> String {
    let mut line = String::new();
    assert!(std::io::stdin().lock().read_line(&mut line).unwrap() > 0);
    line.trim().to_owned()
}

async fn all<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::with_capacity(tasks.len());
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

/// Publishes so many; their sequences.
async fn publish(log: DynLog, share: u64) -> Vec<u64> {
    let mut published = Vec::new();
    while (published.len() as u64) < share {
        let n = BATCH.min(share - published.len() as u64);
        let batch = (0..n).map(|i| kit::message(IN, &format!("message {i}"))).collect();
        published.extend(log.publish(batch).await.unwrap().iter().map(|one| one.id.sequence.0));
    }
    published
}

/// Claims and settles until all is published and its group has nothing left.
async fn work(
    log: DynLog,
    mut dice: StdRng,
    name: String,
    group: u8,
    all_is_published: Arc<AtomicBool>,
) -> Vec<Hold> {
    let of = GROUPS[usize::from(group)];
    let waiter = log.waiter(&kit::topic(IN), &kit::group(of));
    let mut held = Vec::new();
    loop {
        let over = all_is_published.load(Ordering::Relaxed);
        let request = ClaimRequest {
            worker: name.as_str().into(),
            ..kit::request(IN, of, dice.random_range(1..=64))
        };
        let claims = log.claim(request).await.unwrap();
        if !claims.is_empty() {
            held.extend(settle(&log, &mut dice, group, &claims).await);
            continue;
        }
        let lag = if over { lag(&log, of).await } else { 1 };
        if lag == 0 {
            return held;
        }
        let _looked_again = tokio::time::timeout(LOOK, waiter.woken()).await;
    }
}

async fn lag(log: &DynLog, of: &str) -> u64 {
    let state = kit::state(log, IN).await;
    state.groups.iter().find(|state| state.group.as_str() == of).unwrap().counts.lag()
}

/// Settles most of them in one call; what became of each.
async fn settle(log: &DynLog, dice: &mut StdRng, group: u8, claims: &[Claim]) -> Vec<Hold> {
    let mut settlements: Vec<Settlement> = Vec::with_capacity(claims.len());
    let mut held = Vec::with_capacity(claims.len());
    let mut settled = Vec::with_capacity(claims.len());
    for claim in claims {
        let (how, disposition) = match dice.random_range(0..200) {
            0 => (How::Left, None),
            1..6 => {
                let delay = Duration::from_millis(dice.random_range(0..20));
                (How::Retried, Some(kit::retried(delay)))
            }
            6..10 => (How::Released, Some(Disposition::Release)),
            _ => (How::Acked, Some(kit::acked())),
        };
        held.push(Hold {
            group,
            sequence: claim.message.id.sequence.0,
            from: claim.lease_until.0 - millis(LEASE),
            until: claim.lease_until.0,
            attempt: claim.attempt,
            how,
        });
        if let Some(disposition) = disposition {
            settled.push(held.len() - 1);
            settlements.push(kit::settlement(claim.token, disposition));
        }
    }
    let before = log.now().0;
    let answers = log.settle(settlements).await;
    for (at, answer) in settled.into_iter().zip(answers) {
        match answer.unwrap() {
            // The token was the current one when it was acted on, which was later than this.
            Settled::Applied => held[at].until = before,
            Settled::LeaseLost | Settled::AlreadySettled => held[at].how = How::Lost,
            Settled::DeadLettered => panic!("there are attempts enough"),
        }
    }
    held
}

fn file(folder: &Path, what: &str, number: u64) -> PathBuf {
    folder.join(format!("{what}-{number}"))
}

fn write(folder: &Path, number: u64, published: &[u64], held: &[Hold]) {
    let numbers: Vec<u8> = published.iter().flat_map(|one| one.to_le_bytes()).collect();
    std::fs::write(file(folder, "published", number), numbers).unwrap();
    let mut bytes = Vec::with_capacity(held.len() * BYTES);
    for hold in held {
        bytes.push(hold.group);
        bytes.push(u8::try_from(HOW.iter().position(|how| *how == hold.how).unwrap()).unwrap());
        bytes.extend(hold.attempt.to_le_bytes());
        for number in [hold.sequence, hold.from, hold.until] {
            bytes.extend(number.to_le_bytes());
        }
    }
    std::fs::write(file(folder, "held", number), bytes).unwrap();
}

/// What a process wrote down: the sequences it published, and the claims of its workers.
pub(super) fn read(folder: &Path, number: u64) -> (Vec<u64>, Vec<Hold>) {
    let number_of = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    let published = std::fs::read(file(folder, "published", number)).unwrap();
    let held = std::fs::read(file(folder, "held", number)).unwrap();
    let one = |bytes: &[u8]| Hold {
        group: bytes[0],
        how: HOW[usize::from(bytes[1])],
        attempt: u32::from_le_bytes(bytes[2..6].try_into().unwrap()),
        sequence: number_of(&bytes[6..14]),
        from: number_of(&bytes[14..22]),
        until: number_of(&bytes[22..30]),
    };
    (
        published.chunks_exact(8).map(number_of).collect(),
        held.chunks_exact(BYTES).map(one).collect(),
    )
}
