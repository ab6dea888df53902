//! Turns between processes: who wants the write lock goes through here, one at a time.
//!
//! SQLite's lock goes to whoever asks when it is free, so a process that always asks starves one
//! that asks now and then. The turnstile is a lock on the log's folder, held only from
//! wanting SQLite's lock to having it: whoever waits in it is next. It decides nothing but order.
//! A process that dies leaves it; one that is stopped in it is gone around.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long to wait for whoever is in it before going around.
const PATIENCE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Turnstile {
    /// None where the system has no such locks.
    folder: Option<File>,
    inside: bool,
    /// Whoever was in it did not come out: it is only tried until it is free again.
    blocked: bool,
}

impl Turnstile {
    pub(super) fn new(folder: &Path) -> Self {
        let folder = File::open(folder)
            .inspect_err(|error| tracing::debug!(%error, "no turnstile between processes"))
            .ok();
        Self { folder, inside: false, blocked: false }
    }

    /// Waits for the turn. Comes back without it where there is no telling whose turn it is.
    pub(super) async fn enter(&mut self) {
        let since = Instant::now();
        loop {
            let Some(folder) = &self.folder else { return };
            match folder.try_lock() {
                Ok(()) => {
                    (self.inside, self.blocked) = (true, false);
                    return;
                }
                Err(TryLockError::WouldBlock) => {
                    self.blocked |= since.elapsed() >= PATIENCE;
                    if self.blocked {
                        return;
                    }
                    pause(since).await;
                }
                Err(TryLockError::Error(error)) => {
                    tracing::debug!(%error, "no turnstile between processes");
                    self.folder = None;
                }
            }
        }
    }

    /// Lets the next one in.
    pub(super) fn leave(&mut self) {
        if std::mem::take(&mut self.inside)
            && self.folder.as_ref().is_some_and(|folder| folder.unlock().is_err())
        {
            // Closed, it is free in any case.
            self.folder = None;
        }
    }
}

/// A moment between two tries of what has been waited for since `since`: short at first, as most
/// transactions take a millisecond or two, which the runtime's timer cannot tell apart.
pub(super) async fn pause(since: Instant) {
    const SHORT: Duration = Duration::from_micros(200);
    const SHORT_FOR: Duration = Duration::from_millis(20);
    if since.elapsed() < SHORT_FOR {
        let slept = tokio::task::spawn_blocking(|| std::thread::sleep(SHORT)).await;
        if slept.is_ok() {
            return;
        }
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_at_a_time_and_nobody_waits_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let (mut one, mut two) = (Turnstile::new(folder.path()), Turnstile::new(folder.path()));
        one.enter().await;
        assert!(one.inside);
        let start = Instant::now();
        two.enter().await;
        assert!(!two.inside && start.elapsed() >= PATIENCE, "gone around");
        let start = Instant::now();
        two.enter().await;
        assert!(!two.inside && start.elapsed() < PATIENCE / 2, "waited for once");
        two.leave();
        one.leave();
        two.enter().await;
        assert!(two.inside && !two.blocked, "and trusted again");
        drop(two);
        one.enter().await;
        assert!(one.inside, "who is gone holds nothing");
    }

    #[tokio::test]
    async fn without_a_lock_everybody_goes_through() {
        let mut none = Turnstile::new(Path::new("/nowhere"));
        none.enter().await;
        none.leave();
        assert!(!none.inside);
    }
}
