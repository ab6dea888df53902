//! What a group allows: attempts, leases, waiting between attempts.

use crate::name::Topic;
use crate::time::millis;
use std::num::NonZeroU32;
use std::time::Duration;

/// Shortest lease a user may set; tests go below.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// Longest delay or retry a message may be given: 365 days.
pub const DELAY_MAX: Duration = Duration::from_hours(365 * 24);

/// How long to wait before the next attempt.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Backoff {
    /// Before the second attempt.
    pub initial: Duration,
    /// Each further wait is this many times the one before; at least 1.
    pub factor: f64,
    /// Never longer than this, jitter apart.
    pub max: Duration,
    /// Added at random, at most this share of the wait; 0 to 1.
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            factor: 2.0,
            max: Duration::from_mins(5),
            jitter: 0.2,
        }
    }
}

impl Backoff {
    /// The wait after attempt number `attempt` (1 for the first). `jitter` is drawn from 0..1 by
    /// the caller; it only ever lengthens the wait.
    #[must_use]
    pub fn delay(&self, attempt: u32, jitter: f64) -> Duration {
        let exponent = f64::from(attempt.saturating_sub(1).min(1_000));
        let grown = self.initial.as_secs_f64() * self.factor.max(1.0).powf(exponent);
        let base = if grown.is_finite() {
            grown.min(self.max.as_secs_f64())
        } else {
            self.max.as_secs_f64()
        };
        let spread = base * self.jitter.clamp(0.0, 1.0) * jitter.clamp(0.0, 1.0);
        Duration::try_from_secs_f64(base + spread).map_or(DELAY_MAX, |wait| wait.min(DELAY_MAX))
    }
}

/// A group's policy.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct GroupPolicy {
    /// After so many attempts a message is dead.
    pub max_attempts: NonZeroU32,
    /// How long a claim holds.
    pub lease: Duration,
    /// Between attempts.
    pub backoff: Backoff,
    /// Most messages leased at a time.
    pub in_flight_max: NonZeroU32,
    /// Where a copy of each new dead letter is published, in the transaction that makes it one.
    #[serde(default)]
    pub dead_letter_topic: Option<Topic>,
}

impl Default for GroupPolicy {
    fn default() -> Self {
        Self {
            max_attempts: NonZeroU32::MIN.saturating_add(4),
            lease: Duration::from_secs(30),
            backoff: Backoff::default(),
            in_flight_max: NonZeroU32::MIN.saturating_add(9_999),
            dead_letter_topic: None,
        }
    }
}

impl GroupPolicy {
    /// The lease in milliseconds.
    #[must_use]
    pub fn lease_ms(&self) -> u64 {
        millis(self.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_maximum_and_jitter_only_lengthens() {
        let backoff = Backoff::default();
        for (attempt, seconds) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 300), (u32::MAX, 300)] {
            assert_eq!(backoff.delay(attempt, 0.0), Duration::from_secs(seconds), "{attempt}");
        }
        assert_eq!(backoff.delay(1, 1.0), Duration::from_millis(1200));
        let steep = Backoff { factor: f64::MAX, max: Duration::MAX, ..backoff };
        assert_eq!(steep.delay(50, 1.0), DELAY_MAX);
    }
}
