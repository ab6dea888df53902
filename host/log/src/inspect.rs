//! What operators see and touch one by one: deliveries, messages, and the stream of a topic.
//!
//! Plain values; the calls that take and give them are [`crate::LogAdmin`]'s.

use crate::admin::DeadLetter;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::lease::Lease;
use windlass_core::{Group, History, Message, MessageId, Sequence, Timestamp, Topic};

/// How far a group is behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupLag {
    /// Its topic.
    pub topic: Topic,
    /// Which.
    pub group: Group,
    /// Messages that it has not settled.
    pub messages: u64,
}

/// Where a message stands in one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Not yet read by the group.
    New,
    /// Somebody holds a claim; its lease may have ended without anybody acting on it.
    Leased,
    /// Failed or given back, and waiting for its time.
    Retrying,
    /// Published with a delay that is not over.
    Delayed,
    /// Behind another message of its key.
    Parked,
    /// Given up.
    Dead,
    /// Done: acked, cancelled, purged, or before the group's start.
    Settled,
}

impl Place {
    /// Its name, as the counts have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "ready",
            Self::Leased => "leased",
            Self::Retrying => "retrying",
            Self::Delayed => "delayed",
            Self::Parked => "parked",
            Self::Dead => "dead",
            Self::Settled => "settled",
        }
    }
}

/// One delivery that is leased or waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Of this message.
    pub id: MessageId,
    /// [`Place::Leased`], [`Place::Retrying`], [`Place::Delayed`] or [`Place::Parked`].
    pub place: Place,
    /// Who holds it; of what waits nobody does.
    pub worker: Option<String>,
    /// How long the holder has not been heard of (claim, transfer, last extend); of what is leased.
    pub idle: Option<Duration>,
    /// Attempts begun and counted so far.
    pub attempts: u32,
    /// Log time of the first delivery; none where there was none.
    pub first_at: Option<Timestamp>,
    /// Log time of the last delivery, where it is known.
    pub last_at: Option<Timestamp>,
    /// The lease's end, or when it is due; none for what is parked.
    pub until: Option<Timestamp>,
}

impl Pending {
    /// A leased delivery at `now`.
    pub(crate) fn leased(id: MessageId, lease: &Lease, now: Timestamp) -> Self {
        Self {
            id,
            place: Place::Leased,
            worker: Some(lease.worker.to_string()),
            idle: Some(now.since(lease.heard_at)),
            attempts: lease.attempt,
            first_at: Some(lease.first_at),
            last_at: Some(lease.claimed_at),
            until: Some(lease.until),
        }
    }
}

/// Which deliveries to list, in order of sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingQuery {
    /// Of this topic.
    pub topic: Topic,
    /// Of this group.
    pub group: Group,
    /// Only behind this message.
    pub after: Option<MessageId>,
    /// At most so many.
    pub limit: NonZeroUsize,
}

/// A wish to move leased deliveries to another worker.
#[derive(Debug, Clone)]
pub struct TransferRequest {
    /// Of this topic.
    pub topic: Topic,
    /// Of this group.
    pub group: Group,
    /// To this worker.
    pub worker: Arc<str>,
    /// Whose holder has not been heard of (claim, transfer, last extend) for at least so long.
    pub idle: Duration,
    /// Only these; any where none is named.
    pub ids: Vec<MessageId>,
    /// At most so many, by sequence.
    pub max: NonZeroUsize,
}

/// How one message stands in one group.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The group.
    pub group: Group,
    /// Where.
    pub place: Place,
    /// More about it where it is leased or waits.
    pub pending: Option<Pending>,
    /// More about it where it is dead.
    pub dead: Option<DeadLetter>,
    /// What became of its failed attempts so far.
    pub history: History,
}

/// One stored message and how it stands in every group of its topic.
#[derive(Debug, Clone, PartialEq)]
pub struct MessageState {
    /// Its topic.
    pub topic: Topic,
    /// Its id.
    pub id: MessageId,
    /// When it may first be handled, where it was published with a delay; log time.
    pub due: Option<Timestamp>,
    /// The message; nothing where its record cannot be read.
    pub message: Option<Arc<Message>>,
    /// By name.
    pub groups: Vec<Standing>,
}

/// From where a topic's stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// Everything stored.
    Earliest,
    /// Only what comes from now on.
    Latest,
    /// What was published at or after this log time.
    Time(Timestamp),
    /// Behind the message with this id, whether it is still stored or not.
    After(MessageId),
    /// Behind what an earlier read of this topic has come to.
    Position(Sequence),
}

/// A wish for the next stored messages of a topic.
#[derive(Debug, Clone)]
pub struct ReadRequest {
    /// Of this topic, exactly. One that is not known yet has nothing stored.
    pub topic: Topic,
    /// From here.
    pub from: ReadFrom,
    /// At most so many; a page also ends after [`READ_BYTES`] of data.
    pub limit: NonZeroUsize,
}

/// A page of a stream ends with the message that takes it over so many bytes.
pub const READ_BYTES: u64 = 4 << 20;

/// Messages that a reader can no longer have: removed between where it was and what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadGap {
    /// Behind this sequence.
    pub after: Sequence,
    /// Up to here.
    pub through: Sequence,
}

/// One message of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadMessage {
    /// Its id.
    pub id: MessageId,
    /// When it may first be handled, where it was published with a delay; log time.
    pub due: Option<Timestamp>,
    /// The message; nothing where its record cannot be read.
    pub message: Option<Arc<Message>>,
}

/// A page of a topic's stream.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadPage {
    /// Told before the messages, where there is one.
    pub gap: Option<ReadGap>,
    /// In order.
    pub messages: Vec<ReadMessage>,
    /// From here the next page goes on.
    pub position: Sequence,
    /// Whether there is more already.
    pub more: bool,
}
