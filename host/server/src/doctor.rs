//! What deserves a word about a log: rules, from values to findings.
//!
//! Knows neither how they were looked up (`cli::doctor`, [`disk`]) nor how they are printed.

pub(crate) mod disk;

use crate::cli::{clean, shell, span};
use bytesize::ByteSize;
use disk::Disk;
use std::time::Duration;
use windlass_core::passing::PARKED_MAX;
use windlass_core::{Group, Timestamp};
use windlass_log::{Drift, FileHealth, GroupState, Health, Recount, TopicState, UNREAD_LONG};

/// Of its quota a topic may hold so many percent without a word.
const QUOTA_SHARE: u64 = 80;
/// Free space below this is little: the write-ahead log alone may need a part of it.
const FREE_BYTES_MIN: u64 = 256 << 20;
/// Log time may be so far before the wall clock.
const AHEAD_MAX: Duration = Duration::from_mins(1);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// Something is wrong with the log.
    Error,
    /// The log is as it should be; somebody should look all the same.
    Warning,
}

/// One thing to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Of which kind; stays the same from version to version.
    pub(crate) about: &'static str,
    pub(crate) what: String,
    pub(crate) next: String,
}

impl Level {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl Finding {
    fn new(level: Level, about: &'static str, what: String, next: String) -> Self {
        Self { level, about, what, next }
    }

    fn warning(about: &'static str, what: String, next: String) -> Self {
        Self::new(Level::Warning, about, what, next)
    }

    /// What cannot be read of the log, and why.
    pub(crate) fn unreadable(what: &str, why: &str) -> Self {
        Self::new(
            Level::Error,
            "unreadable",
            format!("{what} cannot be read: {why}"),
            "stop what runs on the log, keep a copy of its folder, and put back a copy from before"
                .to_owned(),
        )
    }

    /// For a person.
    pub(crate) fn text(&self) -> String {
        let Self { level, about: _, what, next } = self;
        format!("{}: {}\n  next: {}", level.name(), clean(what), clean(next))
    }
}

/// What is to be told about the log itself.
pub(crate) fn of_log(health: &Health) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(file) = &health.file {
        found.extend(of_file(file));
    }
    let ahead = Duration::from_millis(u64::try_from(health.clock.ahead_ms()).unwrap_or(0));
    if ahead > AHEAD_MAX {
        found.push(Finding::warning(
            "clock-ahead",
            format!("log time is {} ahead of the wall clock, and ids with it", span(ahead)),
            "see that the machine's clock is right (`timedatectl`); log time never goes back, and \
             leases, delays and ages are right all the same"
                .to_owned(),
        ));
    }
    found
}

fn of_file(file: &FileHealth) -> Vec<Finding> {
    let mut found = Vec::new();
    if file.wal_bytes > file.wal_cap_bytes {
        found.push(Finding::warning(
            "wal-large",
            format!(
                "the write-ahead log has {}, more than the {} it is cut back to: somebody reads and \
                 does not let go, or nobody has the log open",
                ByteSize(file.wal_bytes),
                ByteSize(file.wal_cap_bytes)
            ),
            format!("see who has it open: fuser {}", shell(&file.path.display().to_string())),
        ));
    }
    if let Some(mode) = file.journal_mode.as_ref().filter(|mode| *mode != "wal") {
        found.push(Finding::warning(
            "journal-mode",
            format!("the file is in journal mode `{mode}`, not `wal`"),
            "open it once with `windlass`, which sets it, and see that nothing else does"
                .to_owned(),
        ));
    }
    found
}

/// What is to be told about where the log lies.
pub(crate) fn of_disk(disk: &Disk, folder: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut warn = |about, what: String, next: &str| {
        found.push(Finding::warning(about, what, next.to_owned()));
    };
    let kind = &disk.filesystem;
    match disk.place {
        disk::Place::Local | disk::Place::Unknown => {}
        disk::Place::Remote => warn(
            "not-local",
            format!("`{folder}` is on {kind}, whose locks and syncs SQLite cannot rely on"),
            "move the log to a disk of this machine",
        ),
        disk::Place::Memory => warn(
            "in-memory",
            format!("`{folder}` is on {kind}, which is empty after the machine was off"),
            "move the log to a disk",
        ),
    }
    for (about, writable, what) in [
        ("folder-read-only", disk.folder_writable, "folder"),
        ("file-read-only", disk.file_writable, "file"),
    ] {
        if !writable {
            let what = format!("the log's {what} in `{folder}` cannot be written by this user");
            warn(about, what, "run as the log's owner, or see the owner and mode: ls -la");
        }
    }
    if let Some(free) = disk.free_bytes.filter(|free| *free < FREE_BYTES_MIN) {
        let what = format!("only {} are free where the log lies", ByteSize(free));
        warn("space-small", what, "make room on the disk, or move the log to a larger one");
    }
    found
}

