//! What the writer remembers of the file between transactions.
//!
//! True only while the file shows that nobody else has committed: every row says in which epoch it
//! was read, and a foreign commit begins a new epoch. After a failed commit all of it is dropped.

use super::record;
use super::rows::{BrokenSlot, GroupRow, State, TopicId, TopicRow};
use super::tail::Tail;
use crate::admin::TopicLimits;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use windlass_core::lease::LeaseBook;
use windlass_core::{Group, Sequence, Timestamp, Topic};

/// More topics than this are not remembered at once.
const TOPICS_KEPT: usize = 10_000;

/// Everything remembered.
#[derive(Debug, Default)]
pub(super) struct Cache {
    epoch: u64,
    data_version: Option<i64>,
    state: Option<(u64, State)>,
    topic_ids: HashMap<Topic, TopicId>,
    topics: BTreeMap<TopicId, TopicRow>,
    groups: BTreeMap<u64, GroupRow>,
    group_ids: HashMap<(TopicId, Group), u64>,
    /// Slots that could not be read, by group.
    pub(super) broken: Vec<(u64, BrokenSlot)>,
    pub(super) tail: Tail,
}

impl Cache {
    /// Told the file's `data_version` under the write lock: another one than last time means that
    /// somebody else has committed.
    ///
    /// Called at the start of a transaction, when no row of the cache waits to be written.
    pub(super) fn seen(&mut self, data_version: i64) -> bool {
        if self.topics.len() > TOPICS_KEPT {
            self.topics.clear();
            self.topic_ids.clear();
        }
        let moved = self.data_version != Some(data_version);
        if moved {
            self.data_version = Some(data_version);
            self.epoch += 1;
            self.tail.clear();
        }
        moved
    }

