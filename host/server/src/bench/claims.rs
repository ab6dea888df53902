//! What a claim of 64 costs, whatever waits, is leased or will be due.
//!
//! Each case is a topic of one log. They are claimed from in turn, after the log was opened anew,
//! so that every claim reads its messages from the file; what a claim takes is acked outside of
//! the time measured.

use super::figures::{median, millis};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::Path;
use std::time::{Duration, Instant};
use windlass_core::{AttemptRecord, Disposition, Group, GroupPolicy, NewMessage, Timestamp, Topic};
use windlass_log::Prefer;
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_log::{Claim, ClaimRequest, DynLog, GroupSpec, Settlement, Start};

const CLAIM: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);
/// Messages of one publish while loading.
const LOAD: usize = 1_024;
/// Claims of each case.
const ROUNDS: usize = 40;
/// So few waiting that claims empty it; there are several such topics, of which each is claimed
/// from a few times.
const FEW: usize = 1_000;
const FEW_CLAIMS: usize = 4;
const LEASED: usize = 5_000;
/// What a case with something in the way has behind it.
const BEHIND: usize = 2 * ROUNDS * 64;
/// Longer than any run.
const LATER: Duration = Duration::from_hours(2);

/// One case.
struct Case {
    name: String,
    topics: Vec<Topic>,
    times: Vec<f64>,
}

/// Medians in milliseconds, by case; `backlog` is how many wait in the largest one.
pub(super) async fn measure(
    folder: &Path,
    backlog: usize,
    payload: usize,
) -> anyhow::Result<BTreeMap<String, Option<f64>>> {
    let backlog = backlog.max(BEHIND);
    let retrying = backlog / 10;
    let few: Vec<usize> = (0..ROUNDS.div_ceil(FEW_CLAIMS)).collect();
    let topic = |name: &str| Topic::new(&format!("bench/{name}"));
    let mut cases = [
        (format!("waiting_{FEW}"), "few"),
        (format!("waiting_{backlog}"), "many"),
        (format!("retrying_{retrying}"), "retrying"),
        (format!("leased_{LEASED}"), "leased"),
        ("blocked_key".to_owned(), "blocked"),
    ]
    .map(|(name, topic)| (name, topic, Vec::new()));
    for (_, name, topics) in &mut cases {
        if *name == "few" {
            *topics = few.iter().map(|at| topic(&format!("few/{at}"))).collect::<Result<_, _>>()?;
        } else {
            *topics = vec![topic(name)?];
        }
    }
    let log = open(folder).await?;
    for (_, name, topics) in &cases {
        for topic in topics {
            declare(&log, topic).await?;
            match *name {
                "few" => load(&log, topic, FEW, payload).await?,
                "many" => load(&log, topic, backlog, payload).await?,
                "retrying" => {
                    load(&log, topic, retrying + BEHIND, payload).await?;
                    put_off(&log, topic, retrying).await?;
                }
                "blocked" => {
                    load_key(&log, topic, retrying, payload).await?;
                    load(&log, topic, BEHIND, payload).await?;
                    block(&log, topic).await?;
                }
                _ => {
                    load(&log, topic, LEASED + BEHIND, payload).await?;
                    for _ in 0..LEASED.div_ceil(CLAIM.get()) {
                        claim(&log, topic).await?;
                    }
                }
            }
        }
    }
    log.close().await;
    let log = open(folder).await?;
    let mut cases = cases.map(|(name, _, topics)| Case { name, topics, times: Vec::new() });
    for round in 0..ROUNDS {
        for case in &mut cases {
            let Some(topic) = case.topics.get(round / FEW_CLAIMS).or(case.topics.first()) else {
                continue;
            };
            if round % FEW_CLAIMS == 0 {
                // A process reads a topic and its group once, which is not what is measured.
                let first = claim(&log, topic).await?;
                settle(&log, first, || Disposition::Ack { sends: Vec::new() }).await?;
            }
            let since = Instant::now();
            let claims = claim(&log, topic).await?;
            case.times.push(millis(since.elapsed()));
            anyhow::ensure!(claims.len() == CLAIM.get(), "a claim of 64 got {}", claims.len());
            settle(&log, claims, || Disposition::Ack { sends: Vec::new() }).await?;
        }
    }
    log.close().await;
    Ok(cases.into_iter().map(|case| (case.name, median(&case.times))).collect())
}

/// Messages of one key.
async fn load_key(
    log: &DynLog,
    topic: &Topic,
    messages: usize,
    payload: usize,
) -> anyhow::Result<()> {
    let mut message = NewMessage::new(topic.clone(), vec![7_u8; payload]);
    message.key = Some("blocked".to_owned());
    let mut left = messages;
    while left > 0 {
        let some = left.min(LOAD);
        log.publish(vec![message.clone(); some]).await?;
        left -= some;
    }
    Ok(())
}

/// Leases the first of the key for longer than any run; the others of it are passed by, once.
async fn block(log: &DynLog, topic: &Topic) -> anyhow::Result<()> {
    loop {
        let mut claims = claim(log, topic).await?;
        claims.retain(|claim| claim.message.key.is_none());
        if !claims.is_empty() {
            return settle(log, claims, || Disposition::Release).await;
        }
    }
}

async fn open(folder: &Path) -> anyhow::Result<DynLog> {
    let options = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    Ok(SqliteLog::open(folder, options).await?)
}

async fn declare(log: &DynLog, topic: &Topic) -> anyhow::Result<()> {
    super::log::unbounded(log, topic).await?;
    let policy = GroupPolicy { lease: LATER, ..GroupPolicy::default() };
    let (topic, group, start) = (topic.clone(), Group::work_queue(), Start::Earliest);
    log.declare_groups(vec![GroupSpec { topic, group, policy, start }]).await?;
    Ok(())
}

async fn load(log: &DynLog, topic: &Topic, messages: usize, payload: usize) -> anyhow::Result<()> {
    let data = bytes::Bytes::from(vec![7_u8; payload]);
    let mut left = messages;
    while left > 0 {
        let some = left.min(LOAD);
        log.publish(vec![NewMessage::new(topic.clone(), data.clone()); some]).await?;
        left -= some;
    }
    Ok(())
}

async fn claim(log: &DynLog, topic: &Topic) -> anyhow::Result<Vec<Claim>> {
    let (topic, group, worker) = (topic.clone(), Group::work_queue(), "bench".into());
    Ok(log
        .claim(ClaimRequest {
            topic,
            group,
            worker,
            max: CLAIM,
            start: None,
            prefer: Prefer::Order,
        })
        .await?)
}

async fn settle(
    log: &DynLog,
    claims: Vec<Claim>,
    disposition: impl Fn() -> Disposition,
) -> anyhow::Result<()> {
    let settlement = |claim: Claim| Settlement {
        token: claim.token,
        disposition: disposition(),
        record: Some(AttemptRecord {
            attempt: 1,
            at: Timestamp(0),
            worker: String::new(),
            revision: String::new(),
            outcome: "bench".into(),
            text: String::new(),
        }),
    };
    for settled in log.settle(claims.into_iter().map(settlement).collect()).await {
        settled?;
    }
    Ok(())
}

/// Makes `messages` of a topic wait for long.
async fn put_off(log: &DynLog, topic: &Topic, messages: usize) -> anyhow::Result<()> {
    let mut left = messages;
    while left > 0 {
        let claims = claim(log, topic).await?;
        anyhow::ensure!(!claims.is_empty(), "{left} messages were not there to be put off");
        left = left.saturating_sub(claims.len());
        settle(log, claims, || Disposition::Retry { delay: LATER, counted: true }).await?;
    }
    Ok(())
}
