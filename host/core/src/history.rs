//! What became of a message's attempts, bounded.

use crate::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Most bytes of text kept of an attempt.
pub const TEXT_BYTES_MAX: usize = 4 << 10;
/// The oldest attempts kept.
pub const FIRST_KEPT: u32 = 5;
/// The newest attempts kept.
pub const LAST_KEPT: u32 = 20;

/// One failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// Which attempt: 1 for the first.
    pub attempt: u32,
    /// Log time at which it ended.
    pub at: Timestamp,
    /// Who held the claim.
    pub worker: String,
    /// Code and configuration that ran, short; empty where unknown.
    pub revision: String,
    /// The outcome's name.
    pub outcome: String,
    /// The guest's or host's own words, at most [`TEXT_BYTES_MAX`].
    pub text: String,
}

/// The attempts kept of a message, oldest first, and how many are not.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct History {
    /// Oldest first.
    pub attempts: Vec<AttemptRecord>,
    /// How many between the first and the last ones were dropped.
    pub omitted: u32,
}

/// Which earlier entry gives way when entry number `n` (from 1) is written.
#[must_use]
pub fn gives_way(n: u32) -> Option<u32> {
    let old = n.checked_sub(LAST_KEPT)?;
    (old > FIRST_KEPT).then_some(old)
}

/// `text` cut to `most` bytes at a character's edge.
#[must_use]
pub fn cut(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_five_and_last_twenty_stay() {
        let mut kept = std::collections::BTreeSet::new();
        for n in 1..=100 {
            kept.insert(n);
            if let Some(old) = gives_way(n) {
                assert!(kept.remove(&old));
            }
        }
        assert_eq!(
            kept.into_iter().collect::<Vec<_>>(),
            (1..=5).chain(81..=100).collect::<Vec<_>>()
        );
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }
}
