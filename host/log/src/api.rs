//! The data path: publish, claim, extend, settle.

use crate::error::LogError;
use crate::waiter::Waiter;
use async_trait::async_trait;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{
    AttemptRecord, Disposition, Group, Message, MessageId, NewMessage, Timestamp, Token, Topic,
};

/// How a late worker is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The store compares the token in the transaction that settles.
    Strict,
    /// The holder's own clock: past the lease's end it answers `lease lost` and sends nothing.
    Timed,
}

/// What a backend can promise. Conformance cases ask it, the program prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// How a late worker is stopped.
    pub fence: Fence,
    /// Whether a release gives the attempt back.
    pub release_keeps_attempt: bool,
    /// Whether what a message sent commits in one transaction with its ack.
    pub sends_commit_with_ack: bool,
    /// Whether messages survive the process.
    pub durable: bool,
}

impl fmt::Display for Capabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fence = match self.fence {
            Fence::Strict => "strict",
            Fence::Timed => "timed",
        };
        let yes = |b| if b { "yes" } else { "no" };
        write!(
            f,
            "fence {fence}, release keeps attempt: {}, sends commit with ack: {}, durable: {}",
            yes(self.release_keeps_attempt),
            yes(self.sends_commit_with_ack),
            yes(self.durable)
        )
    }
}

/// A publish's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// The message's id; the first one's where it is a duplicate.
    pub id: MessageId,
    /// Whether it was known by its dedup id, and so was not stored again.
    pub duplicate: bool,
}

/// Where a group starts to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Everything stored.
    Earliest,
    /// Only what is published from now on.
    Latest,
    /// The first message published at or after this log time.
    Time(Timestamp),
    /// This message, whether it is still stored or not.
    At(MessageId),
    /// The one behind this message.
    After(MessageId),
}

/// A wish for work.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// From this topic, exactly.
    pub topic: Topic,
    /// For this group.
    pub group: Group,
    /// Who asks.
    pub worker: Arc<str>,
    /// At most so many.
    pub max: NonZeroUsize,
    /// Declares the group where it is not known; ignored where it is.
    pub start: Option<Start>,
    /// What is given first.
    pub prefer: Prefer,
}

/// What a claim is given first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Prefer {
    /// The order of law 6.
    #[default]
    Order,
    /// Whatever has been tried least: new messages first, then what waits and is due, fewest
    /// attempts first (of the first 10,000 that are due), then ended leases. For a paused consumer's probe (law 26), so that an outage does not use up
    /// the attempts of one message.
    Untried,
}

/// Among so many that are due, the first by due time, a claim looks for what has been tried least.
pub(crate) const UNTRIED_LOOK: usize = 10_000;

/// The right to work on one message until the lease ends.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The proof.
    pub token: Token,
    /// The message.
    pub message: Arc<Message>,
    /// 1 for the first delivery.
    pub attempt: u32,
    /// The group's maximum.
    pub max_attempts: std::num::NonZeroU32,
    /// Log time at which the lease ends.
    pub lease_until: Timestamp,
}

/// A wish to hold a claim longer: its lease ends `lease` from now.
#[derive(Debug, Clone, Copy)]
pub struct Extension {
    /// The proof.
    pub token: Token,
    /// From now.
    pub lease: Duration,
}

/// Answer to an [`Extension`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extended {
    /// Held until then.
    Held(Timestamp),
    /// The token is not the current one.
    Lost,
}

/// What a worker did with a claim.
#[derive(Debug, Clone)]
pub struct Settlement {
    /// The proof.
    pub token: Token,
    /// What is to be done with the message.
    pub disposition: Disposition,
    /// What became of the attempt, for the history. `attempt`, `at` and `worker` are filled in by
    /// the log. Needed for a retry and a dead letter.
    pub record: Option<AttemptRecord>,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Done as asked.
    Applied,
    /// Attempts were used up, so that the retry became a dead letter.
    DeadLettered,
    /// The token is not the current one; nothing was changed.
    LeaseLost,
    /// By the group's position the message is settled. It never means that this caller's sends
    /// were committed.
    AlreadySettled,
}

/// A durable, ordered log of messages that workers claim and settle.
///
/// The law, which the conformance suite checks line by line (numbers are DESIGN.md's):
///
/// 1. `publish` answers after the batch is durable. Nothing is answered before COMMIT said Ok.
///    Everything but claim, extend, retry and release is synced before its answer.
/// 2. Sequences rise in commit order. Ids are unique and rise, whatever the clock does.
/// 3. A dedup id that the topic accepted within its window is answered with the first id.
/// 4. A refused batch stores nothing. A topic takes no more than its quota of needed messages.
/// 5. A message with a delay is not given before its time.
/// 6. A claim gives each message to one worker until its lease ends: ended leases first, then what
///    waited and is due, then new ones by sequence. Its cost does not depend on the backlog.
/// 7. Only the current token acts. It stays current after the lease's end until a claim or a
///    dead-lettering has acted on that end. Tokens never repeat.
/// 8. An acked message is not given again. A retry keeps the attempt count, a release gives the
///    attempt back.
/// 9. After the last attempt a message is dead at once, with its history, whoever notices. It is
///    never in two places or in none.
/// 10. Messages of one key are given one at a time within a group, in order.
/// 11. Only leased deliveries count against the in-flight limit.
/// 12. An unreadable record costs that record, never the batch.
/// 13. A claim without a start on an unknown group is [`LogError::NoGroup`].
/// 22. Any number of processes may use one log. No decision rests on stale state.
///
/// A caller that goes away (a dropped future) changes nothing about what was asked.
#[async_trait]
pub trait MessageLog: Send + Sync + fmt::Debug {
    /// What this backend can promise.
    fn capabilities(&self) -> Capabilities;

    /// Stores a batch, all or nothing; one answer a message, in order.
    async fn publish(&self, batch: Vec<NewMessage>) -> Result<Vec<Published>, LogError>;

    /// Up to `max` messages under a lease; none when there is nothing to do now.
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claim>, LogError>;

    /// Moves the ends of leases; one answer an extension, in order.
    async fn extend(&self, extensions: Vec<Extension>) -> Result<Vec<Extended>, LogError>;

    /// Settles claims; one answer a settlement, in order. One refused settlement (its sends do not
    /// fit, say) changes nothing itself and does not spoil the others.
    async fn settle(&self, settlements: Vec<Settlement>) -> Vec<Result<Settled, LogError>>;

    /// Tells when `group` may have something to claim on `topic`: a publish, a due time, a lease's
    /// end, a release. It may tell once too often, never once too little.
    fn waiter(&self, topic: &Topic, group: &Group) -> Waiter;

    /// The log's now.
    fn now(&self) -> Timestamp;
}
