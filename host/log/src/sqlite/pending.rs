//! What a transaction has yet to write, gathered so that many rows go in one statement.
//!
//! Knows tables, not laws: the commands say what changes, [`Pending::flush`] writes it.

use super::cache::Cache;
use super::record;
use super::rows::TopicId;
use super::sql::{ManyRows, json_list};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{Sequence, Timestamp};

/// A row of `waiting`.
#[derive(Debug, Clone)]
pub(super) struct WaitingRow {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
    pub(super) due: Timestamp,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) first_at: Option<Timestamp>,
    pub(super) size: u64,
    pub(super) key_hash: Option<u64>,
}

/// A row of `dead`.
#[derive(Debug, Clone)]
pub(super) struct DeadRow {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
    pub(super) at: Timestamp,
    pub(super) reason: String,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) size: u64,
}

/// A row of `history`.
#[derive(Debug, Clone)]
pub(super) struct HistoryRow {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
    pub(super) n: u32,
    pub(super) record: String,
}

/// Writes that are still to be made.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) messages: Vec<(i64, u64, Vec<u8>)>,
    pub(super) waiting: Vec<WaitingRow>,
    pub(super) dead: Vec<DeadRow>,
    pub(super) history: Vec<HistoryRow>,
    /// Entries of a history that give way to newer ones.
    pub(super) history_dropped: Vec<(u64, Sequence, u32)>,
    /// Histories of messages that are settled, by group.
    pub(super) history_done: BTreeMap<u64, Vec<u64>>,
    /// Messages at or before what the sweep has looked at, which a group let go.
    pub(super) let_go: BTreeMap<TopicId, Vec<u64>>,
    /// Slots whose leases changed: group, slot.
    pub(super) slots: BTreeSet<(u64, u64)>,
    pub(super) topics: BTreeSet<TopicId>,
    pub(super) groups: BTreeSet<u64>,
    pub(super) state: bool,
    /// Groups written in this transaction, for waking.
    pub(super) written_groups: BTreeSet<u64>,
}

static MESSAGES: ManyRows =
    ManyRows::new("insert into message(id, size, record) values", "(?,?,?)", "");
static WAITING: ManyRows = ManyRows::new(
    "insert into waiting(grp, seq, state, due, attempts, failures, first_at, size, key_hash) values",
    "(?,?,0,?,?,?,?,?,?)",
    "",
);
static DEAD: ManyRows = ManyRows::new(
    "insert into dead(grp, seq, at, reason, attempts, failures, size) values",
    "(?,?,?,?,?,?,?)",
    "",
);
static HISTORY: ManyRows = ManyRows::new(
    "insert into history(grp, seq, n, record) values",
    "(?,?,?,?)",
    "on conflict(grp, seq, n) do update set record = excluded.record",
);
static LEASES: ManyRows = ManyRows::new(
    "insert into lease(id, grp, until, lo, hi, n, bytes, batch) values",
    "(?,?,?,?,?,?,?,?)",
    "on conflict(id) do update set until = excluded.until, lo = excluded.lo, hi = excluded.hi,
       n = excluded.n, bytes = excluded.bytes, batch = excluded.batch",
);
static TOPICS: ManyRows = ManyRows::new(
    "insert into topic(id, name, published, published_bytes, removed, removed_bytes, swept,
       stragglers, unclaimed, floors) values",
    "(?,?,?,?,?,?,?,?,?,?)",
    "on conflict(id) do update set published = excluded.published,
       published_bytes = excluded.published_bytes, removed = excluded.removed,
       removed_bytes = excluded.removed_bytes, swept = excluded.swept,
       stragglers = excluded.stragglers, unclaimed = excluded.unclaimed,
       floors = excluded.floors",
);
static GROUPS: ManyRows = ManyRows::new(
    "insert into grp(id, topic, name, cursor, passed, passed_bytes, version, waiting, dead, policy)
     values",
    "(?,?,?,?,?,?,?,?,?,?)",
    "on conflict(id) do update set cursor = excluded.cursor, passed = excluded.passed,
       passed_bytes = excluded.passed_bytes, version = excluded.version,
       waiting = excluded.waiting, dead = excluded.dead, policy = excluded.policy",
);

