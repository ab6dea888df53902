//! The newest messages, kept in memory so that a group that is caught up reads nothing back.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use windlass_core::{Message, Sequence, Timestamp, Topic};

/// Most bytes kept over all topics.
const BYTES_MAX: usize = 32 << 20;

/// The newest messages of each topic, without a hole up to the newest.
#[derive(Debug, Default)]
pub(super) struct Tail {
    topics: HashMap<Topic, OfTopic>,
    bytes: usize,
}

#[derive(Debug)]
struct OfTopic {
    /// All of the topic's messages after this are here.
    after: Sequence,
    /// With when each may first be handled, where it was given a delay.
    messages: VecDeque<(Arc<Message>, Option<Timestamp>)>,
}

fn weight(message: &Message) -> usize {
    usize::try_from(message.size()).unwrap_or(usize::MAX / 2).saturating_add(200)
}

impl Tail {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.topics.clear();
        self.bytes = 0;
    }

    /// Adds a message just published; `before` is the topic's newest before it.
    pub(super) fn push(&mut self, message: Arc<Message>, due: Option<Timestamp>, before: Sequence) {
        if self.bytes > BYTES_MAX {
            self.shrink();
        }
        self.bytes += weight(&message);
        let of_topic = self
            .topics
            .entry(message.topic.clone())
            .or_insert_with(|| OfTopic { after: before, messages: VecDeque::new() });
        of_topic.messages.push_back((message, due));
    }

    /// Messages after `cursor`, at most `max`; none where not all of them are here.
    pub(super) fn after(
        &self,
        topic: &Topic,
        cursor: Sequence,
        max: usize,
    ) -> Option<Vec<(Arc<Message>, Option<Timestamp>)>> {
        let of_topic = self.topics.get(topic)?;
        if cursor < of_topic.after {
            return None;
        }
        let from = of_topic.messages.partition_point(|(message, _)| message.sequence() <= cursor);
        Some(of_topic.messages.range(from..).take(max).cloned().collect())
    }

    /// Forgets a topic.
    pub(super) fn forget(&mut self, topic: &Topic) {
        let gone = self.topics.remove(topic);
        let messages = gone.iter().flat_map(|of_topic| &of_topic.messages);
        self.bytes -= messages.map(|(message, _)| weight(message)).sum::<usize>();
    }

    /// Forgets what every group of the topic has passed.
    pub(super) fn trim(&mut self, topic: &Topic, passed: Sequence) {
        let Some(of_topic) = self.topics.get_mut(topic) else { return };
        let keep = of_topic.messages.partition_point(|(message, _)| message.sequence() <= passed);
        let gone = of_topic.messages.range((Bound::Unbounded, Bound::Excluded(keep)));
        self.bytes -= gone.map(|(message, _)| weight(message)).sum::<usize>();
        of_topic.messages.drain(..keep);
        of_topic.after = of_topic.after.max(passed);
        if of_topic.messages.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// Halves every topic's share.
    fn shrink(&mut self) {
        for of_topic in self.topics.values_mut() {
            let half = of_topic.messages.len().div_ceil(2);
            for (message, _) in of_topic.messages.drain(..half) {
                self.bytes -= weight(&message);
                of_topic.after = message.sequence();
            }
        }
        self.topics.retain(|_, of_topic| !of_topic.messages.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_core::MessageId;

    fn message(sequence: u64, size: usize) -> Arc<Message> {
        Arc::new(Message {
            id: MessageId { millis: Timestamp(1), sequence: Sequence(sequence) },
            topic: Topic::new("t").unwrap(),
            data: vec![0; size].into(),
            content_type: None,
            metadata: vec![],
            key: None,
            published_at: 0,
            hops: 0,
        })
    }

    #[test]
    fn it_answers_only_where_nothing_is_missing() {
        let topic = Topic::new("t").unwrap();
        let mut tail = Tail::default();
        tail.push(message(5, 1), None, Sequence(3));
        tail.push(message(8, 1), None, Sequence(5));
        let found = |tail: &Tail, cursor, max| {
            tail.after(&topic, Sequence(cursor), max)
                .map(|found| found.iter().map(|(m, _)| m.sequence().0).collect::<Vec<_>>())
        };
        assert_eq!(found(&tail, 2, 9), None, "4 may be missing");
        assert_eq!(found(&tail, 3, 9), Some(vec![5, 8]));
        assert_eq!(found(&tail, 5, 1), Some(vec![8]));
        assert_eq!(found(&tail, 8, 9), Some(vec![]));
        tail.trim(&topic, Sequence(6));
        assert_eq!(found(&tail, 5, 9), None);
        assert_eq!(found(&tail, 6, 9), Some(vec![8]));
    }

    #[test]
    fn it_does_not_grow_past_its_bound() {
        let topic = Topic::new("t").unwrap();
        let mut tail = Tail::default();
        for sequence in 1..200 {
            tail.push(message(sequence, 1 << 20), None, Sequence(sequence - 1));
            assert!(tail.bytes <= BYTES_MAX + 2 * (1 << 20));
        }
        assert!(tail.after(&topic, Sequence(0), 1).is_none());
        assert_eq!(tail.after(&topic, Sequence(198), 9).unwrap().len(), 1);
    }
}
