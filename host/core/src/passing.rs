//! What becomes of a new message as a group's cursor passes it, and what keys are.

use crate::time::Timestamp;

/// Most messages one transaction passes into rows of their own.
pub const SET_ASIDE_MAX: usize = 1_000;
/// A group with so many parked messages passes no further one that would have to be parked.
pub const PARKED_MAX: u64 = 100_000;

/// What becomes of a new message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passing {
    /// It was cancelled.
    Skip,
    /// Another message of its key is before it.
    Park,
    /// It waits until then.
    Delay(Timestamp),
    /// It is given to a worker.
    Give,
}

/// Decides it. `key_busy`: a message of its key is leased or waits in this group.
#[must_use]
pub fn passing(cancelled: bool, key_busy: bool, due: Option<Timestamp>, now: Timestamp) -> Passing {
    match due {
        _ if cancelled => Passing::Skip,
        _ if key_busy => Passing::Park,
        Some(due) if due > now => Passing::Delay(due),
        Some(_) | None => Passing::Give,
    }
}

/// A key as groups remember it (FNV-1a, 64 bits): the same in every process and version. Two keys of
/// one hash are handled as one, which costs nothing but time.
#[must_use]
pub fn key_hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts() {
        let (now, later) = (Timestamp(5), Some(Timestamp(6)));
        for (cancelled, busy, due, expected) in [
            (true, true, later, Passing::Skip),
            (false, true, later, Passing::Park),
            (false, false, later, Passing::Delay(Timestamp(6))),
            (false, false, Some(now), Passing::Give),
            (false, false, None, Passing::Give),
        ] {
            assert_eq!(passing(cancelled, busy, due, now), expected);
        }
    }

    #[test]
    fn a_key_has_one_hash_for_good() {
        assert_eq!(key_hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(key_hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(key_hash("a"), key_hash("b"));
    }
}
