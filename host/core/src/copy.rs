//! The copy of a dead letter that a group's policy asks for.

use crate::id::MessageId;
use crate::message::{HOPS_MAX, Message, NewMessage};
use crate::name::{Group, Topic};

/// Metadata of a copy: where the dead letter lies, its id, and why it was given up.
pub const DEAD_TOPIC: &str = "windlass-dead-topic";
/// The group that gave it up.
pub const DEAD_GROUP: &str = "windlass-dead-group";
/// Its id.
pub const DEAD_ID: &str = "windlass-dead-id";
/// Why.
pub const DEAD_REASON: &str = "windlass-dead-reason";

/// A copy of `message`, which `group` gave up for `reason`, for the topic `to`; none where it has
/// come too far already, so that topics which bury in each other come to an end. What an earlier
/// death wrote on it gives way.
#[must_use]
pub fn dead_letter_copy(
    message: &Message,
    group: &Group,
    reason: &str,
    to: &Topic,
) -> Option<NewMessage> {
    let hops = message.hops + 1;
    if hops > HOPS_MAX {
        return None;
    }
    let of_death = [DEAD_TOPIC, DEAD_GROUP, DEAD_ID, DEAD_REASON];
    let kept = message.metadata.iter().filter(|(key, _)| !of_death.contains(&key.as_str()));
    let mut metadata: Vec<_> = kept.cloned().collect();
    let id: MessageId = message.id;
    let told = [message.topic.as_str(), group.as_str(), &id.to_string(), reason].map(str::to_owned);
    metadata.extend(of_death.map(str::to_owned).into_iter().zip(told));
    Some(NewMessage {
        topic: to.clone(),
        data: message.data.clone(),
        content_type: message.content_type.clone(),
        metadata,
        key: message.key.clone(),
        dedup_id: None,
        delay: None,
        hops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Sequence;
    use crate::time::Timestamp;

    #[test]
    fn a_copy_says_of_what_and_why_once_and_comes_to_an_end() {
        let mut message = Message {
            id: MessageId { millis: Timestamp(7), sequence: Sequence(9) },
            topic: Topic::new("t").unwrap(),
            data: vec![1, 2].into(),
            content_type: Some("a/b".into()),
            metadata: vec![("k".into(), "v".into()), (DEAD_REASON.into(), "before".into())],
            key: Some("key".into()),
            published_at: 1,
            hops: HOPS_MAX - 1,
        };
        let (group, to) = (Group::new("g").unwrap(), Topic::new("dead").unwrap());
        let copy = dead_letter_copy(&message, &group, "why", &to).unwrap();
        assert_eq!((copy.topic, copy.hops), (to.clone(), HOPS_MAX));
        assert_eq!((copy.data, copy.key.as_deref()), (message.data.clone(), Some("key")));
        let id = message.id.to_string();
        let expected = [
            ("k", "v"),
            (DEAD_TOPIC, "t"),
            (DEAD_GROUP, "g"),
            (DEAD_ID, id.as_str()),
            (DEAD_REASON, "why"),
        ];
        assert_eq!(copy.metadata, expected.map(|(k, v)| (k.to_owned(), v.to_owned())));
        message.hops = HOPS_MAX;
        assert_eq!(dead_letter_copy(&message, &group, "why", &to), None);
    }
}
