//! `windlass`: runs WebAssembly components as consumers of durable messages.
//!
//! Everything meets in this package and only here: `cli` is the way in, `dev` runs a manifest,
//! `dispatch` and `delivery` are the path of a message, `registry` the way to the runtime, `replay` a
//! delivery that leaves no trace.

mod bench;
mod cli;
mod delivery;
mod deploy;
mod dev;
mod dispatch;
mod doctor;
mod drain;
mod event;
mod http;
mod lease;
mod manifest;
mod metrics;
mod new;
mod pace;
mod pause;
mod permits;
mod plan;
mod registry;
mod replay;
mod report;
mod run;
mod serve;
mod stage;
mod storage;
mod together;
mod typed;
mod wire;

use clap::Parser as _;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Threads hand messages to each other all the time, which the system's allocator is slow at.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::io::Result<ExitCode> {
    let filter = EnvFilter::try_from_env("WINDLASS_TRACE").unwrap_or_else(|_| "warn".into());
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && !no_colour)
        .init();
    let cli = cli::Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let exit = runtime.block_on(cli.run());
    // What still blocks (a terminal that stands still) must not hold up the end.
    runtime.shutdown_background();
    Ok(ExitCode::from(exit as u8))
}
