//! Emptying and deleting topics of the memory log.

use super::group::GroupLog;
use super::state::{State, Wakes};
use crate::admin::Purged;
use crate::error::LogError;
use windlass_core::{Sequence, Timestamp, Topic};

impl State {
    /// Removes all that is there of a topic but its dead letters, which go only `with_dead`.
    pub(super) fn purge_topic(
        &mut self,
        name: &Topic,
        with_dead: bool,
        now: Timestamp,
        wakes: &mut Wakes,
    ) -> Result<Purged, LogError> {
        let groups = self.meant(name, None)?;
        let (newest, at) = (self.last.sequence, self.by_name[name]);
        let before = self.stored(at);
        for place in &groups {
            let group = &mut self.groups[*place];
            group.seek(newest);
            wakes.group(name, &group.name);
        }
        let topic = &mut self.topics[at];
        topic.unclaimed.clear();
        if groups.is_empty() {
            topic.unclaimed.push((newest, None));
        }
        topic.dedup.clear();
        let dead = if with_dead { self.purge_dead(name, None)? } else { 0 };
        self.let_go_all(at);
        self.sweep_settled(at, newest, now);
        let gone = before.less(self.stored(at));
        Ok(Purged { messages: gone.messages, bytes: gone.bytes, dead })
    }

    /// Deletes a topic with its groups.
    pub(super) fn remove_topic(
        &mut self,
        name: &Topic,
        force: bool,
        wakes: &mut Wakes,
    ) -> Result<Purged, LogError> {
        let groups = self.meant(name, None)?;
        let at = self.by_name[name];
        let unsettled = self.needed(at).messages;
        let dead = groups.iter().map(|place| self.groups[*place].dead.len() as u64).sum();
        if !force && (unsettled > 0 || dead > 0) {
            return Err(LogError::TopicNotEmpty { topic: name.clone(), unsettled, dead });
        }
        let stored = self.stored(at);
        for place in groups {
            let group = self.groups[place].name.clone();
            wakes.group(name, &group);
            // Its place stays taken, so that no token of it speaks of another group.
            self.groups[place] = GroupLog::gone(at, group);
        }
        // So does the topic's, with nothing in it.
        let topic = &mut self.topics[at];
        let last = topic.messages.keys().next_back().copied().unwrap_or_default();
        self.former.insert(name.clone(), topic.gone.max(last));
        topic.messages.clear();
        topic.bytes = 0;
        topic.dedup.clear();
        topic.due.clear();
        topic.groups.clear();
        topic.unclaimed.clear();
        topic.swept_to = Sequence::MAX;
        self.by_name.remove(name);
        Ok(Purged { messages: stored.messages, bytes: stored.bytes, dead })
    }
}
