//! How a run ends: stop claiming, finish what is out, release what does not finish.
//!
//! Owns the order of phases and how they are waited for. Who asks for the next one (a signal, a
//! timeout, an idle log) is the caller's business.

use std::time::Duration;
use tokio::sync::watch;

/// How long what is out may take to finish.
pub(crate) const DRAIN: Duration = Duration::from_secs(10);

/// Where a run is. It only ever goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Claims and delivers.
    Run,
    /// Claims nothing more; what is out may finish.
    Drain,
    /// What is still out is interrupted and released.
    Stop,
}

/// Moves a run on.
#[derive(Debug, Clone)]
pub(crate) struct Stopper(watch::Sender<Phase>);

/// Tells where a run is.
#[derive(Debug, Clone)]
pub(crate) struct Phases(watch::Receiver<Phase>);

/// A run that begins.
pub(crate) fn phases() -> (Stopper, Phases) {
    let (sender, receiver) = watch::channel(Phase::Run);
    (Stopper(sender), Phases(receiver))
}

impl Stopper {
    /// Goes on to `phase`, unless the run is already there or further.
    pub(crate) fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let later = phase > *now;
            *now = phase.max(*now);
            later
        });
    }

    /// What a signal asks for: the first one to finish, the next one to end at once.
    pub(crate) fn next(&self) {
        self.0.send_modify(|now| {
            *now = match *now {
                Phase::Run => Phase::Drain,
                Phase::Drain | Phase::Stop => Phase::Stop,
            };
        });
    }
}

impl Phases {
    /// Where the run is.
    pub(crate) fn now(&self) -> Phase {
        *self.0.borrow()
    }

    /// Returns when the run is at `phase` or further.
    pub(crate) async fn reached(&self, phase: Phase) {
        // An error means that nobody can stop the run any more.
        if self.0.clone().wait_for(|now| *now >= phase).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Runs `work` unless the run leaves [`Phase::Run`] first.
    pub(crate) async fn or_drain<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.reached(Phase::Drain) => None,
            answer = work => Some(answer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_never_goes_back() {
        let (stopper, phases) = phases();
        assert_eq!(phases.or_drain(async { 1 }).await, Some(1));
        stopper.next();
        assert_eq!(phases.or_drain(async { 1 }).await, None);
        stopper.advance(Phase::Run);
        assert_eq!(phases.now(), Phase::Drain);
        stopper.next();
        stopper.advance(Phase::Drain);
        assert_eq!(phases.now(), Phase::Stop);
    }
}
