//! What other groups of a topic, and other processes of a log, cost a publisher.

use super::figures::{Pairs, millis, rate};
use super::log::{self, Load};
use super::report::Crowded;
use anyhow::Context as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;
use windlass_core::{NewMessage, Topic};
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_log::{DynLog, LogAdmin as _, MessageLog as _};

/// Groups of the crowded topic.
const CROWD: usize = 10;
const ROUNDS: usize = 5;
/// Publishes of the other process, one at a time.
const LONE: usize = 200;
/// Between two of them.
const REST: Duration = Duration::from_millis(10);
/// Longer than any of them may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Publishes of one order to the producers that keep this process busy meanwhile.
const BUSY: usize = 4_096;

/// What the other process says.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lone {
    /// Milliseconds of each publish.
    times_ms: Vec<f64>,
}

/// How many times as long a load takes its publishers where the topic has ten groups, by where it
/// has one: the medians of rounds taken in turn.
pub(super) async fn ten_groups(log: &DynLog, load: Load) -> anyhow::Result<Crowded> {
    let mut sides = Vec::new();
    for (name, count) in [("bench/one-group", 1), ("bench/ten-groups", CROWD)] {
        let (topic, groups) = (Topic::new(name)?, log::groups(count)?);
        log::declare(log, &topic, &groups).await?;
        sides.push((topic, groups));
    }
    let (mut publishing, mut claiming) = (Pairs::default(), Pairs::default());
    for round in 0..=ROUNDS {
        let (mut alone, mut beside) = (Vec::new(), Vec::new());
        for (topic, groups) in &sides {
            alone.push(log::publish(log, topic, load).await?.rate);
            log::acked(log, topic, groups, load.messages).await?;
            let through = log::publish_claim_ack(log, topic, groups, load).await?;
            beside.push(rate(load.messages, through.published));
        }
        // The first one is not counted: the file grows in it.
        if let (true, [alone_1, alone_10], [beside_1, beside_10]) =
            (round > 0, alone.as_slice(), beside.as_slice())
        {
            publishing.push(*alone_1, *alone_10);
            claiming.push(*beside_1, *beside_10);
        }
    }
    Ok(Crowded { publish: publishing.ratio(), beside_claims: claiming.ratio() })
}

/// How long publishes of another process take, one at a time, while this one publishes as fast as
/// it can; in milliseconds. `program` is the binary that has [`lone`] behind its command line.
pub(super) async fn lone_beside_load(
    log: &DynLog,
    folder: &Path,
    program: &Path,
    load: Load,
) -> anyhow::Result<Vec<f64>> {
    let topic = Topic::new("bench/busy")?;
    log::unbounded(log, &topic).await?;
    let busy = Load { messages: BUSY, ..load };
    let child = Command::new(program)
        .args(["bench", "--json", "--lone-publisher"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("`{}` does not start", program.display()))?;
    let mut other = std::pin::pin!(tokio::time::timeout(PATIENCE, child.wait_with_output()));
    loop {
        tokio::select! {
            ended = &mut other => {
                let output = ended.context("the other process did not end")??;
                anyhow::ensure!(output.status.success(), "the other process failed");
                return Ok(serde_json::from_slice::<Lone>(&output.stdout)?.times_ms);
            }
            published = log::publish(log, &topic, busy) => { published?; }
        }
    }
}

/// The other process: publishes one message after another, with rests; how long each took.
pub(crate) async fn lone(folder: &Path, payload: usize) -> anyhow::Result<Lone> {
    let log = SqliteLog::open(folder, OpenOptions::default()).await?;
    let topic = Topic::new("bench/lone")?;
    let mut times_ms = Vec::with_capacity(LONE);
    for _ in 0..LONE {
        tokio::time::sleep(REST).await;
        let message = NewMessage::new(topic.clone(), vec![7_u8; payload]);
        let since = Instant::now();
        log.publish(vec![message]).await?;
        times_ms.push(millis(since.elapsed()));
    }
    log.close().await;
    Ok(Lone { times_ms })
}
