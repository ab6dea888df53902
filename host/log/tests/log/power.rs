//! Power losses and I/O faults, by one recorder of all that the log writes and syncs.
//!
//! A process works on a log under a library that notes every write, truncation, sync and change of
//! a name in the log's folder, in order, and between them what the process was answered. From that
//! a disk is played that loses power at a moment: what was synced is there, of the rest any part.
//! The log is opened over what is left and compared with what had been answered by then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod account;
mod disk;
mod faults;
mod losses;
mod recorder;
mod recording;
mod verify;
mod work;

use std::path::PathBuf;

/// The log's folder, where this process is the recorded one.
fn folder() -> Option<PathBuf> {
    std::env::var_os(recorder::FOLDER).map(Into::into)
}
