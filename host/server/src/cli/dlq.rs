//! `windlass dlq ls|show|redrive|purge`.

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::topic::group_name;
use super::ui::{Ui, clean, shell, span, table};
use crate::wire::{DeadLetterBody, when};
use serde_json::json;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use windlass_core::{Group, MessageId, Timestamp, Topic};
use windlass_log::{DeadLetter, DeadLetterFilter, DeadLetterQuery, DynLog};

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
    /// They start again at their first attempt and can be claimed at once.
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

#[derive(Debug, clap::Args)]
pub(super) struct LsArgs {
    #[command(flatten)]
    which: Which,
    /// At most so many [default: 100 in a table, all with --json].
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    which: Which,
    /// Only the message with this id.
    id: Option<MessageId>,
    /// At most so many [default: 10].
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RedriveArgs {
    #[command(flatten)]
    which: Which,
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
    match &command {
        Command::Ls(args) => list(&log, args, ui).await,
        Command::Show(args) => show(&log, args, ui).await,
        Command::Redrive(args) => redrive(&log, &args.which, ui).await,
        Command::Purge(args) => purge(&log, args, ui).await,
    }?;
    log.close().await;
    Ok(())
}

/// Reads page by page until `limit`, or until `each` wants no more. Answers whether more remain.
async fn pages(
    log: &DynLog,
    which: &Which,
    id: Option<MessageId>,
    limit: usize,
    mut each: impl FnMut(&DeadLetter),
) -> Result<bool, Failure> {
    let mut query = DeadLetterQuery {
        topic: which.topic.clone(),
        group: which.group.clone(),
        filter: DeadLetterFilter { id, ..DeadLetterFilter::default() },
        after: None,
        limit: NonZeroUsize::MIN,
    };
    let mut left = limit;
    loop {
        // One more than is wanted tells whether there are more.
        let wanted = left.min(PAGE);
        query.limit = NonZeroUsize::MIN.saturating_add(wanted);
        let page = log.dead_letters(query.clone()).await?;
        page.iter().take(wanted).for_each(&mut each);
        if page.len() <= wanted {
            return Ok(false);
        }
        left -= wanted;
        if left == 0 {
            return Ok(true);
        }
        query.after = page.get(wanted - 1).map(|last| (last.group.clone(), last.id));
    }
}

async fn list(log: &DynLog, args: &LsArgs, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let topic = which.topic.as_str();
    if ui.json {
        let limit = args.limit.map_or(usize::MAX, NonZeroUsize::get);
        let print = |letter: &DeadLetter| ui.object(&DeadLetterBody::brief(topic, letter));
        pages(log, which, None, limit, print).await?;
        return Ok(());
    }
    let limit = args.limit.map_or(SHOWN, NonZeroUsize::get);
    let now = log.now();
    let mut rows = Vec::new();
    let more = pages(log, which, None, limit, |letter| rows.push(row(letter, now))).await?;
    if rows.is_empty() {
        ui.note(&format!("no dead letters in `{}`", clean(topic)));
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

async fn show(log: &DynLog, args: &ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let topic = which.topic.as_str();
    let limit = args.limit.map_or(SHOWN_WHOLE, NonZeroUsize::get);
    let mut found = 0;
    let more = pages(log, which, args.id, limit, |letter| {
        found += 1;
        if ui.json {
            ui.object(&DeadLetterBody::whole(topic, letter));
        } else {
            ui.data(&describe(topic, letter));
        }
    })
    .await?;
    match args.id {
        Some(id) if found == 0 => {
            return Err(Failure::new(format!("no dead letter of `{topic}` has the id {id}"))
                .next(format!("windlass dlq ls {}{}", shell(topic), which.log.flag())));
        }
        None if found == 0 => ui.note(&format!("no dead letters in `{}`", clean(topic))),
        Some(_) | None => {}
    }
    if more {
        ui.note(&format!("there are more than {limit}; see them by --limit N"));
    }
    Ok(())
}

fn describe(topic: &str, letter: &DeadLetter) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _infallible = writeln!(text, "  {name:<13} {}", clean(value));
    };
    line("topic", topic);
    line("group", &group_name(&letter.group));
    line("reason", &letter.reason);
    line("attempts", &letter.attempts.to_string());
    line("died", &when(letter.at.0));
    match &letter.message {
        None => line("data", "(its record cannot be read)"),
        Some(message) => {
            line("published", &when(message.published_at));
            line("content type", message.content_type.as_deref().unwrap_or("-"));
            for (key, value) in &message.metadata {
                line("metadata", &format!("{key}={value}"));
            }
            match std::str::from_utf8(&message.data) {
                Ok(data) => data.lines().for_each(|part| line("data", part)),
                Err(_) => line("data", &format!("{} bytes, see --json", message.data.len())),
            }
        }
    }
    for attempt in &letter.history.attempts {
        let place = format!("{} {}", attempt.worker, attempt.revision);
        let head = format!("{}  {}  {place}", when(attempt.at.0), attempt.outcome);
        line(&format!("attempt {}", attempt.attempt), head.trim_end());
        attempt.text.lines().for_each(|part| line("", part));
    }
    if letter.history.omitted > 0 {
        line("", &format!("({} attempts between are not kept)", letter.history.omitted));
    }
    format!("{}\n{}", letter.id, text.trim_end())
}

async fn redrive(log: &DynLog, which: &Which, ui: &Ui) -> Result<(), Failure> {
    let answer =
        log.redrive(&which.topic, which.group.as_ref(), &DeadLetterFilter::default()).await?;
    let topic = which.topic.as_str();
    if ui.json {
        let group = which.group.as_ref().map(Group::as_str);
        let (moved, of) = (answer.moved, answer.of);
        ui.object(&json!({ "topic": topic, "group": group, "moved": moved, "of": of }));
    } else {
        ui.data(&format!("redrove {} of {} in {}", answer.moved, answer.of, clean(topic)));
    }
    Ok(())
}

async fn purge(log: &DynLog, args: &PurgeArgs, ui: &Ui) -> Result<(), Failure> {
    let which = &args.which;
    let topic = which.topic.as_str();
    if !args.yes {
        let of_group = which.group.as_ref().map(|g| format!(" of {}", group_name(g)));
        let question = format!(
            "Remove all dead letters in {}{} for good?",
            clean(topic),
            clean(&of_group.unwrap_or_default()),
        );
        match ui.confirm(&question) {
            Some(true) => {}
            Some(false) => return Err(Failure::new("nothing was removed")),
            None => {
                return Err(Failure::usage("purging removes dead letters for good")
                    .because("there is no terminal to ask on")
                    .next("give --yes"));
            }
        }
    }
    let purged = log.purge_dead(&which.topic, which.group.as_ref()).await?;
    if ui.json {
        let group = which.group.as_ref().map(Group::as_str);
        ui.object(&json!({ "topic": topic, "group": group, "purged": purged }));
    } else {
        ui.data(&format!("removed {purged} dead letters of {}", clean(topic)));
    }
    Ok(())
}
