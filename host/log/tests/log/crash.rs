//! What a crash, a full disk and other processes may not do to a log.
//!
//! Real processes and real files: the test binary starts itself again as a child that works on the
//! log and says on its stdout what it was answered, after the answer. No component runs here.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod again;
mod child;
mod commit;
mod figures;
mod inspector;
mod kills;
pub(crate) mod processes;
mod verify;
mod worker;
mod workers;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Disposition, GroupPolicy, NewMessage, Topic};
use windlass_log::conformance::kit;
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_log::{ClaimRequest, DynLog, Settled};

/// Tells a test that it is the child: the log's folder.
const FOLDER: &str = "WINDLASS_CRASH_FOLDER";
/// The child's number and the run's seed, `NUMBER SEED`.
const RUN: &str = "WINDLASS_CRASH_RUN";

/// The log's folder, where this process is a child.
pub(crate) fn folder() -> Option<std::path::PathBuf> {
    std::env::var_os(FOLDER).map(Into::into)
}

/// The child's number and seed.
pub(crate) fn run() -> (u64, u64) {
    let run = std::env::var(RUN).unwrap();
    let (number, seed) = run.split_once(' ').unwrap();
    (number.parse().unwrap(), seed.parse().unwrap())
}

/// This test again, as a child over the log in `folder`; `before` is what a shell does first.
fn start(test: &str, folder: &Path, number: u64, seed: u64, before: &str) -> Child {
    command(test, folder, number, seed, before).spawn().unwrap()
}

fn command(test: &str, folder: &Path, number: u64, seed: u64, before: &str) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{before} exec \"$0\" \"$@\"")])
        .arg(exe)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(RUN, format!("{number} {seed}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// The seed of this run: given, or new. Shown when the test fails.
pub(super) fn seed() -> u64 {
    let seed = std::env::var("WINDLASS_SEED")
        .map_or_else(|_| rand::random(), |given| given.parse().expect("WINDLASS_SEED is a number"));
    println!("WINDLASS_SEED={seed}");
    seed
}

/// A number from the environment, or a default.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |given| {
        given.parse().unwrap_or_else(|_| panic!("{name} is a number, not `{given}`"))
    })
}

pub(super) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) async fn open(folder: &Path, serve: bool) -> DynLog {
    let log: Arc<SqliteLog> =
        SqliteLog::open(folder, OpenOptions { create: true, serve, ..OpenOptions::default() })
            .await
            .unwrap();
    log
}

/// Says one line to the parent, in one write.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    std::io::stdout().lock().write_all(format!("\n@ {line}\n").as_bytes()).unwrap();
}

/// What a line of a child says, where it is one of ours and whole.
fn said(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix("@ ")?.split(' ').collect())
}
