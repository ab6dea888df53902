//! What runs of a project, and what is wrong with the rest.
//!
//! Owns activation: groups declared first, then code and configuration together, by a plan. A
//! consumer that is not ready keeps what it runs on, its group's policy too.

mod problems;
mod workshop;

pub(crate) use problems::Subject;
pub(crate) use workshop::{CACHE, Workshop, told_while};

use crate::cli::{Failure, shell};
use crate::dispatch::Dispatcher;
use crate::event::{Event, Events, Problem};
use crate::manifest::{ConsumerSpec, Manifest, groups};
use crate::plan::{Entry, Step, plan};
use crate::registry::{LogOutbox, Ready, revision};
use problems::Problems;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::watch;
use windlass_core::Topic;
use windlass_log::{Declared, DynLog, GroupSpec, LogError, Start, TopicLimits, TopicsMode};
use windlass_runtime::Component;

/// What runs, and where.
pub(crate) struct Stage {
    pub(crate) log: DynLog,
    pub(crate) outbox: Arc<LogOutbox>,
    pub(crate) dispatcher: Arc<Dispatcher>,
    pub(crate) events: Events,
    /// Topics as they were declared last.
    topics: Option<Topics>,
    /// The groups of all that runs or should.
    groups: watch::Sender<Vec<GroupSpec>>,
    running: Vec<Running>,
    problems: Problems,
}

/// The mode, all that are declared, and what those may hold that the manifest names.
pub(crate) type Topics = (TopicsMode, Vec<Topic>, Vec<(Topic, TopicLimits)>);

/// What is wanted of a stage.
pub(crate) struct Wish<'a> {
    /// What is to run.
    pub consumers: &'a [ConsumerSpec],
    /// What is not to claim for now: its groups are declared all the same.
    pub resting: &'a [ConsumerSpec],
    /// Topics, where they are to be as somebody wrote them down.
    pub topics: Option<Topics>,
}

impl<'a> Wish<'a> {
    /// What a manifest wants.
    pub(crate) fn of(manifest: &'a Manifest) -> Self {
        let Manifest { topics_mode, topics, consumers, .. } = manifest;
        let topics = Some((*topics_mode, manifest.declared_topics(), topics.clone()));
        Self { consumers, resting: &[], topics }
    }
}

/// What a consumer runs on.
struct Running {
    spec: ConsumerSpec,
    component: Component,
}

/// A consumer with what it is to run on, if that is there.
pub(crate) type Loaded = (ConsumerSpec, Result<Component, Failure>);

/// A consumer that can run.
type Wanted = (ConsumerSpec, Component, Ready);

/// All that a revision is made of; equal ones run alike.
type Revision = (ConsumerSpec, String);

