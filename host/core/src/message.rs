//! Messages: to be published, and as stored.

use crate::id::{MessageId, Sequence};
use crate::name::Topic;
use bytes::Bytes;
use std::time::Duration;

/// Ordered pairs; a key may stand twice.
pub type Metadata = Vec<(String, String)>;

/// Most bytes of data a message may have.
pub const DATA_BYTES_MAX: usize = 1 << 20;
/// Most bytes of metadata, keys and values added up.
pub const METADATA_BYTES_MAX: usize = 64 << 10;
/// Most bytes of content type, key or dedup id.
pub const FIELD_BYTES_MAX: usize = 1024;
/// Metadata keys under this prefix are the host's.
pub const HOST_KEY_PREFIX: &str = "windlass-";
/// A message sent while handling one that has come this far is a loop (32 hops are allowed).
pub const HOPS_MAX: u32 = 32;

/// A message as a publisher hands it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Where to.
    pub topic: Topic,
    /// The body.
    pub data: Bytes,
    /// A media type, where the publisher says one.
    pub content_type: Option<String>,
    /// Kept as given, in order.
    pub metadata: Metadata,
    /// Messages of one key are handled in order within a group.
    pub key: Option<String>,
    /// Seen again on the topic within the window: answered with the first one's id.
    pub dedup_id: Option<String>,
    /// Not to be handled before this long after publishing; at most [`crate::policy::DELAY_MAX`].
    pub delay: Option<Duration>,
    /// How many deliveries stand between this message and an outside publisher.
    pub hops: u32,
}

/// What is wrong with a message, before any storage is asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the message's {what} has {found} bytes; at most {most} are allowed")]
pub struct MessageError {
    /// Which part.
    pub what: &'static str,
    /// Its size in bytes.
    pub found: usize,
    /// The limit in bytes.
    pub most: usize,
}

impl NewMessage {
    /// A message of nothing but data.
    #[must_use]
    pub fn new(topic: Topic, data: impl Into<Bytes>) -> Self {
        Self {
            topic,
            data: data.into(),
            content_type: None,
            metadata: Vec::new(),
            key: None,
            dedup_id: None,
            delay: None,
            hops: 0,
        }
    }

    /// What quotas count: data, content type, metadata and key, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        size(&self.data, self.content_type.as_deref(), &self.metadata, self.key.as_deref())
    }

    /// Whether every part is within its limit.
    pub fn check_sizes(&self) -> Result<(), MessageError> {
        let field = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        for (what, found, most) in [
            ("data", self.data.len(), DATA_BYTES_MAX),
            ("metadata", metadata_size(&self.metadata), METADATA_BYTES_MAX),
            ("content type", field(&self.content_type), FIELD_BYTES_MAX),
            ("key", field(&self.key), FIELD_BYTES_MAX),
            ("dedup id", field(&self.dedup_id), FIELD_BYTES_MAX),
        ] {
            if found > most {
                return Err(MessageError { what, found, most });
            }
        }
        Ok(())
    }
}

/// A message as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Unique in its log.
    pub id: MessageId,
    /// Where it was published.
    pub topic: Topic,
    /// The body.
    pub data: Bytes,
    /// As published.
    pub content_type: Option<String>,
    /// As published.
    pub metadata: Metadata,
    /// As published.
    pub key: Option<String>,
    /// Wall time of publishing, Unix milliseconds. For showing only.
    pub published_at: u64,
    /// As published.
    pub hops: u32,
}

impl Message {
    /// Its place in the log.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.id.sequence
    }

    /// What quotas count: data, content type, metadata and key, in bytes.
    #[must_use]
    pub fn size(&self) -> u64 {
        size(&self.data, self.content_type.as_deref(), &self.metadata, self.key.as_deref())
    }
}

fn metadata_size(metadata: &Metadata) -> usize {
    metadata.iter().map(|(key, value)| key.len() + value.len()).sum()
}

fn size(data: &Bytes, content_type: Option<&str>, metadata: &Metadata, key: Option<&str>) -> u64 {
    let fields = content_type.map_or(0, str::len) + key.map_or(0, str::len);
    (data.len() + fields + metadata_size(metadata)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_over_its_limit_is_named() {
        let topic = Topic::new("t").unwrap();
        let mut message = NewMessage::new(topic.clone(), vec![0; DATA_BYTES_MAX]);
        assert_eq!(message.check_sizes(), Ok(()));
        message.metadata = vec![("k".into(), "v".repeat(METADATA_BYTES_MAX))];
        assert_eq!(message.check_sizes().unwrap_err().what, "metadata");
        let message = NewMessage::new(topic, vec![0; DATA_BYTES_MAX + 1]);
        assert_eq!(message.check_sizes().unwrap_err().what, "data");
    }
}
