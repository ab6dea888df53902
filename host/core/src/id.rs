//! Sequences and message ids.

use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// A message's place in the log. Rises in commit order over all topics; starts at 1.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Sequence(pub u64);

impl Sequence {
    /// Largest sequence: 43 bits, so that a topic and a sequence fit one SQLite rowid.
    /// 8.8 million million messages: 2.8 years of 100,000 a second.
    pub const MAX: Self = Self((1 << 43) - 1);
}

/// `{millis, 13 digits}-{sequence, 16 hex}`: unique, and rising as a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageId {
    /// Log time of publishing, never below the message before.
    pub millis: Timestamp,
    /// Place in the log.
    pub sequence: Sequence,
}

/// Text that is not a message id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a message id: 13 digits, `-`, 16 hexadecimal digits")]
pub struct IdError(String);

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013}-{:016x}", self.millis.0, self.sequence.0)
    }
}

impl FromStr for MessageId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let parse = || {
            let (millis, sequence) = text.split_once('-')?;
            let digits = millis.len() == 13 && millis.bytes().all(|b| b.is_ascii_digit());
            let hex = sequence.len() == 16 && sequence.bytes().all(|b| b.is_ascii_hexdigit());
            if !digits || !hex {
                return None;
            }
            Some(Self {
                millis: Timestamp(millis.parse().ok()?),
                sequence: Sequence(u64::from_str_radix(sequence, 16).ok()?),
            })
        };
        parse().ok_or_else(|| IdError(text.chars().take(60).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_strings_and_come_back() {
        let ids = [(1, 1), (1, 2), (999, 3), (1_700_000_000_000, 0x10), (1_700_000_000_000, 0xabc)]
            .map(|(m, s)| MessageId { millis: Timestamp(m), sequence: Sequence(s) });
        let texts = ids.map(|id| id.to_string());
        assert!(texts.is_sorted());
        assert_eq!(texts[3], "1700000000000-0000000000000010");
        for (id, text) in ids.iter().zip(&texts) {
            assert_eq!(text.parse::<MessageId>().unwrap(), *id);
        }
        for bad in ["", "1-2", "17000000000000-0000000000000010", "1700000000000-000000000000001g"]
        {
            assert!(bad.parse::<MessageId>().is_err(), "{bad}");
        }
    }
}
