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
}