    /// The state row.
    pub(super) async fn state(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<&mut State> {
        if self.state.is_none_or(|(epoch, _)| epoch != self.epoch) {
            let row = query(
                "select next_sequence, last_ms, next_slot, topics_declared, retain_ms,
                   retain_messages from state where id = 1",
            )
            .fetch_one(conn)
            .await?;
            let state = State {
                next_sequence: unsigned(&row, 0)?,
                last_ms: unsigned(&row, 1)?,
                next_slot: unsigned(&row, 2)?,
                declared_only: unsigned(&row, 3)? != 0,
                retain_ms: unsigned(&row, 4)?,
                retain_messages: unsigned(&row, 5)?,
            };
            self.state = Some((self.epoch, state));
        }
        match &mut self.state {
            Some((_, state)) => Ok(state),
            None => Err(sqlx::Error::RowNotFound),
        }
    }

    /// How many messages a topic keeps beyond the needed ones, where that is known.
    pub(super) fn retain_messages(&self) -> Option<u64> {
        self.state.map(|(_, state)| state.retain_messages)
    }

    /// A topic's row, where it was read or made in this epoch: an older one may be stale.
    pub(super) fn topic_row(&self, id: TopicId) -> Option<&TopicRow> {
        self.topics.get(&id).filter(|row| row.epoch == self.epoch)
    }

    /// The same, to be changed.
    pub(super) fn topic_row_mut(&mut self, id: TopicId) -> Option<&mut TopicRow> {
        self.topics.get_mut(&id).filter(|row| row.epoch == self.epoch)
    }

    /// A group's row, where it was read or made in this epoch: an older one may be stale.
    pub(super) fn group_row(&self, id: u64) -> Option<&GroupRow> {
        self.groups.get(&id).filter(|row| row.epoch == self.epoch)
    }

    /// The same, to be changed.
    pub(super) fn group_row_mut(&mut self, id: u64) -> Option<&mut GroupRow> {
        self.groups.get_mut(&id).filter(|row| row.epoch == self.epoch)
    }

    /// A group's row of whatever age: good for waking, not for deciding.
    pub(super) fn group_as_known(&self, id: u64) -> Option<&GroupRow> {
        self.groups.get(&id)
    }

    /// The numbers of all groups that are known.
    pub(super) fn known_groups(&self) -> Vec<u64> {
        self.groups.keys().copied().collect()
    }

    /// A topic by name, where there is one.
    pub(super) async fn topic(
        &mut self,
        conn: &mut SqliteConnection,
        name: &Topic,
    ) -> sqlx::Result<Option<TopicId>> {
        // A deleted topic's number may be another's by now.
        let is_right = |row: &TopicRow| row.epoch == self.epoch && row.name == *name;
        if let Some(id) = self.topic_ids.get(name)
            && self.topics.get(id).is_some_and(is_right)
        {
            return Ok(Some(*id));
        }
        let row = query(
            "select id, published, published_bytes, removed, removed_bytes, swept, stragglers,
               unclaimed, floors, gone, max_messages, max_bytes, dedup_ms, retain_ms,
               retain_messages, max_age_ms from topic where name = ?",
        )
        .bind(name.as_str())
        .fetch_optional(&mut *conn)
        .await?;
        let Some(row) = row else {
            self.forget_number(name);
            return Ok(None);
        };
        let id = TopicId(unsigned(&row, 0)?);
        let groups = query("select id from grp where topic = ? order by id")
            .bind(id.0.cast_signed())
            .fetch_all(conn)
            .await?;
        let topic = TopicRow {
            epoch: self.epoch,
            id,
            name: name.clone(),
            published: unsigned(&row, 1)?,
            published_bytes: unsigned(&row, 2)?,
            removed: unsigned(&row, 3)?,
            removed_bytes: unsigned(&row, 4)?,
            swept: unsigned(&row, 5)?,
            stragglers: unsigned(&row, 6)?,
            unclaimed: json(row.try_get(7)?),
            floors: json(row.try_get(8)?),
            gone: unsigned(&row, 9)?,
            limits: limits(&row, 10)?,
            groups: groups.iter().map(|row| unsigned(row, 0)).collect::<sqlx::Result<_>>()?,
            look_after: 0,
        };
        self.keep_topic(topic);
        Ok(Some(id))
    }

    /// Remembers a topic that this transaction made.
    pub(super) fn new_topic(&mut self, mut topic: TopicRow) {
        topic.epoch = self.epoch;
        self.keep_topic(topic);
    }

    fn keep_topic(&mut self, topic: TopicRow) {
        self.topic_ids.insert(topic.name.clone(), topic.id);
        let (id, name) = (topic.id, topic.name.clone());
        if let Some(former) = self.topics.insert(id, topic)
            && former.name != name
        {
            self.topic_ids.remove(&former.name);
        }
    }

    /// A name has no number any more; what has that number now stays.
    fn forget_number(&mut self, name: &Topic) {
        if let Some(id) = self.topic_ids.remove(name)
            && self.topics.get(&id).is_some_and(|row| row.name == *name)
        {
            self.topics.remove(&id);
        }
    }

    /// Remembers a group that this transaction made.
    pub(super) fn new_group(&mut self, mut group: GroupRow) {
        group.epoch = self.epoch;
        self.group_ids.insert((group.topic, group.name.clone()), group.id);
        self.groups.insert(group.id, group);
    }

    /// Forgets a topic that was deleted.
    pub(super) fn forget_topic(&mut self, name: &Topic) {
        self.forget_number(name);
        self.tail.forget(name);
    }

    /// Forgets a group that was deleted.
    pub(super) fn forget_group(&mut self, id: u64) {
        if let Some(group) = self.groups.remove(&id) {
            self.group_ids.remove(&(group.topic, group.name));
        }
        self.broken.retain(|(broken, _)| *broken != id);
    }

    /// A group by name, where there is one.
    pub(super) async fn group(
        &mut self,
        conn: &mut SqliteConnection,
        topic: TopicId,
        name: &Group,
    ) -> sqlx::Result<Option<u64>> {
        let key = (topic, name.clone());
        if let Some(id) = self.group_ids.get(&key)
            && self.groups.get(id).is_some_and(|row| row.epoch == self.epoch)
        {
            return Ok(Some(*id));
        }
        let row = query("select id from grp where topic = ? and name = ?")
            .bind(topic.0.cast_signed())
            .bind(name.as_str())
            .fetch_optional(&mut *conn)
            .await?;
        match row {
            Some(row) => self.group_by_id(conn, unsigned(&row, 0)?).await,
            None => Ok(None),
        }
    }

    /// A group by number, where there is one; read again where somebody else has committed, its
    /// leases only where they changed.
    pub(super) async fn group_by_id(
        &mut self,
        conn: &mut SqliteConnection,
        id: u64,
    ) -> sqlx::Result<Option<u64>> {
        if self.groups.get(&id).is_some_and(|row| row.epoch == self.epoch) {
            return Ok(Some(id));
        }
        let row = query(
            "select g.topic, g.name, g.cursor, g.passed, g.passed_bytes, g.version, g.policy, t.name,
                    g.waiting, g.dead, g.skips, g.parked, g.waiting_bytes
               from grp g join topic t on t.id = g.topic where g.id = ?",
        )
        .bind(id.cast_signed())
        .fetch_optional(&mut *conn)
        .await?;
        let Some(row) = row else {
            self.groups.remove(&id);
            return Ok(None);
        };
        let version = unsigned(&row, 5)?;
        let known = self.groups.remove(&id).filter(|known| known.version == version);
        let mut group = GroupRow {
            epoch: self.epoch,
            id,
            topic: TopicId(unsigned(&row, 0)?),
            topic_name: Topic::new(row.try_get(7)?).map_err(decode)?,
            name: Group::new(row.try_get(1)?).map_err(decode)?,
            cursor: Sequence(unsigned(&row, 2)?),
            passed: unsigned(&row, 3)?,
            passed_bytes: unsigned(&row, 4)?,
            version,
            policy: json(row.try_get(6)?),
            leases: LeaseBook::default(),
            slots: BTreeMap::new(),
            next_due: None,
            waiting: unsigned(&row, 8)?,
            dead: unsigned(&row, 9)?,
            skips: unsigned(&row, 10)?,
            parked: unsigned(&row, 11)?,
            waiting_bytes: unsigned(&row, 12)?,
            full: false,
        };
        if let Some(known) = known {
            group.leases = known.leases;
            group.slots = known.slots;
            group.next_due = known.next_due;
            group.full = known.full;
        } else {
            self.read_leases(conn, &mut group).await?;
            group.next_due = next_due(conn, id).await?;
        }
        self.group_ids.insert((group.topic, group.name.clone()), id);
        self.groups.insert(id, group);
        Ok(Some(id))
    }

    async fn read_leases(
        &mut self,
        conn: &mut SqliteConnection,
        group: &mut GroupRow,
    ) -> sqlx::Result<()> {
        let rows = query("select id, batch, lo, hi from lease where grp = ?")
            .bind(group.id.cast_signed())
            .fetch_all(conn)
            .await?;
        for row in &rows {
            let slot = unsigned(row, 0)?;
            if let Ok(leases) = record::decode_leases(slot, row.try_get(1)?) {
                for lease in leases {
                    group.slots.entry(slot).or_default().insert(lease.sequence);
                    group.leases.insert(lease);
                }
            } else {
                let broken = BrokenSlot { slot, lo: unsigned(row, 2)?, hi: unsigned(row, 3)? };
                self.broken.push((group.id, broken));
            }
        }
        Ok(())
    }
}

/// Earliest due time of what waits.
pub(super) const NEXT_DUE: &str = "select min(due) from waiting where grp = ? and state < 2";

/// Earliest due time of what waits in a group.
pub(super) async fn next_due(
    conn: &mut SqliteConnection,
    group: u64,
) -> sqlx::Result<Option<Timestamp>> {
    let row = query(NEXT_DUE).bind(group.cast_signed()).fetch_one(conn).await?;
    Ok(row.try_get::<Option<i64>, _>(0)?.map(|due| Timestamp(due.cast_unsigned())))
}

/// A topic's limits, from six columns.
pub(super) fn limits(row: &sqlx::sqlite::SqliteRow, at: usize) -> sqlx::Result<TopicLimits> {
    let some = |at: usize| row.try_get::<Option<i64>, _>(at).map(|n| n.map(i64::cast_unsigned));
    let retain = some(at + 3)?.zip(some(at + 4)?);
    Ok(TopicLimits {
        max_messages: unsigned(row, at)?,
        max_bytes: unsigned(row, at + 1)?,
        dedup_window: Duration::from_millis(unsigned(row, at + 2)?),
        retain: retain.map(|(span, messages)| (Duration::from_millis(span), messages)),
        max_age: some(at + 5)?.map(Duration::from_millis),
    })
}

/// A column that never holds a negative number.
pub(super) fn unsigned(row: &sqlx::sqlite::SqliteRow, at: usize) -> sqlx::Result<u64> {
    Ok(row.try_get::<Option<i64>, _>(at)?.unwrap_or(0).cast_unsigned())
}

/// A column of JSON written by us; where it cannot be read its default stands in, so that the
/// record costs itself and not the topic.
fn json<T: serde::de::DeserializeOwned + Default>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| {
        tracing::error!(%error, text, "a record of the log cannot be read; its default is used");
        T::default()
    })
}

