//! Claiming: ended leases first, then what waited and is due, then new messages (law 6).

use super::cache::{next_due, unsigned};
use super::command::Fail;
use super::record;
use super::rows::TopicId;
use super::sql::json_list;
use super::writer::Writer;
use crate::api::{Claim, ClaimRequest, Prefer, UNTRIED_LOOK};
use crate::error::LogError;
use sqlx::{Row, query};
use std::sync::Arc;
use windlass_core::lease::Lease;
use windlass_core::{GroupPolicy, Sequence, Timestamp};

/// What waits and is due, with its message. `state < 2` is the partial index's own condition.
const DUE: &str = "select w.seq, w.size, w.attempts, w.failures, w.first_at, w.key_hash, m.record
    from waiting w left join message m on m.id = ?1 + w.seq
    where w.grp = ?2 and w.state < 2 and w.due <= ?3 order by w.due, w.seq limit ?4";
/// The same of those that have been tried least, of the first so many that are due. Their order is
/// a sort of these; the inner part walks the index of what is due.
const LEAST_TRIED: &str = "select w.seq, w.size, w.attempts, w.failures, w.first_at, w.key_hash,
      m.record
    from (select seq, due, attempts from waiting
           where grp = ?2 and state < 2 and due <= ?3 order by due, seq limit ?5) d
    join waiting w on w.grp = ?2 and w.seq = d.seq
    left join message m on m.id = ?1 + w.seq
    order by d.attempts, d.due, d.seq limit ?4";

/// What a delivery was before this claim.
pub(super) struct Before {
    pub(super) sequence: Sequence,
    pub(super) size: u64,
    pub(super) attempts: u32,
    pub(super) failures: u32,
    pub(super) first_at: Option<Timestamp>,
    pub(super) key_hash: Option<u64>,
}

/// One claim in the making.
pub(super) struct Claiming {
    pub(super) group: u64,
    pub(super) topic: TopicId,
    pub(super) policy: GroupPolicy,
    pub(super) worker: Arc<str>,
    pub(super) now: Timestamp,
    pub(super) until: Timestamp,
    pub(super) slot: Option<u64>,
    pub(super) claims: Vec<Claim>,
    pub(super) max: usize,
}

impl Claiming {
    pub(super) fn room(&self) -> usize {
        self.max - self.claims.len()
    }
}

impl Writer {
    /// Up to `max` messages under a lease.
    pub(super) async fn claim(&mut self, request: ClaimRequest) -> Result<Vec<Claim>, Fail> {
        let now = self.time.now();
        let (topic, group) = self.group_for(&request).await?;
        let Some(row) = self.cache.group_row(group) else {
            return Err(Fail::Storage(sqlx::Error::RowNotFound));
        };
        let policy = row.policy.clone();
        let until = now.after(policy.lease);
        let mut claiming = Claiming {
            group,
            topic,
            policy,
            worker: request.worker,
            now,
            until,
            slot: None,
            claims: Vec::new(),
            max: request.max.get(),
        };
        self.bury_exhausted(group, now)?;
        match request.prefer {
            Prefer::Order => {
                self.claim_ended(&mut claiming).await?;
                self.claim_due(&mut claiming, DUE).await?;
                self.claim_new(&mut claiming).await?;
            }
            Prefer::Untried => {
                self.claim_new(&mut claiming).await?;
                self.claim_due(&mut claiming, LEAST_TRIED).await?;
                self.claim_ended(&mut claiming).await?;
            }
        }
        Ok(claiming.claims)
    }

    /// The request's group; declared by it where it carries a start.
    async fn group_for(&mut self, request: &ClaimRequest) -> Result<(TopicId, u64), Fail> {
        let (conn, cache) = self.parts()?;
        let topic = cache.topic(conn, &request.topic).await?;
        if let Some(topic) = topic
            && let Some(group) = cache.group(conn, topic, &request.group).await?
        {
            return Ok((topic, group));
        }
        let Some(start) = request.start else {
            let (topic, group) = (request.topic.clone(), request.group.clone());
            return Err(LogError::NoGroup { topic, group }.into());
        };
        self.check_new_topics(std::iter::once(&request.topic)).await?;
        let topic = self.topic_or_new(&request.topic).await?;
        let group = self.create_group(topic, &request.group, GroupPolicy::default(), start).await?;
        Ok((topic, group))
    }

