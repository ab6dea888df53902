//! What an invocation may use, and what a guest may do.

use crate::pattern::TopicPattern;
use std::time::Duration;

/// Longest the host waits, after a handler's deadline, for its settle.
pub const SETTLE_MARGIN: Duration = Duration::from_secs(5);

/// Hard limits of one consumer, all on by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// All of a component's memories together, in bytes.
    pub memory_bytes: u64,
    /// From entering `handle` to its answer.
    pub wall: Duration,
    /// Time spent computing in one invocation.
    pub cpu: Duration,
    /// Messages one invocation may send.
    pub sends: u32,
    /// Bytes one invocation may send.
    pub sent_bytes: u64,
    /// Host resources (messages, clients, ...) a guest may hold at a time.
    pub resources: u32,
    /// Bytes of stdout and stderr kept of one invocation.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            wall: Duration::from_secs(30),
            cpu: Duration::from_secs(10),
            sends: 100,
            sent_bytes: 16 << 20,
            resources: 1_000,
            output_bytes: 64 << 10,
        }
    }
}

/// What a guest may do beyond computing; nothing unless granted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// Topics it may publish to.
    pub publish: Vec<TopicPattern>,
    /// Its environment variables.
    pub env: Vec<(String, String)>,
}

impl Grants {
    /// Whether it may publish to `topic`.
    #[must_use]
    pub fn may_publish(&self, topic: &crate::name::Topic) -> bool {
        self.publish.iter().any(|pattern| pattern.matches(topic))
    }
}
