//! The bare machine under the log: SQLite with the statements a row queue needs, and nothing else.
//!
//! Windlass's figures are divided by these, so nothing here may be made slower than it need be: one
//! connection, WAL, synchronous FULL, 64 rows a statement, cached statements, no copies of SQL.

use super::figures::rate;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row, query};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// Rows of one insert, which is one commit.
pub(super) const INSERT: usize = 64;
/// Rows claimed in one commit and deleted in the next.
pub(super) const CLAIM: usize = 256;

const SCHEMA: &str = "
    create table m(seq integer primary key autoincrement, topic int, due int, token int,
      attempts int, payload blob);
    create index ready on m(topic, due, seq) where token is null;
    create index leased on m(topic, due, seq) where token is not null";

/// A queue of rows in a file of its own.
pub(super) struct RowQueue {
    conn: SqliteConnection,
    insert: Arc<str>,
    payload: usize,
}

impl RowQueue {
    /// A new one at `file`.
    pub(super) async fn open(file: &Path, payload: usize) -> sqlx::Result<Self> {
        let mut conn = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(false)
            .disable_statement_logging()
            .connect()
            .await?;
        conn.execute(SCHEMA).await?;
        let rows = vec!["(1,0,null,0,?)"; INSERT].join(",");
        let insert = format!("insert into m(topic,due,token,attempts,payload) values {rows}");
        Ok(Self { conn, insert: insert.into(), payload })
    }

    /// Inserts `rows` (a multiple of [`INSERT`]), one statement a commit; rows a second.
    pub(super) async fn insert(&mut self, rows: usize) -> sqlx::Result<f64> {
        let since = Instant::now();
        for _ in 0..rows / INSERT {
            let mut insert = query(AssertSqlSafe(Arc::clone(&self.insert)));
            for _ in 0..INSERT {
                insert = insert.bind(vec![7_u8; self.payload]);
            }
            query("begin immediate").execute(&mut self.conn).await?;
            insert.execute(&mut self.conn).await?;
            query("commit").execute(&mut self.conn).await?;
        }
        Ok(rate(rows, since.elapsed()))
    }

    /// Claims and deletes `rows` of those inserted; rows a second.
    pub(super) async fn claim_delete(&mut self, rows: usize) -> sqlx::Result<f64> {
        let since = Instant::now();
        let mut done = 0;
        while done < rows {
            query("begin immediate").execute(&mut self.conn).await?;
            let claimed = query(
                "update m set token=7, attempts=attempts+1, due=99 where seq in
                 (select seq from m where topic=1 and token is null and due<=5
                  order by due,seq limit 256)
                 returning seq, payload, attempts",
            )
            .fetch_all(&mut self.conn)
            .await?;
            query("commit").execute(&mut self.conn).await?;
            if claimed.is_empty() {
                return Err(sqlx::Error::RowNotFound);
            }
            done += claimed.len();
            let ids: Vec<String> =
                claimed.iter().map(|row| row.get::<i64, _>(0).to_string()).collect();
            query("begin immediate").execute(&mut self.conn).await?;
            query("delete from m where token=7 and seq in (select value from json_each(?))")
                .bind(format!("[{}]", ids.join(",")))
                .execute(&mut self.conn)
                .await?;
            query("commit").execute(&mut self.conn).await?;
        }
        Ok(rate(rows, since.elapsed()))
    }

    /// Closes the file.
    pub(super) async fn close(self) -> sqlx::Result<()> {
        self.conn.close().await
    }
}

/// Messages a second through inserting, and claiming and deleting, one after the other.
pub(super) fn pipeline(insert: f64, claim_delete: f64) -> f64 {
    1.0 / (1.0 / insert + 1.0 / claim_delete)
}