    /// Leases that ended, but for those whose attempts are used up: they are dead by now, and were
    /// not charged to the batch.
    async fn claim_ended(&mut self, claiming: &mut Claiming) -> Result<(), Fail> {
        if claiming.now < self.grace_until {
            return Ok(());
        }
        let max_attempts = claiming.policy.max_attempts.get();
        let in_flight_max =
            usize::try_from(claiming.policy.in_flight_max.get()).unwrap_or(usize::MAX);
        let Some(group) = self.cache.group_row(claiming.group) else { return Ok(()) };
        // A lease of nothing that this claim has just made has ended too; it is given already.
        let own = claiming.slot;
        let earlier = |lease: &&Lease| Some(lease.slot) != own;
        let live = group.leases.len() - group.leases.ended(claiming.now).filter(earlier).count();
        let room = claiming.room().min(in_flight_max.saturating_sub(live));
        let ended: Vec<Lease> = group
            .leases
            .ended(claiming.now)
            .filter(earlier)
            .filter(|lease| lease.attempt < max_attempts)
            .take(room)
            .cloned()
            .collect();
        if ended.is_empty() {
            return Ok(());
        }
        let sequences: Vec<Sequence> = ended.iter().map(|lease| lease.sequence).collect();
        let mut messages = self.read_messages(claiming.topic, &sequences).await?;
        for lease in ended {
            self.note_ended(claiming.group, &lease, claiming.now)?;
            let before = Before {
                sequence: lease.sequence,
                size: lease.size,
                attempts: lease.attempt,
                failures: lease.failures + 1,
                first_at: Some(lease.first_at),
                key_hash: lease.key_hash,
            };
            match messages.remove(&lease.sequence) {
                Some(message) => self.grant(claiming, before, message).await?,
                None => self.bury_unreadable(claiming, &before)?,
            }
        }
        Ok(())
    }

    /// What waited and is due, as `statement` finds it.
    async fn claim_due(
        &mut self,
        claiming: &mut Claiming,
        statement: &'static str,
    ) -> Result<(), Fail> {
        let limit = self.in_flight_room(claiming).min(self.rows_at_once(claiming));
        let due = self.cache.group_row(claiming.group).and_then(|group| group.next_due);
        if limit == 0 || due.is_none_or(|due| due > claiming.now) {
            return Ok(());
        }
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let (conn, cache) = self.parts()?;
        let Some(topic) = cache.topic_row(claiming.topic).map(|row| row.name.clone()) else {
            return Ok(());
        };
        let mut wanted = query(statement)
            .bind(claiming.topic.rowid(Sequence(0)))
            .bind(claiming.group.cast_signed())
            .bind(claiming.now.0.cast_signed())
            .bind(limit as i64);
        if statement == LEAST_TRIED {
            wanted = wanted.bind(UNTRIED_LOOK as i64);
        }
        let rows = wanted.fetch_all(&mut *conn).await?;
        let mut taken = Vec::with_capacity(rows.len());
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let before = Before {
                sequence: Sequence(unsigned(row, 0)?),
                size: unsigned(row, 1)?,
                attempts: row.try_get(2)?,
                failures: row.try_get(3)?,
                first_at: row.try_get::<Option<i64>, _>(4)?.map(|at| Timestamp(at.cast_unsigned())),
                key_hash: row.try_get::<Option<i64>, _>(5)?.map(i64::cast_unsigned),
            };
            taken.push(before.sequence.0);
            let record = row.try_get::<Option<Vec<u8>>, _>(6)?.unwrap_or_default();
            found.push((record::decode_message(&topic, before.sequence, record), before));
        }
        query("delete from waiting where grp = ? and seq in (select value from json_each(?))")
            .bind(claiming.group.cast_signed())
            .bind(json_list(taken))
            .execute(&mut *conn)
            .await?;
        let due = next_due(conn, claiming.group).await?;
        let bytes = found.iter().map(|(_, before)| before.size).sum::<u64>();
        if let Some(group) = cache.group_row_mut(claiming.group) {
            group.waiting = group.waiting.saturating_sub(found.len() as u64);
            group.waiting_bytes = group.waiting_bytes.saturating_sub(bytes);
            group.next_due = due;
        }
        self.pending.groups.insert(claiming.group);
        for (message, before) in found {
            match message {
                Ok(message) => self.grant(claiming, before, Arc::new(message)).await?,
                Err(record::Unreadable) => self.bury_unreadable(claiming, &before)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::cache::NEXT_DUE;
    use crate::sqlite::fresh::NEW;
    use crate::sqlite::grant::BY_SEQUENCE;
    use sqlx::{ConnectOptions, Connection};

    /// The cost of a claim must not depend on the backlog: its queries search, never scan or sort.
    #[tokio::test]
    async fn no_statement_of_a_claim_scans_or_sorts() {
        let mut conn =
            sqlx::sqlite::SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut conn).await.unwrap();
        for statement in [DUE, NEW, BY_SEQUENCE, NEXT_DUE] {
            let explain = format!("explain query plan {statement}");
            let rows = query(sqlx::AssertSqlSafe(explain)).fetch_all(&mut conn).await.unwrap();
            for row in rows {
                let step: String = row.get("detail");
                let list = step == "SCAN json_each VIRTUAL TABLE INDEX 1:";
                assert!(list || !step.starts_with("SCAN"), "{statement}: {step}");
                assert!(!step.contains("B-TREE"), "{statement}: {step}");
            }
        }
        // A probe sorts what it has found, which is bounded, and finds that by its index.
        let explain = format!("explain query plan {LEAST_TRIED}");
        let rows = query(sqlx::AssertSqlSafe(explain)).fetch_all(&mut conn).await.unwrap();
        let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
        let by_index = "SEARCH waiting USING INDEX waiting_due (grp=? AND due<?)";
        assert!(steps.iter().any(|step| step == by_index), "{steps:?}");
        conn.close().await.unwrap();
    }
}