impl Stage {
    /// Nothing runs yet.
    pub(crate) fn new(
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
    pub(crate) fn owes(&self) -> bool {
        self.problems.any(|subject| matches!(subject, Subject::Log | Subject::Limits(_)))
    }

    /// Whether there is such a problem.
    pub(crate) fn has(&self, subject: &Subject) -> bool {
        self.problems.has(subject)
    }

    /// Whether a build has failed and none went well since.
    pub(crate) fn has_broken_build(&self) -> bool {
        self.problems.any(|subject| matches!(subject, Subject::Build(_)))
    }

    /// Whether every consumer of `manifest` runs.
    pub(crate) fn runs_all(&self, manifest: &Manifest) -> bool {
        manifest.consumers.iter().all(|spec| self.find(&spec.name).is_some())
    }

    /// The code that a consumer runs on.
    pub(crate) fn component(&self, name: &str) -> Option<&Component> {
        self.find(name).map(|running| &running.component)
    }

    /// The configuration that a consumer runs with.
    pub(crate) fn spec(&self, name: &str) -> Option<&ConsumerSpec> {
        self.find(name).map(|running| &running.spec)
    }

    fn find(&self, name: &str) -> Option<&Running> {
        self.running.iter().find(|running| running.spec.name == name)
    }

    /// Runs what is loaded as it is wished; what is not loaded goes on as it was, and what nobody
    /// wants stops. Answers what went wrong; when `whole`, nothing runs then.
    pub(crate) async fn activate(
        &mut self,
        wish: &Wish<'_>,
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
        match self.declare(wish, &wanted).await {
            Ok(()) => {
                self.mended(&Subject::Log).await;
                self.swap(wish, wanted).await;
            }
            Err(failure) => wrong.push((Subject::Log, failure)),
        }
        wrong
    }

    /// Declares topics and all groups: as wanted where that can run or nothing runs yet, as it
    /// runs elsewhere.
    async fn declare(&mut self, wish: &Wish<'_>, wanted: &[Wanted]) -> Result<(), Failure> {
        let is_ready = |name: &str| wanted.iter().any(|(spec, ..)| spec.name == name);
        let effective = wish.consumers.iter().map(|spec| match self.find(&spec.name) {
            Some(running) if !is_ready(&spec.name) => &running.spec,
            Some(_) | None => spec,
        });
        let groups = groups(effective.chain(wish.resting));
        let topics = &wish.topics;
        if self.topics == *topics && groups == *self.groups.borrow() {
            return Ok(());
        }
        // Until all of it is done, nothing of it counts as done.
        self.topics = None;
        let mut all_set = true;
        if let Some((mode, declared, limits)) = topics {
            self.log.declare_topics(*mode, declared.clone()).await?;
            all_set = self.limit(limits).await?;
        }
        let declared = self.log.declare_groups(groups.clone()).await?;
        self.topics = if all_set { topics.clone() } else { None };
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

    async fn swap(&mut self, wish: &Wish<'_>, wanted: Vec<Wanted>) {
        let made_of = |spec: &ConsumerSpec, component: &Component| -> Revision {
            (spec.clone(), component.digest().to_owned())
        };
        let running: Vec<(String, Revision)> = self
            .running
            .iter()
            .map(|r| (r.spec.name.clone(), made_of(&r.spec, &r.component)))
            .collect();
        // What is wanted and not ready stays as it is.
        let stays = running.iter().filter(|(name, _)| {
            wish.consumers.iter().any(|spec| spec.name == *name)
                && !wanted.iter().any(|(spec, ..)| spec.name == *name)
        });
        let ready =
            wanted.iter().map(|(spec, component, _)| (spec.name.clone(), made_of(spec, component)));
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
        let before = self.find(&spec.name).map(|r| revision(&r.spec, &r.component));
        let serving = Event::Serving {
            consumer: spec.name.clone(),
            topics: spec.topics.iter().map(ToString::to_string).collect(),
            group: spec.group.clone(),
            revision: revision(&spec, &component),
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
    pub(crate) async fn problem(&mut self, subject: Subject, failure: Failure) {
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
        let code = |r: &Running| format!("{} {}", r.spec.name, revision(&r.spec, &r.component));
        let goes_on: Vec<_> = concerned.map(code).collect();
        if goes_on.is_empty() {
            "nothing of it runs until this is mended".to_owned()
        } else {
            format!("{} goes on until this is mended", goes_on.join(", "))
        }
    }

    /// It is not wrong, or not any more.
    pub(crate) async fn mended(&mut self, subject: &Subject) {
        if self.problems.end(subject) {
            self.events.tell(Event::Mended { subject: subject.text() }).await;
        }
    }

    /// Drops what is wrong with components of consumers that are not among these.
    pub(crate) async fn forget_all_but(&mut self, names: &BTreeSet<&str>) {
        let is_over = |subject: &Subject| match subject {
            Subject::Component(name) => !names.contains(name.as_str()),
            Subject::Manifest | Subject::Log | Subject::Limits(_) | Subject::Build(_) => false,
        };
        for subject in self.problems.end_all(is_over) {
            self.events.tell(Event::Mended { subject: subject.text() }).await;
        }
    }

    /// Drops what is wrong with what `manifest` does not have.
    pub(crate) async fn forget(&mut self, manifest: &Manifest) {
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
