//! Declaring topics and groups.

use super::command::Fail;
use super::writer::Writer;
use crate::admin::{Declared, GroupSpec, TopicsMode};
use crate::error::LogError;
use std::time::Duration;
use windlass_core::{Group, Topic, time::millis};

impl Writer {
    /// Says whether a publish may create its topic, and declares topics.
    pub(super) async fn declare_topics(
        &mut self,
        mode: TopicsMode,
        topics: &[Topic],
    ) -> Result<(), Fail> {
        self.check_new_topics(topics.iter()).await?;
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        state.declared_only = mode == TopicsMode::Declared;
        self.pending.settings = true;
        for topic in topics {
            self.topic_or_new(topic).await?;
        }
        Ok(())
    }

    /// Declares groups; a known one keeps its position and takes the policy.
    pub(super) async fn declare_groups(
        &mut self,
        groups: Vec<GroupSpec>,
    ) -> Result<Vec<Declared>, Fail> {
        self.check_new_topics(groups.iter().map(|spec| &spec.topic)).await?;
        let mut answers = Vec::with_capacity(groups.len());
        for spec in groups {
            let topic = self.topic_or_new(&spec.topic).await?;
            let (conn, cache) = self.parts()?;
            if let Some(id) = cache.group(conn, topic, &spec.group).await? {
                if let Some(group) = cache.group_row_mut(id) {
                    group.policy = spec.policy;
                    self.pending.policies.insert(id);
                    self.pending.groups.insert(id);
                }
                answers.push(Declared::Known);
            } else {
                self.create_group(topic, &spec.group, spec.policy, spec.start).await?;
                answers.push(Declared::Created);
            }
        }
        Ok(answers)
    }

    /// The groups of a topic that are meant: the named one, or all.
    pub(super) async fn groups_meant(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
    ) -> Result<Vec<u64>, Fail> {
        let (conn, cache) = self.parts()?;
        let Some(id) = cache.topic(conn, topic).await? else {
            return Err(LogError::NoTopic(topic.clone()).into());
        };
        let ids = match group {
            Some(name) => {
                let Some(group) = cache.group(conn, id, name).await? else {
                    let (topic, group) = (topic.clone(), name.clone());
                    return Err(LogError::NoGroup { topic, group }.into());
                };
                vec![group]
            }
            None => cache.topic_row(id).map_or(Vec::new(), |row| row.groups.clone()),
        };
        for group in &ids {
            cache.group_by_id(conn, *group).await?;
        }
        // Dead letters made in this transaction are not in the file yet.
        self.flush().await?;
        Ok(ids)
    }

    /// Sets how long what is not needed is kept.
    pub(super) async fn set_retain(&mut self, span: Duration, messages: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let state = cache.state(conn).await?;
        state.retain_ms = millis(span).min(i64::MAX.cast_unsigned());
        state.retain_messages = messages.min(i64::MAX.cast_unsigned());
        self.pending.settings = true;
        Ok(())
    }
}
