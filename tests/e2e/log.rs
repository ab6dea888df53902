//! Looking into a log from outside, past the program.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use windlass_core::{Disposition, Group, Message, Topic};
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_log::{ClaimRequest, DynLog, LogAdmin as _, LogError, Settlement, Start};

/// Reads all that was published to topics, as a group of its own.
pub(crate) fn read_all<'a>(
    log: &Path,
    topics: impl IntoIterator<Item = &'a str>,
) -> Vec<Arc<Message>> {
    let topics: Vec<&str> = topics.into_iter().collect();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let log = SqliteLog::open(log, OpenOptions::default()).await.unwrap();
        let log: DynLog = log;
        let mut messages = Vec::new();
        for topic in topics {
            messages.extend(read(&log, topic).await);
        }
        log.close().await;
        messages
    })
}

async fn read(log: &DynLog, topic: &str) -> Vec<Arc<Message>> {
    let mut messages = Vec::new();
    loop {
        let request = ClaimRequest {
            topic: Topic::new(topic).unwrap(),
            group: Group::new("looked-at").unwrap(),
            worker: "test".into(),
            max: NonZeroUsize::new(500).unwrap(),
            start: Some(Start::Earliest),
            prefer: windlass_log::Prefer::Order,
        };
        let claims = match log.claim(request).await {
            Ok(claims) => claims,
            Err(LogError::NoTopic(_)) => Vec::new(),
            Err(error) => panic!("{error:?}"),
        };
        if claims.is_empty() {
            return messages;
        }
        let acks = claims.iter().map(|claim| Settlement {
            token: claim.token,
            disposition: Disposition::Ack { sends: Vec::new() },
            record: None,
        });
        for answer in log.settle(acks.collect()).await {
            answer.unwrap();
        }
        messages.extend(claims.into_iter().map(|claim| claim.message));
    }
}

/// Removes all that nobody needs, whatever `retain` says.
pub(crate) fn sweep_all(log: &Path) {
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let log = SqliteLog::open(log, OpenOptions::default()).await.unwrap();
        log.set_retain(std::time::Duration::ZERO, 0).await.unwrap();
        log.sweep().await.unwrap();
        log.close().await;
    });
}

/// The first value of a message's metadata under this name.
pub(crate) fn metadata<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The number of the newest lease; each claim makes a new one. There is no command yet that tells
/// who holds what, so this asks the file.
pub(crate) fn newest_lease(log: &Path) -> Option<i64> {
    on_the_file(log, async |conn| {
        let id = sqlx::query_scalar("select max(id) from lease").fetch_one(conn).await;
        id.unwrap()
    })
}

/// Brings all of the write-ahead log into the database, and makes it empty.
pub(crate) fn checkpoint(log: &Path) {
    crate::kit::until("a checkpoint", || {
        on_the_file(log, async |conn| {
            let statement = "pragma wal_checkpoint(truncate)";
            let busy = sqlx::query_scalar::<_, i64>(statement).fetch_one(conn).await.unwrap();
            (busy == 0).then_some(())
        })
    });
}

/// Changes the file behind the program's back.
pub(crate) fn execute(log: &Path, statement: &'static str) {
    on_the_file(log, async |conn| {
        sqlx::query(statement).execute(conn).await.unwrap();
    });
}

fn on_the_file<T>(log: &Path, work: impl AsyncFnOnce(&mut sqlx::SqliteConnection) -> T) -> T {
    use sqlx::{ConnectOptions, Connection};
    let file = log.join(windlass_log::sqlite::FILE_NAME);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut conn = options.connect().await.unwrap();
        let answer = work(&mut conn).await;
        conn.close().await.unwrap();
        answer
    })
}
