//! `windlass message show|cancel|now ID`.

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::sheet::Sheet;
use super::topic::group_name;
use super::ui::Ui;
use crate::wire::{MessageBody, when};
use serde_json::json;
use windlass_core::{Group, MessageId, Timestamp};
use windlass_log::{LogError, MessageState, Place, Standing};

#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Show a message: what it carries, and where it stands in each group.
    Show(Args),
    /// Settle a message without handling it.
    ///
    /// It is never given again, and a claim of it is void. What is settled or dead already stays so.
    Cancel(Args),
    /// Make a message due at once where it waits for a time.
    Now(Args),
}

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The message's id.
    id: MessageId,
    /// Only in this group; "" is the work queue [default: all groups].
    #[arg(long)]
    group: Option<Group>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

impl Command {
    pub(super) fn json(&self) -> bool {
        match self {
            Self::Show(args) | Self::Cancel(args) | Self::Now(args) => args.json,
        }
    }
}

pub(super) async fn run(command: Command, ui: &Ui) -> Result<(), Failure> {
    match command {
        Command::Show(args) => show(&args, ui).await,
        Command::Cancel(args) => cancel(&args, ui).await,
        Command::Now(args) => make_due(&args, ui).await,
    }
}

async fn show(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let found = log.message(args.id).await.map_err(|error| args.log.failure(error))?;
    let mut state = found.ok_or_else(|| args.log.failure(LogError::NoMessage(args.id)))?;
    if let Some(group) = &args.group {
        state.groups.retain(|standing| standing.group == *group);
        if state.groups.is_empty() {
            let (topic, group) = (state.topic, group.clone());
            return Err(args.log.failure(LogError::NoGroup { topic, group }));
        }
    }
    log.close().await;
    if ui.json {
        ui.object(&MessageBody::from(&state));
    } else {
        ui.data(&describe(&state));
    }
    Ok(())
}

fn describe(state: &MessageState) -> String {
    let mut sheet = Sheet::new(&state.id.to_string());
    sheet.line("topic", state.topic.as_str());
    if let Some(due) = state.due {
        sheet.line("not before", &when(due.0));
    }
    sheet.message(state.message.as_deref());
    if state.groups.is_empty() {
        sheet.part("no group reads its topic");
    }
    for standing in &state.groups {
        sheet.part(&format!("{}: {}", group_name(&standing.group), standing.place.name()));
        stand(&mut sheet, standing);
    }
    sheet.into_text()
}

fn stand(sheet: &mut Sheet, standing: &Standing) {
    if let Some(pending) = &standing.pending {
        let at = |at: Option<Timestamp>| at.map_or_else(|| "-".to_owned(), |at| when(at.0));
        if let Some(worker) = &pending.worker {
            sheet.line("worker", worker);
        }
        sheet.line("attempts", &pending.attempts.to_string());
        sheet.line("first", &at(pending.first_at));
        sheet.line("last", &at(pending.last_at));
        let until = if standing.place == Place::Leased { "lease until" } else { "due" };
        sheet.line(until, &at(pending.until));
    }
    if let Some(letter) = &standing.dead {
        sheet.line("reason", &letter.reason);
        sheet.line("attempts", &letter.attempts.to_string());
        sheet.line("died", &when(letter.at.0));
    }
    sheet.history(&standing.history);
}

async fn cancel(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let changed = log.cancel(args.id, args.group.as_ref()).await;
    let changed = changed.map_err(|error| args.log.failure(error))?;
    log.close().await;
    tell(args, changed, "cancelled", "it is settled or dead there", ui);
    Ok(())
}

async fn make_due(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let changed = log.make_due(args.id, args.group.as_ref()).await;
    let changed = changed.map_err(|error| args.log.failure(error))?;
    log.close().await;
    tell(args, changed, "made due", "it waits for no time there", ui);
    Ok(())
}

/// `changed`: in how many groups. None is no error: what was asked for holds.
fn tell(args: &Args, changed: u64, done: &str, otherwise: &str, ui: &Ui) {
    if ui.json {
        let group = args.group.as_ref().map(Group::as_str);
        ui.object(&json!({ "id": args.id.to_string(), "group": group, "changed": changed }));
        return;
    }
    let groups = if changed == 1 { "group" } else { "groups" };
    ui.data(&format!("{done} in {changed} {groups}"));
    if changed == 0 {
        ui.note(&format!("{otherwise}; see: windlass message show {}{}", args.id, args.log.flag()));
    }
}
