//! `windlass group release`: giving back what a worker holds that is gone.
//!
//! There is no command that transfers deliveries: whoever takes them has to work on them, and a
//! command ends. What is released goes to the next worker that claims.

use super::super::failure::Failure;
use super::super::open;
use super::super::ui::{Ui, clean};
use super::{Which, called};
use crate::wire::ReleasedBody;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Who holds them, as `group pending` tells it.
    #[arg(long, value_name = "NAME")]
    worker: String,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let Args { worker, json: _, which } = args;
    let log = open::existing(&which.log).await?;
    let released = log.release_worker(&which.topic, &which.group, worker).await;
    let released = released.map_err(|error| which.log.failure(error))?;
    log.close().await;
    if ui.json {
        let (topic, group) = (which.topic.as_str(), which.group.as_str());
        ui.object(&ReleasedBody { topic, group, worker, released });
        return Ok(());
    }
    let (topic, group) = (clean(which.topic.as_str()), clean(&called(&which.group)));
    let deliveries = if released == 1 { "delivery" } else { "deliveries" };
    ui.data(&format!(
        "released {released} {deliveries} of {} in {group} of {topic}",
        clean(worker)
    ));
    if released == 0 {
        let (words, flag) = (which.words(), which.log.flag());
        ui.note(&format!("it holds nothing; see: windlass group pending {words}{flag}"));
    }
    Ok(())
}
