//! The recorded process: works on one log, opens and closes it, and says what it was answered.
//!
//! Every answer is told by one write to the recorder's file of marks, after it was given; an ack,
//! a dead-lettering and a redrive are announced before they are asked for.

use super::recorder::{MARKS, NEVER_SYNC, RUN};
use crate::crash::number;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::fs::File;
use std::io::Write;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;
use windlass_core::{Disposition, GroupPolicy, MessageId, NewMessage};
use windlass_log::conformance::kit;
use windlass_log::sqlite::{FILE_NAME, Faults, OpenOptions, SqliteLog};
use windlass_log::{Claim, DeadLetterFilter, Declared, DynLog, LogError, Settled};

/// Where messages are published, and the groups that read them.
pub(super) const IN: &str = "in";
pub(super) const GROUPS: [&str; 2] = ["a", "b"];
/// Where an acked message sends to, and a group there that the process does not claim for.
pub(super) const OUT: &str = "out";
pub(super) const SINK: &str = "sink";
/// Bytes written before one of the log's own checkpoints, where calls may fail.
const CHECKPOINT_EVERY: u64 = 128 << 10;
/// Longer than any call may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much a process does: it opens the log so often, and each time so many tasks take so many
/// steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) rounds: u64,
    pub(super) tasks: u64,
    pub(super) steps: u64,
    /// Whether calls may fail, and the log is to work after that.
    pub(super) faults: bool,
}

impl Amount {
    /// As it is handed to the process.
    pub(super) fn text(self, seed: u64) -> String {
        let Self { rounds, tasks, steps, faults } = self;
        format!("{seed} {rounds} {tasks} {steps} {}", u8::from(faults))
    }

    fn given() -> (u64, Self) {
        let text = std::env::var(RUN).unwrap();
        let numbers: Vec<u64> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let [seed, rounds, tasks, steps, faults] = numbers[..] else { panic!("`{text}`") };
        (seed, Self { rounds, tasks, steps, faults: faults > 0 })
    }
}

/// How many messages the ack of this one sends: half of all send nothing.
pub(super) fn sends_of(id: MessageId) -> u64 {
    if id.sequence.0.is_multiple_of(2) { 2 } else { 0 }
}

/// The data of a message whose payload is this: the payload's last part says how long it is.
pub(super) fn data_of(payload: &str) -> Vec<u8> {
    let length = payload.rsplit('/').next().unwrap().parse().unwrap();
    let mut data = format!("{payload} ").into_bytes();
    let pattern = data.clone();
    data.extend(pattern.iter().cycle().take(length));
    data
}

/// A group's policy with such a lease.
pub(super) fn policy(lease: Duration) -> GroupPolicy {
    GroupPolicy {
        lease,
        max_attempts: NonZeroU32::new(3).unwrap(),
        in_flight_max: NonZeroU32::MAX,
        ..GroupPolicy::default()
    }
}

/// Declares the groups; whether they were there, all of them.
pub(super) async fn declare(log: &DynLog, lease: Duration) -> Result<bool, LogError> {
    let groups = [(IN, GROUPS[0]), (IN, GROUPS[1]), (OUT, SINK)];
    let specs = groups.map(|(topic, group)| kit::spec(topic, group, policy(lease)));
    let declared = log.declare_groups(specs.into()).await?;
    Ok(declared.iter().all(|one| *one == Declared::Known))
}

/// The whole process.
pub(super) fn main(folder: &Path) {
    let (seed, amount) = Amount::given();
    let faults = Faults::default();
    faults.never_sync.store(number(NEVER_SYNC, 0) > 0, Ordering::Relaxed);
    if amount.faults {
        // So that a short run has some of the log's own.
        faults.checkpoint_every.store(CHECKPOINT_EVERY, Ordering::Relaxed);
    }
    crate::crash::runtime().block_on(async {
        for round in 0..amount.rounds {
            let log = open(folder, &faults, amount).await;
            let mut tasks = tokio::task::JoinSet::new();
            for task in 0..amount.tasks {
                let dice = StdRng::seed_from_u64(seed ^ (round << 8) ^ task);
                let mut worker = Worker {
                    log: log.clone(),
                    dice,
                    marks: marks(),
                    name: format!("{round}.{task}"),
                    batch: 0,
                    file: None,
                    amount,
                };
                let folder = folder.to_owned();
                tasks.spawn(async move { worker.work(&folder).await });
            }
            while let Some(done) = tasks.join_next().await {
                done.unwrap();
            }
            let file = log.health().await.ok().and_then(|health| health.file);
            if file.is_some_and(|file| file.checkpoint_at.is_some()) {
                marks().write_all(b"checkpointed").unwrap();
            }
            tokio::time::timeout(PATIENCE, log.close()).await.expect("closing ends");
        }
    });
}

