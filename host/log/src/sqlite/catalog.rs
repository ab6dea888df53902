//! What is deployed, as rows. The version says whether anything is as somebody has seen it.

use super::SqliteLog;
use super::cache::unsigned;
use super::command::{Command, Fail};
use super::pending::int;
use super::writer::Writer;
use crate::deployments::{
    Change, Deployed, Deployment, Deployments, REVISIONS_KEPT, Revision, Told,
};
use crate::error::LogError;
use async_trait::async_trait;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};

/// What a server says.
pub(super) enum Said {
    /// Of a consumer.
    Consumer(String, Told),
    /// It has taken up this version.
    Taken(u64),
}

const COLUMNS: &str = "consumer, number, digest, config, at, failed";

#[async_trait]
impl Deployments for SqliteLog {
    async fn deployed(&self) -> Result<Deployed, LogError> {
        self.read(async |conn| deployed(conn).await).await
    }

    async fn deployed_version(&self) -> Result<u64, LogError> {
        self.read(async |conn| version(conn).await).await
    }

    async fn revisions(&self, consumer: &str) -> Result<Vec<Revision>, LogError> {
        self.read(async |conn| revisions(conn, consumer).await).await
    }

    async fn deploy(&self, seen: u64, changes: Vec<Change>) -> Result<Option<u64>, LogError> {
        self.ask(|reply| Command::Deploy(seen, changes, reply)).await
    }

    async fn tell_deployment(&self, consumer: &str, told: Told) -> Result<(), LogError> {
        let said = Said::Consumer(consumer.to_owned(), told);
        self.ask(|reply| Command::Tell(said, reply)).await
    }

    async fn tell_taken(&self, version: u64) -> Result<(), LogError> {
        self.ask(|reply| Command::Tell(Said::Taken(version), reply)).await
    }
}

async fn version(conn: &mut SqliteConnection) -> sqlx::Result<u64> {
    let row = query("select deployed from state").fetch_one(conn).await?;
    unsigned(&row, 0)
}

async fn deployed(conn: &mut SqliteConnection) -> sqlx::Result<Deployed> {
    let row = query("select deployed, taken from state").fetch_one(&mut *conn).await?;
    let (version, taken) = (unsigned(&row, 0)?, unsigned(&row, 1)?);
    let rows = query(
        "select r.consumer, r.number, r.digest, r.config, r.at, r.failed, d.paused,
           d.told_revision, d.told_state, d.told_text, d.told_at, d.told_proven
         from deployment d join revision r on r.consumer = d.consumer and r.number = d.revision
         order by d.consumer",
    )
    .fetch_all(conn)
    .await?;
    let deployments = rows.iter().map(deployment).collect::<sqlx::Result<_>>()?;
    Ok(Deployed { version, taken, deployments })
}

fn deployment(row: &SqliteRow) -> sqlx::Result<Deployment> {
    let told = match row.try_get::<Option<i64>, _>(7)? {
        None => None,
        Some(_) => Some(Told {
            revision: unsigned(row, 7)?,
            state: row.try_get(8)?,
            text: row.try_get(9)?,
            at_ms: unsigned(row, 10)?,
            proven: unsigned(row, 11)? != 0,
        }),
    };
    let paused = row.try_get::<i64, _>(6)? != 0;
    Ok(Deployment { revision: revision(row)?, paused, told })
}

fn revision(row: &SqliteRow) -> sqlx::Result<Revision> {
    Ok(Revision {
        consumer: row.try_get(0)?,
        number: unsigned(row, 1)?,
        digest: row.try_get(2)?,
        config: row.try_get(3)?,
        at_ms: unsigned(row, 4)?,
        failed: row.try_get(5)?,
    })
}

async fn revisions(conn: &mut SqliteConnection, consumer: &str) -> sqlx::Result<Vec<Revision>> {
    let sql = format!("select {COLUMNS} from revision where consumer = ? order by number desc");
    let rows = query(sqlx::AssertSqlSafe(sql)).bind(consumer).fetch_all(conn).await?;
    rows.iter().map(revision).collect()
}

impl Writer {
    /// Makes all changes where everything is as it was seen; the version then.
    pub(super) async fn deploy(
        &mut self,
        seen: u64,
        changes: Vec<Change>,
    ) -> Result<Option<u64>, Fail> {
        let at_ms = self.time.clock().wall_ms();
        let (conn, _) = self.parts()?;
        if version(conn).await? != seen {
            return Ok(None);
        }
        // Judged before anything is written: what is written stays with the others' commit.
        if !are_possible(conn, &changes).await? {
            return Ok(None);
        }
        for change in changes {
            make(conn, change, at_ms).await?;
        }
        query("update state set deployed = deployed + 1").execute(&mut *conn).await?;
        Ok(Some(seen + 1))
    }

