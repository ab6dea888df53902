//! What goes on during a soak.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use windlass_core::{Disposition, GroupPolicy, NewMessage, Sequence};
use windlass_log::conformance::kit;
use windlass_log::{
    Claim, DeadLetterFilter, DynLog, LogError, ReadFrom, ReadRequest, Settled, Settlement, Start,
    TopicLimits,
};

/// Where messages are published, where handlers send, and where copies of dead letters go.
const IN: &str = "soak/in";
const OUT: &str = "soak/out";
const COPIES: &str = "soak/copies";
/// Read by two workers each; the last one by nobody, so that it gets gaps.
const GROUPS: [(&str, &str); 4] = [(IN, "a"), (IN, "b"), (OUT, "sink"), (COPIES, "sink")];
const UNREAD: &str = "unread";
/// Comes and goes.
const PASSING: &str = "passing";
const PUBLISHERS: u64 = 2;
const LEASE: Duration = Duration::from_millis(500);
/// What a topic may hold; publishers meet it, and wait.
const MESSAGES_MAX: u64 = 20_000;

/// Tasks at work on a log.
pub(super) struct Work {
    tasks: JoinSet<()>,
    shared: Arc<Shared>,
}

struct Shared {
    stop: AtomicBool,
    published: AtomicU64,
    settled: AtomicU64,
}

impl Shared {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Work {
    pub(super) async fn begin(log: &DynLog, seed: u64) -> Self {
        declare(log).await;
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            published: AtomicU64::new(0),
            settled: AtomicU64::new(0),
        });
        let mut tasks = JoinSet::new();
        let dice = |task: u64| StdRng::seed_from_u64(seed ^ task << 32);
        for task in 0..PUBLISHERS {
            tasks.spawn(publish(log.clone(), Arc::clone(&shared), dice(task)));
        }
        for (task, (topic, group)) in GROUPS.iter().chain(&GROUPS).enumerate() {
            let dice = dice(10 + task as u64);
            tasks.spawn(consume(log.clone(), Arc::clone(&shared), dice, topic, group));
        }
        tasks.spawn(operate(log.clone(), Arc::clone(&shared), dice(90)));
        tasks.spawn(read(log.clone(), Arc::clone(&shared)));
        Self { tasks, shared }
    }

    /// Ends it; how many messages were published and settled here.
    pub(super) async fn end(mut self) -> (u64, u64) {
        self.shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        let figure = |of: &AtomicU64| of.load(Ordering::Relaxed);
        (figure(&self.shared.published), figure(&self.shared.settled))
    }
}

async fn declare(log: &DynLog) {
    let limits = TopicLimits {
        max_messages: MESSAGES_MAX,
        dedup_window: Duration::from_secs(1),
        retain: Some((Duration::from_secs(1), 2_000)),
        max_age: Some(Duration::from_secs(4)),
        ..TopicLimits::default()
    };
    for topic in [IN, OUT, COPIES] {
        log.set_limits(&kit::topic(topic), limits, false).await.unwrap();
    }
    let policy = |topic: &str| GroupPolicy {
        lease: LEASE,
        max_attempts: NonZeroU32::new(3).unwrap(),
        dead_letter_topic: (topic == IN).then(|| kit::topic(COPIES)),
        ..GroupPolicy::default()
    };
    let all = GROUPS.iter().chain(&[(IN, UNREAD)]);
    log.declare_groups(all.map(|(topic, group)| kit::spec(topic, group, policy(topic))).collect())
        .await
        .unwrap();
}

