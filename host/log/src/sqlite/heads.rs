//! The rows of topics, groups and the log itself, as a transaction leaves them.
//!
//! Nearly every transaction writes a topic's and a group's counters, so those are statements of
//! their own; what seldom changes is written only when it did.

use super::cache::Cache;
use super::pending::{Pending, int};
use super::sql::{ManyRows, Script};
use sqlx::query;
use sqlx::sqlite::SqliteConnection;

static TOPICS: ManyRows = ManyRows::insert(
    "topic(id, name, published, published_bytes, removed, removed_bytes, swept, stragglers,
       gone, unclaimed, floors)",
    11,
    "on conflict(id) do update set published = excluded.published,
       published_bytes = excluded.published_bytes, removed = excluded.removed,
       removed_bytes = excluded.removed_bytes, swept = excluded.swept,
       stragglers = excluded.stragglers, gone = excluded.gone, unclaimed = excluded.unclaimed,
       floors = excluded.floors",
);

static PUBLISHED: ManyRows = ManyRows::update("topic", &["published", "published_bytes"], "id");
static MOVED: ManyRows = ManyRows::update(
    "grp",
    &["cursor", "passed", "passed_bytes", "version", "waiting", "waiting_bytes", "dead", "parked"],
    "id",
);

impl Pending {
    /// The rows of topics, groups and the log itself.
    pub(super) async fn join_heads(
        &mut self,
        script: &mut Script,
        conn: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> sqlx::Result<()> {
        self.join_topics(script, conn, cache).await?;
        for id in std::mem::take(&mut self.policies) {
            let Some(row) = cache.group_row(id) else { return Err(stale("group")) };
            query("update grp set policy = ? where id = ?")
                .bind(serde_json::to_string(&row.policy).map_err(encode)?)
                .bind(int(id))
                .execute(&mut *conn)
                .await?;
        }
        let mut moved = Vec::new();
        for id in std::mem::take(&mut self.groups) {
            let Some(row) = cache.group_row_mut(id) else { return Err(stale("group")) };
            row.version += 1;
            self.written_groups.insert(id);
            let (passed, bytes) = (row.passed, row.passed_bytes);
            let waits = [row.waiting, row.waiting_bytes, row.dead, row.parked];
            let [n, size, dead, parked] = waits;
            moved.push([row.cursor.0, passed, bytes, row.version, n, size, dead, parked, id]);
        }
        MOVED.join(script, conn, moved, |args, row| args.push_all(row.map(int))).await?;
        if std::mem::take(&mut self.settings) {
            let state = cache.state(conn).await?;
            query(
                "update state set topics_declared = ?, retain_ms = ?, retain_messages = ?
                  where id = 1",
            )
            .bind(state.declared_only)
            .bind(int(state.retain_ms))
            .bind(int(state.retain_messages))
            .execute(&mut *conn)
            .await?;
        }
        if std::mem::take(&mut self.state) {
            let state = cache.state(conn).await?;
            script
                .add("update state set next_sequence = ?, last_ms = ?, next_slot = ? where id = 1");
            for number in [state.next_sequence, state.last_ms, state.next_slot] {
                script.bind(int(number));
            }
        }
        Ok(())
    }

    async fn join_topics(
        &mut self,
        script: &mut Script,
        conn: &mut SqliteConnection,
        cache: &Cache,
    ) -> sqlx::Result<()> {
        let mut topics = Vec::new();
        for id in std::mem::take(&mut self.topics) {
            self.published.remove(&id);
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
                row.gone,
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
        let mut published = Vec::new();
        for id in std::mem::take(&mut self.published) {
            let Some(row) = cache.topic_row(id) else { return Err(stale("topic")) };
            published.push([row.published, row.published_bytes, id.0]);
        }
        PUBLISHED.join(script, conn, published, |args, row| args.push_all(row.map(int))).await
    }
}

/// A row that was changed must have been read in this transaction.
fn stale(what: &'static str) -> sqlx::Error {
    sqlx::Error::Protocol(format!("a {what} changed that was not read"))
}

fn encode(error: serde_json::Error) -> sqlx::Error {
    sqlx::Error::Encode(Box::new(error))
}
