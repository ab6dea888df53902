//! `windlass topic ls|show`.

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::ui::{Ui, clean, span, table};
use crate::wire::TopicBody;
use bytesize::ByteSize;
use windlass_core::{Group, Timestamp, Topic};
use windlass_log::{Counts, TopicState};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List all topics with their counts.
    Ls(LsArgs),
    /// Show one topic and its groups.
    Show(ShowArgs),
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
        }
    }
}

pub(super) async fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    match command {
        Command::Ls(args) => list(&args, ui).await,
        Command::Show(args) => show(&args, ui).await,
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
        ui.data(&describe(&topic, log.now()));
    }
    log.close().await;
    Ok(())
}

fn describe(topic: &TopicState, now: Timestamp) -> String {
    let oldest = topic.oldest.map_or("-".to_owned(), |oldest| span(now.since(oldest)));
    let counts = &topic.counts;
    let mut text = format!(
        "{}\n  {} to settle, {} in all; the oldest waits for {oldest}\n  {} dead, {} kept behind\n",
        clean(topic.topic.as_str()),
        counts.lag(),
        ByteSize(topic.bytes),
        counts.dead,
        topic.retained,
    );
    if topic.groups.is_empty() {
        text.push_str("\nno group reads it");
        return text;
    }
    let head = ["GROUP", "READY", "DELAYED", "RETRYING", "LEASED", "DEAD", "LAG", "PARKED"];
    let rows = topic.groups.iter().map(|group| {
        let counts = &group.counts;
        let mut row = row(group_name(&group.group), counts, counts.lag().to_string());
        row.push(counts.parked.to_string());
        row
    });
    text.push('\n');
    text.push_str(&table(&head, rows.collect(), 1));
    text
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
