//! `windlass group ls|show|add|set|seek|rm|pending|release|gap`.
//!
//! Owns listing, showing and removing; each other command is a room of its own.

mod add;
mod gap;
mod pending;
mod policy;
mod position;
mod release;
mod seek;

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::sheet::Sheet;
use super::topic::group_name;
use super::ui::{Ui, clean, shell, span, table};
use crate::wire::{CountsBody, GroupOfTopicBody};
use serde::Serialize;
use windlass_core::{Group, Timestamp, Topic};
use windlass_log::{Counts, DynLog, GroupState, LogError, TopicState};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List groups with their counts.
    Ls(LsArgs),
    /// Show one group: its counts and its policy.
    Show(ShowArgs),
    /// Declare a group that is not there yet.
    ///
    /// It has the default backoff; a manifest that names it later brings its own policy, and leaves
    /// the group where it stands.
    Add(add::Args),
    /// Set parts of a group's policy; what is not given stays.
    ///
    /// A manifest that names the group brings its own policy when `windlass dev` starts.
    Set(policy::SetArgs),
    /// Move a group: back to read again, or forward to pass by what it has not settled.
    ///
    /// Claims are void and what waits goes. Dead letters stay dead, wherever it moves.
    Seek(seek::Args),
    /// Remove a group: what it had not settled counts as settled.
    ///
    /// Claims of it are void. A consumer that still runs as this group declares it anew, at its own
    /// start: end it first.
    Rm(RmArgs),
    /// List what a group has leased, and what waits for a time or for a key.
    Pending(pending::Args),
    /// Give back what a worker holds that is gone, without waiting for its leases to end.
    ///
    /// The next worker that claims is given it, and no attempt is counted. A worker that is there
    /// after all has lost its claims: nothing that it does with them counts.
    Release(release::Args),
    /// Show what grew too old before a group came to it, or take note of it.
    Gap(gap::Args),
}

#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    /// Only of this topic, exactly.
    topic: Option<Topic>,
    /// Print one JSON object a group.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// One group of one topic.
#[derive(Debug, clap::Args)]
struct Which {
    /// The topic, exactly.
    topic: Topic,
    /// The group; "" is the work queue.
    group: Group,
    #[command(flatten)]
    log: LogArgs,
}

impl Which {
    /// The two as a command names them.
    fn words(&self) -> String {
        format!("{} {}", shell(self.topic.as_str()), shell(self.group.as_str()))
    }

    /// The group as it stands.
    async fn find(&self, log: &DynLog) -> Result<GroupState, Failure> {
        let topic = log.topic(&self.topic).await?;
        let topic = topic.ok_or_else(|| self.log.no_topic(&self.topic))?;
        let found = topic.groups.into_iter().find(|state| state.group == self.group);
        found.ok_or_else(|| {
            let (topic, group) = (self.topic.clone(), self.group.clone());
            self.log.failure(LogError::NoGroup { topic, group })
        })
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
pub(super) struct RmArgs {
    /// Its dead letters too; without this, a group that has any stays.
    #[arg(long)]
    force: bool,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    which: Which,
}

impl Command {
    pub(super) fn json(&self) -> bool {
        match self {
            Self::Ls(args) => args.json,
            Self::Show(args) => args.json,
            Self::Add(args) => args.json,
            Self::Set(args) => args.json,
            Self::Seek(args) => args.json,
            Self::Rm(args) => args.json,
            Self::Pending(args) => args.json,
            Self::Release(args) => args.json,
            Self::Gap(args) => args.json,
        }
    }
}

pub(super) async fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    match command {
        Command::Ls(args) => list(&args, ui).await,
        Command::Show(args) => show(&args, ui).await,
        Command::Add(args) => add::run(args, ui).await,
        Command::Set(args) => policy::run(&args, ui).await,
        Command::Seek(args) => seek::run(&args, ui).await,
        Command::Release(args) => release::run(&args, ui).await,
        Command::Gap(args) => gap::run(&args, ui).await,
        Command::Rm(args) => remove(&args, ui).await,
        Command::Pending(args) => pending::run(&args, ui).await,
    }
}

async fn list(args: &LsArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let topics = match &args.topic {
        None => log.topics().await?,
        Some(topic) => {
            vec![log.topic(topic).await?.ok_or_else(|| args.log.no_topic(topic))?]
        }
    };
    log.close().await;
    if ui.json {
        for (topic, group) in groups(&topics) {
            ui.object(&GroupOfTopicBody::new(topic, group));
        }
    } else if groups(&topics).next().is_none() {
        let topic = args.topic.as_ref().map(|topic| format!(" `{}`", clean(topic.as_str())));
        ui.note(&format!("no group reads{}", topic.unwrap_or_else(|| " any topic yet".to_owned())));
    } else {
        let head =
            ["TOPIC", "GROUP", "READY", "DELAYED", "RETRYING", "PARKED", "LEASED", "DEAD", "LAG"];
        ui.data(&table(&head, groups(&topics).map(row).collect(), 2));
    }
    Ok(())
}

fn groups(topics: &[TopicState]) -> impl Iterator<Item = (&str, &GroupState)> {
    topics.iter().flat_map(|of| of.groups.iter().map(|group| (of.topic.as_str(), group)))
}

fn row((topic, group): (&str, &GroupState)) -> Vec<String> {
    let Counts { ready, delayed, retrying, parked, leased, dead } = group.counts;
    let numbers = [ready, delayed, retrying, parked, leased, dead, group.counts.lag()];
    let names = [topic.to_owned(), group_name(&group.group)];
    names.into_iter().chain(numbers.map(|number| number.to_string())).collect()
}

async fn show(args: &ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.which.log).await?;
    let group = args.which.find(&log).await?;
    let now = log.now();
    log.close().await;
    if ui.json {
        ui.object(&GroupOfTopicBody::new(args.which.topic.as_str(), &group));
    } else {
        ui.data(&describe(&args.which.topic, &group, now));
    }
    Ok(())
}

