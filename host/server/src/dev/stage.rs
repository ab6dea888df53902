//! What runs of a project, and what is wrong with the rest.
//!
//! Owns activation: groups declared first, then code and configuration together, by a plan. A
//! consumer that is not ready keeps what it runs on, its group's policy too.

use super::problems::{Problems, Subject};
use super::workshop::{self, Workshop};
use crate::cli::{Failure, shell};
use crate::dispatch::Dispatcher;
use crate::event::{Event, Events, Problem};
use crate::manifest::{ConsumerSpec, Manifest, groups};
use crate::plan::{Entry, Step, plan};
use crate::registry::{LogOutbox, Ready};
use std::sync::Arc;
use tokio::sync::watch;
use windlass_core::Topic;
use windlass_log::{Declared, DynLog, GroupSpec, LogError, Start, TopicLimits, TopicsMode};
use windlass_runtime::Component;

/// What runs, and where.
pub(super) struct Stage {
    pub(super) log: DynLog,
    pub(super) outbox: Arc<LogOutbox>,
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) events: Events,
    /// Topics as they were declared last.
    topics: Option<Topics>,
    /// The groups of all that runs or should.
    groups: watch::Sender<Vec<GroupSpec>>,
    running: Vec<Running>,
    problems: Problems,
}

/// The mode, all that are declared, and what those may hold that the manifest names.
type Topics = (TopicsMode, Vec<Topic>, Vec<(Topic, TopicLimits)>);

/// What a consumer runs on.
struct Running {
    spec: ConsumerSpec,
    component: Component,
}

/// A consumer with what it is to run on, if that is there.
pub(super) type Loaded = (ConsumerSpec, Result<Component, Failure>);

/// A consumer that can run.
type Wanted = (ConsumerSpec, Component, Ready);

/// All that a revision is made of; equal ones run alike.
type Revision = (ConsumerSpec, String);

impl Stage {
    /// Nothing runs yet.
    pub(super) fn new(
        log: DynLog,
        outbox: Arc<LogOutbox>,
        dispatcher: Arc<Dispatcher>,
        events: Events,
        groups: watch::Sender<Vec<GroupSpec>>,
    ) -> Self {
        let (running, problems) = (Vec::new(), Problems::default());
        Self { log, outbox, dispatcher, events, topics: None, groups, running, problems }
    }

    /// Whether something that the log could not do is to be asked again.
    pub(super) fn owes(&self) -> bool {
        self.problems.any(|subject| matches!(subject, Subject::Log | Subject::Limits(_)))
    }

    /// Whether there is such a problem.
    pub(super) fn has(&self, subject: &Subject) -> bool {
        self.problems.has(subject)
    }

    /// Whether a build has failed and none went well since.
    pub(super) fn has_broken_build(&self) -> bool {
        self.problems.any(|subject| matches!(subject, Subject::Build(_)))
    }

    /// Whether every consumer of `manifest` runs.
    pub(super) fn runs_all(&self, manifest: &Manifest) -> bool {
        manifest.consumers.iter().all(|spec| self.find(&spec.name).is_some())
    }

    /// The code that a consumer runs on.
    pub(super) fn component(&self, name: &str) -> Option<&Component> {
        self.find(name).map(|running| &running.component)
    }

    fn find(&self, name: &str) -> Option<&Running> {
        self.running.iter().find(|running| running.spec.name == name)
    }

