//! Everything the memory log knows, as one value.
//!
//! Functions of the state and their arguments: time comes in as an argument, nothing waits, nobody
//! is woken; what would have to be is written into [`Wakes`]. Owns topics, groups and the storing
//! of messages. Claiming, settling, the operator's questions and the sweep are beside.

use super::deployments::Catalog;
use super::group::GroupLog;
use crate::admin::{Declared, GroupSpec, TopicLimits, TopicsMode};
use crate::api::{Published, Start};
use crate::error::LogError;
use crate::validate;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::lease::Lease;
use windlass_core::{
    Group, GroupPolicy, Message, MessageId, NewMessage, Sequence, Timestamp, Topic,
};

/// Log time and wall time of one operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) wall_ms: u64,
}

/// Who is to be told about a change.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    /// Topics with new messages.
    pub(super) topics: Vec<Topic>,
    /// Groups with something to claim.
    pub(super) groups: Vec<(Topic, Group)>,
    /// Whether the background task must look sooner than it meant to.
    pub(super) alarm: bool,
}

/// One topic.
#[derive(Debug)]
pub(super) struct TopicLog {
    pub(super) name: Topic,
    /// The one stored copy of each message.
    pub(super) messages: BTreeMap<Sequence, Arc<Message>>,
    /// Size of what is stored.
    pub(super) bytes: u64,
    pub(super) limits: TopicLimits,
    /// Dedup ids: what was accepted under them first, and until when they are known.
    pub(super) dedup: HashMap<String, (MessageId, Timestamp)>,
    /// When those may first be handled that were given a delay.
    pub(super) due: BTreeMap<Sequence, Timestamp>,
    /// Its groups, by name: places in [`State::groups`].
    pub(super) groups: BTreeMap<Group, usize>,
    /// Messages stored while no group was there, for the first one that starts at or before them:
    /// after the first, up to the second; without a second it still grows.
    pub(super) unclaimed: Vec<(Sequence, Option<Sequence>)>,
    /// At each sweep: when, and up to where nothing was needed.
    pub(super) samples: VecDeque<(Timestamp, Sequence)>,
    /// Up to here only what somebody holds is stored.
    pub(super) swept_to: Sequence,
    /// The highest sequence that was removed.
    pub(super) gone: Sequence,
}

/// The memory log as a value.
#[derive(Debug)]
pub(super) struct State {
    pub(super) topics: Vec<TopicLog>,
    pub(super) by_name: BTreeMap<Topic, usize>,
    /// Names of deleted topics that no topic has now, with the highest sequence they had.
    pub(super) former: BTreeMap<Topic, Sequence>,
    /// A token's group number is the place here, plus one.
    pub(super) groups: Vec<GroupLog>,
    pub(super) nonce: u64,
    pub(super) serial: u64,
    pub(super) retain: (Duration, u64),
    /// Settled since the last sweep.
    pub(super) settled: u64,
    pub(super) closed: bool,
    /// Given up in this operation, where copies are wanted: group, message, reason.
    pub(super) buried: Vec<(usize, Sequence, String)>,
    /// When the background task means to look again.
    pub(super) alarm_at: Timestamp,
    /// When it last looked.
    pub(super) reaped_at: Timestamp,
    mode: TopicsMode,
    pub(super) catalog: Catalog,
    pub(super) last: MessageId,
    /// What lies behind this belongs to the batch under way.
    pub(super) storing_after: Option<Sequence>,
}

impl State {
    pub(super) fn new(nonce: u64, retain: (Duration, u64)) -> Self {
        Self {
            topics: Vec::new(),
            by_name: BTreeMap::new(),
            former: BTreeMap::new(),
            groups: Vec::new(),
            nonce,
            serial: 0,
            retain,
            settled: 0,
            closed: false,
            buried: Vec::new(),
            alarm_at: Timestamp(u64::MAX),
            reaped_at: Timestamp(0),
            mode: TopicsMode::Open,
            catalog: Catalog::default(),
            last: MessageId { millis: Timestamp(0), sequence: Sequence(0) },
            storing_after: None,
        }
    }

    /// Stores a batch, or nothing of it.
    pub(super) fn publish(
        &mut self,
        batch: Vec<NewMessage>,
        at: Moment,
        wakes: &mut Wakes,
    ) -> Result<Vec<Published>, LogError> {
        self.check(&batch, None, at.now)?;
        Ok(self.store_all(batch, at, wakes))
    }

    /// Stores a checked batch; what it brings twice is known within it, however short the window.
    pub(super) fn store_all(
        &mut self,
        batch: Vec<NewMessage>,
        at: Moment,
        wakes: &mut Wakes,
    ) -> Vec<Published> {
        self.storing_after = Some(self.last.sequence);
        let stored = batch.into_iter().map(|message| self.store(message, at, wakes)).collect();
        self.storing_after = None;
        stored
    }