async fn publish(log: DynLog, shared: Arc<Shared>, mut dice: StdRng) {
    while shared.goes_on() {
        let batch: Vec<NewMessage> =
            (0..dice.random_range(1..=20)).map(|_| draw(&mut dice)).collect();
        let count = batch.len() as u64;
        match log.publish(batch).await {
            Ok(_) => {
                shared.published.fetch_add(count, Ordering::Relaxed);
            }
            Err(LogError::QuotaFull { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

fn draw(dice: &mut StdRng) -> NewMessage {
    let mut message = NewMessage::new(kit::topic(IN), vec![7_u8; dice.random_range(0..1_500)]);
    message.key = dice.random_bool(0.3).then(|| format!("key-{}", dice.random_range(0..50)));
    message.dedup_id = dice.random_bool(0.1).then(|| dice.random_range(0..5_000).to_string());
    let delay = |dice: &mut StdRng| Duration::from_millis(dice.random_range(0..2_000));
    message.delay = dice.random_bool(0.1).then(|| delay(dice));
    message
}

async fn consume(
    log: DynLog,
    shared: Arc<Shared>,
    mut dice: StdRng,
    topic: &'static str,
    group: &'static str,
) {
    let waiter = log.waiter(&kit::topic(topic), &kit::group(group));
    while shared.goes_on() {
        let claims =
            log.claim(kit::request(topic, group, dice.random_range(1..=64))).await.unwrap();
        if claims.is_empty() {
            // The end is not told by the waiter.
            let _woken = tokio::time::timeout(Duration::from_millis(200), waiter.woken()).await;
            continue;
        }
        let settlements = claims.iter().filter_map(|claim| settlement(&mut dice, claim, topic));
        for settled in log.settle(settlements.collect()).await {
            match settled {
                Ok(Settled::Applied | Settled::DeadLettered) => {
                    shared.settled.fetch_add(1, Ordering::Relaxed);
                }
                // A lease may end under load; what is sent may find no room, and the lease ends then.
                Ok(Settled::LeaseLost | Settled::AlreadySettled)
                | Err(LogError::QuotaFull { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// What becomes of a claim; nothing: its lease ends.
fn settlement(dice: &mut StdRng, claim: &Claim, topic: &str) -> Option<Settlement> {
    let disposition = match dice.random_range(0..100) {
        0..80 => Disposition::Ack { sends: Vec::new() },
        80..86 if topic == IN => {
            let send = || NewMessage::new(kit::topic(OUT), vec![8_u8; 100]);
            Disposition::Ack { sends: vec![send(), send()] }
        }
        86..94 => kit::retried(Duration::from_millis(dice.random_range(0..500))),
        94..96 => Disposition::DeadLetter,
        96..99 => Disposition::Release,
        _ => return None,
    };
    Some(kit::settlement(claim.token, disposition))
}

/// What operators do, over and over.
async fn operate(log: DynLog, shared: Arc<Shared>, mut dice: StdRng) {
    let (topic, passing) = (kit::topic(IN), kit::group(PASSING));
    while shared.goes_on() {
        tokio::time::sleep(Duration::from_millis(dice.random_range(50..300))).await;
        let filter = DeadLetterFilter::default();
        let told = match dice.random_range(0..8) {
            0 => log.redrive(&topic, Some(&kit::group("a")), &filter).await.map(drop),
            1 => log.purge_dead(&topic, None).await.map(drop),
            2 => log.add_group(kit::spec(IN, PASSING, GroupPolicy::default())).await,
            3 => log.remove_group(&topic, &passing, true).await.map(drop),
            4 => log.seek(&topic, &passing, Start::Latest).await,
            5 => log.acknowledge_gap(&topic, &kit::group(UNREAD)).await.map(drop),
            6 => log.release_worker(&topic, &kit::group("b"), "worker").await.map(drop),
            _ => log.topics().await.map(drop),
        };
        match told {
            // The other process does the same.
            Ok(()) | Err(LogError::NoGroup { .. } | LogError::BusyGroup { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Follows the stream, which never repeats and never goes back.
async fn read(log: DynLog, shared: Arc<Shared>) {
    let (topic, mut from, mut last) = (kit::topic(IN), ReadFrom::Latest, Sequence(0));
    let arrivals = log.arrivals(&topic);
    while shared.goes_on() {
        let request = ReadRequest { topic: topic.clone(), from, limit: kit::some(500) };
        let page = log.stream(request).await.unwrap();
        for read in &page.messages {
            assert!(read.id.sequence > last, "the stream went back");
            last = read.id.sequence;
        }
        from = ReadFrom::Position(page.position);
        if !page.more {
            let _woken = tokio::time::timeout(Duration::from_millis(200), arrivals.woken()).await;
        }
    }
}
