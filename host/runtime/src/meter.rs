//! How long a guest computed: the time its future is being polled, nothing else.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counts one invocation's computing. Written by whoever polls, one thread at a time; read from
/// inside the poll by the epoch callback.
#[derive(Debug)]
pub(crate) struct Meter {
    base: Instant,
    /// Nanoseconds of polls that have ended.
    billed: AtomicU64,
    /// When the poll that runs began, in nanoseconds since `base`.
    resumed: AtomicU64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { base: Instant::now(), billed: AtomicU64::new(0), resumed: AtomicU64::new(0) }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.base.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Another invocation begins.
    pub(crate) fn reset(&self) {
        self.billed.store(0, Ordering::Relaxed);
    }

    /// A poll begins.
    pub(crate) fn resume(&self) {
        self.resumed.store(self.now(), Ordering::Relaxed);
    }

    /// The poll ended.
    pub(crate) fn pause(&self) {
        self.billed.store(self.running_total(), Ordering::Relaxed);
    }

    /// All that ended, and the poll that runs until now.
    pub(crate) fn so_far(&self) -> Duration {
        Duration::from_nanos(self.running_total())
    }

    /// All that ended; for when none runs.
    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.billed.load(Ordering::Relaxed))
    }

    fn running_total(&self) -> u64 {
        let this = self.now().saturating_sub(self.resumed.load(Ordering::Relaxed));
        self.billed.load(Ordering::Relaxed).saturating_add(this)
    }
}
