//! Deleting groups: gone in one transaction, cleared away in steps.
//!
//! From the first transaction on nobody sees the group. What it left behind may be a million rows;
//! those go a step at a time, so that nobody else is held up, and whatever process is there goes on
//! with it where the first one died.

use super::cache::unsigned;
use super::command::Fail;
use super::counts;
use super::redrive::STEP;
use super::rows::{TopicId, Unclaimed};
use super::writer::Writer;
use crate::admin::{Counts, GroupSpec};
use crate::error::LogError;
use sqlx::{AssertSqlSafe, Row, query};
use windlass_core::{Group, Sequence, Topic};

/// What is left of a group.
struct Remains {
    group: u64,
    topic: TopicId,
    cursor: u64,
    swept: u64,
}

impl Writer {
    /// Declares a group that must not be there yet.
    pub(super) async fn add_group(&mut self, spec: GroupSpec) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        if let Some(topic) = cache.topic(conn, &spec.topic).await?
            && cache.group(conn, topic, &spec.group).await?.is_some()
        {
            return Err(LogError::BusyGroup { topic: spec.topic, group: spec.group }.into());
        }
        self.declare_groups(vec![spec]).await?;
        Ok(())
    }

    /// Takes a group away; how it stood.
    pub(super) async fn remove_group(
        &mut self,
        topic: &Topic,
        name: &Group,
        force: bool,
    ) -> Result<Counts, Fail> {
        let id = self.groups_meant(topic, Some(name)).await?[0];
        let now = self.time.now();
        let (conn, cache) = self.parts()?;
        let newest = cache.state(conn).await?.next_sequence - 1;
        let Some(group) = cache.group_row(id) else { return Err(sqlx::Error::RowNotFound.into()) };
        let (at, dead) = (group.topic, group.dead);
        if dead > 0 && !force {
            let (topic, group) = (topic.clone(), name.clone());
            return Err(LogError::GroupHasDead { topic, group, dead }.into());
        }
        let leased: Vec<u64> = group.leases.iter().map(|lease| lease.sequence.0).collect();
        let counts = counts::of_group(conn, at, id, now).await?;
        let Some(row) = cache.topic_row_mut(at) else {
            return Err(sqlx::Error::RowNotFound.into());
        };
        let swept = row.swept;
        row.groups.retain(|known| *known != id);
        if row.groups.is_empty() {
            let (messages, bytes) = (row.published, row.published_bytes);
            row.unclaimed.push(Unclaimed { lo: newest, hi: None, messages, bytes });
            // Nobody reads what is published now, so it is not kept in memory.
            cache.tail.forget(topic);
        }
        self.take_group_away(id, swept).await?;
        self.let_go_of(at, swept, leased);
        self.pending.topics.insert(at);
        Ok(counts)
    }

    /// Nobody sees a group any more; what it has is cleared away later.
    pub(super) async fn take_group_away(&mut self, id: u64, swept: u64) -> Result<(), Fail> {
        let (conn, cache) = self.parts()?;
        let Some(group) = cache.group_row(id) else { return Err(sqlx::Error::RowNotFound.into()) };
        let names = (group.topic_name.clone(), group.name.clone());
        query("insert into gone_grp(id, topic, cursor, swept) values (?, ?, ?, ?)")
            .bind(id.cast_signed())
            .bind(group.topic.0.cast_signed())
            .bind(group.cursor.0.cast_signed())
            .bind(swept.cast_signed())
            .execute(&mut *conn)
            .await?;
        for statement in [
            "delete from lease where grp = ?",
            "delete from gap where grp = ?",
            "delete from grp where id = ?",
        ] {
            query(statement).bind(id.cast_signed()).execute(&mut *conn).await?;
        }
        cache.forget_group(id);
        self.agenda.set(id, None);
        self.touched.left.push(names);
        self.clearing = true;
        Ok(())
    }

    /// Clears away a step of what deleted groups and topics have left; whether there is more.
    pub(super) async fn clear_gone(&mut self) -> Result<bool, Fail> {
        self.flush().await?;
        let (conn, cache) = self.parts()?;
        let row = query(
            "select g.id, g.topic, g.cursor, g.swept, t.name from gone_grp g
               left join topic t on t.id = g.topic order by g.id limit 1",
        )
        .fetch_optional(&mut *conn)
        .await?;
        let Some(row) = row else { return self.clear_gone_topics().await };
        let name: Option<String> = row.try_get(4)?;
        if let Some(name) = &name {
            let topic = Topic::new(name).map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
            cache.topic(conn, &topic).await?;
        }
        let remains = Remains {
            group: unsigned(&row, 0)?,
            topic: TopicId(unsigned(&row, 1)?),
            cursor: unsigned(&row, 2)?,
            swept: unsigned(&row, 3)?,
        };
        // Messages of a deleted topic go all together.
        if self.clear_rows(&remains).await? || name.is_some() && self.clear_unread(&remains).await?
        {
            return Ok(true);
        }
        let (conn, _) = self.parts()?;
        query("delete from gone_grp where id = ?")
            .bind(remains.group.cast_signed())
            .execute(conn)
            .await?;
        Ok(true)
    }

    /// The next of its rows; whether there were any.
    async fn clear_rows(&mut self, remains: &Remains) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        let swept = cache.topic_row(remains.topic).map_or(0, |row| row.swept);
        for table in ["waiting", "dead", "history", "skip"] {
            let next = format!("select seq from {table} where grp = ? order by seq limit ?");
            let rows = query(AssertSqlSafe(next))
                .bind(remains.group.cast_signed())
                .bind(STEP)
                .fetch_all(&mut *conn)
                .await?;
            let found =
                rows.iter().map(|row| unsigned(row, 0)).collect::<sqlx::Result<Vec<_>>>()?;
            let Some(last) = found.last() else { continue };
            let delete = format!("delete from {table} where grp = ? and seq <= ?");
            query(AssertSqlSafe(delete))
                .bind(remains.group.cast_signed())
                .bind(last.cast_signed())
                .execute(&mut *conn)
                .await?;
            if matches!(table, "waiting" | "dead") {
                self.let_go_of(remains.topic, swept, found);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// What the sweep had passed by and the group had still to read; whether there was any.
    async fn clear_unread(&mut self, remains: &Remains) -> Result<bool, Fail> {
        let (conn, cache) = self.parts()?;
        let swept = cache.topic_row(remains.topic).map_or(0, |row| row.swept);
        let rows = query("select id from message where id > ? and id <= ? order by id limit ?")
            .bind(remains.topic.rowid(Sequence(remains.cursor)))
            .bind(remains.topic.rowid(Sequence(remains.swept)))
            .bind(STEP)
            .fetch_all(&mut *conn)
            .await?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            found.push(TopicId::sequence(row.try_get(0)?).0);
        }
        let Some(last) = found.last() else { return Ok(false) };
        query("update gone_grp set cursor = ? where id = ?")
            .bind(last.cast_signed())
            .bind(remains.group.cast_signed())
            .execute(conn)
            .await?;
        self.let_go_of(remains.topic, swept, found);
        Ok(true)
    }

    /// Messages that a group let go; those the sweep has passed by go where nobody else has them.
    pub(super) fn let_go_of(&mut self, topic: TopicId, swept: u64, mut sequences: Vec<u64>) {
        sequences.retain(|sequence| *sequence <= swept);
        if !sequences.is_empty() {
            self.pending.let_go.entry(topic).or_default().append(&mut sequences);
        }
    }
}
