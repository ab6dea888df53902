//! From a component's file to what is ready to be called: compile and check.
//!
//! A file that several consumers name is compiled once. A failure is that consumer's alone.

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

/// Where compiled code is kept, below the log's folder.
pub(crate) const CACHE: &str = "cache";

/// Where code becomes ready.
pub(crate) struct Workshop {
    engine: Engine,
    phases: Phases,
}

impl Workshop {
    /// A workshop that stops when the run does, and keeps compiled code below the log's folder.
    pub(crate) fn new(phases: Phases, log: &Path) -> Result<Self, Failure> {
        let config = EngineConfig { cache: Some(log.join(CACHE)), ..EngineConfig::default() };
        let engine = Engine::new(&config).map_err(|error| Failure::of(&error))?;
        if let Allocation::OnDemand { why } = engine.allocation() {
            tracing::info!(why, "instances have no pool");
        }
        Ok(Self { engine, phases })
    }

    /// Compiles and checks the components of `consumers`, unless they are what is `known` of
    /// them; nothing when the run was stopped.
    pub(crate) async fn load(
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
    pub(crate) fn ready(
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
pub(crate) fn consumer(spec: &ConsumerSpec, ready: Ready, dispatcher: &Dispatcher) -> Consumer {
    let seat: Seat = dispatcher.seat(&spec.name, spec.concurrency);
    Consumer {
        name: spec.name.as_str().into(),
        group: spec.group.clone(),
        start: spec.start,
        policy: spec.policy.clone(),
        topics: spec.topics.clone(),
        invoke: Arc::new(ready) as Arc<dyn Invoke>,
        seat,
        pace: dispatcher.pace(&spec.name, spec.rate),
        health: Health::new(),
        retired: watch::Sender::new(false),
    }
}
