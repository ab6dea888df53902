//! What operators ask of the memory log: counts, and what is done with dead letters.

use super::group::{Dead, GroupLog};
use super::state::{State, TopicLog, Wakes};
use crate::admin::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery, GroupState, Redriven, TopicState,
};
use crate::error::LogError;
use std::ops::Bound;
use windlass_core::quota::Amount;
use windlass_core::{Group, MessageId, Sequence, Timestamp, Topic};

impl State {
    /// All topics, by name.
    pub(super) fn topics(&self, now: Timestamp) -> Vec<TopicState> {
        self.by_name.values().map(|place| self.topic_state(*place, now)).collect()
    }

    /// One topic.
    pub(super) fn topic(&self, topic: &Topic, now: Timestamp) -> Option<TopicState> {
        self.by_name.get(topic).map(|place| self.topic_state(*place, now))
    }

    /// A page of dead letters, by group and sequence.
    pub(super) fn dead_letters(
        &self,
        query: &DeadLetterQuery,
    ) -> Result<Vec<DeadLetter>, LogError> {
        let meant = self.meant(&query.topic, query.group.as_ref())?;
        let is_later = |group: &Group, sequence: Sequence| {
            query.after.as_ref().is_none_or(|(g, id)| (group, sequence) > (g, id.sequence))
        };
        let all = meant.into_iter().flat_map(|place| {
            let group = &self.groups[place];
            group.dead.keys().map(move |sequence| (group, *sequence))
        });
        Ok(all
            .filter(|(group, sequence)| is_later(&group.name, *sequence))
            .filter_map(|(group, sequence)| self.dead_letter_at(group, sequence))
            .filter(|dead| query.filter.fits(dead.id, dead.at, &dead.reason))
            .take(query.limit.get())
            .collect())
    }