fn decode(error: windlass_core::NameError) -> sqlx::Error {
    sqlx::Error::Decode(Box::new(error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{ConnectOptions, Connection};

    /// Found by the model: the number of a deleted topic was another's, and its old name led there.
    #[tokio::test]
    async fn a_number_given_again_leads_to_one_name_only() {
        let mut conn =
            sqlx::sqlite::SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut conn).await.unwrap();
        let (old, new) = (Topic::new("old").unwrap(), Topic::new("new").unwrap());
        let mut cache = Cache::default();
        cache.seen(1);
        sqlx::raw_sql("insert into topic values (7, 'old', 0, 0, 0, 0, 0, 0, '[]', '[]', 0, 1, 1, 1, null, null, null)")
            .execute(&mut conn)
            .await
            .unwrap();
        assert_eq!(cache.topic(&mut conn, &old).await.unwrap(), Some(TopicId(7)));
        sqlx::raw_sql("update topic set name = 'new'").execute(&mut conn).await.unwrap();
        cache.seen(2);
        assert_eq!(cache.topic(&mut conn, &new).await.unwrap(), Some(TopicId(7)));
        assert_eq!(cache.topic(&mut conn, &old).await.unwrap(), None);
        assert_eq!(cache.topic_row(TopicId(7)).unwrap().name, new, "that is still known");
        conn.close().await.unwrap();
    }
}
