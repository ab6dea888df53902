//! Holding a lease while its handler runs.
//!
//! Owns when a lease is extended and how far: by the group's lease at each third of it, and never
//! past the handler's deadline and the margin for settling, which the last extension reaches.

use std::time::Duration;
use tokio::time::Instant;
use windlass_core::limits::SETTLE_MARGIN;
use windlass_core::{Timestamp, time};
use windlass_log::{Claim, DynLog, Extended, Extension};

/// How long after an extension that storage could not take the next one is tried, at most.
const RETRY_MOST: Duration = Duration::from_secs(1);

/// A lease and how far it may go.
#[derive(Debug, Clone, Copy)]
struct Holding {
    lease: Duration,
    until: Timestamp,
    /// Never later than this.
    end_max: Timestamp,
}

impl Holding {
    /// A claim's lease until `until`, and when it began; at `now` the handler may run for `left`
    /// more.
    fn of(until: Timestamp, lease: Duration, now: Timestamp, left: Duration) -> (Self, Timestamp) {
        let end_max = now.after(left).after(SETTLE_MARGIN);
        let began = Timestamp(until.0.saturating_sub(time::millis(lease)));
        (Self { lease, until, end_max }, began)
    }

    /// When the lease is to be extended next, if it is; `last` is when it was claimed or extended.
    fn next(&self, last: Timestamp) -> Option<Timestamp> {
        (self.until < self.end_max).then(|| last.after(self.lease / 3))
    }

    /// By how much it is extended at `now`.
    fn by(&self, now: Timestamp) -> Duration {
        self.lease.min(self.end_max.since(now))
    }
}

/// Keeps a claim's lease while the answer is being waited for. Returns only when it is lost.
/// The handler may run until `deadline`.
pub(crate) async fn hold(log: &DynLog, claim: &Claim, lease: Duration, deadline: Instant) {
    // A busy process may come here long after the claim: the lease counts from that.
    let left = deadline.saturating_duration_since(Instant::now());
    let (mut holding, mut last) = Holding::of(claim.lease_until, lease, log.now(), left);
    while let Some(at) = holding.next(last) {
        tokio::time::sleep(at.since(log.now())).await;
        let now = log.now();
        let extension = Extension { token: claim.token, lease: holding.by(now) };
        match log.extend(vec![extension]).await.map(|answers| answers.first().copied()) {
            Ok(Some(Extended::Lost)) => return,
            Ok(Some(Extended::Held(until))) => {
                holding.until = until;
                last = now;
            }
            // The lease may still be ours: only the settlement tells.
            Ok(None) | Err(_) => tokio::time::sleep(RETRY_MOST.min(lease / 10)).await,
        }
        if log.now() >= holding.end_max {
            break;
        }
    }
    std::future::pending::<()>().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000)
    }

    #[test]
    fn a_lease_is_extended_each_third_and_ends_with_the_deadline_and_margin() {
        // lease 30 s, wall 60 s: the end is never later than 65.
        let mut holding = Holding { lease: S(30), until: at(30), end_max: at(65) };
        let mut last = at(0);
        let mut ends = Vec::new();
        while let Some(next) = holding.next(last) {
            holding.until = next.after(holding.by(next));
            ends.push((next.0 / 1_000, holding.until.0 / 1_000));
            last = next;
        }
        assert_eq!(ends, [(10, 40), (20, 50), (30, 60), (40, 65)]);
    }

    #[test]
    fn the_first_third_counts_from_the_claim_however_late_the_handler_starts() {
        let (holding, began) = Holding::of(at(130), S(30), at(125), S(60));
        assert_eq!(began, at(100));
        assert_eq!(holding.next(began), Some(at(110)), "at once, for it has passed");
        assert_eq!(holding.end_max, at(190));
    }

    #[test]
    fn a_lease_that_outlasts_the_deadline_is_left_alone() {
        let holding = Holding { lease: S(60), until: at(60), end_max: at(35) };
        assert_eq!(holding.next(at(0)), None);
    }
}