    /// Runs what is loaded as `manifest` wants it; what is not loaded goes on as it was, and what
    /// the manifest does not have stops. Answers what went wrong; when `whole`, nothing runs then.
    pub(super) async fn activate(
        &mut self,
        manifest: &Manifest,
        workshop: &Workshop,
        loaded: Vec<Loaded>,
        whole: bool,
    ) -> Vec<(Subject, Failure)> {
        let (mut wanted, mut wrong): (Vec<Wanted>, _) = (Vec::new(), Vec::new());
        for (spec, component) in loaded {
            let subject = Subject::Component(spec.name.clone());
            let ready = component.and_then(|component| {
                let ready = workshop.ready(&spec, &component, &self.outbox)?;
                Ok((component, ready))
            });
            match ready {
                Ok((component, ready)) => {
                    self.mended(&subject).await;
                    wanted.push((spec, component, ready));
                }
                Err(failure) => wrong.push((subject, failure)),
            }
        }
        if whole && !wrong.is_empty() {
            return wrong;
        }
        match self.declare(manifest, &wanted).await {
            Ok(()) => {
                self.mended(&Subject::Log).await;
                self.swap(manifest, wanted).await;
            }
            Err(failure) => wrong.push((Subject::Log, failure)),
        }
        wrong
    }

    /// Declares topics and all groups: as wanted where that can run or nothing runs yet, as it
    /// runs elsewhere.
    async fn declare(&mut self, manifest: &Manifest, wanted: &[Wanted]) -> Result<(), Failure> {
        let is_ready = |name: &str| wanted.iter().any(|(spec, ..)| spec.name == name);
        let effective = manifest.consumers.iter().map(|spec| match self.find(&spec.name) {
            Some(running) if !is_ready(&spec.name) => &running.spec,
            Some(_) | None => spec,
        });
        let groups = groups(effective);
        let topics = (manifest.topics_mode, manifest.declared_topics(), manifest.topics.clone());
        if self.topics.as_ref() == Some(&topics) && groups == *self.groups.borrow() {
            return Ok(());
        }
        // Until all of it is done, nothing of it counts as done.
        self.topics = None;
        self.log.declare_topics(topics.0, topics.1.clone()).await?;
        let all_set = self.limit(&topics.2).await?;
        let declared = self.log.declare_groups(groups.clone()).await?;
        self.topics = all_set.then_some(topics);
        let before = self.groups.send_replace(groups.clone());
        for (group, declared) in groups.iter().zip(declared) {
            let is_news =
                !before.iter().any(|old| old.topic == group.topic && old.group == group.group);
            if is_news && declared == Declared::Known && group.start != Start::Earliest {
                let topic = &group.topic;
                let text =
                    format!("`{topic}` is read on from where it was: `start` is for new groups");
                self.events.tell(Event::Remark { text }).await;
            }
        }
        Ok(())
    }

