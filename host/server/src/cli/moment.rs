//! Points in time as people type them, and what they are in log time.

use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};
use windlass_core::{Timestamp, time};
use windlass_log::clock::{Clock as _, SystemClock};

/// A time as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// So long ago.
    Ago(Duration),
    /// This wall time, Unix milliseconds.
    At(u64),
}

impl Moment {
    /// In log time, where the log's now is `now`. A wall time is as far from the log's now as it
    /// is from the wall clock's.
    pub(super) fn log_time(self, now: Timestamp) -> Timestamp {
        self.by_clocks(now, SystemClock.wall_ms())
    }

    fn by_clocks(self, now: Timestamp, wall_ms: u64) -> Timestamp {
        Timestamp(match self {
            Self::Ago(span) => now.0.saturating_sub(time::millis(span)),
            Self::At(at) if at > wall_ms => now.0.saturating_add(at - wall_ms),
            Self::At(at) => now.0.saturating_sub(wall_ms - at),
        })
    }
}

impl FromStr for Moment {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(span) = humantime::parse_duration(text) {
            return Ok(Self::Ago(span));
        }
        let at = humantime::parse_rfc3339_weak(text).ok();
        at.and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .map(|since| Self::At(time::millis(since)))
            .ok_or("write it as `2026-01-31T12:00:00Z` (UTC), or as an age such as `5m` or `2h`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ages_or_wall_times() {
        for (text, expected) in [
            ("5m", Moment::Ago(Duration::from_mins(5))),
            ("2h 30m", Moment::Ago(Duration::from_mins(150))),
            ("1970-01-01T00:00:01Z", Moment::At(1_000)),
            ("1970-01-01T00:00:01.250Z", Moment::At(1_250)),
            ("1970-01-01 00:00:01", Moment::At(1_000)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for bad in ["", "yesterday", "5", "1969-12-31T23:59:59Z", "2026-13-01T00:00:00Z"] {
            assert!(bad.parse::<Moment>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wall_clock_that_was_set_moves_no_age() {
        let now = Timestamp(50_000);
        for (moment, wall, expected) in [
            (Moment::Ago(Duration::from_secs(10)), 7, 40_000),
            (Moment::Ago(Duration::from_secs(100)), 7, 0),
            (Moment::At(990_000), 1_000_000, 40_000),
            (Moment::At(1_001_000), 1_000_000, 51_000),
        ] {
            assert_eq!(moment.by_clocks(now, wall), Timestamp(expected), "{moment:?}");
        }
    }
}
