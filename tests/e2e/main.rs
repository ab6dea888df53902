//! The whole of Windlass: the binary that users run, the components of `guest-examples`, real
//! files and signals. `tests/run` builds both before.
//!
//! A test waits for what the program says (a line of JSON, its end), never for a time to pass.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test ends where something is not as it should be"
)]

mod bench;
mod builds;
mod check;
mod crash;
mod crowd;
mod dev;
mod dlq;
mod doctor;
mod examples;
mod group;
mod groups;
mod kit;
mod law26;
mod log;
mod manifest;
mod message;
mod new;
mod octokit;
mod pause;
mod publish;
mod replay;
mod restart;
mod rollout;
mod serve;
mod signals;
mod storage;
mod tail;
mod topic;
mod watch;
