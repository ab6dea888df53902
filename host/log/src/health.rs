//! What a log says of itself: settings, files, clocks, and whether its figures are right.
//!
//! Plain values; the calls that give them are [`crate::LogAdmin`]'s.

use crate::admin::{GroupState, TopicState};
use crate::api::Capabilities;
use std::path::PathBuf;
use std::time::Duration;
use windlass_core::{Group, Timestamp, Topic};

/// A group whose oldest message waits for longer deserves a look (law 14).
pub const UNREAD_LONG: Duration = Duration::from_hours(24);

impl TopicState {
    /// The group that keeps the oldest message from going: the first of those that have not settled
    /// it. None where nothing is unsettled, or no group is there.
    #[must_use]
    pub fn pinned_by(&self) -> Option<&GroupState> {
        self.groups.iter().filter(|group| group.oldest.is_some()).min_by_key(|group| group.oldest)
    }
}

/// A log as it stands, for whoever looks after it.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// What it promises.
    pub capabilities: Capabilities,
    /// Log time and the machine's clock.
    pub clock: ClockHealth,
    /// Its file; nothing where it keeps none.
    pub file: Option<FileHealth>,
    /// The last recount that the process which serves the log has made by itself; nothing where
    /// none is through yet, or the log is not opened to be served.
    pub recount: Option<Recount>,
}

/// Log time beside the wall clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClockHealth {
    /// Log time now.
    pub now: Timestamp,
    /// The wall clock now, Unix milliseconds.
    pub wall_ms: u64,
    /// The machine's boot, as the log knows it.
    pub boot_id: String,
    /// Whether log time goes on in this boot; else the first to open the log for writing sets it.
    pub this_boot: bool,
}

impl ClockHealth {
    /// By how much log time is before the wall clock, in milliseconds; negative where it is behind.
    /// After an hour in which the wall clock was wrong log time stays ahead, as ids must rise.
    #[must_use]
    pub fn ahead_ms(&self) -> i64 {
        self.now.0.cast_signed().saturating_sub(self.wall_ms.cast_signed())
    }
}

/// The SQLite file of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHealth {
    /// Where it is.
    pub path: PathBuf,
    /// The SQLite that reads it.
    pub sqlite: String,
    /// How that was built, as far as it decides on safety.
    pub compile_options: Vec<String>,
    /// `wal`, unless somebody else has changed the file. None where nobody has the log open, and it
    /// is only read: the file is read as it lies then, without a journal.
    pub journal_mode: Option<String>,
    /// How commits are synced that must be on the disk before their answer.
    pub synchronous: &'static str,
    /// Whether free pages can go back to the file system while the log runs.
    pub auto_vacuum: bool,
    /// Bytes a page.
    pub page_size: u64,
    /// Pages of the database, free ones included.
    pub pages: u64,
    /// Of those, free.
    pub free_pages: u64,
    /// Of the file.
    pub schema: i64,
    /// Bytes of the database file.
    pub bytes: u64,
    /// Bytes of the write-ahead log beside it.
    pub wal_bytes: u64,
    /// To so much the write-ahead log is cut back, unless a reader holds it.
    pub wal_cap_bytes: u64,
    /// How many processes serve the log or wait on it now, this one included.
    pub listeners: usize,
    /// When this process last ended a checkpoint, log time.
    pub checkpoint_at: Option<Timestamp>,
    /// When this process last swept, log time.
    pub sweep_at: Option<Timestamp>,
}

/// Rows counted again, and what differs from the figures that are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recount {
    /// When it was through, log time.
    pub at: Timestamp,
    /// How many topics were compared.
    pub topics: u64,
    /// How many groups.
    pub groups: u64,
    /// How many rows were read.
    pub rows: u64,
    /// Topics and groups that changed so fast that they could not be compared this time.
    pub disturbed: u64,
    /// The longest that one read of the file took.
    pub longest: Duration,
    /// What differs; nothing in a log that is as it should be.
    pub drift: Vec<Drift>,
}

/// A figure that is kept and is not what the rows say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// Of this topic.
    pub topic: Topic,
    /// Of this group; of the topic itself where there is none.
    pub group: Option<Group>,
    /// Which figure.
    pub figure: &'static str,
    /// What is kept. Nothing keeps a damaged one from being negative.
    pub kept: i64,
    /// What the rows say.
    pub found: i64,
}