    /// Whether a batch may be stored: first each message by itself, then against the log, with what
    /// settling `freeing` lets go.
    pub(super) fn check(
        &self,
        batch: &[NewMessage],
        freeing: Option<(usize, &Lease)>,
        now: Timestamp,
    ) -> Result<(), LogError> {
        batch.iter().try_for_each(validate::check)?;
        let undeclared = |message: &&NewMessage| !self.by_name.contains_key(&message.topic);
        if self.mode == TopicsMode::Declared
            && let Some(message) = batch.iter().find(undeclared)
        {
            return Err(LogError::UndeclaredTopic(message.topic.clone()));
        }
        if batch.len() as u64 > Sequence::MAX.0 - self.last.sequence.0 {
            return Err(LogError::Exhausted("messages"));
        }
        self.check_room(batch, freeing, now)
    }

    /// Stores a checked message, unless it is known.
    pub(super) fn store(&mut self, new: NewMessage, at: Moment, wakes: &mut Wakes) -> Published {
        if let Some(id) = self.known(&new, at.now) {
            return Published { id, duplicate: true };
        }
        let topic = self.topic_or_new(&new.topic);
        let id = MessageId {
            millis: at.now.max(self.last.millis),
            sequence: Sequence(self.last.sequence.0 + 1),
        };
        self.last = id;
        wakes.topic(&new.topic);
        if let Some(known) = new.dedup_id.clone() {
            let topic = &mut self.topics[topic];
            topic.dedup.insert(known, (id, at.now.after(topic.limits.dedup_window)));
        }
        if let Some(due) = validate::due(&new, at.now) {
            self.topics[topic].due.insert(id.sequence, due);
        }
        let message = Message {
            id,
            topic: new.topic,
            data: new.data,
            content_type: new.content_type,
            metadata: new.metadata,
            key: new.key,
            published_at: at.wall_ms,
            hops: new.hops,
        };
        self.topics[topic].bytes += message.size();
        self.topics[topic].messages.insert(id.sequence, Arc::new(message));
        Published { id, duplicate: false }
    }

    pub(super) fn declare_topics(&mut self, mode: TopicsMode, topics: &[Topic]) {
        self.mode = mode;
        for topic in topics {
            self.topic_or_new(topic);
        }
    }

    /// Declares one group; a known one takes the policy and keeps its position.
    pub(super) fn declare(&mut self, spec: GroupSpec, wakes: &mut Wakes) -> Declared {
        wakes.group(&spec.topic, &spec.group);
        if let Some(known) = self.find(&spec.topic, &spec.group) {
            self.groups[known].policy = spec.policy;
            // Ended leases may be the last ones under the new policy.
            self.look_by(Timestamp(0), wakes);
            return Declared::Known;
        }
        self.make_group(&spec.topic, spec.group, spec.policy, spec.start);
        Declared::Created
    }

    /// The place of a group, declared now where a start is given.
    pub(super) fn find_or_declare(
        &mut self,
        topic: &Topic,
        group: &Group,
        start: Option<Start>,
    ) -> Result<usize, LogError> {
        match (self.find(topic, group), start) {
            (Some(known), _) => Ok(known),
            (None, Some(start)) => {
                Ok(self.make_group(topic, group.clone(), GroupPolicy::default(), start))
            }
            (None, None) => Err(LogError::NoGroup { topic: topic.clone(), group: group.clone() }),
        }
    }

    /// The background task must look at `at` or sooner.
    pub(super) fn look_by(&mut self, at: Timestamp, wakes: &mut Wakes) {
        if at < self.alarm_at {
            self.alarm_at = at;
            wakes.alarm = true;
        }
    }

    /// The name of a group's topic and its own.
    pub(super) fn names(&self, group: usize) -> (Topic, Group) {
        let group = &self.groups[group];
        (self.topics[group.topic].name.clone(), group.name.clone())
    }

    pub(super) fn find(&self, topic: &Topic, group: &Group) -> Option<usize> {
        let topic = self.by_name.get(topic)?;
        self.topics[*topic].groups.get(group).copied()
    }

    pub(super) fn topic_or_new(&mut self, name: &Topic) -> usize {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let place = self.topics.len();
        self.topics.push(TopicLog {
            name: name.clone(),
            messages: BTreeMap::new(),
            bytes: 0,
            limits: TopicLimits::default(),
            dedup: HashMap::new(),
            due: BTreeMap::new(),
            groups: BTreeMap::new(),
            unclaimed: vec![(self.last.sequence, None)],
            samples: VecDeque::new(),
            swept_to: self.last.sequence,
            gone: self.former.remove(name).unwrap_or_default(),
        });
        self.by_name.insert(name.clone(), place);
        place
    }
}

impl Wakes {
    pub(super) fn topic(&mut self, topic: &Topic) {
        if !self.topics.contains(topic) {
            self.topics.push(topic.clone());
        }
    }

    pub(super) fn group(&mut self, topic: &Topic, group: &Group) {
        if !self.groups.iter().any(|(t, g)| t == topic && g == group) {
            self.groups.push((topic.clone(), group.clone()));
        }
    }
}
