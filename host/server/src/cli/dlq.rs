//! `windlass dlq ls|show|redrive|purge`.

use super::failure::Failure;
use super::moment::Moment;
use super::open::{self, LogArgs};
use super::pages::Pages;
use super::sheet::Sheet;
use super::topic::group_name;
use super::ui::{Ui, clean, shell, span, table};
use crate::wire::{DeadLetterBody, when};
use serde_json::json;
use std::num::NonZeroUsize;
use windlass_core::{Group, MessageId, Timestamp, Topic};
use windlass_log::{DeadLetter, DeadLetterFilter, DeadLetterQuery, DynLog, Redriven};

/// Dead letters read at a time.
const PAGE: usize = 200;
/// How many a table shows unless told otherwise.
const SHOWN: usize = 100;
/// How many are shown whole unless told otherwise.
const SHOWN_WHOLE: usize = 10;

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// List dead letters.
    Ls(LsArgs),
    /// Show dead letters whole: data, metadata and the history of their attempts.
    Show(ShowArgs),
    /// Put dead letters back into their group.
    ///
    /// They start again at their first attempt and can be claimed at once. What finds no room stays:
    /// the answer says how many of how many were put back.
    Redrive(RedriveArgs),
    /// Remove dead letters for good.
    Purge(PurgeArgs),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// The topic, exactly.
    topic: Topic,
    /// Only of this group; "" is the work queue [default: all groups].
    #[arg(long)]
    group: Option<Group>,
    /// Print JSON, one object a line.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Which dead letters are meant: those that fit every part given.
#[derive(Debug, Default, clap::Args)]
struct Filter {
    /// Only the message with this id.
    #[arg(long)]
    id: Option<MessageId>,
    /// Only those that died at or after this time: `2026-01-31T12:00:00Z` (UTC), or an age such as
    /// `5m` or `2h`.
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// Only those of exactly this reason, as `dlq ls` tells it.
    #[arg(long)]
    reason: Option<String>,
}

impl Filter {
    fn at(&self, now: Timestamp) -> DeadLetterFilter {
        DeadLetterFilter {
            id: self.id,
            since: self.since.map(|since| since.log_time(now)),
            reason: self.reason.clone(),
        }
    }

    /// Called where nothing was found: one that was named must be there.
    fn must_find(&self, which: &Which) -> Result<(), Failure> {
        let Some(id) = self.id else { return Ok(()) };
        let topic = which.topic.as_str();
        let failure = Failure::new(format!("no dead letter of `{topic}` has the id {id}"));
        Err(failure.next(format!("windlass dlq ls {}{}", shell(topic), which.log.flag())))
    }

    /// Said behind "dead letters".
    fn words(&self) -> &'static str {
        let Self { id, since, reason } = self;
        if id.is_some() || since.is_some() || reason.is_some() { " that fit" } else { "" }
    }
}

#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    filter: Filter,
    /// At most so many [default: 100 in a table, all with --json].
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    filter: Filter,
    /// The same as --id.
    #[arg(value_name = "ID", conflicts_with = "id")]
    only: Option<MessageId>,
    /// At most so many [default: 10].
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RedriveArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    filter: Filter,
}

#[derive(Debug, clap::Args)]
pub(super) struct PurgeArgs {
    #[command(flatten)]
    which: Which,
    /// Do not ask.
    #[arg(long, short)]
    yes: bool,
}

impl Command {
    pub(super) fn json(&self) -> bool {
        match self {
            Self::Ls(args) => args.which.json,
            Self::Show(args) => args.which.json,
            Self::Redrive(args) => args.which.json,
            Self::Purge(args) => args.which.json,
        }
    }
}

pub(super) async fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    let which = match &command {
        Command::Ls(args) => &args.which,
        Command::Show(args) => &args.which,
        Command::Redrive(args) => &args.which,
        Command::Purge(args) => &args.which,
    };
    let log = open::existing(&which.log).await?;
    if log.topic(&which.topic).await?.is_none() {
        return Err(which.log.no_topic(&which.topic));
    }
    match command {
        Command::Ls(args) => list(&log, &args, ui).await,
        Command::Show(args) => show(&log, args, ui).await,
        Command::Redrive(args) => redrive(&log, &args, ui).await,
        Command::Purge(args) => purge(&log, &args, ui).await,
    }?;
    log.close().await;
    Ok(())
}

/// Reads dead letters until `limit`. Answers whether more remain.
async fn pages(
    log: &DynLog,
    which: &Which,
    filter: &Filter,
    limit: usize,
    each: impl FnMut(&DeadLetter),
) -> Result<bool, Failure> {
    let filter = filter.at(log.now());
    let read = async |last: Option<&DeadLetter>, limit| {
        let query = DeadLetterQuery {
            topic: which.topic.clone(),
            group: which.group.clone(),
            filter: filter.clone(),
            after: last.map(|last| (last.group.clone(), last.id)),
            limit,
        };
        log.dead_letters(query).await.map_err(|error| which.log.failure(error))
    };
    Pages { limit, page: PAGE }.each(read, each).await
}

