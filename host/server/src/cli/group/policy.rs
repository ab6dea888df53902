//! A group's policy as typed, and `windlass group set`.

use super::super::failure::{CHANGE_TRIES, Failure};
use super::super::open;
use super::super::ui::{Ui, clean};
use super::{Which, called};
use crate::typed;
use crate::wire::GroupOfTopicBody;
use std::num::NonZeroU32;
use std::time::Duration;
use windlass_core::policy::{DELAY_MAX, LEASE_MIN};
use windlass_core::{GroupPolicy, Topic};
use windlass_log::DynLog;

/// What is not given is as it was.
#[derive(Debug, Default, clap::Args)]
pub(super) struct Policy {
    /// Attempts before a message is a dead letter; 5 unless said.
    #[arg(long, value_name = "N")]
    max_attempts: Option<NonZeroU32>,
    /// How long a claim holds; 30s unless said.
    #[arg(long, value_name = "DURATION", value_parser = lease)]
    lease: Option<Duration>,
    /// Messages leased at a time, at most; 10000 unless said.
    #[arg(long, value_name = "N")]
    in_flight: Option<NonZeroU32>,
    /// A topic that gets a copy of each new dead letter.
    #[arg(long, value_name = "TOPIC")]
    dead_letter_topic: Option<Topic>,
}

fn lease(text: &str) -> Result<Duration, String> {
    typed::duration(text, LEASE_MIN, DELAY_MAX)
}

impl Policy {
    /// The policy that comes of an `old` one.
    pub(super) fn over(&self, old: GroupPolicy) -> GroupPolicy {
        GroupPolicy {
            max_attempts: self.max_attempts.unwrap_or(old.max_attempts),
            lease: self.lease.unwrap_or(old.lease),
            in_flight_max: self.in_flight.unwrap_or(old.in_flight_max),
            dead_letter_topic: self.dead_letter_topic.clone().or(old.dead_letter_topic),
            ..old
        }
    }

    /// Whether anything was given.
    fn is_any(&self) -> bool {
        let Self { max_attempts, lease, in_flight, dead_letter_topic } = self;
        max_attempts.is_some()
            || lease.is_some()
            || in_flight.is_some()
            || dead_letter_topic.is_some()
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    #[command(flatten)]
    policy: Policy,
    /// Print one JSON object: the group as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

/// Somebody else may be changing it too: what they set is not undone.
async fn change(args: &SetArgs, log: &DynLog) -> Result<(), Failure> {
    let which = &args.which;
    for _ in 0..CHANGE_TRIES {
        let old = which.find(log).await?.policy;
        let new = args.policy.over(old.clone());
        let replaced = log.replace_policy(&which.topic, &which.group, &old, &new).await;
        if replaced.map_err(|error| which.log.failure(error))? {
            return Ok(());
        }
    }
    Err(Failure::changing("the policy"))
}

pub(super) async fn run(args: &SetArgs, ui: &Ui) -> Result<(), Failure> {
    if !args.policy.is_any() {
        return Err(Failure::usage("nothing is given to be set")
            .next("give a part such as --max-attempts N; see windlass group set --help"));
    }
    let which = &args.which;
    let log = open::existing(&which.log).await?;
    change(args, &log).await?;
    let set = which.find(&log).await?;
    log.close().await;
    if ui.json {
        ui.object(&GroupOfTopicBody::new(which.topic.as_str(), &set));
    } else {
        let (topic, group) = (clean(which.topic.as_str()), clean(&called(&which.group)));
        ui.data(&format!("set the policy of {group} of {topic}"));
    }
    Ok(())
}
