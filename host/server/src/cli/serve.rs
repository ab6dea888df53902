//! `windlass serve`: its arguments. The run itself is `crate::serve`.

use super::failure::Exit;
use super::open::{FOLDER, LogArgs};
use super::ui::Ui;
use crate::serve::{self, Options};
use std::net::SocketAddr;
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where requests are answered; only addresses of this machine itself.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Tell only of messages that were not handled well.
    #[arg(long, short)]
    quiet: bool,
    /// Print one JSON object an event.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: Arc<Ui>) -> Exit {
    let Args { listen, quiet, json: _, log } = args;
    // One that is made is made here.
    let log = match (&log.log, super::open::folder(&log)) {
        (Some(given), _) => given.clone(),
        (None, Ok(found)) => found,
        (None, Err(_)) => FOLDER.into(),
    };
    serve::run(Options { log, listen, quiet }, ui).await
}
