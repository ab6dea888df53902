//! What a log can answer instead of doing it.

use std::sync::Arc;
use windlass_core::{Group, MessageError, MessageId, Topic};

/// Why a log did not do what was asked. Except for [`LogError::Unavailable`], where a commit's fate
/// may be unknown after a crash of the machine, nothing was stored or changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// A part of a message is over its limit.
    #[error("message to `{topic}` is too large: {source}")]
    TooLarge {
        /// Where it would have gone.
        topic: Topic,
        /// Which part.
        source: MessageError,
    },
    /// Only declared topics take messages, and this one is not.
    #[error("topic `{0}` is not declared, and this log takes messages for declared topics only")]
    UndeclaredTopic(Topic),
    /// The disk, or the file's own limit, is full.
    #[error("storage is full")]
    StorageFull {
        /// What SQLite said.
        #[source]
        source: Arc<sqlx::Error>,
    },
    /// The topic holds as much as it may.
    #[error("topic `{topic}` is full: it may hold {most} {what}")]
    QuotaFull {
        /// Which topic.
        topic: Topic,
        /// Of what: messages, or bytes.
        what: &'static str,
        /// How many.
        most: u64,
    },
    /// The topic holds more than it was to be limited to.
    #[error(
        "topic `{topic}` has {messages} messages of {bytes} bytes to settle, more than the {most} \
         {what} it was to be limited to"
    )]
    HoldsMore {
        /// Which topic.
        topic: Topic,
        /// So many of its messages are needed.
        messages: u64,
        /// And their size.
        bytes: u64,
        /// Which bound is in the way: messages, or bytes.
        what: &'static str,
        /// That bound.
        most: u64,
    },
    /// The group was never declared.
    #[error("NOGROUP: topic `{topic}` has no group `{group}`")]
    NoGroup {
        /// On this topic.
        topic: Topic,
        /// The unknown group.
        group: Group,
    },
    /// The group is there already.
    #[error("BUSYGROUP: topic `{topic}` has a group `{group}` already")]
    BusyGroup {
        /// On this topic.
        topic: Topic,
        /// The known group.
        group: Group,
    },
    /// The group has dead letters, which would go with it.
    #[error("group `{group}` of topic `{topic}` has {dead} dead letters")]
    GroupHasDead {
        /// On this topic.
        topic: Topic,
        /// The group.
        group: Group,
        /// How many.
        dead: u64,
    },
    /// The topic has messages to settle or dead letters, which would go with it.
    #[error("topic `{topic}` has {unsettled} messages to settle and {dead} dead letters")]
    TopicNotEmpty {
        /// Which topic.
        topic: Topic,
        /// So many of its messages are needed.
        unsettled: u64,
        /// So many dead letters its groups have.
        dead: u64,
    },
    /// No topic holds a message of this id (any more).
    #[error("no message {0} is stored")]
    NoMessage(MessageId),
    /// The log was opened to be read only.
    #[error("the log was opened to be read only")]
    ReadOnly,
    /// The topic was never declared or published to.
    #[error("there is no topic `{0}`")]
    NoTopic(Topic),
    /// Storage failed; what was asked is not done, and may be asked again.
    #[error("the log is unavailable: {what}")]
    Unavailable {
        /// What was being done.
        what: &'static str,
        /// What SQLite said.
        #[source]
        source: Option<Arc<sqlx::Error>>,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// There are as many topics or messages as the file can number.
    #[error("the log has run out of numbers for its {0}")]
    Exhausted(&'static str),
}

impl LogError {
    /// Whether it is the storage that failed, and not the request.
    #[must_use]
    pub fn is_storage(&self) -> bool {
        matches!(self, Self::StorageFull { .. } | Self::Unavailable { .. } | Self::Closed)
    }

    /// Whether room is what is missing.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::StorageFull { .. } | Self::QuotaFull { .. })
    }
}
