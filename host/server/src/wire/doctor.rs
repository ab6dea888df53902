//! What `doctor` finds, as JSON.

use super::when;
use crate::bench::figures::percentile;
use crate::doctor::disk::{Disk, Place};
use crate::doctor::{Finding, Level};
use serde::Serialize;
use windlass_log::{Capabilities, Drift, Fence, FileHealth, Health, Recount};

/// The one object of `doctor`. What could not be read is null.
#[derive(Debug, Serialize)]
pub(crate) struct DoctorBody<'a> {
    log: &'a str,
    version: &'static str,
    /// Nothing is wrong with the log.
    ok: bool,
    capabilities: Option<CapabilitiesBody>,
    clock: Option<ClockBody<'a>>,
    file: Option<FileBody<'a>>,
    disk: DiskBody<'a>,
    recount: Option<RecountBody<'a>>,
    findings: Vec<FindingBody<'a>>,
}

#[derive(Debug, Serialize)]
struct CapabilitiesBody {
    fence: &'static str,
    release_keeps_attempt: bool,
    sends_commit_with_ack: bool,
    durable: bool,
}

#[derive(Debug, Serialize)]
struct ClockBody<'a> {
    log_time: String,
    wall_time: String,
    ahead_ms: i64,
    boot_id: &'a str,
    this_boot: bool,
}

#[derive(Debug, Serialize)]
struct FileBody<'a> {
    sqlite: &'a str,
    compile_options: &'a [String],
    schema: i64,
    /// Null where nobody has the log open: the file is read as it lies then.
    journal_mode: Option<&'a str>,
    synchronous: &'static str,
    auto_vacuum: bool,
    page_bytes: u64,
    pages: u64,
    free_pages: u64,
    bytes: u64,
    wal_bytes: u64,
    wal_cap_bytes: u64,
    listeners: usize,
}

#[derive(Debug, Serialize)]
struct DiskBody<'a> {
    filesystem: &'a str,
    place: &'static str,
    free_bytes: Option<u64>,
    folder_writable: bool,
    file_writable: bool,
    fsync_ms: SyncBody,
}

#[derive(Debug, Serialize)]
struct SyncBody {
    p50: Option<f64>,
    p99: Option<f64>,
}

#[derive(Debug, Serialize)]
struct RecountBody<'a> {
    topics: u64,
    groups: u64,
    rows: u64,
    /// Topics and groups that changed too fast to be compared.
    disturbed: u64,
    longest_read_ms: f64,
    drift: Vec<DriftBody<'a>>,
}

#[derive(Debug, Serialize)]
struct DriftBody<'a> {
    topic: &'a str,
    group: Option<&'a str>,
    figure: &'static str,
    kept: i64,
    found: i64,
}

#[derive(Debug, Serialize)]
struct FindingBody<'a> {
    level: &'static str,
    about: &'static str,
    what: &'a str,
    next: &'a str,
}

impl<'a> DoctorBody<'a> {
    /// All that was looked at.
    pub(crate) fn new(
        log: &'a str,
        health: Option<&'a Health>,
        disk: &'a Disk,
        recount: Option<&'a Recount>,
        findings: &'a [Finding],
    ) -> Self {
        Self {
            log,
            version: env!("CARGO_PKG_VERSION"),
            ok: findings.iter().all(|finding| finding.level != Level::Error),
            capabilities: health.map(|health| (&health.capabilities).into()),
            clock: health.map(|health| ClockBody {
                log_time: when(health.clock.now.0),
                wall_time: when(health.clock.wall_ms),
                ahead_ms: health.clock.ahead_ms(),
                boot_id: &health.clock.boot_id,
                this_boot: health.clock.this_boot,
            }),
            file: health.and_then(|health| health.file.as_ref()).map(FileBody::from),
            disk: disk.into(),
            recount: recount.map(RecountBody::from),
            findings: findings.iter().map(FindingBody::from).collect(),
        }
    }
}

impl From<&Capabilities> for CapabilitiesBody {
    fn from(capabilities: &Capabilities) -> Self {
        let Capabilities { fence, release_keeps_attempt, sends_commit_with_ack, durable } =
            *capabilities;
        let fence = match fence {
            Fence::Strict => "strict",
            Fence::Timed => "timed",
        };
        Self { fence, release_keeps_attempt, sends_commit_with_ack, durable }
    }
}

impl<'a> From<&'a FileHealth> for FileBody<'a> {
    fn from(file: &'a FileHealth) -> Self {
        Self {
            sqlite: &file.sqlite,
            compile_options: &file.compile_options,
            schema: file.schema,
            journal_mode: file.journal_mode.as_deref(),
            synchronous: file.synchronous,
            auto_vacuum: file.auto_vacuum,
            page_bytes: file.page_size,
            pages: file.pages,
            free_pages: file.free_pages,
            bytes: file.bytes,
            wal_bytes: file.wal_bytes,
            wal_cap_bytes: file.wal_cap_bytes,
            listeners: file.listeners,
        }
    }
}

impl<'a> From<&'a Disk> for DiskBody<'a> {
    fn from(disk: &'a Disk) -> Self {
        Self {
            filesystem: &disk.filesystem,
            place: match disk.place {
                Place::Local => "local",
                Place::Remote => "remote",
                Place::Memory => "memory",
                Place::Unknown => "unknown",
            },
            free_bytes: disk.free_bytes,
            folder_writable: disk.folder_writable,
            file_writable: disk.file_writable,
            fsync_ms: SyncBody {
                p50: percentile(&disk.syncs, 0.5).map(fine),
                p99: percentile(&disk.syncs, 0.99).map(fine),
            },
        }
    }
}

/// Three digits behind the point.
fn fine(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}

impl<'a> From<&'a Recount> for RecountBody<'a> {
    fn from(recount: &'a Recount) -> Self {
        let Recount { at: _, topics, groups, rows, disturbed, longest, drift } = recount;
        Self {
            topics: *topics,
            groups: *groups,
            rows: *rows,
            disturbed: *disturbed,
            longest_read_ms: fine(longest.as_secs_f64() * 1e3),
            drift: drift.iter().map(DriftBody::from).collect(),
        }
    }
}

impl<'a> From<&'a Drift> for DriftBody<'a> {
    fn from(drift: &'a Drift) -> Self {
        Self {
            topic: drift.topic.as_str(),
            group: drift.group.as_ref().map(windlass_core::Group::as_str),
            figure: drift.figure,
            kept: drift.kept,
            found: drift.found,
        }
    }
}

impl<'a> From<&'a Finding> for FindingBody<'a> {
    fn from(finding: &'a Finding) -> Self {
        Self {
            level: finding.level.name(),
            about: finding.about,
            what: &finding.what,
            next: &finding.next,
        }
    }
}
