//! The suite that every backend runs: one named case for each thing the law promises.
//!
//! A backend writes a [`Harness`] and lists the cases with [`conformance!`](crate::conformance!).
//! What a backend cannot show (no second process, no clock to move) a case skips, saying so. Cases
//! wait for signals, or look again; they never sleep. A case's comment may name
//! rows of the list of seed behaviours and faults; [`rows`] has all of them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a suite: what fails is a panic, with its place"
)]

pub mod admin;
pub mod age;
pub mod cancel;
mod cases;
pub mod claim;
pub mod copies;
pub mod counts;
pub mod dedup;
pub mod delay;
pub mod deliveries;
pub mod deployments;
pub mod fence;
pub mod groups;
pub mod keys;
pub mod kit;
pub mod live;
pub mod probe;
pub mod publish;
pub mod purge;
pub mod quota;
pub mod removal;
pub mod retain;
pub mod rows;
pub mod seek;
pub mod sends;
pub mod settle;
pub mod starts;
pub mod stream;
pub mod time;
pub mod topics;
pub mod transfer;

use crate::DynLog;
use crate::clock::TestClock;
use crate::memory::{MemoryLog, MemoryOptions};
use async_trait::async_trait;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::MessageId;

/// One backend under test. Each case opens its own, empty.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The log as it is open now.
    fn log(&self) -> DynLog;

    /// Closes the log and opens it again, as by a restart. A log that is not durable stays as it is.
    async fn reopen(&self) -> DynLog;

    /// Opens the log again without closing it, as after a kill.
    async fn crash(&self) -> DynLog {
        self.reopen().await
    }

    /// A second opening of the same log, as by another process.
    async fn second_process(&self) -> Option<DynLog> {
        None
    }

    /// The clock, where it can be moved.
    fn clock(&self) -> Option<&TestClock>;

    /// Lets time pass: at once where the clock can be moved, else by waiting.
    async fn advance(&self, span: Duration) {
        if let Some(clock) = self.clock() {
            clock.advance(span);
        } else {
            tokio::time::sleep(span).await;
        }
    }

    /// Makes the stored record of a message unreadable; whether the backend has such a thing.
    async fn corrupt(&self, _id: MessageId) -> bool {
        false
    }
}

/// Says that a case does not apply to this backend.
#[expect(clippy::print_stderr, reason = "a skip is said aloud")]
pub fn skip(case: &str, why: &str) {
    eprintln!("SKIPPED {case}: {why}");
}

/// The memory log's harness.
#[derive(Debug)]
pub struct MemoryHarness {
    log: Arc<MemoryLog>,
    clock: Arc<TestClock>,
}

impl MemoryHarness {
    /// An empty memory log on a clock that stands still.
    #[must_use]
    pub fn open() -> Self {
        Self::with_options(MemoryOptions::default())
    }

    /// One that does by itself what `options` say.
    #[must_use]
    pub fn with_options(options: MemoryOptions) -> Self {
        let clock = Arc::new(TestClock::default());
        Self { log: MemoryLog::with_options(Arc::<TestClock>::clone(&clock), options), clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn log(&self) -> DynLog {
        Arc::<MemoryLog>::clone(&self.log)
    }

    async fn reopen(&self) -> DynLog {
        self.log()
    }

    fn clock(&self) -> Option<&TestClock> {
        Some(&self.clock)
    }
}
