//! What a transaction has yet to write, gathered so that many rows go in one statement.
//!
//! Knows tables, not laws: the commands say what changes, [`Pending::flush`] writes it.

use super::cache::Cache;
use super::copies::Buried;
use super::record;
use super::rows::TopicId;
use super::sql::{ManyRows, Script, json_list};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use std::collections::{BTreeMap, BTreeSet};
use windlass_core::{Sequence, Timestamp};

/// What a row of `waiting` waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitingState {
    Retry = 0,
    Delay = 1,
    Parked = 2,
}

/// A row of `waiting`.
#[derive(Debug, Clone)]
pub(super) struct WaitingRow {
    pub(super) group: u64,
    pub(super) sequence: Sequence,
    pub(super) state: WaitingState,
    pub(super) due: Timestamp,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) first_at: Option<Timestamp>,
    pub(super) last_at: Option<Timestamp>,
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
    pub(super) key_hash: Option<u64>,
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
    /// Messages given a delay.
    pub(super) delayed: Vec<(TopicId, Timestamp, Sequence)>,
    /// Keys whose way became free, by group and time: the next of each is unparked.
    pub(super) freed: BTreeMap<(u64, Timestamp), Vec<u64>>,
    pub(super) dead: Vec<DeadRow>,
    /// Of those, whose group wants a copy published.
    pub(super) buried: Vec<Buried>,
    pub(super) history: Vec<HistoryRow>,
    /// Entries of a history that give way to newer ones.
    pub(super) history_dropped: Vec<(u64, Sequence, u32)>,
    /// Histories of messages that are settled, by group.
    pub(super) history_done: BTreeMap<u64, Vec<u64>>,
    /// Messages at or before what the sweep has looked at, which a group let go.
    pub(super) let_go: BTreeMap<TopicId, Vec<u64>>,
    /// Slots whose leases changed: group, slot.
    pub(super) slots: BTreeSet<(u64, u64)>,
    /// Topics that are new, or of which more than the counts of what was published changed.
    pub(super) topics: BTreeSet<TopicId>,
    /// Topics published to.
    pub(super) published: BTreeSet<TopicId>,
    /// Groups that moved: their cursor, leases or waiting rows.
    pub(super) groups: BTreeSet<u64>,
    /// Groups with another policy.
    pub(super) policies: BTreeSet<u64>,
    /// The log's counters.
    pub(super) state: bool,
    /// What was set for the whole log.
    pub(super) settings: bool,
    /// About how many bytes of messages were written, for checkpoints.
    pub(super) written_bytes: u64,
    /// Groups written in this transaction, for waking.
    pub(super) written_groups: BTreeSet<u64>,
}

static MESSAGES: ManyRows = ManyRows::insert("message(id, size, record)", 3, "");
static WAITING: ManyRows = ManyRows::insert(
    "waiting(grp, seq, state, due, attempts, failures, first_at, last_at, size, key_hash)",
    10,
    "",
);
static DELAYED: ManyRows = ManyRows::insert("delayed(topic, due, seq)", 3, "");
static DEAD: ManyRows =
    ManyRows::insert("dead(grp, seq, at, reason, attempts, failures, size, key_hash)", 8, "");
static HISTORY: ManyRows = ManyRows::insert(
    "history(grp, seq, n, record)",
    4,
    "on conflict(grp, seq, n) do update set record = excluded.record",
);
static LEASES: ManyRows = ManyRows::insert(
    "lease(id, grp, until, lo, hi, n, bytes, batch)",
    8,
    "on conflict(id) do update set until = excluded.until, lo = excluded.lo, hi = excluded.hi,
       n = excluded.n, bytes = excluded.bytes, batch = excluded.batch",
);

/// As SQLite stores it.
pub(super) fn int(number: u64) -> i64 {
    number.cast_signed()
}

