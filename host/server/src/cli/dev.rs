//! `windlass dev PATH`: its arguments. The run itself is `crate::dev`.

use super::failure::Exit;
use super::ui::Ui;
use crate::dev::{self, Options};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
pub(super) struct Args {
    /// The manifest, or the folder it lies in.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// End when every group has nothing left to do.
    #[arg(long)]
    until_idle: bool,
    /// Do not build and swap what changes (--until-idle does not either).
    #[arg(long)]
    no_watch: bool,
    /// Do not publish the manifest's samples.
    #[arg(long)]
    no_samples: bool,
    /// End after so long, counted from when the consumers start.
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    timeout: Option<Duration>,
    /// Print one JSON object an event; the last line sums up.
    #[arg(long)]
    pub(super) json: bool,
    /// Another folder for the log than `.windlass` beside the manifest.
    #[arg(long, value_name = "DIR", env = "WINDLASS_LOG")]
    log: Option<PathBuf>,
}

pub(super) async fn run(args: Args, ui: Arc<Ui>) -> Exit {
    let Args { path, until_idle, no_watch, no_samples, timeout, json: _, log } = args;
    let (watch, samples) = (!no_watch && !until_idle, !no_samples);
    let options = Options { path, log, until_idle, watch, samples, timeout };
    dev::run(options, ui).await
}
