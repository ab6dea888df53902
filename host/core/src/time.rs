//! Points in log time.
//!
//! Log time is milliseconds that never go back, whatever the wall clock does. Only the log's
//! clock makes them; everything else gets them as arguments.

use std::fmt;
use std::time::Duration;

/// A point in log time, in milliseconds. Near the Unix epoch's count, but not a wall time.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// `self + span`, saturating: a lease cannot overflow.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis(span)))
    }

    /// How long it is from `earlier` until `self`; nothing when `earlier` is not earlier.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A span in milliseconds, rounded up so that nothing is due earlier than asked.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
