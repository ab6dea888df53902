//! Deleting topics: gone in one transaction, cleared away in steps.
//!
//! From the first transaction on nobody sees the topic, and one of its name is another. Its messages
//! may be millions; they go a step at a time, like what deleted groups leave, and its number is free
//! only after that. That a topic was there is remembered by its name: a reader who comes back to a
//! new one is told of a gap.

use super::cache::unsigned;
use super::command::Fail;
use super::counts;
use super::pending::int;
use super::redrive::STEP;
use super::rows::TopicId;
use super::writer::Writer;
use crate::admin::Purged;
use crate::error::LogError;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use windlass_core::{Sequence, Topic};

/// What a topic leaves, a step's worth of each.
const REMAINS: [&str; 3] = [
    "delete from message where id in
       (select id from message where id > ?2 and id <= ?3 order by id limit ?4)",
    "delete from dedup where topic = ?1 and dedup_id in
       (select dedup_id from dedup where topic = ?1 limit ?4)",
    "delete from delayed where topic = ?1 and (due, seq) in
       (select due, seq from delayed where topic = ?1 limit ?4)",
];

/// The highest sequence that topics of this name have had, where all of them are deleted.
pub(super) async fn former(
    conn: &mut SqliteConnection,
    name: &Topic,
) -> sqlx::Result<Option<Sequence>> {
    let row = query("select gone from former where name = ?")
        .bind(name.as_str())
        .fetch_optional(conn)
        .await?;
    row.map(|row| unsigned(&row, 0).map(Sequence)).transpose()
}

impl Writer {
    /// Takes a topic away with its groups; what went.
    pub(super) async fn remove_topic(&mut self, name: &Topic, force: bool) -> Result<Purged, Fail> {
        let groups = self.groups_meant(name, None).await?;
        let (conn, cache) = self.parts()?;
        let Some(id) = cache.topic(conn, name).await? else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let Some(row) = cache.topic_row(id) else { return Err(sqlx::Error::RowNotFound.into()) };
        let (stored, swept, gone) = (row.stored(), row.swept, row.gone);
        let dead = groups.iter().filter_map(|group| cache.group_row(*group)).map(|row| row.dead);
        let dead = dead.sum();
        if !force {
            let unsettled = counts::needed_of(conn, name).await?.messages;
            if unsettled > 0 || dead > 0 {
                return Err(LogError::TopicNotEmpty { topic: name.clone(), unsettled, dead }.into());
            }
        }
        let last = query("select max(id) from message where id > ? and id <= ?")
            .bind(id.rowid(Sequence(0)))
            .bind(id.rowid(Sequence::MAX))
            .fetch_one(&mut *conn)
            .await?;
        let last = last.try_get::<Option<i64>, _>(0)?.map_or(0, |last| TopicId::sequence(last).0);
        for group in groups {
            self.take_group_away(group, swept).await?;
        }
        self.take_topic_away(name, id, gone.max(last)).await?;
        Ok(Purged { messages: stored.messages, bytes: stored.bytes, dead })
    }

    async fn take_topic_away(&mut self, name: &Topic, id: TopicId, gone: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        query("insert into gone_topic(id) values (?)").bind(int(id.0)).execute(&mut *conn).await?;
        query("insert or replace into former(name, gone) values (?, ?)")
            .bind(name.as_str())
            .bind(int(gone))
            .execute(&mut *conn)
            .await?;
        query("delete from topic where id = ?").bind(int(id.0)).execute(conn).await?;
        cache.forget_topic(name);
        self.clearing = true;
        Ok(())
    }

    /// Clears away a step of what deleted topics have left; whether there was any.
    pub(super) async fn clear_gone_topics(&mut self) -> Result<bool, Fail> {
        let (conn, _) = self.parts()?;
        let row = query("select id from gone_topic order by id limit 1")
            .fetch_optional(&mut *conn)
            .await?;
        let Some(row) = row else { return Ok(false) };
        let id = TopicId(unsigned(&row, 0)?);
        for statement in REMAINS {
            let gone = query(statement)
                .bind(int(id.0))
                .bind(id.rowid(Sequence(0)))
                .bind(id.rowid(Sequence::MAX))
                .bind(STEP)
                .execute(&mut *conn)
                .await?;
            if gone.rows_affected() > 0 {
                return Ok(true);
            }
        }
        query("delete from gone_topic where id = ?").bind(int(id.0)).execute(conn).await?;
        Ok(true)
    }
}
