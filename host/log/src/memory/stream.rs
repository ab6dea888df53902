//! A topic's stream in pages, as the memory log has it.

use super::state::{State, TopicLog};
use crate::inspect::{READ_BYTES, ReadFrom, ReadGap, ReadMessage, ReadPage, ReadRequest};
use std::ops::Bound;
use std::sync::Arc;
use windlass_core::{MessageId, Sequence, Timestamp};

impl State {
    /// The next page.
    pub(super) fn stream(&self, request: &ReadRequest) -> ReadPage {
        let newest = self.last.sequence;
        let topic = self.by_name.get(&request.topic).map(|place| &self.topics[*place]);
        let (position, misses) = match request.from {
            ReadFrom::Earliest => (Sequence(0), false),
            ReadFrom::Latest => (newest, false),
            ReadFrom::Time(time) => (self.before(topic, time), false),
            // One that is not there yet would hide what comes.
            ReadFrom::After(MessageId { sequence, .. }) | ReadFrom::Position(sequence) => {
                (sequence.min(newest), true)
            }
        };
        let former = self.former.get(&request.topic).copied();
        let gone = topic.map_or(former.unwrap_or_default(), |topic| topic.gone);
        let gap = (misses && gone > position).then_some(ReadGap { after: position, through: gone });
        let mut messages = Vec::new();
        let mut more = false;
        let mut bytes = 0;
        let behind = (Bound::Excluded(position), Bound::Unbounded);
        for message in topic.into_iter().flat_map(|topic| topic.messages.range(behind)) {
            let message = message.1;
            if messages.len() >= request.limit.get() || bytes >= READ_BYTES {
                more = true;
                break;
            }
            bytes += message.size();
            let (id, message) = (message.id, Some(Arc::clone(message)));
            let due = topic.and_then(|topic| topic.due.get(&id.sequence).copied());
            messages.push(ReadMessage { id, due, message });
        }
        let last = messages.last().map_or(position, |last| last.id.sequence);
        ReadPage { gap, messages, position: if more { last } else { last.max(gone) }, more }
    }

    /// The position before the first message published at or after `time`.
    pub(super) fn before(&self, topic: Option<&TopicLog>, time: Timestamp) -> Sequence {
        let mut stored = topic.into_iter().flat_map(|topic| topic.messages.values());
        let first = stored.find(|message| message.id.millis >= time);
        first.map_or(self.last.sequence, |first| Sequence(first.id.sequence.0 - 1))
    }
}