    /// Keeps what a server says.
    pub(super) async fn tell(&mut self, said: Said) -> Result<(), Fail> {
        let (conn, _) = self.parts()?;
        let (consumer, told) = match said {
            Said::Consumer(consumer, told) => (consumer, told),
            Said::Taken(version) => {
                query("update state set taken = ?").bind(int(version)).execute(conn).await?;
                return Ok(());
            }
        };
        query(
            "update deployment set told_revision = ?, told_state = ?, told_text = ?, told_at = ?,
               told_proven = ? where consumer = ?",
        )
        .bind(int(told.revision))
        .bind(&told.state)
        .bind(&told.text)
        .bind(int(told.at_ms))
        .bind(i64::from(told.proven))
        .bind(consumer)
        .execute(conn)
        .await?;
        Ok(())
    }
}

/// Whether every consumer and revision that `changes` name is there when its turn comes.
async fn are_possible(conn: &mut SqliteConnection, changes: &[Change]) -> sqlx::Result<bool> {
    let mut deployed: Vec<String> = query("select consumer from deployment")
        .fetch_all(&mut *conn)
        .await?
        .iter()
        .map(|row| row.try_get(0))
        .collect::<sqlx::Result<_>>()?;
    for change in changes {
        let (Change::Serve { consumer, .. }
        | Change::Return { consumer, .. }
        | Change::Pause { consumer, .. }
        | Change::Withdraw { consumer }) = change;
        let is_there = deployed.contains(consumer);
        match change {
            Change::Serve { .. } if !is_there => deployed.push(consumer.clone()),
            Change::Serve { .. } => {}
            _ if !is_there => return Ok(false),
            Change::Return { to, .. } => {
                let found = query("select 1 from revision where consumer = ? and number = ?")
                    .bind(consumer)
                    .bind(int(*to))
                    .fetch_optional(&mut *conn)
                    .await?;
                if found.is_none() {
                    return Ok(false);
                }
            }
            Change::Pause { .. } => {}
            Change::Withdraw { .. } => deployed.retain(|of| of != consumer),
        }
    }
    Ok(true)
}

async fn make(conn: &mut SqliteConnection, change: Change, at_ms: u64) -> sqlx::Result<()> {
    match change {
        Change::Serve { consumer, digest, config } => {
            let newest = query("select coalesce(max(number), 0) from revision where consumer = ?")
                .bind(&consumer)
                .fetch_one(&mut *conn)
                .await?;
            let number = unsigned(&newest, 0)? + 1;
            query("delete from revision where consumer = ? and number < ?")
                .bind(&consumer)
                .bind(int(number.saturating_sub(REVISIONS_KEPT)))
                .execute(&mut *conn)
                .await?;
            query("insert into revision(consumer, number, digest, config, at) values (?,?,?,?,?)")
                .bind(&consumer)
                .bind(int(number))
                .bind(digest)
                .bind(config)
                .bind(int(at_ms))
                .execute(&mut *conn)
                .await?;
            query(
                "insert into deployment(consumer, revision, paused) values (?, ?, 0)
                 on conflict(consumer) do update set revision = excluded.revision",
            )
            .bind(consumer)
            .bind(int(number))
            .execute(conn)
            .await?;
        }
        Change::Return { consumer, to, failed } => {
            if let Some(why) = failed {
                query(
                    "update revision set failed = ?1 where consumer = ?2 and number =
                       (select revision from deployment where consumer = ?2)",
                )
                .bind(why)
                .bind(&consumer)
                .execute(&mut *conn)
                .await?;
            }
            query("update deployment set revision = ? where consumer = ?")
                .bind(int(to))
                .bind(consumer)
                .execute(conn)
                .await?;
        }
        Change::Pause { consumer, paused } => {
            query("update deployment set paused = ? where consumer = ?")
                .bind(i64::from(paused))
                .bind(consumer)
                .execute(conn)
                .await?;
        }
        Change::Withdraw { consumer } => {
            query("delete from deployment where consumer = ?").bind(consumer).execute(conn).await?;
        }
    }
    Ok(())
}
