//! `windlass deploy|undeploy|rollback|pause|resume`: changes of what is deployed.
//!
//! Owns how a change is made against what others change, and how long a command waits for a server to
//! take it up. The plan itself is `crate::deploy`.

mod source;
mod wait;

use super::failure::{CHANGE_TRIES, Failure};
use super::open::{self, LogArgs};
use super::ui::{Tone, Ui, clean, shell};
use crate::deploy::{self, Line, Plan, components};
use crate::serve;
use serde_json::json;
use source::Source;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use windlass_core::{Group, Topic};
use windlass_log::{Change, Deployed, Deployment, DynLog};

#[expect(clippy::struct_excessive_bools, reason = "flags are what they are")]
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A manifest, the folder it lies in, or one component.
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Of a component: the consumer's name [default: the file's].
    #[arg(long)]
    name: Option<String>,
    /// Of a component: what it reads, where that is not known yet; may be given more than once.
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Of a component: as which group it reads.
    #[arg(long)]
    group: Option<Group>,
    /// Only show what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Leave consumers alone that the manifest does not have.
    #[arg(long)]
    keep: bool,
    /// Do not wait until a running server serves what was deployed.
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object a step of the plan, and one a consumer once it serves.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Consumers that are deployed.
#[derive(Debug, clap::Args)]
pub(super) struct Names {
    /// Their names.
    #[arg(required = true, value_name = "CONSUMER")]
    consumers: Vec<String>,
    /// Do not wait until a running server has done it.
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object a consumer.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
pub(super) struct RollbackArgs {
    /// The consumer's name.
    #[arg(value_name = "CONSUMER")]
    name: String,
    /// The revision that is to serve again [default: the newest before that was not given up].
    #[arg(long, value_name = "REVISION")]
    to: Option<u64>,
    /// Do not wait until a running server serves it.
    #[arg(long)]
    no_wait: bool,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let source = Source::read(&args.path, args.name.as_deref())?;
    let folder = open::folder(&args.log)?;
    let log = open::existing(&args.log).await?;
    let done = deploy(&args, &source, &folder, &log, ui).await;
    log.close().await;
    done
}

async fn deploy(
    args: &Args,
    source: &Source,
    folder: &Path,
    log: &DynLog,
    ui: &Ui,
) -> Result<(), Failure> {
    for _ in 0..CHANGE_TRIES {
        let deployed = log.deployed().await?;
        let wanted = source.wanted(&deployed, &args.topics, args.group.as_ref())?;
        let keep = args.keep || source.is_one();
        let mut next = HashMap::new();
        for one in &wanted {
            let name = one.config.name();
            let newest = log.revisions(name).await?.first().map_or(0, |newest| newest.number);
            next.insert(name.to_owned(), newest + 1);
        }
        let plan = deploy::propose(&deployed, &wanted, keep, &next);
        deploy::check(folder, &deployed, &wanted, &plan).map_err(|error| source::unfit(&error))?;
        source.check(&wanted, folder, ui).await?;
        if args.dry_run {
            show(&plan.lines, ui);
            return Ok(());
        }
        source.keep(folder)?;
        source.declare(log).await?;
        if !plan.is_empty() && log.deploy(plan.seen, plan.changes.clone()).await?.is_none() {
            continue;
        }
        show(&plan.lines, ui);
        return follow(&plan, args, folder, log, ui).await;
    }
    Err(Failure::changing("what is deployed"))
}

/// Waits for the server, where one runs.
async fn follow(
    plan: &Plan,
    args: &Args,
    folder: &Path,
    log: &DynLog,
    ui: &Ui,
) -> Result<(), Failure> {
    let starting = plan.lines.iter().filter(|line| matches!(line.sign, '+' | '~'));
    let awaited: Vec<_> =
        starting.filter_map(|l| Some((l.consumer.clone(), l.revision?))).collect();
    if plan.is_empty() {
        ui.note("nothing to do: all of it is deployed already");
    }
    if serve::running(folder).is_none() {
        let flag = args.log.flag();
        ui.note(&format!("no server runs on this log: windlass serve{flag}"));
        return Ok(());
    }
    if args.no_wait { Ok(()) } else { wait::serving(&awaited, log, ui, &args.log).await }
}

fn show(lines: &[Line], ui: &Ui) {
    for line in lines {
        let Line { sign, consumer, revision, before, digest, changes } = line;
        if ui.json {
            let step = match sign {
                '+' => "start",
                '~' => "swap",
                '-' => "stop",
                _ => "keep",
            };
            ui.object(&json!({
                "step": step, "consumer": consumer, "revision": revision, "before": before,
                "digest": digest, "changes": changes,
            }));
            continue;
        }
        let tone = match sign {
            '+' => Tone::Good,
            '~' => Tone::Warn,
            '-' => Tone::Bad,
            _ => Tone::Faint,
        };
        let now = match (before, revision) {
            (Some(before), Some(revision)) if before != revision => {
                format!(" revision {revision} (was {before})")
            }
            (_, Some(revision)) => format!(" revision {revision}"),
            (Some(before), None) => format!(" (was revision {before})"),
            (None, None) => String::new(),
        };
        let what =
            if changes.is_empty() { String::new() } else { format!(": {}", changes.join(", ")) };
        let text = format!("{sign} {consumer}{now}{what}");
        ui.data(&ui.tone(tone, &clean(&text)));
    }
}

/// What one of several does to a consumer.
type Step = fn(&Deployment) -> Option<Change>;

pub(super) async fn undeploy(args: &Names, ui: &Ui) -> Result<(), Failure> {
    let step: Step = |one| Some(Change::Withdraw { consumer: one.revision.consumer.clone() });
    each(args, step, "undeployed", ui).await
}

pub(super) async fn pause(args: &Names, ui: &Ui) -> Result<(), Failure> {
    each(args, |one| set_paused(one, true), "paused", ui).await
}

pub(super) async fn resume(args: &Names, ui: &Ui) -> Result<(), Failure> {
    each(args, |one| set_paused(one, false), "resumed", ui).await
}

fn set_paused(one: &Deployment, paused: bool) -> Option<Change> {
    let consumer = one.revision.consumer.clone();
    (one.paused != paused).then_some(Change::Pause { consumer, paused })
}

/// Does the same to all that are named, or to none.
async fn each(args: &Names, step: Step, done: &str, ui: &Ui) -> Result<(), Failure> {
    let folder = open::folder(&args.log)?;
    let log = open::existing(&args.log).await?;
    let mut names = args.consumers.clone();
    names.sort();
    names.dedup();
    let make = |deployed: &Deployed| {
        let mut changes = Vec::new();
        for name in &names {
            changes.extend(step(find(deployed, name, &args.log)?));
        }
        Ok(changes)
    };
    let version = change(&log, make).await?;
    let runs = serve::running(&folder).is_some();
    if runs && !args.no_wait {
        wait::taken(version, &log, &args.log).await?;
    }
    log.close().await;
    for name in &names {
        if ui.json {
            ui.object(&json!({ "consumer": name, "done": done, "server": runs }));
        } else {
            ui.data(&format!("{done} {}", clean(name)));
        }
    }
    Ok(())
}

pub(super) async fn rollback(args: &RollbackArgs, ui: &Ui) -> Result<(), Failure> {
    let folder = open::folder(&args.log)?;
    let log = open::existing(&args.log).await?;
    let name = &args.name;
    let serving = find(&log.deployed().await?, name, &args.log)?.revision.clone();
    let to = if let Some(to) = args.to {
        let known = log.revisions(name).await?.into_iter().find(|one| one.number == to);
        known.ok_or_else(|| no_revision(name, &to.to_string(), &args.log))?.number
    } else {
        let earlier = serve::earlier(&log, &serving).await?;
        let none = || no_revision(name, "before that was not given up", &args.log);
        earlier.ok_or_else(none)?.number
    };
    if to == serving.number {
        return Err(Failure::new(format!("revision {to} of `{}` serves already", clean(name))));
    }
    let make = |deployed: &Deployed| {
        let now = find(deployed, name, &args.log)?.revision.number;
        if now != serving.number {
            return Err(Failure::new(format!("revision {now} of `{name}` was deployed meanwhile"))
                .next(format!("windlass ps {}{}", shell(name), args.log.flag())));
        }
        Ok(vec![Change::Return { consumer: name.clone(), to, failed: None }])
    };
    change(&log, make).await?;
    if ui.json {
        ui.object(&json!({ "consumer": name, "revision": to, "before": serving.number }));
    } else {
        ui.data(&format!("{} revision {to} (was {})", clean(name), serving.number));
    }
    if serve::running(&folder).is_some() && !args.no_wait {
        wait::serving(&[(name.clone(), to)], &log, ui, &args.log).await?;
    }
    log.close().await;
    Ok(())
}

fn no_revision(name: &str, which: &str, log: &LogArgs) -> Failure {
    Failure::new(format!("there is no revision {which} of `{}`", clean(name))).next(format!(
        "windlass ps {}{}",
        shell(name),
        log.flag()
    ))
}

/// Writes what `make` answers of what is deployed, and asks it again where that has changed; the
/// version then.
async fn change(
    log: &DynLog,
    make: impl Fn(&Deployed) -> Result<Vec<Change>, Failure>,
) -> Result<u64, Failure> {
    for _ in 0..CHANGE_TRIES {
        let deployed = log.deployed().await?;
        let changes = make(&deployed)?;
        if changes.is_empty() {
            return Ok(deployed.version);
        }
        if let Some(version) = log.deploy(deployed.version, changes).await? {
            return Ok(version);
        }
    }
    Err(Failure::changing("what is deployed"))
}

/// The deployment of a consumer that must be there.
pub(super) fn find<'d>(
    deployed: &'d Deployed,
    name: &str,
    log: &LogArgs,
) -> Result<&'d Deployment, Failure> {
    deployed.find(name).ok_or_else(|| {
        Failure::new(format!("no consumer `{}` is deployed", clean(name)))
            .next(format!("windlass ps{}", log.flag()))
    })
}

/// Where a component of this digest lies, from the log's folder.
pub(super) fn file_of(digest: &str) -> String {
    format!("{}/{}", components::FOLDER, components::name(digest))
}
