//! Everything before the first claim: read the manifest, build, load and check, open the log,
//! declare topics and groups.

use super::build;
use crate::cli::{self, FOLDER, Failure, Ui};
use crate::delivery::Invoke;
use crate::dispatch::Consumer;
use crate::drain::Phases;
use crate::manifest::{ConsumerSpec, Manifest};
use crate::pause::Health;
use crate::permits::Permits;
use crate::registry::{LogOutbox, Ready};
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_core::Topic;
use windlass_log::sqlite::OpenOptions;
use windlass_log::{Declared, DynLog, Start};
use windlass_runtime::{Allocation, Component, Engine, EngineConfig};

/// A manifest and where its log is.
#[derive(Debug)]
pub(super) struct Project {
    /// What is wanted.
    pub manifest: Manifest,
    /// The log's folder.
    pub log: PathBuf,
}

/// A project that is ready to claim.
pub(super) struct Prepared {
    /// Its log, with all groups declared.
    pub log: DynLog,
    /// Its consumers' components, in the manifest's order.
    pub ready: Vec<Ready>,
    /// Where guests publish at once.
    pub outbox: Arc<LogOutbox>,
}

impl Project {
    /// Reads the manifest that `path` means.
    pub(super) fn read(path: &Path, log: Option<PathBuf>) -> Result<Self, Failure> {
        let manifest = cli::read_manifest(path)?;
        let log = log.unwrap_or_else(|| manifest.folder.join(FOLDER));
        Ok(Self { manifest, log })
    }

    /// What runs, for a person.
    pub(super) fn describe(&self) -> String {
        let mut text = String::new();
        for consumer in &self.manifest.consumers {
            let topics: Vec<_> = consumer.topics.iter().map(Topic::as_str).collect();
            let _infallible = write!(text, "running {} on {}", consumer.name, topics.join(", "));
            if !consumer.group.is_work_queue() {
                let _infallible = write!(text, " as group {}", consumer.group);
            }
            text.push('\n');
        }
        let _infallible = write!(text, "log {}; Ctrl-C ends", self.log.display());
        cli::clean_lines(&text)
    }
}

/// All steps in order; nothing when the run was stopped meanwhile.
pub(super) async fn prepare(
    project: &Project,
    ui: &Ui,
    phases: &Phases,
) -> Result<Option<Prepared>, Failure> {
    let manifest = &project.manifest;
    if build_all(manifest, ui, phases).await?.is_none() {
        return Ok(None);
    }
    let engine = Engine::new(&EngineConfig::default()).map_err(|error| Failure::of(&error))?;
    if let Allocation::OnDemand { why } = engine.allocation() {
        tracing::info!(why, "instances have no pool");
    }
    let Some(components) = load_all(&engine, manifest, phases).await? else { return Ok(None) };
    let options = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    // Another process may hold the file for seconds.
    let Some(log) = phases.or_drain(cli::open(&project.log, options)).await else {
        return Ok(None);
    };
    let log = log?;
    keep_out_of_git(&project.log);
    let outbox = LogOutbox::new(Arc::clone(&log));
    let mut ready = Vec::new();
    for (spec, component) in manifest.consumers.iter().zip(&components) {
        ready.push(Ready::new(&engine, component, spec, &outbox).map_err(|e| of(spec, e.into()))?);
    }
    match phases.or_drain(declare(&log, manifest, ui)).await {
        None => Ok(None),
        Some(declared) => declared.map(|()| Some(Prepared { log, ready, outbox })),
    }
}

async fn build_all(manifest: &Manifest, ui: &Ui, phases: &Phases) -> Result<Option<()>, Failure> {
    // Several consumers may come from one workspace: one command is run once.
    let mut done = HashSet::new();
    for consumer in &manifest.consumers {
        let Some(command) = &consumer.build else { continue };
        if !done.insert(command) {
            continue;
        }
        ui.note(&format!("building {}: {}", consumer.name, cli::clean(command)));
        if build::run(&consumer.name, command, &manifest.folder, phases).await?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(()))
}

/// Compiles and checks; a component that several consumers name once.
async fn load_all(
    engine: &Engine,
    manifest: &Manifest,
    phases: &Phases,
) -> Result<Option<Vec<Component>>, Failure> {
    let mut by_path: HashMap<&Path, Component> = HashMap::new();
    let mut components = Vec::new();
    for consumer in &manifest.consumers {
        let path = consumer.component.as_path();
        let component = match by_path.get(path) {
            Some(component) => component.clone(),
            None => match phases.or_drain(Component::load_file(engine, path)).await {
                None => return Ok(None),
                Some(loaded) => loaded.map_err(|error| of(consumer, error.into()))?,
            },
        };
        by_path.insert(path, component.clone());
        components.push(component);
    }
    Ok(Some(components))
}

/// A failure that is about one consumer.
fn of(consumer: &ConsumerSpec, failure: Failure) -> Failure {
    failure.because(format!("consumer `{}`: {}", consumer.name, consumer.component.display()))
}

async fn declare(log: &DynLog, manifest: &Manifest, ui: &Ui) -> Result<(), Failure> {
    log.declare_topics(manifest.topics_mode, manifest.declared_topics()).await?;
    let groups = manifest.groups();
    let declared = log.declare_groups(groups.clone()).await?;
    for (group, declared) in groups.iter().zip(declared) {
        if declared == Declared::Known && group.start == Start::Latest {
            let topic = cli::clean(group.topic.as_str());
            ui.note(&format!("`{topic}` is read on from where it was: `start` is for new groups"));
        }
    }
    Ok(())
}

/// A log lies in a project's folder: it is not to be committed by accident. A folder that somebody
/// named may hold more than a log.
fn keep_out_of_git(log: &Path) {
    let file = log.join(".gitignore");
    if log.file_name() == Some(FOLDER.as_ref()) && !file.exists() {
        // Not worth a failure.
        drop(std::fs::write(file, "*\n"));
    }
}

/// Consumers as the dispatcher runs them.
pub(super) fn consumers(
    manifest: &Manifest,
    ready: Vec<Ready>,
    permits: &Arc<Permits>,
) -> Vec<Consumer> {
    let specs = manifest.consumers.iter();
    specs
        .zip(ready)
        .map(|(spec, ready)| Consumer {
            name: spec.name.as_str().into(),
            group: spec.group.clone(),
            start: spec.start,
            policy: spec.policy.clone(),
            topics: spec.topics.clone(),
            invoke: Arc::new(ready) as Arc<dyn Invoke>,
            seat: permits.seat(spec.concurrency),
            health: Health::new(),
        })
        .collect()
}

/// Who claims: this machine and process.
pub(super) fn worker() -> String {
    let system = rustix::system::uname();
    format!("{}-{}", system.nodename().to_string_lossy(), std::process::id())
}
