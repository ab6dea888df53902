//! What a topic may take: dedup ids it knows, and room under its quota (laws 3 and 4).

use super::state::State;
use crate::admin::TopicLimits;
use crate::error::LogError;
use std::collections::{BTreeMap, HashSet};
use windlass_core::lease::Lease;
use windlass_core::quota::Amount;
use windlass_core::{MessageId, NewMessage, Sequence, Timestamp, Topic};

impl TopicLimits {
    /// The quota as an amount.
    pub(crate) fn most(&self) -> Amount {
        Amount { messages: self.max_messages, bytes: self.max_bytes }
    }

    /// Whether what is needed of a topic fits, as far as these limits are lower than the `old` ones.
    pub(crate) fn must_hold(
        &self,
        topic: &Topic,
        needed: Amount,
        old: &Self,
    ) -> Result<(), LogError> {
        let Some((what, most)) = needed.beyond_lowered(old.most(), self.most()) else {
            return Ok(());
        };
        let (topic, Amount { messages, bytes }) = (topic.clone(), needed);
        Err(LogError::HoldsMore { topic, messages, bytes, what, most })
    }
}

impl State {
    /// Sets what a topic may hold.
    pub(super) fn set_limits(
        &mut self,
        topic: &Topic,
        limits: TopicLimits,
        force: bool,
    ) -> Result<(), LogError> {
        if let Some(place) = self.by_name.get(topic).filter(|_| !force) {
            let needed = self.needed(*place);
            limits.must_hold(topic, needed, &self.topics[*place].limits)?;
        }
        let place = self.topic_or_new(topic);
        self.topics[place].limits = limits;
        Ok(())
    }

    /// The same where the limits are as they were seen, or the topic is not there.
    pub(super) fn replace_limits(
        &mut self,
        topic: &Topic,
        old: Option<TopicLimits>,
        new: TopicLimits,
        force: bool,
    ) -> Result<bool, LogError> {
        let found = self.by_name.get(topic).map(|place| self.topics[*place].limits);
        if found != old {
            return Ok(false);
        }
        self.set_limits(topic, new, force).map(|()| true)
    }

    /// The id under which a message was accepted within the window.
    pub(super) fn known(&self, message: &NewMessage, now: Timestamp) -> Option<MessageId> {
        let topic = &self.topics[*self.by_name.get(&message.topic)?];
        let (id, expires) = topic.dedup.get(message.dedup_id.as_ref()?)?;
        let is_of_batch = self.storing_after.is_some_and(|after| id.sequence > after);
        (*expires > now || is_of_batch).then_some(*id)
    }

    /// Whether there is room for a batch, judged with what settling `freeing` lets go.
    pub(super) fn check_room(
        &self,
        batch: &[NewMessage],
        freeing: Option<(usize, &Lease)>,
        now: Timestamp,
    ) -> Result<(), LogError> {
        let mut adding: BTreeMap<&Topic, Amount> = BTreeMap::new();
        let mut seen = HashSet::new();
        for message in batch {
            let again = message.dedup_id.as_ref().is_some_and(|id| {
                self.known(message, now).is_some() || !seen.insert((&message.topic, id))
            });
            if !again {
                let of_topic = adding.entry(&message.topic).or_default();
                *of_topic = of_topic.and(Amount::one(message.size()));
            }
        }
        for (name, adding) in adding {
            let place = self.by_name.get(name).copied();
            let limits = place.map_or_else(TopicLimits::default, |at| self.topics[at].limits);
            let held = place.map_or(Amount::default(), |at| self.stored(at));
            if held.and(adding).over(limits.most()).is_none() {
                continue;
            }
            let needed = place.map_or(Amount::default(), |at| self.needed(at));
            let freed = freeing.filter(|(group, _)| Some(self.groups[*group].topic) == place);
            let freed = freed.map_or(Amount::default(), |(group, lease)| {
                let elsewhere = self.is_needed_elsewhere(group, lease.sequence);
                if elsewhere { Amount::default() } else { Amount::one(lease.size) }
            });
            if let Some((what, most)) = needed.less(freed).and(adding).over(limits.most()) {
                return Err(LogError::QuotaFull { topic: name.clone(), what, most });
            }
        }
        Ok(())
    }

    /// All that a topic stores: no less than what is needed of it.
    pub(super) fn stored(&self, topic: usize) -> Amount {
        let topic = &self.topics[topic];
        Amount { messages: topic.messages.len() as u64, bytes: topic.bytes }
    }

    /// What a topic's quota counts.
    pub(super) fn needed(&self, place: usize) -> Amount {
        let topic = &self.topics[place];
        let groups: Vec<_> = topic.groups.values().map(|group| &self.groups[*group]).collect();
        let needed = topic.messages.iter().filter(|(at, _)| topic.is_needed(&groups, **at));
        needed.fold(Amount::default(), |sum, (_, one)| sum.and(Amount::one(one.size())))
    }

    /// Whether another group needs a message that this one has.
    pub(super) fn is_needed_elsewhere(&self, group: usize, sequence: Sequence) -> bool {
        let topic = &self.topics[self.groups[group].topic];
        let mut others = topic.groups.values().filter(|other| **other != group);
        others.any(|other| self.groups[*other].needs(sequence))
    }
}
