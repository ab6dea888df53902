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
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_runtime::{Allocation, CheckError, Component, Engine, EngineConfig, Needs, PoolSize};

/// Where compiled code is kept, below the log's folder.
pub(crate) const CACHE: &str = "cache";

/// A compile that takes longer is told of, and again after each of these.
const SLOW: Duration = Duration::from_millis(500);
const STILL: Duration = Duration::from_secs(10);

/// Where is told what lasts.
pub(crate) type Tell<'a> = &'a (dyn Fn(String) + Sync);

/// Where code becomes ready.
pub(crate) struct Workshop {
    engine: Engine,
    config: EngineConfig,
    phases: Phases,
}

impl Workshop {
    /// A workshop that stops when the run does, and keeps compiled code below the log's folder.
    pub(crate) fn new(phases: Phases, log: &Path) -> Result<Self, Failure> {
        let config = EngineConfig { cache: Some(log.join(CACHE)), ..EngineConfig::default() };
        let engine = Engine::new(&config).map_err(|error| Failure::of(&error))?;
        Ok(Self { engine, config, phases })
    }

    /// Where instances live, in a sentence.
    pub(crate) fn describe(&self) -> String {
        describe(self.engine.allocation())
    }

    /// Whether instances have a pool.
    pub(crate) fn has_pool(&self) -> bool {
        matches!(self.engine.allocation(), Allocation::Pooling(_))
    }

    /// Compiles and checks the components of `consumers`, unless they are what is `known` of
    /// them; nothing when the run was stopped. What takes long is told.
    pub(crate) async fn load(
        &mut self,
        consumers: &[&ConsumerSpec],
        known: impl Fn(&ConsumerSpec) -> Option<Component>,
        tell: Tell<'_>,
    ) -> Option<Vec<Result<Component, Failure>>> {
        let mut by_path: HashMap<PathBuf, Component> = HashMap::new();
        let mut loaded = Vec::new();
        for consumer in consumers {
            let path = &consumer.component;
            let component = match by_path.get(path) {
                Some(component) => Ok(component.clone()),
                None => self
                    .load_one(path, known(consumer).as_ref(), tell)
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

    async fn load_one(
        &mut self,
        path: &Path,
        known: Option<&Component>,
        tell: Tell<'_>,
    ) -> Option<Result<Component, CheckError>> {
        let phases = self.phases.clone();
        let load = Component::reload_file(&self.engine, path, known);
        let component = phases.or_drain(told_while(load, path, tell)).await?;
        let Ok(component) = component else { return Some(component) };
        let needs = component.report().needs;
        if component.engine().is_sized_for(needs) || !self.enlarge(needs) {
            return Some(Ok(component));
        }
        tell(self.describe());
        let load = Component::load_file(&self.engine, path);
        phases.or_drain(told_while(load, path, tell)).await
    }

    /// Makes a larger pool for what comes from now on; what runs stays in the one that it has.
    /// Where there is no address space for it, there are fewer instances of a large component.
    fn enlarge(&mut self, needs: Needs) -> bool {
        let before = self.config.each;
        let each = before.max(needs.rounded_up());
        if each != before {
            // Tried once, however it ends.
            self.config.each = each;
            match Engine::new(&self.config) {
                Ok(engine) if matches!(engine.allocation(), Allocation::Pooling(_)) => {
                    self.engine = engine;
                }
                Ok(_) | Err(_) => tracing::info!(?each, "there is no room for a larger pool"),
            }
        }
        self.engine.is_sized_for(needs)
    }

    /// A loaded component under its consumer's configuration.
    #[expect(clippy::unused_self, reason = "code becomes ready here")]
    pub(crate) fn ready(
        &self,
        spec: &ConsumerSpec,
        component: &Component,
        outbox: &Arc<LogOutbox>,
    ) -> Result<Ready, Failure> {
        Ready::new(component, spec, outbox).map_err(|error| of(spec, error.into()))
    }
}

fn describe(allocation: &Allocation) -> String {
    match allocation {
        Allocation::Pooling(PoolSize { instances, memories, tables }) => {
            format!("a pool has {instances} instances, {memories} memories and {tables} tables")
        }
        Allocation::OnDemand { why } => {
            format!("each instance is mapped when it is needed, as there is no pool: {why}")
        }
    }
}

/// Waits for `load`, and tells that it lasts.
pub(crate) async fn told_while<T>(load: impl Future<Output = T>, path: &Path, tell: Tell<'_>) -> T {
    let since = Instant::now();
    let mut load = std::pin::pin!(load);
    let mut patience = SLOW;
    loop {
        tokio::select! {
            biased;
            loaded = &mut load => return loaded,
            () = tokio::time::sleep(patience) => {}
        }
        let seconds = since.elapsed().as_secs();
        let so_far = if seconds == 0 { String::new() } else { format!(", {seconds} s so far") };
        tell(format!("compiling {}{so_far}", path.display()));
        patience = STILL;
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
        health: Arc::new(Health::new()),
        retired: watch::Sender::new(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test(start_paused = true)]
    async fn what_takes_long_is_told() {
        let told = Mutex::new(Vec::new());
        let tell = |text| told.lock().unwrap().push(text);
        let path = Path::new("a.wasm");
        told_while(tokio::time::sleep(Duration::from_millis(400)), path, &tell).await;
        assert!(told.lock().unwrap().is_empty());
        told_while(tokio::time::sleep(Duration::from_secs(11)), path, &tell).await;
        let expected = ["compiling a.wasm", "compiling a.wasm, 10 s so far"];
        assert_eq!(*told.lock().unwrap(), expected);
    }

    #[test]
    fn a_component_that_needs_more_gets_a_larger_pool() {
        let (_stopper, phases) = crate::drain::phases();
        let folder = tempfile::tempdir().unwrap();
        let mut workshop = Workshop::new(phases, folder.path()).unwrap();
        assert!(workshop.has_pool(), "{}", workshop.describe());
        let small = Needs { memories: 1, tables: 3 };
        assert!(workshop.engine.is_sized_for(small) && workshop.enlarge(small));
        assert_eq!(workshop.config.each, Needs::default());
        let large = Needs { memories: 2, tables: 20 };
        assert!(!workshop.engine.is_sized_for(large));
        assert!(workshop.enlarge(large) && workshop.engine.is_sized_for(large));
        let expected = "a pool has 1000 instances, 2000 memories and 32000 tables";
        assert_eq!(workshop.describe(), expected);
    }
}
