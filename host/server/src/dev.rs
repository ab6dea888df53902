//! `windlass dev`: build, check, run, watch every delivery.
//!
//! Owns the order of a run's steps and how its end becomes an exit code. Building, loading,
//! following files, showing and knowing when a run is idle are rooms of their own below.

mod build;
mod idle;
mod prepare;
mod project;
mod reload;
mod snapshot;
#[cfg(test)]
mod tests;
mod watcher;
mod written;

use crate::cli::{Exit, Failure, Ui, span};
use crate::dispatch::{Dispatcher, HOST_PERMITS, Shared};
use crate::drain::{Phase, Phases, Stopper, phases};
use crate::event::Event;
use crate::permits::Permits;
use crate::report::{Report, output};
use crate::run::{self, in_a_hurry, lag, last_lines, print, signals, worker};
use crate::stage::{Stage, Subject, Wish};
use crate::wire::{EventBody, SummaryBody};
use idle::Idle;
use prepare::Prepared;
use project::Project;
use reload::Reload;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use watcher::Watcher;
use windlass_core::{NewMessage, time};
use windlass_log::DynLog;

/// Samples published at a time.
const SAMPLES_CHUNK: usize = 256;

/// What the command line says about a run.
#[derive(Debug)]
pub(crate) struct Options {
    /// The manifest, or its folder.
    pub path: PathBuf,
    /// Another log than the one beside the manifest.
    pub log: Option<PathBuf>,
    /// End when there is nothing left to do.
    pub until_idle: bool,
    /// Build and swap what changes.
    pub watch: bool,
    /// Publish the manifest's samples.
    pub samples: bool,
    /// End after so long.
    pub timeout: Option<Duration>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Somebody asked, or nobody reads any more.
    Asked,
    /// There is nothing left to do.
    Idle,
    /// A consumer is paused for what does not mend itself.
    Stuck,
    /// The log ended by itself.
    LogEnded,
    /// `--timeout` ran out.
    TimedOut,
}

/// Runs until told to end, idle, or out of time.
pub(crate) async fn run(options: Options, ui: Arc<Ui>) -> Exit {
    let started = Instant::now();
    let (stopper, phases) = phases();
    let signals = tokio::spawn(signals::pass_on(stopper.clone(), Arc::clone(&ui)));
    let (mut figures, exit) = match run_steps(&options, &ui, &stopper, &phases).await {
        Ok((figures, exit)) => (figures, exit),
        Err(failure) => {
            let exit = failure.exit;
            print(&ui, &phases, move |ui| ui.failure(&failure)).await;
            (SummaryBody::default(), exit)
        }
    };
    figures.elapsed_ms = time::millis(started.elapsed());
    figures.exit = exit as u8;
    if ui.json {
        print(&ui, &phases, move |ui| ui.object(&EventBody::Summary(figures))).await;
    }
    signals.abort();
    exit
}

async fn run_steps(
    options: &Options,
    ui: &Arc<Ui>,
    stopper: &Stopper,
    phases: &Phases,
) -> Result<(SummaryBody, Exit), Failure> {
    let project = Project::read(&options.path, options.log.clone())?;
    // Before the first build: what is saved while it runs is not missed.
    let roots = || project::watched(&project.file, &project.manifest);
    let log = std::path::absolute(&project.log).ok();
    let watcher = if options.watch { Some(Watcher::new(roots(), log).await) } else { None };
    let Some(prepared) = prepare::prepare(&project, options.watch, ui, phases).await? else {
        return Err(Failure::new("interrupted before the consumers started"));
    };
    let log = Arc::clone(&prepared.log);
    let ended = deliver(options, project, prepared, watcher, ui, stopper, phases).await;
    drop(tokio::time::timeout(run::CLOSE, log.close()).await);
    ended
}

