//! `windlass bench`: what this machine does, beside what it could do bare.
//!
//! Every measure is taken in rounds, in turn with its reference (bare, ours, bare, ours), because
//! disks and machines change their speed while they are looked at. Owns the order and the
//! budget; each measure is a room of its own below.

mod bare_guest;
mod bare_log;
mod claims;
mod crowd;
pub(crate) mod disk;
pub(crate) mod figures;
mod guests;
mod log;
mod report;

pub(crate) use crowd::lone;
pub(crate) use report::Report;

use bare_guest::BareGuest;
use bare_log::{CLAIM, RowQueue, pipeline};
use figures::{Pairs, median, percentile, rate, whole};
use guests::{Guests, WARM};
use log::Load;
use report::Spread;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_core::Topic;
use windlass_log::DynLog;
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_runtime::{Engine, EngineConfig, InstancePolicy};

/// Reads a message and sends nothing.
const COMPONENT: &[u8] = include_bytes!("../assets/bench.wasm");
/// A sync slower than this at p50, and the targets do not bind.
pub(crate) const SYNC_MS_BINDING: f64 = 0.5;
/// Overwrites of one look at the disk.
const SYNCS: u64 = 100;
/// Rounds of each measure, where there is time for them.
const ROUNDS: usize = 12;
/// Rounds before those, not counted: until files have grown and code is warm.
const WARM_UP: usize = 2;
const ROUNDS_MIN: usize = 3;
/// No round begins later than this after the first of its measure.
const BUDGET: Duration = Duration::from_secs(45);
/// A message of many for a fresh instance: those are dearer than the rest.
const FRESH_SHARE: usize = 4;
const IDLE_MESSAGES: usize = 200;
/// Producers of the pipelines.
const PIPELINE_PRODUCERS: usize = 256;

/// What is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Messages of one round.
    pub messages: usize,
    /// Messages that wait in the largest claim case.
    pub backlog: usize,
    /// Bytes of a message.
    pub payload: usize,
    /// Producers of the publish measure.
    pub producers: usize,
    /// Groups that each claim and ack what the pipeline without a component is given.
    pub groups: usize,
    /// So many keys, in turn, on what is published; none where it is 0.
    pub keys: usize,
    /// The binary to start as another process; without one that is not measured.
    pub program: Option<PathBuf>,
}

impl Options {
    fn load(&self, producers: usize) -> Load {
        let Self { messages, payload, keys, .. } = *self;
        Load { messages, payload, producers, keys }
    }
}

/// Measures everything in `folder`, which is empty. `progress` is told what comes next.
pub(crate) async fn run(
    folder: &Path,
    options: Options,
    progress: impl Fn(&str),
) -> anyhow::Result<Report> {
    let messages = options.messages.div_ceil(CLAIM) * CLAIM;
    let options = Options { messages, ..options };
    let mut report = Report {
        messages,
        payload: options.payload,
        groups: options.groups,
        keys: options.keys,
        ..Report::default()
    };
    progress("the disk");
    let mut syncs = sync_times(folder)?;
    let guests = Guests::new(&Engine::new(&EngineConfig::default())?, COMPONENT, options.payload)?;
    pipelines(folder, &options, &guests, &mut report, &progress).await?;
    syncs.extend(sync_times(folder)?);
    fresh(&options, &guests, &mut report, &progress).await?;
    progress("claims");
    let file = folder.join("claims");
    report.claim_ms = claims::measure(&file, options.backlog, options.payload).await?;
    syncs.extend(sync_times(folder)?);
    report.fsync_ms = spread(&syncs);
    report.binding = report.fsync_ms.p50.is_some_and(|p50| p50 < SYNC_MS_BINDING);
    Ok(report)
}

/// One look at the disk.
fn sync_times(folder: &Path) -> std::io::Result<Vec<f64>> {
    disk::sync_times(&folder.join("sync"), SYNCS)
}

fn spread(times: &[f64]) -> Spread {
    Spread { p50: median(times), p99: percentile(times, 0.99) }
}

