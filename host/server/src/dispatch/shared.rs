//! What all consumers of a process share: the log, where events go, where the run is.

use crate::drain::{Phase, Phases};
use crate::event::{Event, Events};
use crate::storage::Storage;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::watch;
use windlass_log::{DynLog, LogError};

/// What all consumers of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The log, and what could not be written to it.
    pub storage: Storage,
    /// Where events are told.
    pub events: Events,
    /// Where the run is.
    pub phases: Phases,
    /// Who claims.
    pub(super) worker: Arc<str>,
    /// How many messages were claimed.
    pub(super) claimed: AtomicU64,
    /// Whether the log ended while the run did not.
    pub(super) log_over: watch::Sender<bool>,
}

impl Shared {
    /// What a process's consumers share.
    pub(crate) fn new(log: DynLog, events: Events, phases: Phases, worker: &str) -> Self {
        let storage = Storage::new(log, events.clone(), phases.clone());
        let (claimed, log_over) = (AtomicU64::new(0), watch::Sender::new(false));
        Self { storage, events, phases, worker: worker.into(), claimed, log_over }
    }

    /// The log has ended by itself; told once, however many see it.
    pub(super) async fn log_ended(&self) {
        if !self.log_over.send_replace(true) {
            self.events.tell(Event::LogEnded).await;
        }
    }

    /// Whether an error means that the run ended before storage came back.
    pub(crate) fn storage_ended(&self, error: &LogError) -> bool {
        match error {
            LogError::Closed => true,
            LogError::Unavailable { .. } | LogError::StorageFull { .. } => {
                self.phases.now() >= Phase::Stop
            }
            LogError::TooLarge { .. }
            | LogError::UndeclaredTopic(_)
            | LogError::QuotaFull { .. }
            | LogError::HoldsMore { .. }
            | LogError::TopicNotEmpty { .. }
            | LogError::NoGroup { .. }
            | LogError::BusyGroup { .. }
            | LogError::GroupHasDead { .. }
            | LogError::NoMessage(_)
            | LogError::ReadOnly
            | LogError::NoTopic(_)
            | LogError::Exhausted(_) => false,
        }
    }
}