/// From the first claim to the last settlement.
async fn deliver(
    options: &Options,
    project: Project,
    prepared: Prepared,
    watcher: Option<Watcher>,
    ui: &Arc<Ui>,
    stopper: &Stopper,
    phases: &Phases,
) -> Result<(SummaryBody, Exit), Failure> {
    let Prepared { log, outbox, workshop, loaded, failed, ran } = prepared;
    let groups = project.manifest.groups();
    let dead_before = idle::dead(&log, &groups).await?;
    let report = Report::new(Arc::clone(ui), &project.log, &project.manifest.folder);
    let (events, shown) = run::show(report, |_| ())?;
    if !ui.json {
        ui.note(&project.describe(options.watch));
    }
    let shared = Shared::new(Arc::clone(&log), events.clone(), phases.clone(), &worker());
    let permits = Permits::new(HOST_PERMITS);
    let dispatcher = Arc::new(Dispatcher::start(Arc::new(shared), permits));
    if !workshop.has_pool() {
        events.tell(Event::Remark { text: workshop.describe() }).await;
    }
    let (declared, all_groups) = watch::channel(Vec::new());
    let Project { file, manifest, log: folder } = project;
    let samples = if options.samples { manifest.samples.clone() } else { Vec::new() };
    let mut stage = Stage::new(
        Arc::clone(&log),
        Arc::clone(&outbox),
        Arc::clone(&dispatcher),
        events.clone(),
        declared,
    );
    let mut wrong = stage.activate(&Wish::of(&manifest), &workshop, loaded, !options.watch).await;
    if !options.watch
        && let Some((_, failure)) = wrong.pop()
    {
        dispatcher.drain(stopper).await;
        return Err(failure);
    }
    wrong.extend(failed.into_iter().map(|(command, failure)| (Subject::Build(command), failure)));
    for (subject, failure) in wrong {
        stage.problem(subject, failure).await;
    }
    let consumers = manifest.consumers.iter().map(|spec| spec.name.clone()).collect();
    events.tell(Event::Ready { log: folder.display().to_string(), consumers }).await;
    let ticks = tokio::spawn(run::tick(events.clone()));
    let lag = tokio::spawn(lag::watch(Arc::clone(&log), all_groups, events.clone()));
    let reload = watcher.map(|watcher| {
        let (output, phases) = (folder.join(output::FOLDER), phases.clone());
        let reload = Reload { file, output, manifest, workshop, stage, phases, ran };
        tokio::spawn(reload.run(watcher))
    });

    let sampling = publish_samples(&log, samples).await;
    let end = match sampling {
        Ok(_) => wait_for_end(options, &dispatcher, &log, &groups, ui, phases).await,
        Err(_) => End::Asked,
    };
    let stuck = dispatcher.is_stuck();
    dispatcher.drain(stopper).await;
    let runs_all = match reload {
        // It may stand still with whoever reads.
        Some(mut reload) => tokio::select! {
            runs_all = &mut reload => runs_all.unwrap_or(false),
            () = in_a_hurry(phases) => false,
        },
        None => true,
    };
    ticks.abort();
    lag.abort();
    last_lines(&events, shown, phases).await;
    let mut figures = SummaryBody::from(events.figures());

    let dead_now = idle::dead(&log, &groups).await.unwrap_or(dead_before);
    // Some die without a delivery of ours: their last worker went away.
    figures.dead = figures.dead.max(dead_now.saturating_sub(dead_before));
    figures.published += sampling? + outbox.published();
    let exit = exit(end, stuck || !runs_all, figures.dead);
    let text = sum_up(&figures, end, options);
    print(ui, phases, move |ui| ui.note(&text)).await;
    Ok((figures, exit))
}

fn exit(end: End, stuck: bool, dead: u64) -> Exit {
    if stuck || matches!(end, End::Stuck | End::LogEnded) {
        Exit::Error
    } else if end == End::TimedOut {
        Exit::TimedOut
    } else if dead > 0 {
        Exit::DeadLetters
    } else {
        Exit::Done
    }
}

async fn publish_samples(log: &DynLog, samples: Vec<NewMessage>) -> Result<u64, Failure> {
    for chunk in samples.chunks(SAMPLES_CHUNK) {
        log.publish(chunk.to_vec()).await.map_err(|error| {
            Failure::from(error).because("while publishing the manifest's samples")
        })?;
    }
    Ok(samples.len() as u64)
}

async fn wait_for_end(
    options: &Options,
    dispatcher: &Dispatcher,
    log: &DynLog,
    groups: &[windlass_log::GroupSpec],
    ui: &Ui,
    phases: &Phases,
) -> End {
    let idle = async {
        if options.until_idle {
            match idle::reached(dispatcher, log, groups).await {
                Idle::Done => End::Idle,
                Idle::Stuck => End::Stuck,
            }
        } else {
            std::future::pending().await
        }
    };
    let timeout = async {
        match options.timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let nobody_reads = async {
        while !ui.is_out_gone() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::select! {
        () = phases.reached(Phase::Drain) => End::Asked,
        () = dispatcher.log_ended() => End::LogEnded,
        end = idle => end,
        () = timeout => End::TimedOut,
        () = nobody_reads => End::Asked,
    }
}

fn sum_up(figures: &SummaryBody, end: End, options: &Options) -> String {
    let SummaryBody { published, handled, retried, dead, .. } = *figures;
    let why = match end {
        End::TimedOut => {
            let after = options.timeout.map(span).unwrap_or_default();
            format!("ended by --timeout after {after}\n")
        }
        End::Stuck => "ended: a consumer is paused for what does not mend itself\n".to_owned(),
        End::LogEnded => {
            "ended: the log has ended; what was not settled comes again at the next start\n"
                .to_owned()
        }
        End::Asked | End::Idle => String::new(),
    };
    format!("{why}published {published}, handled {handled}, retried {retried}, dead {dead}")
}