async fn list(log: &DynLog, args: &LsArgs, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let topic = which.topic.as_str();
    if ui.json {
        let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
        let print = |letter: &DeadLetter| ui.object(&DeadLetterBody::brief(topic, letter));
        pages(log, which, &args.filter, limit, print).await?;
        return Ok(());
    }
    let limit = args.limit.map_or(SHOWN, NonZeroUsize::get);
    let now = log.now();
    let mut rows = Vec::new();
    let more = pages(log, which, &args.filter, limit, |letter| rows.push(row(letter, now))).await?;
    if rows.is_empty() {
        ui.note(&format!("no dead letters{} in `{}`", args.filter.words(), clean(topic)));
        return Ok(());
    }
    let head = ["ID", "GROUP", "REASON", "ATTEMPTS", "AGO", "BYTES"];
    ui.data(&table(&head, rows, 3));
    if more {
        ui.note(&format!("there are more than {limit}; see them by --limit N or --json"));
    }
    Ok(())
}

fn row(letter: &DeadLetter, now: Timestamp) -> Vec<String> {
    let size = letter.message.as_ref().map(windlass_core::Message::size);
    vec![
        letter.id.to_string(),
        group_name(&letter.group),
        letter.reason.clone(),
        letter.attempts.to_string(),
        span(now.since(letter.at)),
        size.map_or("?".to_owned(), |size| size.to_string()),
    ]
}

async fn show(log: &DynLog, mut args: ShowArgs, ui: &Ui) -> Result<(), Failure> {
    args.filter.id = args.filter.id.or(args.only);
    let (which, filter) = (&args.which, &args.filter);
    let topic = which.topic.as_str();
    let limit = args.limit.map_or(SHOWN_WHOLE, NonZeroUsize::get);
    let mut found = 0;
    let more = pages(log, which, filter, limit, |letter| {
        found += 1;
        if ui.json {
            ui.object(&DeadLetterBody::whole(topic, letter));
        } else {
            ui.data(&describe(topic, letter));
        }
    })
    .await?;
    if found == 0 {
        filter.must_find(which)?;
        ui.note(&format!("no dead letters{} in `{}`", filter.words(), clean(topic)));
    }
    if more {
        ui.note(&format!("there are more than {limit}; see them by --limit N"));
    }
    Ok(())
}

fn describe(topic: &str, letter: &DeadLetter) -> String {
    let mut sheet = Sheet::new(&letter.id.to_string());
    sheet.line("topic", topic);
    sheet.line("group", &group_name(&letter.group));
    sheet.line("reason", &letter.reason);
    sheet.line("attempts", &letter.attempts.to_string());
    sheet.line("died", &when(letter.at.0));
    sheet.message(letter.message.as_ref());
    sheet.history(&letter.history);
    sheet.into_text()
}

async fn redrive(log: &DynLog, args: &RedriveArgs, ui: &Ui) -> Result<(), Failure> {
    let RedriveArgs { which, filter } = args;
    let redriven = log.redrive(&which.topic, which.group.as_ref(), &filter.at(log.now())).await;
    let Redriven { moved, of } = redriven.map_err(|error| which.log.failure(error))?;
    if of == 0 {
        filter.must_find(which)?;
    }
    let topic = which.topic.as_str();
    if ui.json {
        let group = which.group.as_ref().map(Group::as_str);
        ui.object(&json!({ "topic": topic, "group": group, "moved": moved, "of": of }));
    } else {
        ui.data(&format!("redrove {moved} of {of}{} in {}", filter.words(), clean(topic)));
    }
    if moved < of {
        ui.note(&format!("{} stay dead letters: there is no room for them", of - moved));
    }
    Ok(())
}

async fn purge(log: &DynLog, args: &PurgeArgs, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let topic = which.topic.as_str();
    if !args.yes {
        let of_group = which.group.as_ref().map(|g| format!(" of {}", group_name(g)));
        let question =
            format!("Remove all dead letters in {topic}{} for good?", of_group.unwrap_or_default());
        ui.must_confirm(&question, "purging removes dead letters for good")?;
    }
    let purged = log.purge_dead(&which.topic, which.group.as_ref()).await;
    let purged = purged.map_err(|error| which.log.failure(error))?;
    if ui.json {
        let group = which.group.as_ref().map(Group::as_str);
        ui.object(&json!({ "topic": topic, "group": group, "purged": purged }));
    } else {
        ui.data(&format!("removed {purged} dead letters of {}", clean(topic)));
    }
    Ok(())
}