/// A row that was changed must have been read in this transaction.
fn stale(what: &'static str) -> sqlx::Error {
    sqlx::Error::Protocol(format!("a {what} changed that was not read"))
}

fn int(number: u64) -> i64 {
    number.cast_signed()
}

impl Pending {
    /// Whether a query could miss something that is not written yet.
    pub(super) fn hides_rows(&self) -> bool {
        !self.messages.is_empty() || !self.waiting.is_empty()
    }

    /// Writes messages and waiting rows, so that queries see them.
    pub(super) async fn flush_rows(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        let messages = std::mem::take(&mut self.messages);
        MESSAGES
            .run(conn, messages, |args, (id, size, record)| {
                args.push(id);
                args.push(int(size));
                args.push(record);
            })
            .await?;
        let waiting = std::mem::take(&mut self.waiting);
        WAITING
            .run(conn, waiting, |args, row| {
                args.push(int(row.group));
                args.push(int(row.sequence.0));
                args.push(int(row.due.0));
                args.push(row.attempts);
                args.push(row.failures);
                args.push(row.first_at.map(|at| int(at.0)));
                args.push(int(row.size));
                args.push(row.key_hash.map(int));
            })
            .await
    }

    /// Writes everything; the cache says what rows have become.
    pub(super) async fn flush(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        self.flush_rows(conn).await?;
        self.flush_ends(conn).await?;
        self.flush_slots(conn, cache).await?;
        self.flush_let_go(conn, cache).await?;
        self.flush_heads(conn, cache).await
    }

    /// Dead letters and histories.
    async fn flush_ends(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        DEAD.run(conn, std::mem::take(&mut self.dead), |args, row| {
            args.push(int(row.group));
            args.push(int(row.sequence.0));
            args.push(int(row.at.0));
            args.push(row.reason);
            args.push(row.attempts);
            args.push(row.failures);
            args.push(int(row.size));
        })
        .await?;
        HISTORY
            .run(conn, std::mem::take(&mut self.history), |args, row| {
                args.push(int(row.group));
                args.push(int(row.sequence.0));
                args.push(row.n);
                args.push(row.record);
            })
            .await?;
        for (group, sequence, n) in std::mem::take(&mut self.history_dropped) {
            query("delete from history where grp = ? and seq = ? and n = ?")
                .bind(int(group))
                .bind(int(sequence.0))
                .bind(n)
                .execute(&mut *conn)
                .await?;
        }
        for (group, sequences) in std::mem::take(&mut self.history_done) {
            query(
                "delete from history
                  where grp = ? and seq in (select value from json_each(?))",
            )
            .bind(int(group))
            .bind(json_list(sequences))
            .execute(&mut *conn)
            .await?;
        }
        Ok(())
    }

    async fn flush_slots(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &Cache,
    ) -> sqlx::Result<()> {
        let (mut rows, mut gone) = (Vec::new(), Vec::new());
        for (id, slot) in std::mem::take(&mut self.slots) {
            let Some(group) = cache.group_row(id) else { continue };
            let Some(sequences) = group.slots.get(&slot) else {
                gone.push(slot);
                continue;
            };
            let leases = sequences.iter().filter_map(|sequence| group.leases.get(*sequence));
            let batch = record::encode_leases(leases.clone())
                .map_err(|_| sqlx::Error::Encode("leases of one claim".into()))?;
            let until = leases.clone().map(|lease| lease.until).min().unwrap_or_default();
            let lo = sequences.first().map_or(0, |s| s.0);
            let hi = sequences.last().map_or(0, |s| s.0);
            let bytes = leases.map(|lease| lease.size).sum::<u64>();
            rows.push((slot, id, until, lo, hi, sequences.len() as u64, bytes, batch));
        }
        LEASES
            .run(conn, rows, |args, (slot, group, until, lo, hi, n, bytes, batch)| {
                for number in [slot, group, until.0, lo, hi, n, bytes] {
                    args.push(int(number));
                }
                args.push(batch);
            })
            .await?;
        if !gone.is_empty() {
            query("delete from lease where id in (select value from json_each(?))")
                .bind(json_list(gone))
                .execute(conn)
                .await?;
        }
        Ok(())
    }

