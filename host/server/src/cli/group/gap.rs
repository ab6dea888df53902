//! `windlass group gap`: what a group could not read any more.

use super::super::failure::Failure;
use super::super::open;
use super::super::ui::{Ui, clean, span};
use super::{Which, called};
use crate::wire::GroupGapBody;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Take note of it: it is not shown any more.
    #[arg(long)]
    acknowledge: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let Args { acknowledge, json: _, which } = args;
    let log = open::existing(&which.log).await?;
    let gap = if *acknowledge {
        let gap = log.acknowledge_gap(&which.topic, &which.group).await;
        gap.map_err(|error| which.log.failure(error))?
    } else {
        which.find(&log).await?.gap
    };
    let now = log.now();
    log.close().await;
    let (topic, group) = (which.topic.as_str(), &which.group);
    if ui.json {
        let done = *acknowledge && gap.is_some();
        ui.object(&GroupGapBody::new(topic, group.as_str(), gap.as_ref(), done));
        return Ok(());
    }
    let (topic, group) = (clean(topic), clean(&called(group)));
    let Some(gap) = gap else {
        ui.note(&format!("{group} of {topic} has no gap"));
        return Ok(());
    };
    let (messages, ago) = (gap.messages, span(now.since(gap.at)));
    let done = if *acknowledge { "; acknowledged" } else { "" };
    ui.data(&format!(
        "{messages} messages behind {:016x} up to {:016x} grew too old for {group} of {topic}, \
         {ago} ago{done}",
        gap.after.0, gap.through.0
    ));
    if !acknowledge {
        let (words, flag) = (which.words(), which.log.flag());
        ui.note(&format!("next: windlass group gap {words} --acknowledge{flag}"));
    }
    Ok(())
}
