//! Keeping what runs as it is deployed: looks at the log, and swaps by a plan.
//!
//! Owns the way from rows to running consumers. A revision that does not come to run costs itself:
//! what ran before goes on, and that is told.

use super::desk::{Desk, Expected, state};
use crate::cli::Failure;
use crate::deploy::components;
use crate::drain::Phases;
use crate::event::Event;
use crate::manifest::{Config, ConsumerSpec, consumers};
use crate::registry::revision;
use crate::stage::{Loaded, Stage, Subject, Wish, Workshop};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_log::{Deployed, Deployment, DynLog};
use windlass_runtime::Component;

/// How often the log is asked whether something else is deployed.
const LOOK: Duration = Duration::from_millis(200);
/// When what could not be done is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Follows what is deployed.
pub(super) struct Keeper {
    /// Where it is kept.
    pub log: DynLog,
    /// The log's folder.
    pub folder: PathBuf,
    /// Where code becomes ready.
    pub workshop: Workshop,
    /// Where it runs.
    pub stage: Stage,
    /// How it stands.
    pub desk: Arc<Desk>,
    /// When to stop.
    pub phases: Phases,
    /// Somebody knows that something changed.
    pub nudge: Arc<Notify>,
}

impl Keeper {
    /// Follows changes until the run ends; what was `seen` already is not looked at again.
    pub(super) async fn run(mut self, seen: u64) {
        // Ends with `None` when the run does.
        let _ended = self.follow(seen).await;
    }

