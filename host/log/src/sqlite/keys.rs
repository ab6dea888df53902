//! One at a time of each key (law 10): which keys are busy in a group, and whose way becomes free.
//!
//! Of the messages of a key that a group has passed and not settled, one is leased or waits for a
//! time; all others are parked behind it.

use super::cache::{Cache, unsigned};
use super::command::Fail;
use super::pending::Pending;
use super::sql::json_hashes;
use super::writer::Writer;
use sqlx::query;
use sqlx::sqlite::SqliteConnection;
use std::collections::{BTreeSet, HashSet};
use windlass_core::Timestamp;

/// Which of some keys have a row that waits.
pub(super) const WAITING_KEYS: &str = "select distinct key_hash from waiting
    where grp = ? and key_hash in (select value from json_each(?))";
/// The first parked message of each of some keys.
const UNPARK: &str =
    "update waiting set state = case when due > ?1 then 1 else 0 end, due = max(due, ?1)
    where grp = ?2 and seq in
      (select (select min(w.seq) from waiting w where w.grp = ?2 and w.key_hash = v.value)
         from json_each(?3) v)";

impl Writer {
    /// Those of `keys` of which a message is leased or waits in a group.
    pub(super) async fn busy_keys(
        &mut self,
        group: u64,
        keys: BTreeSet<u64>,
    ) -> Result<HashSet<u64>, Fail> {
        let Some(row) = self.cache.group_row(group).filter(|_| !keys.is_empty()) else {
            return Ok(HashSet::new());
        };
        let mut busy: HashSet<u64> =
            keys.iter().copied().filter(|key| row.leases.has_key(*key)).collect();
        if row.waiting == 0 {
            return Ok(busy);
        }
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let (conn, _) = self.parts()?;
        let rows = query(WAITING_KEYS)
            .bind(group.cast_signed())
            .bind(json_hashes(keys))
            .fetch_all(conn)
            .await?;
        for row in &rows {
            busy.insert(unsigned(row, 0)?);
        }
        Ok(busy)
    }

    /// A message of this key is settled in a group: the next one has its turn.
    pub(super) fn free_key(&mut self, group: u64, key: Option<u64>, now: Timestamp) {
        let Some(key) = key else { return };
        let Some(row) = self.cache.group_row_mut(group).filter(|row| row.parked > 0) else {
            return;
        };
        row.waits_until(now);
        self.pending.freed.entry((group, now)).or_default().push(key);
        self.pending.groups.insert(group);
    }
}

impl Pending {
    /// Gives the next message of each key whose way became free its turn.
    pub(super) async fn unpark(
        &mut self,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        for ((group, now), keys) in std::mem::take(&mut self.freed) {
            let unparked = query(UNPARK)
                .bind(now.0.cast_signed())
                .bind(group.cast_signed())
                .bind(json_hashes(keys))
                .execute(&mut *conn)
                .await?;
            if let Some(row) = cache.group_row_mut(group) {
                row.parked = row.parked.saturating_sub(unparked.rows_affected());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{ConnectOptions, Connection, Row};

    /// Whatever waits behind a key, its first one is found at once.
    #[tokio::test]
    async fn no_statement_of_keys_scans_or_sorts() {
        let mut conn =
            sqlx::sqlite::SqliteConnectOptions::new().in_memory(true).connect().await.unwrap();
        sqlx::raw_sql(include_str!("schema.sql")).execute(&mut conn).await.unwrap();
        for statement in [WAITING_KEYS, UNPARK] {
            let explain = format!("explain query plan {statement}");
            let rows = query(sqlx::AssertSqlSafe(explain)).fetch_all(&mut conn).await.unwrap();
            for row in rows {
                let step: String = row.get("detail");
                let list = step.ends_with("VIRTUAL TABLE INDEX 1:");
                assert!(list || !step.starts_with("SCAN"), "{statement}: {step}");
            }
        }
        conn.close().await.unwrap();
    }
}
