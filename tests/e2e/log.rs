//! Looking into a log from outside, past the program.

use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use windlass_core::{Disposition, Group, Message, Topic};
use windlass_log::sqlite::{OpenOptions, SqliteLog};
use windlass_log::{ClaimRequest, DynLog, LogError, Settlement, Start};

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

/// The first value of a message's metadata under this name.
pub(crate) fn metadata<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    message.metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

/// The number of the only lease there is; each claim makes a new one. There is no command yet that
/// tells who holds what, so this asks the file.
pub(crate) fn only_lease(log: &Path) -> Option<i64> {
    use sqlx::{ConnectOptions, Connection};
    let file = log.join(windlass_log::sqlite::FILE_NAME);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file).read_only(true);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let mut conn = options.connect().await.ok()?;
        let id = sqlx::query_scalar("select max(id) from lease").fetch_one(&mut conn).await;
        conn.close().await.unwrap();
        id.unwrap()
    })
}
