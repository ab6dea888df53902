//! What callers hand to the writer, and how they are answered.

use super::catalog::Said;
use super::replace::Replacement;
use crate::admin::{
    Counts, DeadLetterFilter, Declared, Gap, GroupSpec, Purged, TopicLimits, TopicsMode,
};
use crate::api::{Claim, ClaimRequest, Extended, Extension, Published, Settled, Settlement, Start};
use crate::deployments::Change;
use crate::error::LogError;
use crate::inspect::TransferRequest;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use windlass_core::{Disposition, Group, MessageId, NewMessage, Sequence, Topic};

/// Where an answer goes. The caller may be gone; then nobody hears it.
pub(super) type Reply<T> = oneshot::Sender<Result<T, LogError>>;

/// A place among a topic's dead letters: groups by number, then sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) group: u64,
    pub(super) sequence: u64,
}

/// What a step over dead letters did, and where the next one starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StepDone {
    pub(super) moved: u64,
    /// Of so many that were meant.
    pub(super) of: u64,
    pub(super) next: Option<Place>,
}

/// What a step of a purge did, and up to where the next one goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PurgeDone {
    /// What the whole purge removes; told by its first step.
    pub(super) purged: Purged,
    pub(super) next: Option<Sequence>,
}

/// Where a sweep of all topics goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SweepFrom {
    pub(super) topic: Topic,
    /// Whether that topic is not done yet.
    pub(super) again: bool,
}

/// One wish of one caller.
pub(super) enum Command {
    Publish(Vec<NewMessage>, Reply<Vec<Published>>),
    Claim(ClaimRequest, Reply<Vec<Claim>>),
    Extend(Vec<Extension>, Reply<Vec<Extended>>),
    Settle(Vec<Settlement>, Reply<Vec<Result<Settled, LogError>>>),
    DeclareTopics(TopicsMode, Vec<Topic>, Reply<()>),
    DeclareGroups(Vec<GroupSpec>, Reply<Vec<Declared>>),
    Redrive(Topic, Option<Group>, DeadLetterFilter, Place, Reply<StepDone>),
    PurgeDead(Topic, Option<Group>, Place, Reply<StepDone>),
    SetLimits(Topic, TopicLimits, bool, Reply<()>),
    /// Whether it was as it was seen.
    Replace(Replacement, Reply<bool>),
    PurgeTopic(Topic, bool, Option<Sequence>, Reply<PurgeDone>),
    RemoveTopic(Topic, bool, Reply<Purged>),
    AddGroup(GroupSpec, Reply<()>),
    RemoveGroup(Topic, Group, bool, Reply<Counts>),
    Seek(Topic, Group, Start, Reply<()>),
    Transfer(TransferRequest, Reply<Vec<Claim>>),
    ReleaseWorker(Topic, Group, String, Reply<u64>),
    AcknowledgeGap(Topic, Group, Reply<Option<Gap>>),
    ClearGone(Reply<bool>),
    Cancel(MessageId, Option<Group>, Reply<u64>),
    MakeDue(MessageId, Option<Group>, Reply<u64>),
    Sweep(Option<SweepFrom>, Reply<(u64, Option<SweepFrom>)>),
    SetRetain(Duration, u64, Reply<()>),
    Deploy(u64, Vec<Change>, Reply<Option<u64>>),
    Tell(Said, Reply<()>),
    Close(Reply<()>),
}

/// Says a command's result once the commit's fate is known: nothing, or why it failed.
pub(super) type Answer = Box<dyn FnOnce(Option<&LogError>) + Send>;

/// Why a command did not go through.
#[derive(Debug)]
pub(super) enum Fail {
    /// It was refused before it changed anything.
    Refused(LogError),
    /// Storage failed; the whole transaction is void.
    Storage(sqlx::Error),
}

impl From<sqlx::Error> for Fail {
    fn from(error: sqlx::Error) -> Self {
        Self::Storage(error)
    }
}

impl From<LogError> for Fail {
    fn from(error: LogError) -> Self {
        Self::Refused(error)
    }
}

/// An answer of `result`, unless the commit fails.
pub(super) fn answer<T: Send + 'static>(reply: Reply<T>, result: Result<T, LogError>) -> Answer {
    Box::new(move |failed| {
        let _nobody_listens = reply.send(match failed {
            None => result,
            Some(error) => Err(error.clone()),
        });
    })
}

/// Splits a command's result into what its caller hears and what voids the transaction.
pub(super) fn split<T>(result: Result<T, Fail>) -> (Result<T, LogError>, Option<sqlx::Error>) {
    match result {
        Ok(value) => (Ok(value), None),
        Err(Fail::Refused(error)) => (Err(error), None),
        Err(Fail::Storage(error)) => (Err(LogError::Closed), Some(error)),
    }
}

impl Command {
    /// Whether its commit must be on the disk before its answer. A lost claim, extend, retry or
    /// release costs a duplicate at most (law 1).
    pub(super) fn must_sync(&self) -> bool {
        match self {
            // A claim that declares its group owes a sync, which the writer makes up for; closing
            // is no part of a transaction.
            Self::Claim(..)
            | Self::Extend(..)
            | Self::ReleaseWorker(..)
            | Self::ClearGone(_)
            | Self::Sweep(..)
            | Self::Close(_) => false,
            Self::Settle(settlements, _) => settlements.iter().any(|settlement| {
                matches!(settlement.disposition, Disposition::Ack { .. } | Disposition::DeadLetter)
            }),
            Self::Publish(..)
            | Self::DeclareTopics(..)
            | Self::DeclareGroups(..)
            | Self::AddGroup(..)
            | Self::SetLimits(..)
            | Self::Replace(..)
            | Self::Deploy(..)
            | Self::Tell(..)
            | Self::PurgeTopic(..)
            | Self::RemoveTopic(..)
            | Self::RemoveGroup(..)
            | Self::Seek(..)
            | Self::Transfer(..)
            | Self::AcknowledgeGap(..)
            | Self::Cancel(..)
            | Self::MakeDue(..)
            | Self::Redrive(..)
            | Self::PurgeDead(..)
            | Self::SetRetain(..) => true,
        }
    }

