//! `windlass topic purge|rm`: emptying a topic, and deleting it.

use super::super::failure::Failure;
use super::super::open::{self, LogArgs};
use super::super::ui::{Ui, clean, shell};
use crate::wire::PurgedBody;
use bytesize::ByteSize;
use windlass_core::Topic;
use windlass_log::{LogError, Purged, TopicState};

#[derive(Debug, clap::Args)]
pub(crate) struct PurgeArgs {
    /// The topic, exactly.
    topic: Topic,
    /// Its dead letters too.
    #[arg(long)]
    dead: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RmArgs {
    /// The topic, exactly.
    topic: Topic,
    /// With its messages and dead letters; without this, a topic that has any stays.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn purge(args: &PurgeArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let state = log.topic(&args.topic).await?.ok_or_else(|| args.log.no_topic(&args.topic))?;
    if !args.yes {
        let dead = if args.dead { " and its dead letters" } else { "" };
        let question = format!("Remove all messages of {}{dead}, {}?", args.topic, words(&state));
        ui.must_confirm(&question, "a topic's messages go for good")?;
    }
    let purged = log.purge_topic(&args.topic, args.dead).await;
    let purged = purged.map_err(|error| args.log.failure(error))?;
    let kept = log.topic(&args.topic).await?.map_or(0, |state| state.counts.dead);
    log.close().await;
    let topic = args.topic.as_str();
    if ui.json {
        ui.object(&PurgedBody::new(topic, &purged));
    } else {
        ui.data(&format!("removed {} from {}", removed_words(&purged), clean(topic)));
    }
    if kept > 0 {
        ui.note(&format!("dead letters stay: {kept}; --dead removes them too"));
    }
    Ok(())
}

pub(super) async fn remove(args: &RmArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let state = log.topic(&args.topic).await?.ok_or_else(|| args.log.no_topic(&args.topic))?;
    // Where nothing is lost there is nothing to ask about.
    if args.force && !args.yes {
        let question = format!("Remove {} with {}?", args.topic, words(&state));
        ui.must_confirm(&question, "a topic's messages, groups and dead letters go for good")?;
    }
    let removed = log.remove_topic(&args.topic, args.force).await;
    let removed = removed.map_err(|error| {
        let holds = matches!(error, LogError::TopicNotEmpty { .. });
        let failure = args.log.failure(error);
        if !holds {
            return failure;
        }
        let (topic, flag) = (shell(args.topic.as_str()), args.log.flag());
        failure
            .because("they would go with it")
            .next(format!("windlass topic show {topic}{flag}, or give --force"))
    })?;
    log.close().await;
    let topic = args.topic.as_str();
    if ui.json {
        ui.object(&PurgedBody::new(topic, &removed));
    } else {
        ui.data(&format!("removed {} with {}", clean(topic), removed_words(&removed)));
    }
    Ok(())
}

/// What there is, in a question.
fn words(state: &TopicState) -> String {
    let (lag, dead) = (state.counts.lag(), state.counts.dead);
    format!("{lag} to settle and {dead} dead in {} groups", state.groups.len())
}

/// What was removed, in a sentence.
fn removed_words(purged: &Purged) -> String {
    let counted = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let (messages, dead) = (purged.messages, purged.dead);
    let (messages, dead) = (counted(messages, "message"), counted(dead, "dead letter"));
    format!("{messages} ({}) and {dead}", ByteSize(purged.bytes))
}
