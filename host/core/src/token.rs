//! The proof of a claim.

use crate::id::Sequence;
use std::fmt;
use std::str::FromStr;

/// The right to settle one delivery: never repeats, and does not depend on the attempt.
///
/// `nonce` is drawn at random each time a process opens the log, `serial` counts within it. So no
/// token comes back, even where a power cut took the last commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token {
    /// The group's number in its log. Never used for another group.
    pub group: u64,
    /// The message.
    pub sequence: Sequence,
    /// Random part, of the process that claimed.
    pub nonce: u64,
    /// Counts the claims of that process.
    pub serial: u64,
}

/// Text that is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is not a claim token")]
pub struct TokenError;

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}.{:016x}.{:x}", self.group, self.sequence.0, self.nonce, self.serial)
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut parts =
            text.split('.').map(|part| u64::from_str_radix(part, 16).map_err(|_| TokenError));
        let mut next = || parts.next().unwrap_or(Err(TokenError));
        let (group, sequence, nonce, serial) = (next()?, Sequence(next()?), next()?, next()?);
        if next().is_ok() { Err(TokenError) } else { Ok(Self { group, sequence, nonce, serial }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_from_its_text() {
        let token = Token { group: 3, sequence: Sequence(0xff), nonce: u64::MAX, serial: 12 };
        assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        for bad in ["", "1.2.3", "1.2.3.4.5", "a.b.c.z"] {
            assert!(bad.parse::<Token>().is_err(), "{bad}");
        }
    }
}
