//! `windlass topic ls|show|add|set|purge|rm`.
//!
//! Owns listing and showing; limits, and what removes something, are rooms of their own.

mod describe;
mod limits;
mod removal;

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::ui::{Ui, table};
use crate::wire::TopicBody;
use bytesize::ByteSize;
use windlass_core::{Group, Topic};
use windlass_log::Counts;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List all topics with their counts.
    Ls(LsArgs),
    /// Show one topic: its counts, its limits and its groups.
    Show(ShowArgs),
    /// Make a topic that is not there yet, with what it may hold.
    ///
    /// What is not given is as it is for a topic that a publish makes. A manifest that names the
    /// topic brings its own limits.
    Add(limits::AddArgs),
    /// Set what a topic may hold; what is not given stays.
    ///
    /// A limit below what there is to settle is refused, unless it is forced. A manifest that names
    /// the topic sets its own limits when `windlass dev` starts.
    Set(limits::SetArgs),
    /// Remove all messages of a topic but its dead letters.
    ///
    /// Claims are void and what waits goes; every group stands behind what was there, and dedup ids
    /// are forgotten. What is published meanwhile stays. Who reads the topic by `tail` from further
    /// back is told of a gap.
    Purge(removal::PurgeArgs),
    /// Delete a topic with its groups.
    ///
    /// One with messages to settle or dead letters stays, unless it is forced. A consumer that still
    /// reads the topic declares its group anew, and with it the topic: end it first.
    Rm(removal::RmArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    /// Print one JSON object a topic.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// The topic, exactly.
    topic: Topic,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

impl Command {
    pub(super) fn json(&self) -> bool {
        match self {
            Self::Ls(args) => args.json,
            Self::Show(args) => args.json,
            Self::Add(args) => args.json,
            Self::Set(args) => args.json,
            Self::Purge(args) => args.json,
            Self::Rm(args) => args.json,
        }
    }
}

pub(super) async fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    match command {
        Command::Ls(args) => list(&args, ui).await,
        Command::Show(args) => show(&args, ui).await,
        Command::Add(args) => limits::add(&args, ui).await,
        Command::Set(args) => limits::set(&args, ui).await,
        Command::Purge(args) => removal::purge(&args, ui).await,
        Command::Rm(args) => removal::remove(&args, ui).await,
    }
}

async fn list(args: &LsArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let topics = log.topics().await?;
    let now = log.now();
    if ui.json {
        for topic in &topics {
            ui.object(&TopicBody::new(topic, now));
        }
    } else if topics.is_empty() {
        ui.note("no topics yet");
    } else {
        let head = ["TOPIC", "READY", "DELAYED", "RETRYING", "LEASED", "DEAD", "BYTES"];
        let rows = topics.iter().map(|topic| {
            let bytes = ByteSize(topic.bytes).to_string();
            row(topic.topic.to_string(), &topic.counts, bytes)
        });
        ui.data(&table(&head, rows.collect(), 1));
    }
    log.close().await;
    Ok(())
}

async fn show(args: &ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let found = log.topic(&args.topic).await?;
    let topic = found.ok_or_else(|| args.log.no_topic(&args.topic))?;
    if ui.json {
        ui.object(&TopicBody::new(&topic, log.now()));
    } else {
        ui.data(&describe::topic(&topic, log.now()));
        if let Some(warning) = crate::doctor::pinned(&topic, log.now(), &args.log.flag()) {
            ui.note(&warning.text());
        }
    }
    log.close().await;
    Ok(())
}

fn row(name: String, counts: &Counts, last: String) -> Vec<String> {
    let Counts { ready, delayed, retrying, leased, dead, .. } = counts;
    let numbers = [ready, delayed, retrying, leased, dead].map(ToString::to_string);
    std::iter::once(name).chain(numbers).chain([last]).collect()
}

/// A group as a person reads it.
pub(super) fn group_name(group: &Group) -> String {
    if group.is_work_queue() { "(work queue)".to_owned() } else { group.to_string() }
}