    async fn follow(&mut self, mut seen: u64) -> Option<()> {
        let phases = self.phases.clone();
        let mut again_at = Instant::now() + AGAIN;
        let mut taken = None;
        loop {
            if taken != Some(seen) && super::tell_all(&self.log, &self.desk).await {
                // How consumers stand is known before.
                taken = self.log.tell_taken(seen).await.ok().map(|()| seen);
            }
            let nudge = Arc::clone(&self.nudge);
            let look = async {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = nudge.notified() => {}
                }
            };
            phases.or_drain(look).await?;
            let owes = self.stage.owes() && Instant::now() >= again_at;
            // A log in trouble is told of by whoever delivers.
            let Ok(version) = self.log.deployed_version().await else { continue };
            if version == seen && !owes {
                continue;
            }
            let Ok(deployed) = self.log.deployed().await else { continue };
            self.apply(&deployed).await?;
            (seen, again_at) = (deployed.version, Instant::now() + AGAIN);
        }
    }

    /// Runs what is deployed; nothing when the run was stopped meanwhile.
    pub(super) async fn apply(&mut self, deployed: &Deployed) -> Option<()> {
        let (mut wanted, mut resting, mut staying) = (Vec::new(), Vec::new(), Vec::new());
        let mut wrong: Vec<(Subject, Failure)> = Vec::new();
        for deployment in &deployed.deployments {
            let name = &deployment.revision.consumer;
            match self.read(deployment) {
                Ok(spec) if deployment.paused => resting.push(spec),
                Ok(spec) => wanted.push(spec),
                Err(failure) => {
                    wrong.push((Subject::Component(name.clone()), failure));
                    staying.extend(self.stage.spec(name).cloned());
                }
            }
        }
        let loaded = self.load(deployed, &wanted).await?;
        for (spec, component) in &loaded {
            if let (Ok(component), Some(deployment)) = (component, deployed.find(&spec.name)) {
                let expected = self.expected(deployment, spec).await;
                self.desk.expect(expected, revision(spec, component));
            }
        }
        let names: BTreeSet<&str> =
            deployed.deployments.iter().map(|one| one.revision.consumer.as_str()).collect();
        self.stage.forget_all_but(&names).await;
        let consumers: Vec<ConsumerSpec> = wanted.into_iter().chain(staying).collect();
        let wish = Wish { consumers: &consumers, resting: &resting, topics: None };
        wrong.extend(self.stage.activate(&wish, &self.workshop, loaded, false).await);
        for spec in &consumers {
            if let Some(number) = self.stage.spec(&spec.name).and_then(|runs| runs.revision) {
                self.desk.runs(&spec.name, number);
            }
        }
        for (subject, failure) in wrong {
            self.failed(deployed, &subject, &failure);
            self.stage.problem(subject, failure).await;
        }
        for spec in &resting {
            let (number, text) = (spec.revision.unwrap_or_default(), String::new());
            self.desk.set(&spec.name, number, state::PAUSED, text);
        }
        self.desk.keep(&names);
        Some(())
    }

    fn failed(&self, deployed: &Deployed, subject: &Subject, failure: &Failure) {
        let text = [std::slice::from_ref(&failure.what), &failure.why].concat().join("; ");
        for deployment in &deployed.deployments {
            let name = &deployment.revision.consumer;
            let concerned = match subject {
                Subject::Component(of) => of == name,
                Subject::Log => !deployment.paused,
                Subject::Manifest | Subject::Build(_) | Subject::Limits(_) => false,
            };
            if concerned {
                self.desk.set(name, deployment.revision.number, state::FAILED, text.clone());
            }
        }
    }

    /// A revision as the dispatcher wants it.
    fn read(&self, deployment: &Deployment) -> Result<ConsumerSpec, Failure> {
        let of = &deployment.revision;
        let unreadable = |why: String| {
            Failure::new(format!("revision {} of `{}` cannot be read", of.number, of.consumer))
                .because(why)
                .next(format!("deploy it anew, or: windlass rollback {}", of.consumer))
        };
        let config = Config::read(&of.config).map_err(|error| unreadable(error.to_string()))?;
        let folder = self.folder.join(components::FOLDER);
        let read = consumers(&folder, [(config, components::name(&of.digest))]);
        let read = read.map_err(|error| unreadable(error.text))?.pop();
        let mut spec = read.ok_or_else(|| unreadable("nothing is in it".to_owned()))?;
        spec.revision = Some(of.number);
        Ok(spec)
    }

    /// Loads what is wanted; a file that is not what was deployed is not run.
    async fn load(&mut self, deployed: &Deployed, wanted: &[ConsumerSpec]) -> Option<Vec<Loaded>> {
        let known = |spec: &ConsumerSpec| self.stage.component(&spec.name).cloned();
        let refs: Vec<&ConsumerSpec> = wanted.iter().collect();
        let events = &self.stage.events;
        let tell = |text| events.mention(text);
        let loaded = self.workshop.load(&refs, known, &tell).await?;
        let judged = wanted.iter().cloned().zip(loaded).map(|(spec, component)| {
            let component = component.and_then(|component| {
                let wanted = deployed.find(&spec.name).map(|one| one.revision.digest.as_str());
                right(&spec, component, wanted)
            });
            (spec, component)
        });
        Some(judged.collect())
    }

    /// What the desk must know. Without an earlier revision there is nothing to go back to.
    async fn expected(&self, deployment: &Deployment, spec: &ConsumerSpec) -> Expected {
        let of = &deployment.revision;
        let told = deployment.told.as_ref();
        let proven = told.is_some_and(|told| told.revision == of.number && told.proven);
        let mut rollback_after = spec.rollback_after.filter(|_| !proven);
        if rollback_after.is_some() && !matches!(super::earlier(&self.log, of).await, Ok(Some(_))) {
            rollback_after = None;
        }
        let (consumer, revision) = (of.consumer.clone(), of.number);
        Expected { consumer, revision, proven, rollback_after }
    }

    /// Tells that everything is declared, and all that can run claims.
    pub(super) async fn tell_ready(&self, deployed: &Deployed) {
        let consumers = deployed.deployments.iter().map(|one| one.revision.consumer.clone());
        let (log, consumers) = (self.folder.display().to_string(), consumers.collect());
        self.stage.events.tell(Event::Ready { log, consumers }).await;
    }
}

fn right(
    spec: &ConsumerSpec,
    component: Component,
    wanted: Option<&str>,
) -> Result<Component, Failure> {
    if wanted == Some(component.digest()) {
        return Ok(component);
    }
    Err(Failure::new(format!("the component of `{}` is not what was deployed", spec.name))
        .because(format!("`{}` was changed", spec.component.display()))
        .next("deploy it anew"))
}