    /// Order within a transaction: what makes room and what is new comes before claims, so that
    /// they see it.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Settle(..) | Self::Extend(..) => 0,
            Self::DeclareTopics(..)
            | Self::DeclareGroups(..)
            | Self::AddGroup(..)
            | Self::SetLimits(..)
            | Self::Replace(..)
            | Self::Deploy(..)
            | Self::Tell(..)
            | Self::RemoveTopic(..)
            | Self::RemoveGroup(..)
            | Self::SetRetain(..) => 1,
            Self::Publish(..) => 2,
            Self::Redrive(..)
            | Self::PurgeDead(..)
            | Self::PurgeTopic(..)
            | Self::Cancel(..)
            | Self::MakeDue(..)
            | Self::Seek(..)
            | Self::ReleaseWorker(..)
            | Self::AcknowledgeGap(..)
            | Self::Transfer(..) => 3,
            Self::Claim(..) => 4,
            Self::ClearGone(_) | Self::Sweep(..) => 5,
            Self::Close(_) => 6,
        }
    }

    /// How many messages it moves, and their bytes.
    pub(super) fn weight(&self) -> (usize, u64) {
        let of = |messages: &[NewMessage]| {
            (messages.len(), messages.iter().map(NewMessage::size).sum::<u64>())
        };
        match self {
            Self::Publish(batch, _) => of(batch),
            Self::Settle(settlements, _) => {
                let mut total = (settlements.len(), 0);
                for settlement in settlements {
                    if let Disposition::Ack { sends } = &settlement.disposition {
                        let (messages, bytes) = of(sends);
                        total = (total.0 + messages, total.1 + bytes);
                    }
                }
                total
            }
            Self::Claim(request, _) => (request.max.get().min(64), 0),
            Self::Extend(extensions, _) => (extensions.len(), 0),
            Self::DeclareTopics(..)
            | Self::DeclareGroups(..)
            | Self::AddGroup(..)
            | Self::SetLimits(..)
            | Self::Replace(..)
            | Self::Deploy(..)
            | Self::Tell(..)
            | Self::PurgeTopic(..)
            | Self::RemoveTopic(..)
            | Self::RemoveGroup(..)
            | Self::Seek(..)
            | Self::Transfer(..)
            | Self::ReleaseWorker(..)
            | Self::AcknowledgeGap(..)
            | Self::ClearGone(_)
            | Self::Cancel(..)
            | Self::MakeDue(..)
            | Self::Redrive(..)
            | Self::PurgeDead(..)
            | Self::Sweep(..)
            | Self::SetRetain(..)
            | Self::Close(_) => (1, 0),
        }
    }

    /// The answer to a command that was not reached.
    pub(super) fn refuse(self) -> Answer {
        fn refused<T: Send + 'static>(reply: Reply<T>) -> Answer {
            answer(reply, Err(LogError::Closed))
        }
        match self {
            Self::Publish(_, reply) => refused(reply),
            Self::Claim(_, reply) | Self::Transfer(_, reply) => refused(reply),
            Self::Extend(_, reply) => refused(reply),
            Self::Settle(_, reply) => refused(reply),
            Self::DeclareTopics(_, _, reply)
            | Self::SetRetain(_, _, reply)
            | Self::SetLimits(_, _, _, reply)
            | Self::Seek(_, _, _, reply)
            | Self::AddGroup(_, reply)
            | Self::Tell(_, reply) => refused(reply),
            Self::RemoveGroup(_, _, _, reply) => refused(reply),
            Self::PurgeTopic(_, _, _, reply) => refused(reply),
            Self::RemoveTopic(_, _, reply) => refused(reply),
            Self::ReleaseWorker(_, _, _, reply)
            | Self::Cancel(_, _, reply)
            | Self::MakeDue(_, _, reply) => refused(reply),
            Self::AcknowledgeGap(_, _, reply) => refused(reply),
            Self::ClearGone(reply) | Self::Replace(_, reply) => refused(reply),
            Self::Deploy(_, _, reply) => refused(reply),
            Self::DeclareGroups(_, reply) => refused(reply),
            Self::Close(reply) => answer(reply, Ok(())),
            Self::Redrive(_, _, _, _, reply) | Self::PurgeDead(_, _, _, reply) => refused(reply),
            Self::Sweep(_, reply) => refused(reply),
        }
    }
}

/// What the caller hears of a storage error.
pub(super) fn storage_error(what: &'static str, error: sqlx::Error) -> LogError {
    let full = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .and_then(|code| code.parse::<i32>().ok())
        .is_some_and(|code| code & 0xff == libsqlite3_sys::SQLITE_FULL);
    let source = Arc::new(error);
    if full {
        LogError::StorageFull { source }
    } else {
        LogError::Unavailable { what, source: Some(source) }
    }
}
