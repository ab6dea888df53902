//! From a consumer's sources to a component that is ready to be called: build, compile, check.
//!
//! A command that several consumers name is run once, a file that several name compiled once. A
//! failure is that consumer's alone.

use super::build::{self, Words};
use crate::cli::Failure;
use crate::delivery::Invoke;
use crate::dispatch::{Consumer, Dispatcher};
use crate::drain::Phases;
use crate::manifest::ConsumerSpec;
use crate::pause::Health;
use crate::permits::Seat;
use crate::registry::{LogOutbox, Ready};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;
use windlass_runtime::{Allocation, Component, Engine, EngineConfig};

/// Where code becomes ready.
pub(super) struct Workshop {
    engine: Engine,
    phases: Phases,
}

/// What became of a build, by command.
pub(super) type Built<'m> = HashMap<&'m str, Result<(), Failure>>;

impl Workshop {
    /// A workshop that stops when the run does.
    pub(super) fn new(phases: Phases) -> Result<Self, Failure> {
        let engine = Engine::new(&EngineConfig::default()).map_err(|error| Failure::of(&error))?;
        if let Allocation::OnDemand { why } = engine.allocation() {
            tracing::info!(why, "instances have no pool");
        }
        Ok(Self { engine, phases })
    }

    /// Runs the builds of `consumers` in `folder`; nothing when the run was stopped. `begin` is
    /// told of each and says where its words go.
    pub(super) async fn build<'m>(
        &self,
        consumers: &[&'m ConsumerSpec],
        folder: &Path,
        begin: impl Fn(&ConsumerSpec, &str) -> Words,
    ) -> Option<Built<'m>> {
        let mut built = Built::new();
        for consumer in consumers {
            let Some(command) = consumer.build.as_deref() else { continue };
            if built.contains_key(command) {
                continue;
            }
            let words = begin(consumer, command);
            let run = build::run(&consumer.name, command, folder, &words, &self.phases);
            built.insert(command, run.await?);
        }
        Some(built)
    }

    /// Compiles and checks the components of `consumers`, unless they are what is `known` of
    /// them; nothing when the run was stopped.
    pub(super) async fn load(
        &self,
        consumers: &[&ConsumerSpec],
        known: impl Fn(&ConsumerSpec) -> Option<Component>,
    ) -> Option<Vec<Result<Component, Failure>>> {
        let mut by_path: HashMap<PathBuf, Component> = HashMap::new();
        let mut loaded = Vec::new();
        for consumer in consumers {
            let path = &consumer.component;
            let component = match by_path.get(path) {
                Some(component) => Ok(component.clone()),
                None => self
                    .phases
                    .or_drain(Component::reload_file(&self.engine, path, known(consumer).as_ref()))
                    .await?
                    .map_err(|error| of(consumer, error.into())),
            };
            if let Ok(component) = &component {
                by_path.insert(path.clone(), component.clone());
            }
            loaded.push(component);
        }
        Some(loaded)
    }

    /// A loaded component under its consumer's configuration.
    pub(super) fn ready(
        &self,
        spec: &ConsumerSpec,
        component: &Component,
        outbox: &Arc<LogOutbox>,
    ) -> Result<Ready, Failure> {
        Ready::new(&self.engine, component, spec, outbox).map_err(|error| of(spec, error.into()))
    }
}

/// A failure that is about one consumer.
fn of(consumer: &ConsumerSpec, failure: Failure) -> Failure {
    failure.because(format!("consumer `{}`: {}", consumer.name, consumer.component.display()))
}

/// A consumer as the dispatcher runs it.
pub(super) fn consumer(spec: &ConsumerSpec, ready: Ready, dispatcher: &Dispatcher) -> Consumer {
    let seat: Seat = dispatcher.seat(&spec.name, spec.concurrency);
    Consumer {
        name: spec.name.as_str().into(),
        group: spec.group.clone(),
        start: spec.start,
        policy: spec.policy.clone(),
        topics: spec.topics.clone(),
        invoke: Arc::new(ready) as Arc<dyn Invoke>,
        seat,
        health: Health::new(),
        retired: watch::Sender::new(false),
    }
}
