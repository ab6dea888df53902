//! What operators ask: groups, counts, dead letters, the sweep.

use crate::api::{Claim, Start};
use crate::error::LogError;
use crate::health::{Health, Recount};
use crate::inspect::{
    GroupLag, MessageState, Pending, PendingQuery, ReadPage, ReadRequest, TransferRequest,
};
use crate::waiter::Waiter;
use async_trait::async_trait;
use std::num::NonZeroUsize;
use std::time::Duration;
use windlass_core::passing::PARKED_MAX;
use windlass_core::{Group, GroupPolicy, History, Message, MessageId, Sequence, Timestamp, Topic};

/// Whether a publish may create its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopicsMode {
    /// A publish creates its topic.
    Open,
    /// Only declared topics take messages.
    Declared,
}

/// What a topic may hold, and how long it knows what it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicLimits {
    /// Most needed messages.
    pub max_messages: u64,
    /// Most bytes of them.
    pub max_bytes: u64,
    /// How long a dedup id is known, from its first acceptance.
    pub dedup_window: Duration,
    /// How long and how many of what is not needed are kept; as the log says where nothing is said.
    pub retain: Option<(Duration, u64)>,
    /// What no group has begun on for so long goes unread, and the groups that had still to read it
    /// get a gap.
    pub max_age: Option<Duration>,
}

/// How long and how many of what is not needed a log keeps, unless it is told otherwise.
pub const RETAIN: (Duration, u64) = (Duration::from_mins(5), 10_000);

impl Default for TopicLimits {
    fn default() -> Self {
        Self {
            max_messages: 1_000_000,
            max_bytes: 2 << 30,
            dedup_window: Duration::from_mins(5),
            retain: None,
            max_age: None,
        }
    }
}

/// A group as wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupSpec {
    /// On this topic.
    pub topic: Topic,
    /// Its name.
    pub group: Group,
    /// Its policy, taken over by a known group too.
    pub policy: GroupPolicy,
    /// Where a new group starts; ignored by a known one.
    pub start: Start,
}

/// What a declaration did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Declared {
    /// The group is new.
    Created,
    /// The group was known; its policy is now the declared one, its position stays.
    Known,
}

/// Exact counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Claimable now, due ones included.
    pub ready: u64,
    /// Published with a delay that is not over.
    pub delayed: u64,
    /// Failed, and waiting for their time.
    pub retrying: u64,
    /// Waiting behind another message of their key.
    pub parked: u64,
    /// Leased, ended leases included until somebody acts on them.
    pub leased: u64,
    /// Given up.
    pub dead: u64,
}

impl Counts {
    /// Not yet settled.
    #[must_use]
    pub fn lag(&self) -> u64 {
        self.ready + self.delayed + self.retrying + self.parked + self.leased
    }

    /// Adds another group's.
    pub fn add(&mut self, other: &Self) {
        self.ready += other.ready;
        self.delayed += other.delayed;
        self.retrying += other.retrying;
        self.parked += other.parked;
        self.leased += other.leased;
        self.dead += other.dead;
    }
}

/// Messages that grew too old before a group came to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Behind this sequence.
    pub after: Sequence,
    /// Up to here.
    pub through: Sequence,
    /// How many.
    pub messages: u64,
    /// When the last of them went, log time.
    pub at: Timestamp,
}

impl Gap {
    /// This one and a later one.
    #[must_use]
    pub fn and(self, later: Self) -> Self {
        Self { after: self.after, messages: self.messages + later.messages, ..later }
    }
}

/// One group as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupState {
    /// Its name.
    pub group: Group,
    /// Its counts.
    pub counts: Counts,
    /// Its policy.
    pub policy: GroupPolicy,
    /// Dead letters whose copy the policy's dead-letter topic did not take, since the group is there.
    pub copies_missed: u64,
    /// What it could not read any more, until that is acknowledged.
    pub gap: Option<Gap>,
    /// Publish time (log time) of the oldest message it has not settled.
    pub oldest: Option<Timestamp>,
}

impl GroupState {
    /// Whether its cursor stops: so many messages are parked behind others of their key that no
    /// further one may be. It goes on as soon as some of them are settled.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.counts.parked >= PARKED_MAX
    }
}

