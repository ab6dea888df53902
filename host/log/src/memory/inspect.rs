//! What operators look at in the memory log: deliveries, and one message everywhere.

use super::group::GroupLog;
use super::state::State;
use crate::error::LogError;
use crate::health::{Drift, Recount};
use crate::inspect::{MessageState, Pending, PendingQuery, Place, Standing};
use windlass_core::{History, MessageId, Timestamp};

impl State {
    /// A page of what is leased, waiting or parked.
    pub(super) fn pending(
        &self,
        query: &PendingQuery,
        now: Timestamp,
    ) -> Result<Vec<Pending>, LogError> {
        let place = self.meant(&query.topic, Some(&query.group))?[0];
        let group = &self.groups[place];
        let messages = &self.topics[group.topic].messages;
        let after = query.after.map(|id| id.sequence).unwrap_or_default();
        let page = group.pending_after(after).into_iter();
        let found = page.filter_map(|sequence| group.pending(messages.get(&sequence)?.id, now));
        Ok(found.take(query.limit.get()).collect())
    }

    /// One message, and how it stands in every group of its topic.
    pub(super) fn message(&self, id: MessageId, now: Timestamp) -> Option<MessageState> {
        let place = self.topic_of(id)?;
        let topic = &self.topics[place];
        let groups =
            topic.groups.values().map(|group| self.standing(&self.groups[*group], id, now));
        Some(MessageState {
            topic: topic.name.clone(),
            id,
            due: topic.due.get(&id.sequence).copied(),
            message: topic.messages.get(&id.sequence).cloned(),
            groups: groups.collect(),
        })
    }

    /// Counts again what is kept beside what it counts: the size of what each topic stores.
    pub(super) fn recount(&self, now: Timestamp) -> Recount {
        let mut done = Recount { at: now, ..Recount::default() };
        for topic in self.by_name.values().map(|place| &self.topics[*place]) {
            let found: u64 = topic.messages.values().map(|message| message.size()).sum();
            done.topics += 1;
            done.groups += topic.groups.len() as u64;
            done.rows += topic.messages.len() as u64;
            if found != topic.bytes {
                done.drift.push(Drift {
                    topic: topic.name.clone(),
                    group: None,
                    figure: "stored bytes",
                    kept: topic.bytes.cast_signed(),
                    found: found.cast_signed(),
                });
            }
        }
        done
    }

    /// The place of the topic that holds a message.
    pub(super) fn topic_of(&self, id: MessageId) -> Option<usize> {
        let holds = |message: &std::sync::Arc<windlass_core::Message>| message.id == id;
        self.topics.iter().position(|topic| topic.messages.get(&id.sequence).is_some_and(holds))
    }

    fn standing(&self, group: &GroupLog, id: MessageId, now: Timestamp) -> Standing {
        let pending = group.pending(id, now);
        let dead = self.dead_letter_at(group, id.sequence);
        let place = match (&pending, &dead) {
            (Some(pending), _) => pending.place,
            (None, Some(_)) => Place::Dead,
            (None, None) if group.needs(id.sequence) => {
                let due = self.topics[group.topic].due.get(&id.sequence);
                let waits = due.is_some_and(|due| *due > now) && group.is_patient(id.sequence);
                if waits { Place::Delayed } else { Place::New }
            }
            (None, None) => Place::Settled,
        };
        let told = pending.is_some() || dead.is_some();
        let history = if told { group.history(id.sequence) } else { History::default() };
        Standing { group: group.name.clone(), place, pending, dead, history }
    }
}
