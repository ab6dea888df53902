//! `windlass group seek`: moving a group.

use super::super::failure::Failure;
use super::super::open;
use super::super::ui::{Ui, clean};
use super::position::Position;
use super::{Which, called};
use crate::wire::GroupOfTopicBody;
use windlass_core::Timestamp;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to: `earliest` (everything stored), `latest` (what is published from now on), a time, or
    /// a message's id (that one next).
    ///
    /// A time is `2026-01-31T12:00:00Z` (UTC), or an age such as `5m` or `2h`.
    #[arg(long, value_name = "earliest|latest|TIME|ID")]
    to: Position,
    /// Behind the message that `--to` names.
    #[arg(long)]
    after: bool,
    /// Print one JSON object: the group as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    // What was typed is judged before any log is looked for.
    args.to.start(args.after, Timestamp(0), "--to")?;
    let which = &args.which;
    let log = open::existing(&which.log).await?;
    let to = args.to.start(args.after, log.now(), "--to")?;
    let moved = log.seek(&which.topic, &which.group, to).await;
    moved.map_err(|error| which.log.failure(error))?;
    let moved = which.find(&log).await?;
    log.close().await;
    if ui.json {
        ui.object(&GroupOfTopicBody::new(which.topic.as_str(), &moved));
    } else {
        let (topic, group) = (clean(which.topic.as_str()), clean(&called(&which.group)));
        ui.data(&format!("moved {group} of {topic}: {} to settle", moved.counts.lag()));
    }
    Ok(())
}