/// One topic as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicState {
    /// Its name.
    pub topic: Topic,
    /// Sums over its groups; with no group every needed message counts as ready.
    pub counts: Counts,
    /// Size of what the quota counts: the needed messages.
    pub bytes: u64,
    /// Messages stored beyond the needed and the dead ones.
    pub retained: u64,
    /// Publish time (log time) of the oldest unsettled message.
    pub oldest: Option<Timestamp>,
    /// What it may hold.
    pub limits: TopicLimits,
    /// Its groups, by name.
    pub groups: Vec<GroupState>,
}

/// A message given up.
#[derive(Debug, Clone, PartialEq)]
pub struct DeadLetter {
    /// The group that gave it up.
    pub group: Group,
    /// Its id.
    pub id: MessageId,
    /// The last outcome's name, or why the log gave it up.
    pub reason: String,
    /// How many attempts it had.
    pub attempts: u32,
    /// When it died, log time.
    pub at: Timestamp,
    /// What became of its attempts.
    pub history: History,
    /// The message; nothing where its record cannot be read.
    pub message: Option<Message>,
}

/// Which dead letters are meant; those that fit every part that is there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterFilter {
    /// Only this message.
    pub id: Option<MessageId>,
    /// Only those that died at or after this log time.
    pub since: Option<Timestamp>,
    /// Only those of exactly this reason.
    pub reason: Option<String>,
}

impl DeadLetterFilter {
    /// Whether a dead letter is meant.
    #[must_use]
    pub fn fits(&self, id: MessageId, at: Timestamp, reason: &str) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.since.is_none_or(|since| at >= since)
            && self.reason.as_ref().is_none_or(|wanted| wanted == reason)
    }
}

/// Which dead letters to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterQuery {
    /// Of this topic, exactly.
    pub topic: Topic,
    /// Of this group; of all when none is named.
    pub group: Option<Group>,
    /// Only these.
    pub filter: DeadLetterFilter,
    /// Only after this place in the order of groups and sequences.
    pub after: Option<(Group, MessageId)>,
    /// At most so many.
    pub limit: NonZeroUsize,
}

/// Answer to a redrive: `moved` of `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redriven {
    /// How many are live again.
    pub moved: u64,
    /// How many were meant; what the topic's quota has no room for stays dead.
    pub of: u64,
}

/// What was removed of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Purged {
    /// Messages that are not stored any more, whatever had become of them.
    pub messages: u64,
    /// Their size, as quotas count it.
    pub bytes: u64,
    /// Dead letters that went, of all groups.
    pub dead: u64,
}

/// The operator's side of a log.
#[async_trait]
pub trait LogAdmin: Send + Sync {
    /// Says whether a publish may create its topic, and declares `topics`.
    async fn declare_topics(&self, mode: TopicsMode, topics: Vec<Topic>) -> Result<(), LogError>;

    /// Declares groups, all in one transaction.
    async fn declare_groups(&self, groups: Vec<GroupSpec>) -> Result<Vec<Declared>, LogError>;

    /// Sets what a topic may hold, and declares it. A bound that would be lowered below what the
    /// quota counts now is [`LogError::HoldsMore`], and nothing is set; with `force` it is set all the
    /// same: what is there stays, and publishes are refused until it fits.
    async fn set_limits(
        &self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), LogError>;

    /// The same for who has seen `old` limits: whether they were so still, and `new` ones are set. No
    /// old ones: the topic must not be there yet.
    async fn replace_limits(
        &self,
        topic: &Topic,
        old: Option<TopicLimits>,
        new: TopicLimits,
        force: bool,
    ) -> Result<bool, LogError>;

    /// Removes all messages of a topic that are there when it begins, but for dead letters, which go
    /// only `with_dead`. Claims are void, what waits goes, every group stands behind what was there,
    /// and its dedup ids are forgotten (law 3). Sequences go on; who reads the topic's stream from
    /// further back is told of a gap. A large topic goes in steps: what is published meanwhile stays.
    async fn purge_topic(&self, topic: &Topic, with_dead: bool) -> Result<Purged, LogError>;

    /// Deletes a topic with its groups and messages: claims are void, and its limits are forgotten.
    /// One with messages to settle or dead letters only where `force` is set; else
    /// [`LogError::TopicNotEmpty`]. A topic of its name may come again; it is another one, which
    /// never gives an id of this one.
    async fn remove_topic(&self, topic: &Topic, force: bool) -> Result<Purged, LogError>;

    /// All topics, by name.
    async fn topics(&self) -> Result<Vec<TopicState>, LogError>;

