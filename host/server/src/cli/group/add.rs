//! `windlass group add`: where a new group starts, and its policy.

use super::super::failure::Failure;
use super::super::open;
use super::super::ui::{Ui, clean};
use super::policy::Policy;
use super::position::Position;
use super::{Which, called};
use crate::wire::GroupOfTopicBody;
use windlass_core::{GroupPolicy, Timestamp};
use windlass_log::GroupSpec;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where it starts: `earliest` (everything stored), `latest` (what is published from now on), a
    /// time, or a message's id (that one first).
    ///
    /// A time is `2026-01-31T12:00:00Z` (UTC), or an age such as `5m` or `2h`.
    #[arg(long, value_name = "earliest|latest|TIME|ID", default_value = "earliest")]
    start: Position,
    /// Start behind the message that `--start` names.
    #[arg(long)]
    after: bool,
    #[command(flatten)]
    policy: Policy,
    /// Print one JSON object: the group as it stands then.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    which: Which,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // What was typed is judged before any log is looked for.
    args.start.start(args.after, Timestamp(0), "--start")?;
    let which = &args.which;
    let log = open::existing(&which.log).await?;
    let spec = GroupSpec {
        topic: which.topic.clone(),
        group: which.group.clone(),
        policy: args.policy.over(GroupPolicy::default()),
        start: args.start.start(args.after, log.now(), "--start")?,
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
