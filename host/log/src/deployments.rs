//! What is deployed: which revision of each consumer serves, and which there were.
//!
//! Part of the log, so that it is as durable as messages are and all processes agree on it. The log
//! keeps digests and texts; what they mean is the server's business. No code is in it.

use crate::error::LogError;
use async_trait::async_trait;

/// Revisions kept of each consumer, the one that serves apart.
pub const REVISIONS_KEPT: u64 = 20;

/// Code and configuration, immutable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The consumer's name.
    pub consumer: String,
    /// From 1, rising, never used twice for a consumer.
    pub number: u64,
    /// The component's digest.
    pub digest: String,
    /// Everything else.
    pub config: String,
    /// When it was deployed, wall clock in milliseconds.
    pub at_ms: u64,
    /// Why it was given up, where it was.
    pub failed: Option<String>,
}

/// A consumer that is deployed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deployment {
    /// The revision that is to serve.
    pub revision: Revision,
    /// Whether it is to claim nothing for now.
    pub paused: bool,
    /// What the server said last.
    pub told: Option<Told>,
}

/// What a server says of a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The revision that it speaks of.
    pub revision: u64,
    /// One word.
    pub state: String,
    /// What there is to say beyond it.
    pub text: String,
    /// When, wall clock in milliseconds.
    pub at_ms: u64,
    /// Whether that revision has handled a message well.
    pub proven: bool,
}

/// All that is deployed at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Deployed {
    /// Rises with every change of what is wanted.
    pub version: u64,
    /// The version that a server has taken up; later ones it has not.
    pub taken: u64,
    /// By the consumers' names.
    pub deployments: Vec<Deployment>,
}

impl Deployed {
    /// The deployment of this consumer.
    #[must_use]
    pub fn find(&self, consumer: &str) -> Option<&Deployment> {
        self.deployments.iter().find(|deployment| deployment.revision.consumer == consumer)
    }
}

/// A change of what is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new revision is to serve. A consumer that is paused stays so.
    Serve {
        /// The consumer's name; it need not be deployed yet.
        consumer: String,
        /// The component's digest.
        digest: String,
        /// Everything else.
        config: String,
    },
    /// An earlier revision is to serve again.
    Return {
        /// The consumer's name.
        consumer: String,
        /// Which revision.
        to: u64,
        /// Why the one that serves now is given up, where it has failed.
        failed: Option<String>,
    },
    /// Whether the consumer is to claim.
    Pause {
        /// The consumer's name.
        consumer: String,
        /// Whether not.
        paused: bool,
    },
    /// The consumer is wanted no more. Its revisions are kept.
    Withdraw {
        /// The consumer's name.
        consumer: String,
    },
}

/// What keeps deployments.
#[async_trait]
pub trait Deployments: Send + Sync {
    /// All that is deployed.
    async fn deployed(&self) -> Result<Deployed, LogError>;

    /// [`Deployed::version`] alone.
    async fn deployed_version(&self) -> Result<u64, LogError>;

    /// The revisions of a consumer that are kept, the newest first.
    async fn revisions(&self, consumer: &str) -> Result<Vec<Revision>, LogError>;

    /// Makes all of `changes`, in their order and in one transaction, for who has seen version `seen`.
    /// Answers the new version; nothing, and nothing is changed, where something is not as it was
    /// seen: another version, or a consumer or revision that is not there.
    async fn deploy(&self, seen: u64, changes: Vec<Change>) -> Result<Option<u64>, LogError>;

    /// Keeps what a server says of a consumer; nothing where that is not deployed. The version stays.
    async fn tell_deployment(&self, consumer: &str, told: Told) -> Result<(), LogError>;

    /// Keeps that a server has taken up this version.
    async fn tell_taken(&self, version: u64) -> Result<(), LogError>;
}
