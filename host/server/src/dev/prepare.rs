//! Everything before the log's first use: build, load and check, open the log.

use super::build::{self, Words};
use super::project::Project;
use crate::cli::{self, Failure, Ui};
use crate::drain::Phases;
use crate::manifest::ConsumerSpec;
use crate::registry::LogOutbox;
use crate::run::keep_out_of_git;
use crate::stage::{Loaded, Workshop};
use std::collections::HashSet;
use std::sync::Arc;
use windlass_log::DynLog;
use windlass_log::sqlite::OpenOptions;

/// A project that is ready to declare its groups and to claim.
pub(super) struct Prepared {
    /// Its log.
    pub log: DynLog,
    /// Where guests publish at once.
    pub outbox: Arc<LogOutbox>,
    /// Where its code became ready.
    pub workshop: Workshop,
    /// Its consumers, but for those whose build failed.
    pub loaded: Vec<Loaded>,
    /// Commands that failed.
    pub failed: Vec<(String, Failure)>,
    /// Commands that ran.
    pub ran: HashSet<String>,
}

/// All steps in order; nothing when the run was stopped meanwhile. A consumer that does not come
/// to be ready is an error, unless somebody may still mend it (`patient`).
pub(super) async fn prepare(
    project: &Project,
    patient: bool,
    ui: &Ui,
    phases: &Phases,
) -> Result<Option<Prepared>, Failure> {
    let manifest = &project.manifest;
    let mut workshop = Workshop::new(phases.clone(), &project.log)?;
    let all: Vec<&ConsumerSpec> = manifest.consumers.iter().collect();
    let words = |consumer: &ConsumerSpec, command: &str| {
        ui.note(&format!("building {}: {}", consumer.name, cli::clean(command)));
        Words::Shown
    };
    let Some(built) = build::all(&all, &manifest.folder, words, phases).await else {
        return Ok(None);
    };
    let ran = built.keys().map(|command| (*command).to_owned()).collect();
    let mut failed = Vec::new();
    for (command, result) in built {
        if let Err(failure) = result {
            failed.push((command.to_owned(), failure));
        }
    }
    if !patient && let Some((_, failure)) = failed.pop() {
        return Err(failure);
    }
    let has_failed = |spec: &ConsumerSpec| {
        failed.iter().any(|(command, _)| spec.build.as_ref() == Some(command))
    };
    let rest: Vec<_> = all.into_iter().filter(|spec| !has_failed(spec)).collect();
    let tell = |text: String| ui.note(&cli::clean(&text));
    let Some(components) = workshop.load(&rest, |_| None, &tell).await else { return Ok(None) };
    let mut loaded: Vec<Loaded> = rest.into_iter().cloned().zip(components).collect();
    if !patient && let Some(at) = loaded.iter().position(|(_, component)| component.is_err()) {
        let (_, component) = loaded.swap_remove(at);
        return component.map(|_| None);
    }
    let options = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    // Another process may hold the file for seconds.
    let Some(log) = phases.or_drain(cli::open(&project.log, options)).await else {
        return Ok(None);
    };
    let log = log?;
    keep_out_of_git(&project.log);
    let outbox = LogOutbox::new(Arc::clone(&log));
    Ok(Some(Prepared { log, outbox, workshop, loaded, failed, ran }))
}
