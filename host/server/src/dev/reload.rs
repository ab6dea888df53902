//! Keeping what runs as it is wanted: the loop behind a saved file.
//!
//! Owns the order of a round: read the manifest if it changed, build what the changes touch, load
//! and check, and hand what is ready to [`Stage`]. Whatever fails leaves that consumer as it was,
//! code and configuration both, and is told once until it is mended.

use super::build::{self, Words};
use super::project::{self, to_build};
use super::watcher::Watcher;
use super::written::Written;
use crate::cli;
use crate::drain::Phases;
use crate::event::Event;
use crate::manifest::{ConsumerSpec, Manifest};
use crate::stage::{Loaded, Stage, Subject, Wish, Workshop};
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A file that somebody copies over is whole when nothing more came for so long.
const COPY_OVER: Duration = Duration::from_millis(300);
/// When the log is asked again for what it could not do.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// Follows the files of a project.
pub(super) struct Reload {
    /// The manifest.
    pub file: PathBuf,
    /// Where builds' words go.
    pub output: PathBuf,
    /// What is wanted: the last manifest without a mistake.
    pub manifest: Manifest,
    /// Where code becomes ready.
    pub workshop: Workshop,
    /// Where it runs.
    pub stage: Stage,
    /// When to stop.
    pub phases: Phases,
    /// Commands that were run.
    pub ran: HashSet<String>,
}

impl Reload {
    /// Follows changes until the run ends. Answers whether every consumer runs then.
    pub(super) async fn run(mut self, watcher: Watcher) -> bool {
        // Ends with `None` when the run does.
        let _ended = self.follow(watcher).await;
        self.stage.runs_all(&self.manifest)
    }

    async fn follow(&mut self, mut watcher: Watcher) -> Option<()> {
        let phases = self.phases.clone();
        let mut written = Written::default();
        loop {
            let owed = self.stage.owes();
            // Whoever mended what no file shows saves once more, without a change.
            let again = self.stage.has_broken_build();
            let change = async {
                tokio::select! {
                    changed = watcher.changed(again) => changed,
                    () = sleep(ASK_AGAIN), if owed => Vec::new(),
                }
            };
            let mut changed = phases.or_drain(change).await?;
            loop {
                changed = self.round(changed, &mut watcher, &mut written).await?;
                if changed.is_empty() {
                    break;
                }
            }
        }
    }

    /// One round over these changes; what has changed meanwhile. Nothing when the run was stopped.
    async fn round(
        &mut self,
        changed: Vec<PathBuf>,
        watcher: &mut Watcher,
        written: &mut Written,
    ) -> Option<Vec<PathBuf>> {
        if changed.contains(&self.file) {
            self.reread(watcher).await;
        }
        let built = self.build(&changed).await?;
        let mut meanwhile = watcher.look().await;
        if !built.is_empty() {
            let verdict = written.judge(&changed, meanwhile);
            if !verdict.newly_own.is_empty() {
                let files = self.named(&verdict.newly_own);
                self.stage.events.tell(Event::OwnFiles { files }).await;
            }
            meanwhile = verdict.changed;
        }
        let loaded = self.load().await?;
        let is_partial = |(spec, component): &Loaded| {
            let is_built = spec.build.as_ref().is_some_and(|command| built.contains(command));
            component.is_err() && !is_built
        };
        if meanwhile.is_empty() && loaded.iter().any(is_partial) {
            sleep(COPY_OVER).await;
            meanwhile = watcher.look().await;
        }
        // A file that is being written is judged once it is whole.
        let is_moving = |spec: &ConsumerSpec| meanwhile.contains(&spec.component);
        let (moving, loaded): (Vec<_>, Vec<_>) =
            loaded.into_iter().partition(|(spec, component)| component.is_err() && is_moving(spec));
        drop(moving);
        for (subject, failure) in
            self.stage.activate(&Wish::of(&self.manifest), &self.workshop, loaded, false).await
        {
            self.stage.problem(subject, failure).await;
        }
        Some(meanwhile)
    }

    async fn reread(&mut self, watcher: &mut Watcher) {
        match cli::read_manifest(&self.file) {
            Ok(manifest) => {
                self.manifest = manifest;
                // What it does not name any more is built anew when it does again.
                let consumers = &self.manifest.consumers;
                let is_named = |c: &String| consumers.iter().any(|s| s.build.as_ref() == Some(c));
                self.ran.retain(is_named);
                self.stage.mended(&Subject::Manifest).await;
                self.stage.forget(&self.manifest).await;
                watcher.set_roots(project::watched(&self.file, &self.manifest)).await;
            }
            Err(failure) => self.stage.problem(Subject::Manifest, failure).await,
        }
    }

    /// Builds what the changes touch and what was never built. Answers which commands ran.
    async fn build(&mut self, changed: &[PathBuf]) -> Option<HashSet<String>> {
        let mut consumers = to_build(&self.manifest, &self.file, changed);
        for spec in &self.manifest.consumers {
            let is_new = spec.build.as_ref().is_some_and(|command| !self.ran.contains(command));
            if is_new && !consumers.iter().any(|consumer| consumer.name == spec.name) {
                consumers.push(spec);
            }
        }
        if consumers.is_empty() {
            return Some(HashSet::new());
        }
        let names: Vec<String> = consumers.iter().map(|consumer| consumer.name.clone()).collect();
        let began = Event::Building { consumers: names.clone(), changed: self.named(changed) };
        self.stage.events.tell(began).await;
        let start = Instant::now();
        let words = |consumer: &ConsumerSpec, _: &str| {
            Words::Kept(self.output.join(format!("{}.build.log", consumer.name)))
        };
        let built = build::all(&consumers, &self.manifest.folder, words, &self.phases).await?;
        let built: Vec<_> = built.into_iter().map(|(command, r)| (command.to_owned(), r)).collect();
        if built.iter().all(|(_, result)| result.is_ok()) {
            let elapsed = start.elapsed();
            self.stage.events.tell(Event::Built { consumers: names, elapsed }).await;
        }
        let mut ran = HashSet::new();
        for (command, result) in built {
            self.ran.insert(command.clone());
            ran.insert(command.clone());
            match result {
                Ok(()) => self.stage.mended(&Subject::Build(command)).await,
                Err(failure) => self.stage.problem(Subject::Build(command), failure).await,
            }
        }
        Some(ran)
    }

    /// Loads what stands to be run: all but what failed to build.
    async fn load(&mut self) -> Option<Vec<Loaded>> {
        let is_built = |spec: &&ConsumerSpec| {
            spec.build.as_ref().is_none_or(|c| !self.stage.has(&Subject::Build(c.clone())))
        };
        let consumers: Vec<_> = self.manifest.consumers.iter().filter(is_built).collect();
        let known = |spec: &ConsumerSpec| self.stage.component(&spec.name).cloned();
        let events = &self.stage.events;
        let tell = |text| events.mention(text);
        let components = self.workshop.load(&consumers, known, &tell).await?;
        Some(consumers.into_iter().cloned().zip(components).collect())
    }

    /// Paths as a person would name them.
    fn named(&self, paths: &[PathBuf]) -> Vec<String> {
        let name = |path: &PathBuf| {
            path.strip_prefix(&self.manifest.folder).unwrap_or(path).display().to_string()
        };
        paths.iter().map(name).collect()
    }
}
