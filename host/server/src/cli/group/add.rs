//! `windlass group add`: where a new group starts, and its policy.

use super::super::failure::Failure;
use super::super::moment::Moment;
use super::super::open;
use super::super::ui::{Ui, clean};
use super::{Which, called};
use crate::wire::GroupOfTopicBody;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;
use windlass_core::policy::{DELAY_MAX, LEASE_MIN};
use windlass_core::{GroupPolicy, MessageId, Timestamp, Topic};
use windlass_log::{GroupSpec, Start};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it starts: `earliest` (everything stored), `latest` (what is published from now on), a
    /// time, or a message's id (that one first).
    ///
    /// A time is `2026-01-31T12:00:00Z` (UTC), or an age such as `5m` or `2h`.
    #[arg(long, value_name = "earliest|latest|TIME|ID", default_value = "earliest")]
    start: From,
    /// Start behind the message that `--start` names.
    #[arg(long)]
    after: bool,
    /// Attempts before a message is a dead letter.
    #[arg(long, value_name = "N", default_value_t = GroupPolicy::default().max_attempts)]
    max_attempts: NonZeroU32,
    /// How long a claim holds.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = lease)]
    lease: Duration,
    /// Messages leased at a time, at most.
    #[arg(long, value_name = "N", default_value_t = GroupPolicy::default().in_flight_max)]
    in_flight: NonZeroU32,
    /// A topic that gets a copy of each new dead letter.
    #[arg(long, value_name = "TOPIC")]
    dead_letter_topic: Option<Topic>,
    /// Print one JSON object: the group as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

fn lease(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if (LEASE_MIN..=DELAY_MAX).contains(&span) {
        return Ok(span);
    }
    let [least, most] = [LEASE_MIN, DELAY_MAX].map(humantime::format_duration);
    Err(format!("it must be between {least} and {most}"))
}

/// A start as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Earliest,
    Latest,
    Time(Moment),
    Message(MessageId),
}

impl FromStr for From {
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

impl From {
    /// `now`: the log's.
    fn start(self, after: bool, now: Timestamp) -> Result<Start, Failure> {
        match (self, after) {
            (Self::Message(id), true) => Ok(Start::After(id)),
            (Self::Message(id), false) => Ok(Start::At(id)),
            (_, true) => Err(Failure::usage("`--after` is about a message, and none is named")
                .next("give --start ID, or leave --after out")),
            (Self::Earliest, false) => Ok(Start::Earliest),
            (Self::Latest, false) => Ok(Start::Latest),
            (Self::Time(moment), false) => Ok(Start::Time(moment.log_time(now))),
        }
    }
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // What was typed is judged before any log is looked for.
    args.start.start(args.after, Timestamp(0))?;
    let which = &args.which;
    let log = open::existing(&which.log).await?;
    let spec = GroupSpec {
        topic: which.topic.clone(),
        group: which.group.clone(),
        policy: GroupPolicy {
            max_attempts: args.max_attempts,
            lease: args.lease,
            in_flight_max: args.in_flight,
            dead_letter_topic: args.dead_letter_topic,
            ..GroupPolicy::default()
        },
        start: args.start.start(args.after, log.now())?,
    };
    log.add_group(spec).await.map_err(|error| which.log.failure(error))?;
    let added = which.find(&log).await?;
    log.close().await;
    if ui.json {
        ui.object(&GroupOfTopicBody::new(which.topic.as_str(), &added));
    } else {
        let (topic, group) = (clean(which.topic.as_str()), clean(&called(&which.group)));
        ui.data(&format!("added {group} of {topic}: {} to settle", added.counts.lag()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let start = text.parse::<From>().unwrap().start(after, Timestamp(1_000_000));
            assert_eq!(start.unwrap(), expected, "{text}");
        }
        for from in [From::Earliest, From::Latest, From::Time(ago)] {
            assert!(from.start(true, Timestamp(0)).is_err(), "{from:?}");
        }
        assert!("later".parse::<From>().is_err());
    }
}
