//! Whether there is room: what quotas count, and what a batch adds.

/// Messages and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// How many.
    pub messages: u64,
    /// Their size, as [`crate::NewMessage::size`] has it.
    pub bytes: u64,
}

impl Amount {
    /// One message.
    #[must_use]
    pub fn one(bytes: u64) -> Self {
        Self { messages: 1, bytes }
    }

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_add(other.messages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    /// This without the other.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// What would be beyond its bound if bounds went from `old` to `new`: only one that is lowered
    /// is looked at, so that a quota that is passed already may be set to anything higher.
    #[must_use]
    pub fn beyond_lowered(self, old: Self, new: Self) -> Option<(&'static str, u64)> {
        let lowered = |old: u64, new: u64| if new < old { new } else { u64::MAX };
        self.over(Self {
            messages: lowered(old.messages, new.messages),
            bytes: lowered(old.bytes, new.bytes),
        })
    }

    /// What is over `most`, where something is: its name, and what there may be.
    #[must_use]
    pub fn over(self, most: Self) -> Option<(&'static str, u64)> {
        if self.messages > most.messages {
            Some(("messages", most.messages))
        } else if self.bytes > most.bytes {
            Some(("bytes", most.bytes))
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_may_be_over() {
        let most = Amount { messages: 2, bytes: 10 };
        let held = Amount::one(4);
        assert_eq!(held.and(Amount::one(6)).over(most), None);
        assert_eq!(held.and(Amount::one(7)).over(most), Some(("bytes", 10)));
        let three = held.and(Amount::one(1)).and(Amount::one(1));
        assert_eq!(three.over(most), Some(("messages", 2)));
        assert_eq!(three.less(Amount::one(4)).over(most), None);
    }

    #[test]
    fn only_a_bound_that_is_lowered_stands_in_the_way() {
        let held = Amount { messages: 5, bytes: 50 };
        let bounds = |messages, bytes| Amount { messages, bytes };
        for (old, new, expected) in [
            (bounds(9, 90), bounds(5, 50), None),
            (bounds(9, 90), bounds(4, 50), Some(("messages", 4))),
            (bounds(9, 90), bounds(9, 49), Some(("bytes", 49))),
            (bounds(2, 90), bounds(3, 90), None),
            (bounds(2, 90), bounds(1, 90), Some(("messages", 1))),
            (bounds(2, 20), bounds(2, 20), None),
        ] {
            assert_eq!(held.beyond_lowered(old, new), expected, "{old:?} {new:?}");
        }
    }
}