fn marks() -> File {
    let path = std::env::var_os(MARKS).unwrap();
    File::options().append(true).create(true).open(path).unwrap()
}

/// Opens the log and declares the groups; where something may fail once, again after it has.
async fn open(folder: &Path, faults: &Faults, amount: Amount) -> DynLog {
    let mut tries = if amount.faults { 3 } else { 1 };
    loop {
        tries -= 1;
        let options = OpenOptions {
            create: true,
            serve: true,
            faults: faults.clone(),
            ..OpenOptions::default()
        };
        let opened = tokio::time::timeout(PATIENCE, SqliteLog::open(folder, options));
        let log: DynLog = match opened.await.expect("opening ends") {
            Ok(log) => log,
            Err(_) if tries > 0 => continue,
            Err(error) => panic!("{error:?}"),
        };
        match declare(&log, Duration::from_millis(100)).await {
            // So that the sweep runs, too.
            Ok(_) => match log.set_retain(Duration::ZERO, 20).await {
                Ok(()) => {
                    marks().write_all(b"open").unwrap();
                    return log;
                }
                Err(_) if tries > 0 => log.close().await,
                Err(error) => panic!("{error:?}"),
            },
            Err(_) if tries > 0 => log.close().await,
            Err(error) => panic!("{error:?}"),
        }
    }
}

struct Worker {
    log: DynLog,
    dice: StdRng,
    marks: File,
    name: String,
    batch: u64,
    /// Of its own, for checkpoints.
    file: Option<SqliteConnection>,
    amount: Amount,
}

impl Worker {
    /// Says one thing: one write, one mark.
    fn say(&mut self, line: &str) {
        self.marks.write_all(line.as_bytes()).unwrap();
    }

    fn complain(&mut self, error: &LogError) {
        assert!(self.amount.faults && error.is_storage(), "{error:?}");
        self.say(&format!("error {error:?}"));
    }

    async fn work(&mut self, folder: &Path) {
        for _ in 0..self.amount.steps {
            tokio::time::timeout(PATIENCE, self.step(folder)).await.expect("every call ends");
        }
        if self.amount.faults {
            self.is_usable().await;
        }
        if let Some(file) = self.file.take() {
            file.close().await.unwrap();
        }
    }

    async fn step(&mut self, folder: &Path) {
        match self.dice.random_range(0..100) {
            0..40 => drop(self.publish().await),
            40..84 => self.consume().await,
            84..90 => self.redrive().await,
            90..94 => {
                if let Err(error) = self.log.sweep().await {
                    self.complain(&error);
                }
            }
            94..96 => {
                if let Err(error) = self.log.topic(&kit::topic(IN)).await {
                    self.complain(&error);
                }
            }
            _ => self.checkpoint(folder).await,
        }
    }

    /// Publishes one to three, small and large ones; whether that was answered well.
    async fn publish(&mut self) -> bool {
        let size = self.dice.random_range(1..=3);
        let length = [10, 300, 3_000, 9_000][self.dice.random_range(0..4)];
        self.batch += 1;
        let payload = |place| format!("{}.{}/{place}/{size}/{length}", self.name, self.batch);
        let payloads: Vec<String> = (0..size).map(payload).collect();
        let message = |payload: &String| NewMessage::new(kit::topic(IN), data_of(payload));
        match self.log.publish(payloads.iter().map(message).collect()).await {
            Ok(published) => {
                for (published, payload) in published.iter().zip(&payloads) {
                    self.say(&format!("published {} {payload}", published.id));
                }
                true
            }
            Err(error) => {
                for payload in payloads {
                    self.say(&format!("refused {payload}"));
                }
                self.complain(&error);
                false
            }
        }
    }

