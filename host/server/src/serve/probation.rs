//! A new revision's first messages: when they all fail, it is given up.
//!
//! Pure. What counts are different messages, so that one message's retries are one failure; a start
//! that fails counts each time, as it is tried with whatever message is there.

use crate::event::{Delivered, Fate};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use windlass_core::MessageId;

/// What a delivery says about its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It handled a message well.
    Good,
    /// It failed with this message.
    Failed(MessageId),
    /// It did not start.
    NotStarted,
    /// Nothing: what happened was not its doing.
    Nothing,
}

impl Sign {
    /// What this delivery says.
    pub(super) fn of(delivered: &Delivered) -> Self {
        match delivered.fate {
            Fate::Acked { .. } => Self::Good,
            Fate::Retry { .. } | Fate::Dead => Self::Failed(delivered.message.id),
            Fate::Released if delivered.outcome == "start-failed" => Self::NotStarted,
            Fate::Released | Fate::Lost | Fate::Unwritten => Self::Nothing,
        }
    }
}

/// A revision that has not handled a message well yet.
#[derive(Debug)]
pub(super) struct Probation {
    after: u32,
    failed: BTreeSet<MessageId>,
    not_started: u32,
}

impl Probation {
    /// It ends badly with the failure of so many messages.
    pub(super) fn new(after: NonZeroU32) -> Self {
        Self { after: after.get(), failed: BTreeSet::new(), not_started: 0 }
    }

    /// Takes a sign in; whether the revision is to be given up now. [`Sign::Good`] ends the probation,
    /// which is the caller's to do.
    pub(super) fn learn(&mut self, sign: Sign) -> bool {
        match sign {
            Sign::Good | Sign::Nothing => return false,
            Sign::Failed(id) => drop(self.failed.insert(id)),
            Sign::NotStarted => self.not_started += 1,
        }
        let failures = self.not_started.saturating_add(self.failures());
        failures == self.after
    }

    /// How many messages failed.
    fn failures(&self) -> u32 {
        u32::try_from(self.failed.len()).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::delivered;
    use std::time::Duration;
    use windlass_core::{Sequence, Timestamp};

    fn failed(n: u64) -> Sign {
        Sign::Failed(MessageId { millis: Timestamp(1), sequence: Sequence(n) })
    }

    #[test]
    fn so_many_different_messages_end_it_once() {
        let mut probation = Probation::new(NonZeroU32::new(3).unwrap());
        let told: Vec<bool> =
            [failed(1), failed(1), Sign::Nothing, failed(2), failed(3), failed(4)]
                .map(|sign| probation.learn(sign))
                .into();
        assert_eq!(told, [false, false, false, false, true, false]);
        let mut probation = Probation::new(NonZeroU32::new(2).unwrap());
        assert!(!probation.learn(Sign::NotStarted));
        assert!(probation.learn(Sign::NotStarted));
    }

    #[test]
    fn what_was_not_its_doing_says_nothing() {
        let of = |fate, outcome| Sign::of(&Delivered { outcome, fate, ..delivered() });
        let id = delivered().message.id;
        assert_eq!(of(Fate::Acked { sent: 0 }, "ok"), Sign::Good);
        assert_eq!(of(Fate::Retry { delay: Duration::ZERO }, "trap"), Sign::Failed(id));
        assert_eq!(of(Fate::Dead, "rejected"), Sign::Failed(id));
        assert_eq!(of(Fate::Released, "start-failed"), Sign::NotStarted);
        assert_eq!(of(Fate::Released, "interrupted"), Sign::Nothing);
        assert_eq!(of(Fate::Lost, "lease-lost"), Sign::Nothing);
    }
}
