//! Where time comes from, and log time (law 21).
//!
//! Log time is an offset kept in the log plus the boot clock, so that a step of the wall clock
//! touches nothing but the displayed publish time. Nothing else in this crate reads a clock.

use async_trait::async_trait;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use windlass_core::Timestamp;

/// The machine's clocks.
#[async_trait]
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since the machine booted, sleep included; never goes back.
    fn boot_ms(&self) -> u64;
    /// Unix milliseconds; may step either way.
    fn wall_ms(&self) -> u64;
    /// Differs from boot to boot.
    fn boot_id(&self) -> String;
    /// Returns when `span` has passed on the boot clock. It may return early.
    async fn sleep(&self, span: Duration);
}

/// Stands in for a boot's id where the system has none; random, as a process id may come again.
static UNKNOWN_BOOT: std::sync::LazyLock<u64> =
    std::sync::LazyLock::new(|| getrandom::u64().unwrap_or_default());

/// The real clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[async_trait]
impl Clock for SystemClock {
    fn boot_ms(&self) -> u64 {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        const BOOT: rustix::time::ClockId = rustix::time::ClockId::Boottime;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        const BOOT: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(BOOT);
        u64::try_from(now.tv_sec).unwrap_or(0) * 1_000
            + u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn wall_ms(&self) -> u64 {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .map_or(0, |span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
    }

    fn boot_id(&self) -> String {
        // Where the system does not tell, every opening counts as a new boot: log time then goes on
        // from the greater of the wall clock and the last one stored, which is safe.
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_or_else(|_| format!("unknown-{:x}", *UNKNOWN_BOOT), |id| id.trim().to_owned())
    }

    async fn sleep(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Log time of one open log.
#[derive(Debug, Clone)]
pub(crate) struct LogTime {
    clock: Arc<dyn Clock>,
    offset: Arc<AtomicI64>,
}

impl LogTime {
    /// Log time as it is `offset` from the boot clock.
    pub(crate) fn new(clock: Arc<dyn Clock>, offset: i64) -> Self {
        Self { clock, offset: Arc::new(AtomicI64::new(offset)) }
    }

    /// Now.
    pub(crate) fn now(&self) -> Timestamp {
        let boot = i64::try_from(self.clock.boot_ms()).unwrap_or(i64::MAX);
        let now = boot.saturating_add(self.offset.load(Ordering::Relaxed));
        Timestamp(u64::try_from(now).unwrap_or(0))
    }

    /// The clock below.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }
}

/// Ids say log time in 13 digits, which end in the year 2286.
pub(crate) const END: Timestamp = Timestamp(10_000_000_000_000);

/// The offset for the first opening of a boot: log time goes on from the greater of the wall clock
/// and the last log time stored. A wall clock that no id could say is not believed.
pub(crate) fn offset_after_boot(clock: &dyn Clock, last: Timestamp) -> i64 {
    let wall = Some(clock.wall_ms()).filter(|wall| *wall < END.0).unwrap_or_default();
    let start = wall.max(last.0);
    i64::try_from(start).unwrap_or(i64::MAX) - i64::try_from(clock.boot_ms()).unwrap_or(i64::MAX)
}

#[cfg(feature = "testing")]
pub use testing::TestClock;

#[cfg(feature = "testing")]
mod testing {
    use super::Clock;
    use async_trait::async_trait;
    use std::sync::Mutex;
    use std::sync::PoisonError;
    use std::time::Duration;
    use tokio::sync::watch;

    /// A clock that stands still until it is told to move.
    #[derive(Debug)]
    pub struct TestClock {
        boot: watch::Sender<u64>,
        wall: Mutex<u64>,
        boot_id: Mutex<String>,
    }

    impl Default for TestClock {
        fn default() -> Self {
            Self {
                boot: watch::Sender::new(1_000_000),
                wall: Mutex::new(1_700_000_000_000),
                boot_id: Mutex::new("boot-1".into()),
            }
        }
    }

    impl TestClock {
        /// Both clocks go on by `span`.
        pub fn advance(&self, span: Duration) {
            let ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            *self.wall.lock().unwrap_or_else(PoisonError::into_inner) += ms;
            self.boot.send_modify(|boot| *boot += ms);
        }

        /// The wall clock is set, as by an administrator.
        pub fn step_wall(&self, ms: i64) {
            let mut wall = self.wall.lock().unwrap_or_else(PoisonError::into_inner);
            *wall = wall.saturating_add_signed(ms);
        }

        /// The machine boots again.
        pub fn reboot(&self, boot_id: &str) {
            boot_id.clone_into(&mut self.boot_id.lock().unwrap_or_else(PoisonError::into_inner));
            self.boot.send_modify(|boot| *boot = 5);
        }
    }

    #[async_trait]
    impl Clock for TestClock {
        fn boot_ms(&self) -> u64 {
            *self.boot.borrow()
        }

        fn wall_ms(&self) -> u64 {
            *self.wall.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn boot_id(&self) -> String {
            self.boot_id.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        async fn sleep(&self, span: Duration) {
            let mut boot = self.boot.subscribe();
            let start = *boot.borrow();
            let end = start.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
            // A reboot sets the clock back; sleepers of the old boot wake and look again.
            let _closed = boot.wait_for(|now| *now >= end || *now < start).await;
        }
    }
}