fn describe(topic: &Topic, state: &GroupState, now: Timestamp) -> String {
    let GroupState { group, counts, policy, copies_missed, gap, oldest } = state;
    let mut sheet = Sheet::new(&group_name(group));
    sheet.line("topic", topic.as_str());
    let Counts { ready, delayed, retrying, parked, leased, dead } = counts;
    sheet.line("to settle", &counts.lag().to_string());
    for (name, count) in [
        ("ready", ready),
        ("delayed", delayed),
        ("retrying", retrying),
        ("parked", parked),
        ("leased", leased),
    ] {
        sheet.line("", &format!("{count} {name}"));
    }
    if let Some(oldest) = oldest {
        sheet.line("oldest", &format!("{} old", span(now.since(*oldest))));
    }
    sheet.line("dead", &dead.to_string());
    sheet.line("max attempts", &policy.max_attempts.to_string());
    sheet.line("lease", &span(policy.lease));
    let backoff = &policy.backoff;
    let (initial, max) = (span(backoff.initial), span(backoff.max));
    let jitter = backoff.jitter * 100.0;
    sheet.line(
        "backoff",
        &format!("{initial} x {} up to {max}, {jitter:.0} % jitter", backoff.factor),
    );
    sheet.line("in flight", &format!("at most {}", policy.in_flight_max));
    if let Some(topic) = &policy.dead_letter_topic {
        sheet.line("copies of dead", &format!("to {topic}, {copies_missed} not taken"));
    }
    if let Some(gap) = gap {
        sheet.line("gap", &format!("{} too old messages went unread", gap.messages));
    }
    sheet.into_text()
}

/// What was removed.
#[derive(Debug, Serialize)]
struct Removed<'a> {
    topic: &'a str,
    group: &'a str,
    #[serde(flatten)]
    counts: CountsBody,
}

async fn remove(args: &RmArgs, ui: &Ui) -> Result<(), Failure> {
    let RmArgs { which, force, yes, json: _ } = args;
    let (topic, group) = (&which.topic, &which.group);
    let log = open::existing(&which.log).await?;
    let dead_stay = |failure: Failure| {
        failure.because("they would go with it").next(format!(
            "windlass dlq ls {} --group {}{}, or give --force",
            shell(topic.as_str()),
            shell(group.as_str()),
            which.log.flag()
        ))
    };
    if !yes {
        let counts = which.find(&log).await?.counts;
        let (lag, dead) = (counts.lag(), counts.dead);
        if dead > 0 && !force {
            let (topic, group) = (topic.clone(), group.clone());
            return Err(dead_stay(LogError::GroupHasDead { topic, group, dead }.into()));
        }
        let question =
            format!("Remove {} of {topic}, with {lag} not settled and {dead} dead?", called(group));
        ui.must_confirm(&question, "a group's place and its dead letters go for good")?;
    }
    let removed = log.remove_group(topic, group, *force).await;
    let counts = removed.map_err(|error| {
        let dead = matches!(error, LogError::GroupHasDead { .. });
        let failure = which.log.failure(error);
        if dead { dead_stay(failure) } else { failure }
    })?;
    log.close().await;
    if ui.json {
        let (topic, group) = (topic.as_str(), group.as_str());
        ui.object(&Removed { topic, group, counts: (&counts).into() });
    } else {
        let (lag, dead) = (counts.lag(), counts.dead);
        let (topic, group) = (clean(topic.as_str()), clean(&called(group)));
        ui.data(&format!("removed {group} of {topic}: {lag} not settled, {dead} dead"));
    }
    Ok(())
}

/// A group in a sentence.
fn called(group: &Group) -> String {
    if group.is_work_queue() { "the work queue".to_owned() } else { format!("group {group}") }
}
