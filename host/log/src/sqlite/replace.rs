//! Changes for who has read what is to change: made where it is as it was seen.
//!
//! Two commands that each change a part of a policy would else undo one another, and a group that
//! was deleted meanwhile would come back.

use super::command::Fail;
use super::writer::Writer;
use crate::admin::{GroupSpec, TopicLimits};
use crate::api::Start;
use windlass_core::{Group, GroupPolicy, Topic};

/// What is to be changed, as it was seen and as it shall be.
pub(super) enum Replacement {
    /// What a topic may hold; no old limits: it must not be there.
    Limits { topic: Topic, old: Option<TopicLimits>, new: TopicLimits, force: bool },
    /// A group's policy, the old one and the new one.
    Policy { topic: Topic, group: Group, both: Box<(GroupPolicy, GroupPolicy)> },
}

impl Writer {
    /// Whether it was as it was seen; then it is changed.
    pub(super) async fn replace(&mut self, what: Replacement) -> Result<bool, Fail> {
        match what {
            Replacement::Limits { topic, old, new, force } => {
                let (conn, cache) = self.parts()?;
                let found = match cache.topic(conn, &topic).await? {
                    Some(id) => cache.topic_row(id).map(|row| row.limits),
                    None => None,
                };
                if found != old {
                    return Ok(false);
                }
                self.set_limits(&topic, new, force).await?;
            }
            Replacement::Policy { topic, group, both } => {
                let id = self.groups_meant(&topic, Some(&group)).await?[0];
                let (_, cache) = self.parts()?;
                let (old, policy) = *both;
                if cache.group_row(id).is_none_or(|row| row.policy != old) {
                    return Ok(false);
                }
                // It is there, and stays where it is.
                let start = Start::Latest;
                self.declare_groups(vec![GroupSpec { topic, group, policy, start }]).await?;
            }
        }
        Ok(true)
    }
}