    /// What each group has not settled, by topic and group: what [`LogAdmin::topics`] says of it, at
    /// a small part of the cost.
    async fn lags(&self) -> Result<Vec<GroupLag>, LogError>;

    /// One topic.
    async fn topic(&self, topic: &Topic) -> Result<Option<TopicState>, LogError>;

    /// A page of dead letters, by group and sequence.
    async fn dead_letters(&self, query: DeadLetterQuery) -> Result<Vec<DeadLetter>, LogError>;

    /// Declares one group that must not be there yet; [`LogError::BusyGroup`] where it is.
    async fn add_group(&self, group: GroupSpec) -> Result<(), LogError>;

    /// Gives a group that is there the policy `new`, for who has seen `old`: whether it was so still.
    async fn replace_policy(
        &self,
        topic: &Topic,
        group: &Group,
        old: &GroupPolicy,
        new: &GroupPolicy,
    ) -> Result<bool, LogError>;

    /// Deletes a group: what it had not settled counts as settled, claims of it are void. One with
    /// dead letters only where `force` is set, and they go too; else [`LogError::GroupHasDead`].
    /// Answers how it stood.
    async fn remove_group(
        &self,
        topic: &Topic,
        group: &Group,
        force: bool,
    ) -> Result<Counts, LogError>;

    /// Moves a group's position. Its claims are void and what waits goes; what lies behind the new
    /// position is new to it, but for its dead letters, which stay dead.
    async fn seek(&self, topic: &Topic, group: &Group, to: Start) -> Result<(), LogError>;

    /// Moves leased deliveries whose holder has not been heard of for long to another worker, as
    /// claims with new tokens: a fresh lease, one more attempt, the first delivery kept. Those whose
    /// attempts are used up stay, and so does what waits or is parked.
    async fn transfer(&self, request: TransferRequest) -> Result<Vec<Claim>, LogError>;

    /// Takes note of a group's gap, which is not shown any more; which it was.
    async fn acknowledge_gap(&self, topic: &Topic, group: &Group) -> Result<Option<Gap>, LogError>;

    /// Releases all that a worker holds of a group, the attempts given back; how many.
    async fn release_worker(
        &self,
        topic: &Topic,
        group: &Group,
        worker: &str,
    ) -> Result<u64, LogError>;

    /// A page of what is leased, waiting or parked, in order of sequence.
    async fn pending(&self, query: PendingQuery) -> Result<Vec<Pending>, LogError>;

    /// One stored message, wherever it lies; none where no topic has it (any more).
    async fn message(&self, id: MessageId) -> Result<Option<MessageState>, LogError>;

    /// Settles a message without handling it, in `group` or in all groups of its topic: whether it
    /// is new, waits, is parked or leased (that claim is void then). What is settled or dead stays
    /// so. Answers in how many groups something changed.
    async fn cancel(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError>;

    /// Makes a message due at once where it waits for a time, in `group` or in all groups of its
    /// topic. Answers in how many groups something changed.
    async fn make_due(&self, id: MessageId, group: Option<&Group>) -> Result<u64, LogError>;

    /// A page of a topic's stream; nothing is held between pages.
    async fn stream(&self, request: ReadRequest) -> Result<ReadPage, LogError>;

    /// Tells when `topic` may have something new to read. It may tell once too often, never once
    /// too little.
    fn arrivals(&self, topic: &Topic) -> Waiter;

    /// Makes those dead letters of a group (of all groups of the topic when none is named) that
    /// `filter` means claimable at once, with fresh attempts. Id, history and metadata stay.
    async fn redrive(
        &self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
    ) -> Result<Redriven, LogError>;

    /// Removes dead letters for good; how many there were.
    async fn purge_dead(&self, topic: &Topic, group: Option<&Group>) -> Result<u64, LogError>;

    /// Removes what nobody needs and `retain` has let go; how many messages went. A log that is
    /// open for long does this by itself.
    async fn sweep(&self) -> Result<u64, LogError>;

    /// Sets how long what is not needed is kept: so long, or so many a topic, what comes first.
    async fn set_retain(&self, span: Duration, messages: u64) -> Result<(), LogError>;

    /// What the log says of itself: settings, files, clocks.
    async fn health(&self) -> Result<Health, LogError>;

    /// Counts all rows again now, and tells which kept figures differ. Others go on meanwhile.
    async fn recount(&self) -> Result<Recount, LogError>;

    /// Writes out what is on its way and closes. Later calls answer [`LogError::Closed`].
    async fn close(&self);
}
