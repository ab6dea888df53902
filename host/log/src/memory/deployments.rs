//! Deployments as values.

use super::MemoryLog;
use crate::deployments::{
    Change, Deployed, Deployment, Deployments, REVISIONS_KEPT, Revision, Told,
};
use crate::error::LogError;
use async_trait::async_trait;
use std::collections::BTreeMap;

/// All revisions, and which of them serve.
#[derive(Debug, Clone, Default)]
pub(super) struct Catalog {
    version: u64,
    taken: u64,
    revisions: BTreeMap<(String, u64), Revision>,
    serving: BTreeMap<String, Serving>,
}

#[derive(Debug, Clone, Default)]
struct Serving {
    revision: u64,
    paused: bool,
    told: Option<Told>,
}

impl Catalog {
    /// All that is deployed.
    pub(super) fn deployed(&self) -> Deployed {
        let deployments = self.serving.iter().filter_map(|(consumer, serving)| {
            let revision = self.revisions.get(&(consumer.clone(), serving.revision))?.clone();
            Some(Deployment { revision, paused: serving.paused, told: serving.told.clone() })
        });
        Deployed { version: self.version, taken: self.taken, deployments: deployments.collect() }
    }

    /// Its version.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// A consumer's, the newest first.
    pub(super) fn revisions(&self, consumer: &str) -> Vec<Revision> {
        self.revisions.values().filter(|one| one.consumer == consumer).rev().cloned().collect()
    }

    /// All of them or none; the version then.
    pub(super) fn deploy(&mut self, seen: u64, changes: Vec<Change>, at_ms: u64) -> Option<u64> {
        if self.version != seen {
            return None;
        }
        let mut next = self.clone();
        for change in changes {
            next.change(change, at_ms)?;
        }
        next.version += 1;
        *self = next;
        Some(self.version)
    }

    fn change(&mut self, change: Change, at_ms: u64) -> Option<()> {
        match change {
            Change::Serve { consumer, digest, config } => {
                let newest = self.revisions(&consumer).first().map_or(0, |newest| newest.number);
                let number = newest + 1;
                self.serving.entry(consumer.clone()).or_default().revision = number;
                self.revisions
                    .retain(|(of, kept), _| *of != consumer || *kept + REVISIONS_KEPT >= number);
                let key = (consumer.clone(), number);
                let revision = Revision { consumer, number, digest, config, at_ms, failed: None };
                self.revisions.insert(key, revision);
            }
            Change::Return { consumer, to, failed } => {
                let serving = self.serving.get_mut(&consumer)?;
                self.revisions.get(&(consumer.clone(), to))?;
                let from = std::mem::replace(&mut serving.revision, to);
                if let Some(why) = failed {
                    self.revisions.get_mut(&(consumer, from))?.failed = Some(why);
                }
            }
            Change::Pause { consumer, paused } => {
                self.serving.get_mut(&consumer)?.paused = paused;
            }
            Change::Withdraw { consumer } => {
                self.serving.remove(&consumer)?;
            }
        }
        Some(())
    }

    /// Keeps that this version is taken up.
    pub(super) fn take_up(&mut self, version: u64) {
        self.taken = version;
    }

    /// Keeps what is said of a consumer.
    pub(super) fn tell(&mut self, consumer: &str, told: Told) {
        if let Some(serving) = self.serving.get_mut(consumer) {
            serving.told = Some(told);
        }
    }
}

#[async_trait]
impl Deployments for MemoryLog {
    async fn deployed(&self) -> Result<Deployed, LogError> {
        self.act(|state, _, _| state.catalog.deployed())
    }

    async fn deployed_version(&self) -> Result<u64, LogError> {
        self.act(|state, _, _| state.catalog.version())
    }

    async fn revisions(&self, consumer: &str) -> Result<Vec<Revision>, LogError> {
        self.act(|state, _, _| state.catalog.revisions(consumer))
    }

    async fn deploy(&self, seen: u64, changes: Vec<Change>) -> Result<Option<u64>, LogError> {
        self.act(|state, at, _| state.catalog.deploy(seen, changes, at.wall_ms))
    }

    async fn tell_deployment(&self, consumer: &str, told: Told) -> Result<(), LogError> {
        self.act(|state, _, _| state.catalog.tell(consumer, told))
    }

    async fn tell_taken(&self, version: u64) -> Result<(), LogError> {
        self.act(|state, _, _| state.catalog.take_up(version))
    }
}