/// The measures over the SQLite log beside the bare row queue, all in the same rounds.
async fn pipelines(
    folder: &Path,
    options: &Options,
    guests: &Guests,
    report: &mut Report,
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    let &Options { messages, payload, .. } = options;
    let (load, pipeline_load) = (options.load(options.producers), options.load(PIPELINE_PRODUCERS));
    let mut bare = RowQueue::open(&folder.join("bare.db"), payload).await?;
    let open = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    let log: DynLog = SqliteLog::open(&folder.join("log"), open).await?;
    let topic = Topic::new("bench/pipeline")?;
    let handled = Topic::new("bench/handled")?;
    let idle = Topic::new("bench/idle")?;
    let (queue, groups) = (log::groups(1)?, log::groups(options.groups)?);
    for (topic, groups) in [(&topic, &groups), (&handled, &queue), (&idle, &queue)] {
        log::declare(&log, topic, groups).await?;
    }
    let (mut inserts, mut publishes, mut acks) =
        (Pairs::default(), Pairs::default(), Pairs::default());
    let (mut warm, mut fresh, mut answers) = (Pairs::default(), Pairs::default(), Vec::new());
    progress("the log beside bare SQLite");
    let since = Instant::now();
    for round in 0..WARM_UP + ROUNDS {
        if round >= WARM_UP + ROUNDS_MIN && since.elapsed() > BUDGET {
            break;
        }
        let insert = bare.insert(messages).await?;
        let publishing = log::publish(&log, &topic, load).await?;
        log::acked(&log, &topic, &groups, messages).await?;
        let claim_delete = bare.claim_delete(messages).await?;
        let whole = pipeline(insert, claim_delete);
        let ack = log::publish_claim_ack(&log, &topic, &groups, pipeline_load).await?.acked;
        let through =
            async |instances| guests.end_to_end(&log, &handled, instances, pipeline_load).await;
        let through = [through(WARM).await?, through(InstancePolicy::Fresh).await?];
        if round >= WARM_UP {
            inserts.push(claim_delete, insert);
            publishes.push(publishing.rate, insert);
            answers.extend(publishing.times);
            acks.push(rate(messages, ack), whole);
            warm.push(through[0], whole);
            fresh.push(through[1], whole);
        }
    }
    progress("an idle log");
    let idle = guests.idle_latency(&log, &idle, IDLE_MESSAGES).await?;
    progress("ten groups");
    report.ten_groups_cost = crowd::ten_groups(&log, pipeline_load).await?;
    if let Some(program) = &options.program {
        progress("another process");
        let times = crowd::lone_beside_load(&log, &folder.join("log"), program, load).await?;
        report.lone_publish_ms = spread(&times);
    }
    log.close().await;
    bare.close().await?;
    report.rounds = publishes.ours.len();
    report.publish_ms = spread(&answers);
    report.publish_per_s = whole(median(&publishes.ours));
    report.publish_claim_ack_per_s = whole(median(&acks.ours));
    report.end_to_end_per_s = whole(median(&warm.ours));
    report.end_to_end_fresh_per_s = whole(median(&fresh.ours));
    report.idle_latency_ms = spread(&idle);
    report.bare.insert_64 = whole(median(&publishes.bare));
    report.bare.claim_delete_256 = whole(median(&inserts.ours));
    report.bare.row_queue_pipeline = whole(median(&acks.bare));
    report.ratio.publish = publishes.ratio();
    report.ratio.publish_claim_ack = acks.ratio();
    report.ratio.end_to_end = warm.ratio();
    report.ratio.end_to_end_fresh = fresh.ratio();
    Ok(())
}

/// Fresh instances over the memory log beside a bare loop.
async fn fresh(
    options: &Options,
    guests: &Guests,
    report: &mut Report,
    progress: &impl Fn(&str),
) -> anyhow::Result<()> {
    let messages = options.messages.div_ceil(FRESH_SHARE);
    let threads = tokio::runtime::Handle::current().metrics().num_workers();
    let bare = BareGuest::new(COMPONENT, options.payload)
        .map_err(|error| anyhow::anyhow!("the bare loop does not start: {error:#}"))?;
    let (bare, topic) = (Arc::new(bare), Topic::new("bench/fresh")?);
    let mut rates = Pairs::default();
    progress("fresh instances beside bare wasmtime");
    let since = Instant::now();
    for round in 0..WARM_UP + ROUNDS {
        if round >= WARM_UP + ROUNDS_MIN && since.elapsed() > BUDGET {
            break;
        }
        let reference = bare.fresh(messages, threads).await?;
        let ours = guests.fresh(&topic, messages).await?;
        if round >= WARM_UP {
            rates.push(ours, reference);
        }
    }
    report.fresh_per_s = whole(median(&rates.ours));
    report.bare.fresh = whole(median(&rates.bare));
    report.ratio.fresh = rates.ratio();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_small_run_fills_the_whole_report() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            messages: 256,
            backlog: 6_000,
            payload: 16,
            producers: 4,
            groups: 2,
            keys: 16,
            program: None,
        };
        let report = run(folder.path(), options, |_| {}).await.unwrap();
        let report = serde_json::to_value(report).unwrap();
        for name in [
            "/fsync_ms/p50",
            "/fsync_ms/p99",
            "/publish_per_s",
            "/publish_ms/p50",
            "/publish_ms/p99",
            "/ten_groups_cost/publish",
            "/ten_groups_cost/beside_claims",
            "/publish_claim_ack_per_s",
            "/end_to_end_per_s",
            "/fresh_per_s",
            "/idle_latency_ms/p50",
            "/idle_latency_ms/p99",
            "/claim_ms/waiting_1000",
            "/claim_ms/waiting_6000",
            "/claim_ms/retrying_600",
            "/claim_ms/leased_5000",
            "/claim_ms/blocked_key",
            "/bare/insert_64",
            "/bare/row_queue_pipeline",
            "/bare/fresh",
            "/ratio/publish",
            "/ratio/publish_claim_ack",
            "/ratio/end_to_end",
            "/ratio/fresh",
        ] {
            let figure = report.pointer(name).and_then(serde_json::Value::as_f64);
            assert!(figure.is_some_and(|figure| figure > 0.0 || name.contains("idle")), "{name}");
        }
    }
}
