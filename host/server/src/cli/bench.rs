//! `windlass bench`.

use super::failure::Failure;
use super::ui::{Tone, Ui, table};
use crate::bench::{self, Options, Report, SYNC_MS_BINDING};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

/// The largest backlog that claims are measured with.
const BACKLOG_MOST: usize = 1_000_000;
/// How much larger that is than a round, where nothing is said.
const BACKLOG_TIMES: usize = 64;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to measure; the disk under it is what counts. A folder is made in it and removed.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Messages of one round of each measure. With fewer, the backlog is smaller too.
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = at_least(64))]
    messages: u64,
    /// Bytes of each message.
    #[arg(long, value_name = "BYTES", default_value_t = 256, value_parser = at_least(0))]
    payload: u64,
    /// Producers that publish, each waiting for its answer.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least(1))]
    producers: u64,
    /// Groups that each claim and ack all that is published without a component.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = at_least(1))]
    groups: u64,
    /// Give what is published one of so many keys in turn; 0 for none.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = at_least(0))]
    keys: u64,
    /// Messages that wait in the largest case that claims are measured with.
    #[arg(long, value_name = "N", value_parser = at_least(0))]
    backlog: Option<u64>,
    /// Only publish to the log in this folder, one message at a time, and print the times: what a
    /// run starts as another process.
    #[arg(long, value_name = "DIR", hide = true)]
    lone_publisher: Option<PathBuf>,
}

fn at_least(least: u64) -> clap::builder::RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(least..=1 << 20)
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let failed = |error: anyhow::Error| Failure::of(error.as_ref()).because("while measuring");
    if let Some(log) = args.lone_publisher {
        let times = bench::lone(&log, size(args.payload)).await.map_err(failed)?;
        ui.object(&times);
        return Ok(());
    }
    let folder = tempfile::Builder::new()
        .prefix("windlass-bench-")
        .tempdir_in(&args.dir)
        .map_err(|error| Failure::system("no folder can be made to measure in", &error))?;
    let messages = size(args.messages);
    let usual = BACKLOG_MOST.min(messages.saturating_mul(BACKLOG_TIMES));
    let options = Options {
        messages,
        backlog: args.backlog.map_or(usual, size),
        payload: size(args.payload),
        producers: size(args.producers),
        groups: size(args.groups),
        keys: size(args.keys),
        program: std::env::current_exe().ok(),
    };
    // In this order: who is told that something is measured may end it.
    let measured = tokio::select! {
        biased;
        () = told_to_end() => return Err(Failure::new("interrupted")),
        measured = bench::run(folder.path(), options, |next| ui.note(&format!("measuring {next}"))) => measured,
    };
    let report = measured.map_err(failed)?;
    if ui.json {
        ui.object(&report);
    } else {
        ui.data(&describe(&report, ui));
    }
    Ok(())
}

/// Returns when somebody wants the run to end; the folder must go nevertheless.
async fn told_to_end() {
    let Ok(mut term) = signal(SignalKind::terminate()) else {
        drop(tokio::signal::ctrl_c().await);
        return;
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        _ = term.recv() => {}
    }
}

fn describe(report: &Report, ui: &Ui) -> String {
    let rate = |rate: Option<f64>| rate.map_or_else(none, |rate| format!("{rate:.0}/s"));
    let times = |ratio: Option<f64>| ratio.map_or_else(none, |ratio| format!("{ratio:.2}"));
    let ms = |ms: Option<f64>| ms.map_or_else(none, |ms| format!("{ms:.2} ms"));
    let Report { bare, ratio, .. } = report;
    let mut rows = Vec::new();
    for (name, ours, bare, ratio, target) in [
        ("publish", report.publish_per_s, bare.insert_64, ratio.publish, "0.80"),
        (
            "publish, claim, ack",
            report.publish_claim_ack_per_s,
            bare.row_queue_pipeline,
            ratio.publish_claim_ack,
            "2.00",
        ),
        (
            "end to end, warm",
            report.end_to_end_per_s,
            bare.row_queue_pipeline,
            ratio.end_to_end,
            "1.20",
        ),
        (
            "end to end, fresh",
            report.end_to_end_fresh_per_s,
            bare.row_queue_pipeline,
            ratio.end_to_end_fresh,
            "",
        ),
        ("fresh instances", report.fresh_per_s, bare.fresh, ratio.fresh, "0.90"),
    ] {
        rows.push(vec![name.to_owned(), rate(ours), rate(bare), times(ratio), target.to_owned()]);
    }
    let idle = report.idle_latency_ms;
    let lone = report.lone_publish_ms;
    for (name, time, target) in [
        ("publish, until answered, p50", report.publish_ms.p50, ""),
        ("publish, until answered, p99", report.publish_ms.p99, ""),
        ("lone publish beside a load, p50", lone.p50, ""),
        ("lone publish beside a load, p99", lone.p99, "100 ms"),
        ("idle latency, p50", idle.p50, "1 ms"),
        ("idle latency, p99", idle.p99, "5 ms"),
    ] {
        rows.push(vec![name.to_owned(), ms(time), String::new(), String::new(), target.to_owned()]);
    }
    let cost = report.ten_groups_cost;
    for (name, ratio, target) in [
        ("publishers' time, ten groups by one", cost.publish, "under 2.00"),
        ("the same while all of them claim", cost.beside_claims, ""),
    ] {
        let none = String::new();
        rows.push(vec![name.to_owned(), none.clone(), none, times(ratio), target.to_owned()]);
    }
    let few = report.claim_ms.get("waiting_1000").copied().flatten();
    for (case, time) in &report.claim_ms {
        let against = time.zip(few).map(|(time, few)| time / few);
        let target = match case.as_str() {
            "waiting_1000" => "",
            case if case.starts_with("leased") => "at most 1.50",
            _ => "at most 1.25",
        };
        let name = format!("claim of 64, {}", case.replace('_', " "));
        rows.push(vec![name, ms(*time), ms(few), times(against), target.to_owned()]);
    }
    let mut text = table(&["measure", "here", "bare or 1000", "ratio", "target"], rows, 1);
    let sync = format!(
        "\nsync of 4 KiB: p50 {}, p99 {}; medians of {} rounds of {} messages of {} bytes",
        ms(report.fsync_ms.p50),
        ms(report.fsync_ms.p99),
        report.rounds,
        report.messages,
        report.payload
    );
    text.push_str(&sync);
    if !report.binding {
        let slow = format!(
            "\nthe targets do not bind here: this disk, or a busy machine, takes more than \
             {SYNC_MS_BINDING} ms to sync"
        );
        text.push_str(&ui.tone(Tone::Warn, &slow));
    }
    text
}

fn none() -> String {
    "-".to_owned()
}
