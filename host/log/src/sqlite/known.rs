//! Topics and groups by name, as a reading connection sees them.

use super::cache::unsigned;
use super::rows::TopicId;
use crate::error::LogError;
use sqlx::query;
use sqlx::sqlite::SqliteConnection;
use windlass_core::{Group, Topic};

/// A topic by name, where there is one.
pub(super) async fn topic(
    conn: &mut SqliteConnection,
    name: &Topic,
) -> sqlx::Result<Option<TopicId>> {
    let row = query("select id from topic where name = ?")
        .bind(name.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| unsigned(&row, 0).map(TopicId)).transpose()
}

/// A group of a topic by name, where there is one.
pub(super) async fn group(
    conn: &mut SqliteConnection,
    topic: TopicId,
    name: &Group,
) -> sqlx::Result<Option<u64>> {
    let row = query("select id from grp where topic = ? and name = ?")
        .bind(topic.0.cast_signed())
        .bind(name.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| unsigned(&row, 0)).transpose()
}

/// A topic and one of its groups, or which of them is not there.
pub(super) async fn both(
    conn: &mut SqliteConnection,
    topic_name: &Topic,
    group_name: &Group,
) -> sqlx::Result<Result<(TopicId, u64), LogError>> {
    let Some(id) = topic(conn, topic_name).await? else {
        return Ok(Err(LogError::NoTopic(topic_name.clone())));
    };
    let found = group(conn, id, group_name).await?;
    Ok(found.map(|group| (id, group)).ok_or_else(|| {
        let (topic, group) = (topic_name.clone(), group_name.clone());
        LogError::NoGroup { topic, group }
    }))
}
