//! Components made ready to be called: the only file that knows how the runtime is asked.
//!
//! Owns the way from a manifest's consumer to an [`Invoke`], and the outbox through which guests
//! publish at once.

use crate::delivery::{BoxFuture, Invoke};
use crate::manifest::{ConsumerSpec, SendMode};
use crate::storage::chain;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use windlass_core::NewMessage;
use windlass_log::DynLog;
use windlass_runtime::{
    CheckError, Component, Consumer, ConsumerConfig, Delivery, Invocation, Outbox,
    SendMode as RuntimeSends, SendRefused, Stop,
};

/// A component under its consumer's limits.
pub(crate) struct Ready {
    consumer: Consumer,
    revision: Arc<str>,
}

impl Ready {
    /// Puts a consumer's configuration to its component.
    pub(crate) fn new(
        component: &Component,
        spec: &ConsumerSpec,
        outbox: &Arc<impl Outbox + 'static>,
    ) -> Result<Self, CheckError> {
        let sends = match spec.sends {
            SendMode::WithAck => RuntimeSends::WithAck,
            SendMode::Immediate => RuntimeSends::Immediate(Arc::clone(outbox) as Arc<dyn Outbox>),
        };
        let config = ConsumerConfig {
            name: spec.name.clone(),
            limits: spec.limits.clone(),
            grants: spec.grants.clone(),
            sends,
            instances: spec.instances.clone(),
        };
        let revision = revision(spec, component).into();
        Ok(Self { consumer: Consumer::new(component, config)?, revision })
    }
}

impl Invoke for Ready {
    fn wall(&self) -> Duration {
        self.consumer.limits().wall
    }

    fn revision(&self) -> &Arc<str> {
        &self.revision
    }

    fn invoke<'a>(
        &'a self,
        delivery: Delivery,
        stop: BoxFuture<'a, Stop>,
    ) -> BoxFuture<'a, Invocation> {
        Box::pin(self.consumer.invoke(delivery, stop))
    }

    fn rest(&self) {
        self.consumer.drop_old();
    }
}

/// Code and configuration, short: the digest's beginning, behind the revision's number where the
/// consumer is deployed.
pub(crate) fn revision(spec: &ConsumerSpec, component: &Component) -> String {
    let digest = component.short_digest();
    match spec.revision {
        Some(number) => format!("{number}-{digest}"),
        None => digest.to_owned(),
    }
}

/// Publishes what guests send at once.
pub(crate) struct LogOutbox {
    log: DynLog,
    published: AtomicU64,
}

impl LogOutbox {
    /// Publishes to `log`.
    pub(crate) fn new(log: DynLog) -> Arc<Self> {
        Arc::new(Self { log, published: AtomicU64::new(0) })
    }

    /// How many messages went out so far.
    pub(crate) fn published(&self) -> u64 {
        self.published.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Outbox for LogOutbox {
    async fn publish(&self, message: NewMessage) -> Result<(), SendRefused> {
        match self.log.publish(vec![message]).await {
            Ok(_) => {
                self.published.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            // The guest can do nothing about storage: what fails because of it is no attempt.
            Err(error) if error.is_storage() => Err(SendRefused::Full(chain(&error))),
            Err(error) => Err(SendRefused::Other(chain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_core::Topic;
    use windlass_log::clock::SystemClock;
    use windlass_log::memory::MemoryLog;
    use windlass_log::{LogAdmin as _, TopicsMode};

    #[tokio::test]
    async fn a_send_that_storage_does_not_take_is_refused_as_full_and_others_are_not() {
        let log = MemoryLog::new(Arc::new(SystemClock));
        let outbox = LogOutbox::new(log.clone());
        let message = || NewMessage::new(Topic::new("t").unwrap(), "x");
        log.declare_topics(TopicsMode::Declared, vec![]).await.unwrap();
        assert!(matches!(outbox.publish(message()).await, Err(SendRefused::Other(_))));
        log.declare_topics(TopicsMode::Open, vec![]).await.unwrap();
        assert_eq!(outbox.publish(message()).await, Ok(()));
        log.close().await;
        assert!(matches!(outbox.publish(message()).await, Err(SendRefused::Full(_))));
        assert_eq!(outbox.published(), 1);
    }
}
