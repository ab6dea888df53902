//! `windlass doctor`: looks at a log, its file and its disk, and says what to do.

use super::failure::{Exit, Failure};
use super::open::{self, LogArgs};
use super::sheet::Sheet;
use super::ui::{Tone, Ui, clean, span};
use crate::bench::figures::percentile;
use crate::doctor::disk::Disk;
use crate::doctor::{self, Finding, Level};
use crate::storage::chain;
use crate::wire::{DoctorBody, when};
use bytesize::ByteSize;
use std::time::Duration;
use windlass_log::{DynLog, FileHealth, Health, LogError, Recount};

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// What was found out.
struct Look {
    health: Option<Health>,
    recount: Option<Recount>,
    disk: Disk,
    findings: Vec<Finding>,
}

pub(crate) async fn run(args: Args, ui: &Ui) -> Result<Exit, Failure> {
    let folder = open::folder(&args.log)?;
    let log = open::read_only(&args.log).await?;
    let shown = folder.display().to_string();
    let beside = folder.clone();
    let disk = tokio::task::spawn_blocking(move || Disk::look(&beside)).await;
    let disk = disk.map_err(|_| Failure::new("looking at the disk was cut short"))?;
    let look = look(&log, disk, &shown, &args.log.flag()).await;
    log.close().await;
    if ui.json {
        let (health, recount) = (look.health.as_ref(), look.recount.as_ref());
        ui.object(&DoctorBody::new(&shown, health, &look.disk, recount, &look.findings));
    } else {
        ui.data(&describe(&shown, &look));
        for finding in &look.findings {
            let tone = if finding.level == Level::Error { Tone::Bad } else { Tone::Warn };
            let level = ui.tone(tone, finding.level.name());
            ui.data(&format!("\n{level}: {}", clean(&finding.what)));
            ui.data(&format!("  next: {}", clean(&finding.next)));
        }
        ui.data(&format!("\n{}", summary(&look.findings)));
    }
    let wrong = look.findings.iter().any(|finding| finding.level == Level::Error);
    Ok(if wrong { Exit::Error } else { Exit::Done })
}

/// Whatever can be read is told, whatever cannot.
async fn look(log: &DynLog, disk: Disk, folder: &str, flag: &str) -> Look {
    let mut findings = Vec::new();
    let health = known("the log's settings", log.health().await, &mut findings);
    let topics = known("the topics", log.topics().await, &mut findings).unwrap_or_default();
    let recount = known("all that is stored", log.recount().await, &mut findings);
    findings.extend(recount.iter().flat_map(doctor::of_recount));
    findings.extend(health.iter().flat_map(doctor::of_log));
    findings.extend(doctor::of_disk(&disk, folder));
    let now = log.now();
    findings.extend(topics.iter().flat_map(|topic| doctor::of_topic(topic, now, flag)));
    Look { health, recount, disk, findings }
}

fn known<T>(what: &str, answer: Result<T, LogError>, findings: &mut Vec<Finding>) -> Option<T> {
    answer.map_err(|error| findings.push(Finding::unreadable(what, &chain(&error)))).ok()
}

fn summary(findings: &[Finding]) -> String {
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    match (errors, findings.len() - errors) {
        (0, 0) => "all is as it should be".to_owned(),
        (0, warnings) => format!("nothing is wrong with the log; warnings: {warnings}"),
        (errors, warnings) => format!("errors: {errors}, warnings: {warnings}"),
    }
}

fn describe(folder: &str, look: &Look) -> String {
    let mut sheet = Sheet::new(folder);
    sheet.line("windlass", env!("CARGO_PKG_VERSION"));
    if let Some(health) = &look.health {
        if let Some(file) = &health.file {
            describe_file(&mut sheet, file);
        }
        sheet.line("promises", &health.capabilities.to_string());
        let ahead = health.clock.ahead_ms();
        let off = span(Duration::from_millis(ahead.unsigned_abs()));
        let side = if ahead < 0 { "behind" } else { "ahead of" };
        let now = when(health.clock.now.0);
        sheet.line("log time", &format!("{now}, {off} {side} the wall clock"));
        let boot = if health.clock.this_boot { "this one" } else { "an earlier one" };
        sheet.line("boot", &format!("{boot} ({})", health.clock.boot_id));
    }
    let disk = &look.disk;
    let free = disk.free_bytes.map_or("-".to_owned(), |free| ByteSize(free).to_string());
    sheet.line("disk", &format!("{}, {free} free", disk.filesystem));
    let of =
        |share| percentile(&disk.syncs, share).map(|ms| span(Duration::from_secs_f64(ms / 1e3)));
    if let (Some(p50), Some(p99)) = (of(0.5), of(0.99)) {
        sheet.line("fsync", &format!("{p50} at p50, {p99} at p99 (4 KiB overwritten and synced)"));
    }
    if let Some(recount) = &look.recount {
        let Recount { topics, groups, rows, disturbed, .. } = recount;
        sheet.line("recounted", &format!("{rows} rows of {topics} topics and {groups} groups"));
        if *disturbed > 0 {
            sheet.line("", &format!("{disturbed} of them changed too fast to be compared"));
        }
    }
    sheet.into_text()
}

fn describe_file(sheet: &mut Sheet, file: &FileHealth) {
    sheet.line("SQLite", &format!("{} ({})", file.sqlite, file.compile_options.join(", ")));
    sheet.line("schema", &file.schema.to_string());
    let vacuum = if file.auto_vacuum { "incremental" } else { "off" };
    let journal = file.journal_mode.as_deref().unwrap_or("not in use");
    sheet.line(
        "settings",
        &format!(
            "journal {journal}, synchronous {}, auto-vacuum {vacuum}, pages of {} bytes",
            file.synchronous, file.page_size
        ),
    );
    let free = ByteSize(file.free_pages * file.page_size);
    sheet.line("database", &format!("{}, {free} of it free", ByteSize(file.bytes)));
    let (wal, cap) = (ByteSize(file.wal_bytes), ByteSize(file.wal_cap_bytes));
    sheet.line("write-ahead", &format!("{wal}, cut back to {cap}"));
    sheet.line("listening", &format!("{} processes", file.listeners));
}
