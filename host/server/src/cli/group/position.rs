//! A place in a topic as typed: where a group starts, or is moved to.

use super::super::failure::Failure;
use super::super::moment::Moment;
use std::str::FromStr;
use windlass_core::{MessageId, Timestamp};
use windlass_log::Start;

/// A place as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    Earliest,
    Latest,
    Time(Moment),
    Message(MessageId),
}

impl FromStr for Position {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "earliest" => return Ok(Self::Earliest),
            "latest" => return Ok(Self::Latest),
            _ => {}
        }
        if let Ok(id) = text.parse() {
            return Ok(Self::Message(id));
        }
        text.parse().map(Self::Time).map_err(|_| {
            "it is none of `earliest`, `latest`, a message's id, a time such as \
             `2026-01-31T12:00:00Z` (UTC), or an age such as `5m`"
        })
    }
}

impl Position {
    /// `now`: the log's; `flag`: how the place was given.
    pub(super) fn start(self, after: bool, now: Timestamp, flag: &str) -> Result<Start, Failure> {
        match (self, after) {
            (Self::Message(id), true) => Ok(Start::After(id)),
            (Self::Message(id), false) => Ok(Start::At(id)),
            (_, true) => Err(Failure::usage("`--after` is about a message, and none is named")
                .next(format!("give {flag} ID, or leave --after out"))),
            (Self::Earliest, false) => Ok(Start::Earliest),
            (Self::Latest, false) => Ok(Start::Latest),
            (Self::Time(moment), false) => Ok(Start::Time(moment.log_time(now))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_start_is_a_word_a_time_or_a_message() {
        let id: MessageId = "1700000000000-0000000000000010".parse().unwrap();
        let ago = Moment::Ago(Duration::from_mins(5));
        for (text, after, expected) in [
            ("earliest", false, Start::Earliest),
            ("latest", false, Start::Latest),
            ("5m", false, Start::Time(Timestamp(700_000))),
            ("1700000000000-0000000000000010", false, Start::At(id)),
            ("1700000000000-0000000000000010", true, Start::After(id)),
        ] {
            let start =
                text.parse::<Position>().unwrap().start(after, Timestamp(1_000_000), "--to");
            assert_eq!(start.unwrap(), expected, "{text}");
        }
        for from in [Position::Earliest, Position::Latest, Position::Time(ago)] {
            assert!(from.start(true, Timestamp(0), "--to").is_err(), "{from:?}");
        }
        assert!("later".parse::<Position>().is_err());
    }
}
