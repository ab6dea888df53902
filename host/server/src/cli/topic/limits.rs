//! `windlass topic add|set`: what a topic may hold, and for how long.

use super::super::failure::{CHANGE_TRIES, Failure};
use super::super::open;
use super::super::open::LogArgs;
use super::super::ui::{Ui, clean, shell};
use super::describe;
use crate::typed;
use crate::wire::TopicBody;
use std::num::NonZeroU64;
use std::str::FromStr;
use std::time::Duration;
use windlass_core::Topic;
use windlass_core::policy::DELAY_MAX;
use windlass_log::{DynLog, LogError, RETAIN, TopicLimits};

/// Limits as typed; what is not given stays.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Limits {
    /// Most messages to settle; publishes beyond it are refused.
    #[arg(long, value_name = "N")]
    max_messages: Option<NonZeroU64>,
    /// Most bytes of them, such as `64MiB`.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_bytes: Option<u64>,
    /// How long settled messages are kept, such as `1h`; `default` is 5 minutes.
    #[arg(long, value_name = "DURATION|default")]
    retain: Option<Retain>,
    /// And how many of them at most.
    #[arg(long, value_name = "N")]
    retain_messages: Option<u64>,
    /// What nobody has begun on for so long goes unread; `off` keeps it.
    #[arg(long, value_name = "DURATION|off")]
    max_age: Option<MaxAge>,
    /// How long a dedup id is known.
    #[arg(long, value_name = "DURATION", value_parser = span)]
    dedup_window: Option<Duration>,
}

fn size(text: &str) -> Result<u64, String> {
    typed::size(text, 1)
}

fn span(text: &str) -> Result<Duration, String> {
    typed::duration(text, Duration::from_secs(1), DELAY_MAX)
}

/// `retain` as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retain {
    Default,
    For(Duration),
}

impl FromStr for Retain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "default" { Ok(Self::Default) } else { span(text).map(Self::For) }
    }
}

/// `max-age` as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaxAge {
    Off,
    Of(Duration),
}

impl FromStr for MaxAge {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" { Ok(Self::Off) } else { span(text).map(Self::Of) }
    }
}

impl Limits {
    /// Whether anything was given.
    fn is_any(&self) -> bool {
        let Self { max_messages, max_bytes, retain, retain_messages, max_age, dedup_window } = self;
        max_messages.is_some()
            || max_bytes.is_some()
            || retain.is_some()
            || retain_messages.is_some()
            || max_age.is_some()
            || dedup_window.is_some()
    }

    /// The limits that come of `old` ones.
    fn over(&self, old: TopicLimits) -> TopicLimits {
        let kept = match self.retain {
            None => old.retain,
            Some(Retain::Default) => None,
            Some(Retain::For(span)) => Some((span, old.retain.unwrap_or(RETAIN).1)),
        };
        let retain = match self.retain_messages {
            None => kept,
            Some(messages) => Some((kept.unwrap_or(RETAIN).0, messages)),
        };
        TopicLimits {
            max_messages: self.max_messages.map_or(old.max_messages, NonZeroU64::get),
            max_bytes: self.max_bytes.unwrap_or(old.max_bytes),
            dedup_window: self.dedup_window.unwrap_or(old.dedup_window),
            retain,
            max_age: match self.max_age {
                None => old.max_age,
                Some(MaxAge::Off) => None,
                Some(MaxAge::Of(span)) => Some(span),
            },
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The topic.
    topic: Topic,
    #[command(flatten)]
    limits: Limits,
    /// Print one JSON object: the topic as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// The topic, exactly.
    topic: Topic,
    #[command(flatten)]
    limits: Limits,
    /// Also below what is there: nothing is dropped, and publishes are refused until it fits.
    #[arg(long)]
    force: bool,
    /// Print one JSON object: the topic as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn add(args: &AddArgs, ui: &Ui) -> Result<(), Failure> {
    let log = open::existing(&args.log).await?;
    let limits = args.limits.over(TopicLimits::default());
    let added = log.replace_limits(&args.topic, None, limits, false).await;
    if !added.map_err(|error| args.log.failure(error))? {
        let topic = args.topic.as_str();
        let next = format!("windlass topic show {}{}", shell(topic), args.log.flag());
        return Err(Failure::new(format!("there is a topic `{topic}` already")).next(next));
    }
    tell(&log, &args.topic, &args.log, "added", ui).await
}

pub(super) async fn set(args: &SetArgs, ui: &Ui) -> Result<(), Failure> {
    if !args.limits.is_any() {
        return Err(Failure::usage("nothing is given to be set")
            .next("give a limit such as --max-messages N; see windlass topic set --help"));
    }
    let log = open::existing(&args.log).await?;
    change(args, &log).await?;
    tell(&log, &args.topic, &args.log, "set limits of", ui).await
}

/// Somebody else may be changing them too: what they set is not undone.
async fn change(args: &SetArgs, log: &DynLog) -> Result<(), Failure> {
    let topic = &args.topic;
    for _ in 0..CHANGE_TRIES {
        let state = log.topic(topic).await?.ok_or_else(|| args.log.no_topic(topic))?;
        let limits = args.limits.over(state.limits);
        match log.replace_limits(topic, Some(state.limits), limits, args.force).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error @ LogError::HoldsMore { .. }) => {
                return Err(args.log.failure(error).because("its limits stay as they were").next(
                    "give --force: then nothing is dropped, and publishes are refused until it fits",
                ));
            }
            Err(error) => return Err(args.log.failure(error)),
        }
    }
    Err(Failure::changing("the limits"))
}

async fn tell(
    log: &DynLog,
    topic: &Topic,
    args: &LogArgs,
    done: &str,
    ui: &Ui,
) -> Result<(), Failure> {
    let state = log.topic(topic).await?.ok_or_else(|| args.no_topic(topic))?;
    let now = log.now();
    log.close().await;
    if ui.json {
        ui.object(&TopicBody::new(&state, now));
    } else {
        let limits = describe::limits(&state.limits).join("; ");
        ui.data(&format!("{done} {}: {limits}", clean(topic.as_str())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_given_stays() {
        let old = TopicLimits { max_age: Some(Duration::from_hours(1)), ..TopicLimits::default() };
        assert_eq!(Limits::default().over(old), old);
        assert!(!Limits::default().is_any());
        let minute = Duration::from_mins(1);
        let retained = |retain: Option<Retain>, retain_messages, old| {
            let limits = Limits { retain, retain_messages, ..Limits::default() };
            assert!(limits.is_any());
            limits.over(TopicLimits { retain: old, ..TopicLimits::default() }).retain
        };
        let given = Some(Retain::For(minute));
        for (span, messages, old, expected) in [
            (given, None, None, Some((minute, RETAIN.1))),
            (given, None, Some((RETAIN.0, 7)), Some((minute, 7))),
            (None, Some(3), None, Some((RETAIN.0, 3))),
            (None, Some(3), Some((minute, 7)), Some((minute, 3))),
            (Some(Retain::Default), None, Some((minute, 7)), None),
            (Some(Retain::Default), Some(3), Some((minute, 7)), Some((RETAIN.0, 3))),
        ] {
            assert_eq!(retained(span, messages, old), expected, "{span:?} {messages:?} {old:?}");
        }
        let off = Limits { max_age: Some(MaxAge::Off), ..Limits::default() };
        assert_eq!(off.over(old).max_age, None);
        assert_eq!("off".parse(), Ok(MaxAge::Off));
        assert_eq!("1m".parse(), Ok(MaxAge::Of(minute)));
        assert!("never".parse::<MaxAge>().is_err() && "0s".parse::<Retain>().is_err());
    }
}