/// What is to be told of figures that are not what the rows say.
pub(crate) fn of_recount(recount: &Recount) -> Vec<Finding> {
    let tell = |drift: &Drift| {
        let Drift { topic, group, figure, kept, found } = drift;
        let of = group.as_ref().map_or(String::new(), |group| format!(", {}", called(group)));
        Finding::new(
            Level::Error,
            "drift",
            format!("{figure} of `{topic}`{of}: {kept} are kept, and there are {found}"),
            "keep a copy of the log's folder and report this; counts and quotas are off by that much"
                .to_owned(),
        )
    };
    recount.drift.iter().map(tell).collect()
}

/// What is to be told about a topic. `flag` is what a command needs to mean the same log.
pub(crate) fn of_topic(topic: &TopicState, now: Timestamp, flag: &str) -> Vec<Finding> {
    let name = shell(topic.topic.as_str());
    let mut found = Vec::new();
    let needed = topic.counts.lag();
    for (held, most, unit) in [
        (needed, topic.limits.max_messages, "messages"),
        (topic.bytes, topic.limits.max_bytes, "bytes"),
    ] {
        if u128::from(held) * 100 > u128::from(most) * u128::from(QUOTA_SHARE) {
            found.push(Finding::warning(
                "quota",
                format!("`{}` holds {held} of the {most} {unit} it may", topic.topic),
                format!("windlass topic show {name}{flag}"),
            ));
        }
    }
    for group in &topic.groups {
        found.extend(of_group(topic, group, now, flag));
    }
    found
}

/// The group that pins a topic for too long.
pub(crate) fn pinned(topic: &TopicState, now: Timestamp, flag: &str) -> Option<Finding> {
    unread_long(topic, topic.pinned_by()?, now, flag)
}

fn unread_long(
    topic: &TopicState,
    group: &GroupState,
    now: Timestamp,
    flag: &str,
) -> Option<Finding> {
    let waits = now.since(group.oldest?);
    (waits > UNREAD_LONG).then(|| {
        Finding::warning(
            "unread-long",
            format!(
                "{} of `{}` has had its oldest message to settle for {}, and keeps all since then \
                 stored",
                called(&group.group),
                topic.topic,
                span(waits)
            ),
            command("group show", topic, group, flag),
        )
    })
}

fn of_group(topic: &TopicState, group: &GroupState, now: Timestamp, flag: &str) -> Vec<Finding> {
    let of = format!("{} of `{}`", called(&group.group), topic.topic);
    let mut found: Vec<Finding> = unread_long(topic, group, now, flag).into_iter().collect();
    let mut warn = |about, what, next| found.push(Finding::warning(about, what, next));
    if group.is_stopped() {
        warn(
            "stopped",
            format!("{of} reads no further: {PARKED_MAX} messages wait behind others of their key"),
            command("group pending", topic, group, flag),
        );
    }
    if let Some(gap) = group.gap {
        warn(
            "gap",
            format!("{of} could not read {} messages, which had grown too old", gap.messages),
            command("group gap", topic, group, flag),
        );
    }
    if group.copies_missed > 0 {
        let name = shell(topic.topic.as_str());
        warn(
            "copies-missed",
            format!(
                "{} dead letters of {of} have no copy in its dead-letter topic",
                group.copies_missed
            ),
            format!("windlass dlq ls {name} --group {}{flag}", shell(group.group.as_str())),
        );
    }
    found
}

fn command(what: &str, topic: &TopicState, group: &GroupState, flag: &str) -> String {
    let (topic, group) = (shell(topic.topic.as_str()), shell(group.group.as_str()));
    format!("windlass {what} {topic} {group}{flag}")
}

/// A group in a sentence.
fn called(group: &Group) -> String {
    if group.is_work_queue() { "the work queue".to_owned() } else { format!("group `{group}`") }
}

#[cfg(test)]
mod tests;