    async fn consume(&mut self) {
        let group = GROUPS[self.dice.random_range(0..2)];
        let request = kit::request(IN, group, self.dice.random_range(1..=8));
        let claims = match self.log.claim(request).await {
            Ok(claims) => claims,
            Err(error) => return self.complain(&error),
        };
        for claim in &claims {
            let text = String::from_utf8_lossy(&claim.message.data);
            let (payload, _) = text.split_once(' ').unwrap();
            let id = claim.message.id;
            self.say(&format!("claimed {id} {group} {payload} {}", claim.token));
        }
        for claim in &claims {
            if let Some(disposition) = self.disposition(claim, group) {
                self.settle(claim, group, disposition).await;
            }
        }
    }

    /// Settles; where that fails, once more with the same token.
    async fn settle(&mut self, claim: &Claim, group: &str, disposition: Disposition) {
        let id = claim.message.id;
        let settlement = kit::settlement(claim.token, disposition.clone());
        for _ in 0..if self.amount.faults { 2 } else { 1 } {
            match (self.log.settle(vec![settlement.clone()]).await.remove(0), &disposition) {
                (Ok(Settled::Applied), Disposition::Ack { .. }) => {
                    return self.say(&format!("acked {id} {group}"));
                }
                (Ok(Settled::Applied), Disposition::DeadLetter) => {
                    return self.say(&format!("buried {id} {group}"));
                }
                (Ok(_), _) => return,
                (Err(error), _) => self.complain(&error),
            }
        }
    }

    /// What to do with a claim; nothing: its lease ends. What is for good is announced.
    fn disposition(&mut self, claim: &Claim, group: &str) -> Option<Disposition> {
        let id = claim.message.id;
        Some(match self.dice.random_range(0..100) {
            0..65 => {
                self.say(&format!("means-ack {id} {group}"));
                let send = |n| kit::message(OUT, &format!("{id} {group} {n}"));
                Disposition::Ack { sends: (0..sends_of(id)).map(send).collect() }
            }
            65..80 => kit::retried(Duration::from_millis(self.dice.random_range(0..30))),
            80..88 => {
                self.say(&format!("means-bury {id} {group}"));
                Disposition::DeadLetter
            }
            88..95 => Disposition::Release,
            _ => return None,
        })
    }

    async fn redrive(&mut self) {
        let group = GROUPS[self.dice.random_range(0..2)];
        self.say(&format!("means-redrive {group}"));
        let all = DeadLetterFilter::default();
        let answer = self.log.redrive(&kit::topic(IN), Some(&kit::group(group)), &all).await;
        self.say(&format!("redriven {group}"));
        if let Err(error) = answer {
            self.complain(&error);
        }
    }

    /// From beside, as another process would; who is in its way makes it fail.
    async fn checkpoint(&mut self, folder: &Path) {
        if self.file.is_none() {
            let file = folder.join(FILE_NAME);
            let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
            let connected = options.busy_timeout(Duration::from_millis(5)).connect().await;
            let Ok(file) = connected else { return assert!(self.amount.faults) };
            self.file = Some(file);
        }
        let how = ["passive", "full", "restart", "truncate"][self.dice.random_range(0..4)];
        let file = self.file.as_mut().unwrap();
        let pragma = sqlx::AssertSqlSafe(format!("pragma wal_checkpoint({how})"));
        if sqlx::raw_sql(pragma).execute(file).await.is_err() && self.amount.faults {
            self.file = None;
        }
    }

    /// After whatever has failed, a publish and a claim go through without opening the log again.
    async fn is_usable(&mut self) {
        for attempt in 1.. {
            // One failure, but what had been begun by then may still fail with it.
            assert!(attempt <= 4, "the log does not work after one failure");
            if !self.publish().await {
                continue;
            }
            match self.log.claim(kit::request(IN, GROUPS[0], 1)).await {
                Err(error) => self.complain(&error),
                Ok(claims) => {
                    let Some(claim) = claims.first() else { continue };
                    let settled = kit::settlement(claim.token, Disposition::Release);
                    match self.log.settle(vec![settled]).await.remove(0) {
                        Ok(_) => return,
                        Err(error) => self.complain(&error),
                    }
                }
            }
        }
    }
}
