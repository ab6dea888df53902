//! From an outcome to what is done with the message: the contract's law 26 as a function.

use crate::message::NewMessage;
use crate::outcome::Outcome;
use crate::policy::{Backoff, DELAY_MAX};
use std::num::NonZeroU32;
use std::time::Duration;

/// What is done with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disposition {
    /// Settled for good; what it sent commits with it.
    Ack {
        /// The guest's sends.
        sends: Vec<NewMessage>,
    },
    /// Again after `delay`.
    Retry {
        /// How long to wait at least.
        delay: Duration,
        /// Whether this attempt counts against the group's maximum.
        counted: bool,
    },
    /// To the group's dead letters.
    DeadLetter,
    /// Back at once, the attempt given back.
    Release,
}

/// What the consumer does beyond the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pause {
    /// Go on.
    No,
    /// The revision does not start: pause, and try again with backoff.
    Start(String),
    /// A grant is missing; the consumer pauses when the revision has had no success yet, or after
    /// too many in a row.
    Grant(String),
    /// A settle was refused: pause and look for room without claiming.
    Room(String),
}

/// A disposition (none when the lease is lost: nothing is settled then) and what else follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// For the message.
    pub disposition: Option<Disposition>,
    /// For the consumer.
    pub pause: Pause,
}

/// Law 26. `attempt` counts from 1; `jitter` is drawn from 0..1 by the caller.
#[must_use]
pub fn decide(
    outcome: Outcome,
    attempt: u32,
    max_attempts: NonZeroU32,
    backoff: &Backoff,
    jitter: f64,
) -> Decision {
    let last = attempt >= max_attempts.get();
    let retry = |delay: Duration| {
        if last {
            Disposition::DeadLetter
        } else {
            Disposition::Retry { delay: delay.min(DELAY_MAX), counted: true }
        }
    };
    let wait = backoff.delay(attempt, jitter);
    let go_on = |disposition| Decision { disposition: Some(disposition), pause: Pause::No };
    match outcome {
        Outcome::LeaseLost => Decision { disposition: None, pause: Pause::No },
        Outcome::StartFailed { text } => {
            Decision { disposition: Some(Disposition::Release), pause: Pause::Start(text) }
        }
        Outcome::Interrupted => go_on(Disposition::Release),
        Outcome::GrantMissing { grant, .. } => Decision {
            disposition: Some(Disposition::Retry { delay: wait, counted: false }),
            pause: Pause::Grant(grant),
        },
        Outcome::Trapped { .. }
        | Outcome::TimedOut { .. }
        | Outcome::OutOfCpu { .. }
        | Outcome::OutOfMemory { .. }
        | Outcome::TooMuch { .. }
        | Outcome::Failed { .. } => go_on(retry(wait)),
        Outcome::RetryAsked { after } => go_on(retry(after)),
        Outcome::Rejected { .. } | Outcome::Denied { .. } | Outcome::HopsExceeded { .. } => {
            go_on(Disposition::DeadLetter)
        }
        Outcome::Done { sends } => go_on(Disposition::Ack { sends }),
        Outcome::Refused { text } => {
            Decision { disposition: Some(Disposition::Release), pause: Pause::Room(text) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn law_26_as_a_table() {
        let text = String::new;
        let s = Duration::from_secs;
        let retry = |delay, counted| Some(Disposition::Retry { delay, counted });
        let dead = Some(Disposition::DeadLetter);
        let release = Some(Disposition::Release);
        let ack = Some(Disposition::Ack { sends: vec![] });
        // outcome, disposition with attempts left, on the last attempt, whether it pauses
        let rows = [
            (Outcome::LeaseLost, None, None, false),
            (Outcome::StartFailed { text: text() }, release.clone(), release.clone(), true),
            (Outcome::Interrupted, release.clone(), release.clone(), false),
            (
                Outcome::GrantMissing { grant: text(), text: text() },
                retry(s(1), false),
                retry(s(16), false),
                true,
            ),
            (Outcome::Trapped { text: text() }, retry(s(1), true), dead.clone(), false),
            (Outcome::TimedOut { limit: s(30) }, retry(s(1), true), dead.clone(), false),
            (Outcome::OutOfCpu { limit: s(10) }, retry(s(1), true), dead.clone(), false),
            (Outcome::OutOfMemory { limit: 1 }, retry(s(1), true), dead.clone(), false),
            (Outcome::TooMuch { text: text() }, retry(s(1), true), dead.clone(), false),
            (Outcome::Rejected { reason: text() }, dead.clone(), dead.clone(), false),
            (Outcome::RetryAsked { after: s(7) }, retry(s(7), true), dead.clone(), false),
            (Outcome::Denied { text: text() }, dead.clone(), dead.clone(), false),
            (
                Outcome::Failed { kind: "timeout", text: text() },
                retry(s(1), true),
                dead.clone(),
                false,
            ),
            (
                Outcome::Failed { kind: "connection", text: text() },
                retry(s(1), true),
                dead.clone(),
                false,
            ),
            (
                Outcome::Failed { kind: "other", text: text() },
                retry(s(1), true),
                dead.clone(),
                false,
            ),
            (Outcome::HopsExceeded { text: text() }, dead.clone(), dead, false),
            (Outcome::Done { sends: vec![] }, ack.clone(), ack, false),
            (Outcome::Refused { text: text() }, release.clone(), release, true),
        ];
        let max = NonZeroU32::new(5).unwrap();
        for (outcome, early, late, pauses) in rows {
            for (attempt, expected) in [(1, early), (5, late)] {
                let found = decide(outcome.clone(), attempt, max, &Backoff::default(), 0.0);
                assert_eq!(found.disposition, expected, "{outcome:?} on attempt {attempt}");
                assert_eq!(found.pause != Pause::No, pauses, "{outcome:?}");
            }
        }
    }
}