    /// Sets what topics may hold. One that holds more keeps the limits it has, which is told and
    /// tried again; it holds up nothing else. Answers whether all are set.
    async fn limit(&mut self, topics: &[(Topic, TopicLimits)]) -> Result<bool, Failure> {
        let mut all_set = true;
        for (topic, limits) in topics {
            let subject = Subject::Limits(topic.clone());
            match self.log.set_limits(topic, *limits, false).await {
                Ok(()) => self.mended(&subject).await,
                Err(error @ LogError::HoldsMore { .. }) => {
                    all_set = false;
                    // The figures change all the time, which is no news.
                    if !self.has(&subject) {
                        self.problem(subject, too_low(topic, error)).await;
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(all_set)
    }

    async fn swap(&mut self, manifest: &Manifest, wanted: Vec<Wanted>) {
        let revision = |spec: &ConsumerSpec, component: &Component| -> Revision {
            (spec.clone(), component.digest().to_owned())
        };
        let running: Vec<(String, Revision)> = self
            .running
            .iter()
            .map(|r| (r.spec.name.clone(), revision(&r.spec, &r.component)))
            .collect();
        // What is in the manifest and not ready stays as it is.
        let stays = running.iter().filter(|(name, _)| {
            manifest.consumers.iter().any(|spec| spec.name == *name)
                && !wanted.iter().any(|(spec, ..)| spec.name == *name)
        });
        let ready = wanted
            .iter()
            .map(|(spec, component, _)| (spec.name.clone(), revision(spec, component)));
        let goal: Vec<(String, Revision)> = ready.chain(stays.cloned()).collect();
        let mut wanted = wanted;
        for step in plan(&entries(&running), &entries(&goal)) {
            match step {
                Step::Keep(_) => {}
                Step::Stop(name) => self.stop(name).await,
                Step::Start(name) | Step::Swap(name) => {
                    if let Some(at) = wanted.iter().position(|(spec, ..)| spec.name == name) {
                        self.run(wanted.swap_remove(at)).await;
                    }
                }
            }
        }
    }

    async fn run(&mut self, (spec, component, ready): Wanted) {
        let before = self.component(&spec.name).map(|code| code.short_digest().to_owned());
        let serving = Event::Serving {
            consumer: spec.name.clone(),
            topics: spec.topics.iter().map(ToString::to_string).collect(),
            group: spec.group.clone(),
            revision: component.short_digest().to_owned(),
            before,
        };
        // Before the first delivery is told.
        self.events.tell(serving).await;
        self.dispatcher.add(workshop::consumer(&spec, ready, &self.dispatcher));
        self.running.retain(|running| running.spec.name != spec.name);
        self.running.push(Running { spec, component });
    }

    async fn stop(&mut self, name: &str) {
        self.dispatcher.retire(name);
        self.running.retain(|running| running.spec.name != name);
        self.events.tell(Event::Retired { consumer: name.to_owned() }).await;
    }

    /// Something is wrong until somebody mends it.
    pub(super) async fn problem(&mut self, subject: Subject, failure: Failure) {
        if !self.problems.begin(&subject, &failure) {
            return;
        }
        let Failure { what, why, next, exit: _ } = failure;
        let (meanwhile, subject) = (self.meanwhile(&subject), subject.text());
        let problem = Problem { subject, what, why, next, meanwhile };
        self.events.tell(Event::Problem(Box::new(problem))).await;
    }

    /// What goes on while something is wrong.
    fn meanwhile(&self, subject: &Subject) -> String {
        if let Subject::Limits(_) = subject {
            return "it keeps the limits it has until what is there fits".to_owned();
        }
        let concerned = self.running.iter().filter(|running| match subject {
            Subject::Manifest | Subject::Log | Subject::Limits(_) => true,
            Subject::Build(command) => running.spec.build.as_ref() == Some(command),
            Subject::Component(name) => running.spec.name == *name,
        });
        let code = |r: &Running| format!("{} {}", r.spec.name, r.component.short_digest());
        let goes_on: Vec<_> = concerned.map(code).collect();
        if goes_on.is_empty() {
            "nothing of it runs until this is mended".to_owned()
        } else {
            format!("{} goes on until this is mended", goes_on.join(", "))
        }
    }

    /// It is not wrong, or not any more.
    pub(super) async fn mended(&mut self, subject: &Subject) {
        if self.problems.end(subject) {
            self.events.tell(Event::Mended { subject: subject.text() }).await;
        }
    }

    /// Drops what is wrong with what `manifest` does not have.
    pub(super) async fn forget(&mut self, manifest: &Manifest) {
        let is_over = |subject: &Subject| match subject {
            Subject::Manifest | Subject::Log => false,
            Subject::Limits(topic) => !manifest.topics.iter().any(|(named, _)| named == topic),
            Subject::Build(command) => {
                !manifest.consumers.iter().any(|spec| spec.build.as_ref() == Some(command))
            }
            Subject::Component(name) => !manifest.consumers.iter().any(|spec| spec.name == *name),
        };
        for subject in self.problems.end_all(is_over) {
            self.events.tell(Event::Mended { subject: subject.text() }).await;
        }
    }
}

/// A topic holds more than the manifest lets it.
fn too_low(topic: &Topic, error: LogError) -> Failure {
    let topic = shell(topic.as_str());
    Failure::from(error).because("the limits of windlass.toml are not set").next(format!(
        "wait until less is to settle, raise them there, or set them all the same: \
         windlass topic set {topic} --max-messages N --max-bytes SIZE --force"
    ))
}

fn entries(revisions: &[(String, Revision)]) -> Vec<Entry<'_, Revision>> {
    revisions.iter().map(|(name, revision)| Entry { name, revision }).collect()
}
