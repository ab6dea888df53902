//! A consumer's rate: so many messages a second, however many permits are free.
//!
//! A bucket fills at the rate and holds a tenth of a second's worth, at least one message, so that a
//! consumer that was idle does not make up for it in a burst. The bucket is a value that is told the
//! time; [`Pace`] shares it between a consumer's topics, and between a revision and the next.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What part of a second's messages may be claimed at once.
const BURST: f64 = 0.1;

/// What may be claimed now.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// Messages a second, above zero.
    rate: f64,
    filled: f64,
    at: Instant,
}

impl Bucket {
    fn full(rate: f64, now: Instant) -> Self {
        Self { rate, filled: Self::size(rate), at: now }
    }

    fn size(rate: f64) -> f64 {
        (rate * BURST).max(1.0)
    }

    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.filled = (self.filled + since * self.rate).min(Self::size(self.rate));
        self.at = now;
    }

    /// Takes up to `most`, which is at least 1; or how long it is until there is one.
    fn take(&mut self, most: usize, now: Instant) -> Result<usize, Duration> {
        self.fill(now);
        if self.filled < 1.0 {
            // Rounded up to what timers can tell apart, so that one is there then.
            let missing = (1.0 - self.filled) / self.rate;
            return Err(Duration::from_secs_f64(missing) + Duration::from_millis(1));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "at least 1, and far below what either holds"
        )]
        let taken = (self.filled as usize).min(most);
        self.filled -= taken as f64;
        Ok(taken)
    }

    fn give_back(&mut self, count: usize) {
        self.filled = (self.filled + count as f64).min(Self::size(self.rate));
    }
}

/// A consumer's pace.
#[derive(Debug, Clone)]
pub(crate) struct Pace(Arc<Mutex<Bucket>>);

impl Pace {
    /// So many messages a second, above zero.
    pub(crate) fn new(rate: f64) -> Self {
        Self(Arc::new(Mutex::new(Bucket::full(rate, Instant::now()))))
    }

    /// The same with another rate: what was taken stays taken.
    pub(crate) fn changed(&self, rate: f64) -> Self {
        let mut bucket = self.lock();
        bucket.fill(Instant::now());
        bucket.rate = rate;
        bucket.fill(Instant::now());
        drop(bucket);
        self.clone()
    }

    /// Waits until at least one message may be claimed; how many of `most` may be.
    pub(crate) async fn take(&self, most: usize) -> usize {
        loop {
            let taken = self.lock().take(most, Instant::now());
            match taken {
                Ok(count) => return count,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    /// So many were not claimed after all.
    pub(crate) fn give_back(&self, count: usize) {
        self.lock().give_back(count);
    }

    fn lock(&self) -> MutexGuard<'_, Bucket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_rate_and_no_more_than_a_burst() {
        let start = Instant::now();
        let mut bucket = Bucket::full(50.0, start);
        assert_eq!(bucket.take(256, start), Ok(5), "a tenth of a second's");
        assert!(bucket.take(256, start).unwrap_err() <= Duration::from_millis(21));
        assert_eq!(bucket.take(256, start + Duration::from_millis(41)), Ok(2));
        assert_eq!(
            bucket.take(256, start + Duration::from_hours(1)),
            Ok(5),
            "idle time is no credit"
        );
        bucket.give_back(3);
        assert_eq!(bucket.take(2, start + Duration::from_hours(1)), Ok(2));
        assert_eq!(bucket.take(2, start + Duration::from_hours(1)), Ok(1));
        // A clock that seems to go back gives nothing.
        assert!(bucket.take(2, start).is_err());
        let mut slow = Bucket::full(0.1, start);
        assert_eq!(slow.take(9, start), Ok(1));
        let wait = slow.take(9, start).unwrap_err();
        assert_eq!(wait.as_secs(), 10);
        assert_eq!(slow.take(9, start + wait), Ok(1));
    }
}