impl Pending {
    /// Whether a query could miss something that is not written yet.
    pub(super) fn hides_rows(&self) -> bool {
        !self.messages.is_empty() || self.hides_waiting()
    }

    fn hides_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.freed.is_empty()
    }

    /// Writes messages and waiting rows, so that queries see them.
    pub(super) async fn flush_rows(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        let mut script = Script::default();
        self.join_messages(&mut script, conn).await?;
        script.run(conn).await?;
        let waiting = std::mem::take(&mut self.waiting);
        WAITING
            .run(conn, waiting, |args, row| {
                args.push(int(row.group));
                args.push(int(row.sequence.0));
                args.push(row.state as i64);
                args.push(int(row.due.0));
                args.push(row.attempts);
                args.push(row.failures);
                args.push(row.first_at.map(|at| int(at.0)));
                args.push(row.last_at.map(|at| int(at.0)));
                args.push(int(row.size));
                args.push(row.key_hash.map(int));
            })
            .await?;
        self.unpark(conn, cache).await
    }

    /// Writes everything but what comes back as a script; the cache says what rows have become.
    pub(super) async fn finish(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<Script> {
        if self.hides_waiting() {
            self.flush_rows(conn, cache).await?;
        }
        self.flush_ends(conn).await?;
        self.flush_let_go(conn, cache).await?;
        let mut script = Script::default();
        self.join_slots(&mut script, conn, cache).await?;
        self.join_heads(&mut script, conn, cache).await?;
        self.join_messages(&mut script, conn).await?;
        Ok(script)
    }

    async fn join_messages(
        &mut self,
        script: &mut Script,
        conn: &mut SqliteConnection,
    ) -> sqlx::Result<()> {
        let messages = std::mem::take(&mut self.messages);
        let bytes = messages.iter().map(|(_, _, record)| record.len() as u64);
        self.written_bytes += bytes.sum::<u64>();
        MESSAGES
            .join(script, conn, messages, |args, (id, size, record)| {
                args.push(id);
                args.push(int(size));
                args.push(record);
            })
            .await?;
        let delayed = std::mem::take(&mut self.delayed);
        DELAYED
            .join(script, conn, delayed, |args, (topic, due, sequence)| {
                args.push_all([topic.0, due.0, sequence.0].map(int));
            })
            .await
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
            args.push(row.key_hash.map(int));
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

    /// Leases, a row a claim.
    async fn join_slots(
        &mut self,
        script: &mut Script,
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
            let leases: Vec<_> =
                sequences.iter().filter_map(|sequence| group.leases.get(*sequence)).collect();
            let batch = record::encode_leases(&leases)
                .map_err(|_| sqlx::Error::Encode("leases of one claim".into()))?;
            let until = leases.iter().map(|lease| lease.until).min().unwrap_or_default();
            let lo = sequences.first().map_or(0, |s| s.0);
            let hi = sequences.last().map_or(0, |s| s.0);
            let bytes = leases.iter().map(|lease| lease.size).sum::<u64>();
            rows.push((slot, id, until, lo, hi, sequences.len() as u64, bytes, batch));
        }
        LEASES
            .join(script, conn, rows, |args, (slot, group, until, lo, hi, n, bytes, batch)| {
                for number in [slot, group, until.0, lo, hi, n, bytes] {
                    args.push(int(number));
                }
                args.push(batch);
            })
            .await?;
        match gone.as_slice() {
            [] => {}
            [slot] => {
                script.add("delete from lease where id = ?");
                script.bind(int(*slot));
            }
            slots => {
                script.add("delete from lease where id in (select value from json_each(?))");
                script.bind(json_list(slots.iter().copied()));
            }
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
                 returning size, id",
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
                    row.gone = row.gone.max(TopicId::sequence(size.try_get(1)?).0);
                    row.stragglers = row.stragglers.saturating_sub(1);
                }
                self.topics.insert(topic);
            }
        }
        Ok(())
    }
}
