//! A consumer: a component with its limits, grants and way of sending, ready to be called.
//!
//! Owns the warm instances, where the policy keeps any. One call is in `invoke`.

use crate::bindings::GuestPre;
use crate::component::{CheckError, Component};
use crate::delivery::Delivery;
use crate::engine::Engine;
use crate::instance::Instance;
use crate::pool::{Pool, Slots};
use crate::ports::Outbox;
use crate::store::StoreData;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use windlass_core::{Grants, Limits};

/// How a guest's sends go out.
#[derive(Clone, Default)]
pub enum SendMode {
    /// Collected, and committed with the ack.
    #[default]
    WithAck,
    /// At once, through the outbox, whatever becomes of the delivery.
    Immediate(Arc<dyn Outbox>),
}

/// How long an instance lives.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum InstancePolicy {
    /// For one message.
    #[default]
    Fresh,
    /// For several, one after the other. An instance is replaced earlier when it has used three
    /// quarters of its memory or half of its resources, and after anything but `ok`.
    Warm {
        /// Most messages.
        messages: NonZeroU32,
        /// Longest life.
        age: Duration,
    },
}

/// What a consumer is made of beside its component.
#[derive(Clone, Default)]
pub struct ConsumerConfig {
    /// Its name, for logs.
    pub name: String,
    /// What an invocation may use.
    pub limits: Limits,
    /// What the guest may do.
    pub grants: Grants,
    /// How its sends go out.
    pub sends: SendMode,
    /// How long its instances live.
    pub instances: InstancePolicy,
}

/// The part of the configuration that every store has at hand.
pub(crate) struct Settings {
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
    pub(crate) sends: SendMode,
}

/// A component ready to be called, under its limits. Cheap to clone; immutable: another
/// configuration or component is another consumer.
#[derive(Clone)]
pub struct Consumer(Arc<Inner>);

struct Inner {
    component: Component,
    name: String,
    settings: Arc<Settings>,
    instances: InstancePolicy,
    idle: Mutex<Vec<Instance>>,
}

impl Consumer {
    /// Checks that `component` can start under these limits; the rest was checked when it was
    /// loaded.
    pub fn new(component: &Component, config: ConsumerConfig) -> Result<Self, CheckError> {
        let engine = component.engine();
        let needed = component.report().memory_bytes_min;
        let limit = config.limits.memory_bytes;
        if needed > limit {
            return Err(CheckError::Memory { needed, limit });
        }
        let needs = component.report().needs;
        if !engine.pool().serves(needs) {
            return Err(CheckError::Pool { needs, has: engine.pool().size() });
        }
        let ConsumerConfig { name, limits, grants, sends, instances } = config;
        Ok(Self(Arc::new(Inner {
            component: component.clone(),
            name,
            settings: Arc::new(Settings { limits, grants, sends }),
            instances,
            idle: Mutex::default(),
        })))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its code.
    #[must_use]
    pub fn component(&self) -> &Component {
        &self.0.component
    }

    /// What an invocation may use.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }

    /// When a handler that starts now has used up its wall clock.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.limits().wall
    }

    /// Drops warm instances that waited for a message until they were too old for one, which
    /// frees their memory. To be called now and then: nothing else looks at them meanwhile.
    pub fn drop_old(&self) {
        if self.0.instances == InstancePolicy::Fresh {
            return;
        }
        // Dropped without the lock: that takes longer than a delivery should wait.
        let old: Vec<_> = {
            let mut idle = self.idle();
            idle.extract_if(.., |instance| instance.is_old(&self.0.instances)).collect()
        };
        for instance in &old {
            self.pool().idle_ended(instance.slots());
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.0.component.engine()
    }

    fn pool(&self) -> &Pool {
        self.engine().pool()
    }

    pub(crate) fn pre(&self) -> &GuestPre<StoreData> {
        self.0.component.pre()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Instance>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A warm instance for `delivery` that may still serve.
    pub(crate) fn reuse(&self, delivery: &Delivery) -> Option<Instance> {
        while let Some(mut instance) = self.pop_idle() {
            if !instance.is_old(&self.0.instances) && instance.begin(delivery.clone()) {
                return Some(instance);
            }
        }
        None
    }

    /// What a new instance takes of the pool, where that is free now.
    pub(crate) fn try_take(&self) -> Option<Slots> {
        self.pool().try_take(self.0.component.report().needs)
    }

    /// The same when it is free.
    pub(crate) async fn take(&self) -> Option<Slots> {
        self.pool().take(self.0.component.report().needs).await
    }

    /// A new instance for `delivery`.
    pub(crate) fn make(&self, delivery: &Delivery, slots: Slots) -> Instance {
        Instance::new(self.engine().wasm(), &self.0.settings, delivery.clone(), slots)
    }

    fn pop_idle(&self) -> Option<Instance> {
        if self.0.instances == InstancePolicy::Fresh {
            return None;
        }
        let instance = self.idle().pop()?;
        self.pool().idle_ended(instance.slots());
        Some(instance)
    }

    /// Takes an instance back. `clean`: its delivery is done.
    pub(crate) fn release(&self, mut instance: Instance, clean: bool) {
        if !clean || self.0.instances == InstancePolicy::Fresh {
            return;
        }
        // First: what buried messages kept is room for the next delivery.
        instance.bury_messages();
        if instance.may_serve(&self.0.instances) && self.pool().may_idle(instance.slots()) {
            self.idle().push(instance);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let idle = self.idle.get_mut().unwrap_or_else(PoisonError::into_inner);
        for instance in idle {
            self.component.engine().pool().idle_ended(instance.slots());
        }
    }
}