    /// Dead letters are claimable again.
    pub(super) fn redrive(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Redriven, LogError> {
        let (mut moved, mut of) = (0, 0);
        let mut meant = self.meant(topic, group)?;
        // As they were made, which decides where room is short.
        meant.sort_unstable();
        for place in meant {
            let group = &self.groups[place];
            let at = group.topic;
            let messages = &self.topics[group.topic].messages;
            let fits = |(sequence, dead): &(&Sequence, &Dead)| {
                let message = messages.get(sequence);
                message.is_some_and(|message| filter.fits(message.id, dead.at, &dead.reason))
            };
            let sized = |at: &Sequence| (*at, messages.get(at).map_or(0, |one| one.size()));
            let meant: Vec<_> = group.dead.iter().filter(fits).map(|(at, _)| sized(at)).collect();
            let most = self.topics[at].limits.most();
            let mut needed = self.stored(at).over(most).is_some().then(|| self.needed(at));
            for (sequence, size) in meant {
                of += 1;
                if let Some(needed) = &mut needed
                    && !self.is_needed_elsewhere(place, sequence)
                {
                    let with = needed.and(Amount::one(size));
                    if with.over(most).is_some() {
                        continue;
                    }
                    *needed = with;
                }
                self.groups[place].redrive(sequence, now);
                moved += 1;
            }
            wakes.group(topic, &self.groups[place].name);
        }
        Ok(Redriven { moved, of })
    }

    /// Settles a message without handling it; in how many groups something changed.
    pub(super) fn cancel(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<u64, LogError> {
        let mut changed = 0;
        for place in self.groups_of(id, group)? {
            if self.groups[place].cancel(id.sequence, now) {
                self.let_go(self.groups[place].topic, id.sequence);
                let (topic, group) = self.names(place);
                wakes.group(&topic, &group);
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// Makes a message due at once; in how many groups something changed.
    pub(super) fn make_due(
        &mut self,
        id: MessageId,
        group: Option<&Group>,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<u64, LogError> {
        let mut changed = 0;
        for place in self.groups_of(id, group)? {
            let group = &mut self.groups[place];
            let due = self.topics[group.topic].due.get(&id.sequence);
            // Of what the group has not come to, only what was given a delay waits.
            let read = id.sequence <= group.cursor || !group.is_patient(id.sequence);
            let waits = read || due.is_some_and(|due| *due > now);
            if waits && group.make_due(id.sequence, now) {
                let (topic, group) = self.names(place);
                wakes.group(&topic, &group);
                changed += 1;
            }
        }
        Ok(changed)
    }

    /// The groups that are meant of a stored message's topic.
    fn groups_of(&self, id: MessageId, group: Option<&Group>) -> Result<Vec<usize>, LogError> {
        let topic = self.topic_of(id).ok_or(LogError::NoMessage(id))?;
        let name = self.topics[topic].name.clone();
        self.meant(&name, group)
    }

    /// Dead letters go for good.
    pub(super) fn purge_dead(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
    ) -> Result<u64, LogError> {
        let mut purged = 0;
        for place in self.meant(topic, group)? {
            let on = self.groups[place].topic;
            for sequence in self.groups[place].purge() {
                self.let_go(on, sequence);
                purged += 1;
            }
        }
        Ok(purged)
    }

    /// The groups a request names, by name.
    pub(super) fn meant(
        &self,
        topic: &Topic,
        group: Option<&Group>,
    ) -> Result<Vec<usize>, LogError> {
        let place = self.by_name.get(topic).ok_or_else(|| LogError::NoTopic(topic.clone()))?;
        let groups = &self.topics[*place].groups;
        let Some(group) = group else { return Ok(groups.values().copied().collect()) };
        let place = groups
            .get(group)
            .ok_or_else(|| LogError::NoGroup { topic: topic.clone(), group: group.clone() })?;
        Ok(vec![*place])
    }

    pub(super) fn dead_letter_at(
        &self,
        group: &GroupLog,
        sequence: Sequence,
    ) -> Option<DeadLetter> {
        let message = self.topics[group.topic].messages.get(&sequence)?;
        let dead = group.dead.get(&sequence)?;
        Some(DeadLetter {
            group: group.name.clone(),
            id: message.id,
            reason: dead.reason.clone(),
            attempts: dead.attempts,
            at: dead.at,
            history: group.history(sequence),
            message: Some(message.as_ref().clone()),
        })
    }

    fn topic_state(&self, place: usize, now: Timestamp) -> TopicState {
        let topic = &self.topics[place];
        let mut state = TopicState {
            topic: topic.name.clone(),
            counts: Counts::default(),
            bytes: 0,
            retained: 0,
            oldest: None,
            limits: topic.limits,
            groups: Vec::with_capacity(topic.groups.len()),
        };
        let groups: Vec<_> = topic.groups.values().map(|place| &self.groups[*place]).collect();
        for group in &groups {
            let counts = group_counts(topic, group, now);
            state.counts.add(&counts);
            let mut stored = topic.messages.iter();
            let oldest = stored.find(|(sequence, _)| group.needs(**sequence));
            state.groups.push(GroupState {
                group: group.name.clone(),
                counts,
                policy: group.policy.clone(),
                copies_missed: group.copies_missed,
                gap: group.gap,
                oldest: oldest.map(|(_, message)| message.id.millis),
            });
        }
        for (sequence, message) in &topic.messages {
            if topic.is_needed(&groups, *sequence) {
                state.bytes += message.size();
                state.oldest = state.oldest.or(Some(message.id.millis));
                let later = topic.due.get(sequence).is_some_and(|due| *due > now);
                if groups.is_empty() {
                    state.counts.ready += u64::from(!later);
                    state.counts.delayed += u64::from(later);
                }
            } else if !groups.iter().any(|group| group.holds(*sequence)) {
                state.retained += 1;
            }
        }
        state
    }
}

pub(super) fn group_counts(topic: &TopicLog, group: &GroupLog, now: Timestamp) -> Counts {
    let behind = (Bound::Excluded(group.cursor), Bound::Unbounded);
    let new = topic.messages.range(behind).count() as u64 - group.skips();
    let later = topic.due.range(behind).filter(|(at, due)| **due > now && group.is_patient(**at));
    let (later, waits) = (later.count() as u64, group.waiting.count(now));
    Counts {
        ready: new - later + waits.due,
        delayed: later + waits.delayed,
        retrying: waits.retrying,
        parked: waits.parked,
        leased: group.leases.len() as u64,
        dead: group.dead.len() as u64,
    }
}

impl TopicLog {
    /// Whether some group must still settle the message, or it waits for a first group.
    pub(super) fn is_needed(&self, groups: &[&GroupLog], sequence: Sequence) -> bool {
        self.is_unclaimed(sequence) || groups.iter().any(|group| group.needs(sequence))
    }
}

impl State {
    /// Whether the message must stay: needed, dead in some group, or still to be passed by one.
    pub(super) fn is_held(&self, topic: usize, sequence: Sequence) -> bool {
        let topic = &self.topics[topic];
        topic.is_unclaimed(sequence)
            || topic.groups.values().any(|place| self.groups[*place].keeps(sequence))
    }
}