    /// Removes what the sweep has passed by because a group still had it, where no group has it
    /// any more.
    async fn flush_let_go(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        for (topic, mut sequences) in std::mem::take(&mut self.let_go) {
            let groups = cache.topic_row(topic).map_or(Vec::new(), |row| row.groups.clone());
            for id in &groups {
                if cache.group_by_id(conn, *id).await?.is_some()
                    && let Some(group) = cache.group_row(*id)
                {
                    sequences.retain(|seq| {
                        let sequence = Sequence(*seq);
                        sequence <= group.cursor && group.leases.get(sequence).is_none()
                    });
                }
            }
            if sequences.is_empty() {
                continue;
            }
            let removed = query(
                "delete from message
                  where id in (select ?1 + value from json_each(?2))
                    and not exists (select 1 from waiting
                         where grp in (select value from json_each(?3)) and seq = message.id - ?1)
                    and not exists (select 1 from dead
                         where grp in (select value from json_each(?3)) and seq = message.id - ?1)
                 returning size",
            )
            .bind(topic.rowid(Sequence(0)))
            .bind(json_list(sequences))
            .bind(json_list(groups))
            .fetch_all(&mut *conn)
            .await?;
            if let Some(row) = cache.topic_row_mut(topic) {
                for size in &removed {
                    row.removed += 1;
                    row.removed_bytes += size.try_get::<i64, _>(0)?.cast_unsigned();
                    row.stragglers = row.stragglers.saturating_sub(1);
                }
                self.topics.insert(topic);
            }
        }
        Ok(())
    }

    /// The rows of topics, groups and the log itself.
    async fn flush_heads(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        let encode = |error: serde_json::Error| sqlx::Error::Encode(Box::new(error));
        let mut topics = Vec::new();
        for id in std::mem::take(&mut self.topics) {
            let Some(row) = cache.topic_row(id) else { return Err(stale("topic")) };
            let unclaimed = serde_json::to_string(&row.unclaimed).map_err(encode)?;
            let floors = serde_json::to_string(&row.floors).map_err(encode)?;
            let numbers = [
                row.published,
                row.published_bytes,
                row.removed,
                row.removed_bytes,
                row.swept,
                row.stragglers,
            ];
            topics.push((id, row.name.as_str().to_owned(), numbers, unclaimed, floors));
        }
        TOPICS
            .run(conn, topics, |args, (id, name, numbers, unclaimed, floors)| {
                args.push(int(id.0));
                args.push(name);
                for number in numbers {
                    args.push(int(number));
                }
                args.push(unclaimed);
                args.push(floors);
            })
            .await?;
        let mut groups = Vec::new();
        for id in std::mem::take(&mut self.groups) {
            let Some(row) = cache.group_row_mut(id) else { return Err(stale("group")) };
            row.version += 1;
            self.written_groups.insert(id);
            let policy = serde_json::to_string(&row.policy).map_err(encode)?;
            let numbers =
                [row.cursor.0, row.passed, row.passed_bytes, row.version, row.waiting, row.dead];
            groups.push((id, row.topic, row.name.as_str().to_owned(), numbers, policy));
        }
        GROUPS
            .run(conn, groups, |args, (id, topic, name, numbers, policy)| {
                args.push(int(id));
                args.push(int(topic.0));
                args.push(name);
                for number in numbers {
                    args.push(int(number));
                }
                args.push(policy);
            })
            .await?;
        if std::mem::take(&mut self.state) {
            let state = cache.state(conn).await?;
            query(
                "update state set next_sequence = ?, last_ms = ?, next_slot = ?,
                   topics_declared = ?, retain_ms = ?, retain_messages = ? where id = 1",
            )
            .bind(int(state.next_sequence))
            .bind(int(state.last_ms))
            .bind(int(state.next_slot))
            .bind(state.declared_only)
            .bind(int(state.retain_ms))
            .bind(int(state.retain_messages))
            .execute(conn)
            .await?;
        }
        Ok(())
    }
}
