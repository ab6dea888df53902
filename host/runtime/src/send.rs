//! What happens when a guest sends: the checks in order, then into the invocation's own list or
//! out through the port.

use crate::bindings::{GuestError, producer_host};
use crate::consumer::SendMode;
use crate::messaging::{ClientRes, MessageRes, is_host_key};
use crate::ports::SendRefused;
use crate::store::StoreData;
use std::time::Duration;
use wasmtime::component::Resource;
use windlass_core::message::{HOPS_MAX, HOST_KEY_PREFIX};
use windlass_core::policy::DELAY_MAX;
use windlass_core::{Metadata, NewMessage, Topic};

/// Metadata by which a guest asks something of a send; the host takes it off.
const KEY: &str = "windlass-key";
const DELAY_MS: &str = "windlass-delay-ms";
const DEDUP_ID: &str = "windlass-dedup-id";

fn other(text: impl Into<String>) -> GuestError {
    GuestError::Other(text.into())
}

/// What a guest asks of a send.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    key: Option<String>,
    delay: Option<Duration>,
    dedup_id: Option<String>,
}

/// The metadata that goes on, and what was asked by it: what the host added is dropped, what it
/// obeys is taken off, what it does not take is refused. Of several values the last one counts.
fn split(metadata: Metadata) -> Result<(Metadata, Asked), GuestError> {
    let (mut goes_on, mut asked) = (Metadata::new(), Asked::default());
    for (key, value) in metadata {
        match key.as_str() {
            KEY => asked.key = Some(value),
            DEDUP_ID => asked.dedup_id = Some(value),
            DELAY_MS => asked.delay = Some(delay(&value)?),
            key if is_host_key(key) => {}
            key if key.starts_with(HOST_KEY_PREFIX) => {
                let key: String = key.chars().take(80).flat_map(char::escape_debug).collect();
                let text = format!("metadata under `{HOST_KEY_PREFIX}` is the host's: `{key}`");
                return Err(other(text));
            }
            _ => goes_on.push((key, value)),
        }
    }
    Ok((goes_on, asked))
}

fn delay(text: &str) -> Result<Duration, GuestError> {
    let delay = text.parse().map(Duration::from_millis).ok().filter(|delay| *delay <= DELAY_MAX);
    delay.ok_or_else(|| {
        let days = DELAY_MAX.as_secs() / 86_400;
        other(format!("`{DELAY_MS}` must be milliseconds, at most {days} days"))
    })
}

impl StoreData {
    /// What would be published, if all is well with it.
    fn outgoing(&mut self, topic: &str, message: MessageRes) -> Result<NewMessage, GuestError> {
        if let Some(fault) = message.fault() {
            return Err(other(fault));
        }
        let topic = Topic::new(topic).map_err(|error| other(error.to_string()))?;
        let (metadata, asked) = split(message.all_metadata().unwrap_or_default())?;
        let mut outgoing = NewMessage::new(topic, message.data);
        outgoing.content_type = message.content_type;
        outgoing.metadata = metadata;
        (outgoing.key, outgoing.delay, outgoing.dedup_id) =
            (asked.key, asked.delay, asked.dedup_id);
        outgoing.hops = self.delivery.message.hops.saturating_add(1);
        outgoing.check_sizes().map_err(|error| other(error.to_string()))?;
        self.check_grant(&outgoing)?;
        self.check_hops(&outgoing)?;
        self.count(&outgoing)?;
        Ok(outgoing)
    }

    fn check_grant(&mut self, message: &NewMessage) -> Result<(), GuestError> {
        if self.settings.grants.may_publish(&message.topic) {
            return Ok(());
        }
        let topic = &message.topic;
        self.facts.grant_refused.get_or_insert_with(|| format!("publish \"{topic}\""));
        Err(GuestError::PermissionDenied(format!("no grant to publish to `{topic}`")))
    }

    fn check_hops(&mut self, message: &NewMessage) -> Result<(), GuestError> {
        if message.hops <= HOPS_MAX {
            return Ok(());
        }
        let text = format!(
            "a send to `{}` would be hop {} of {HOPS_MAX}: do messages run in a circle?",
            message.topic, message.hops
        );
        self.facts.hops_exceeded.get_or_insert_with(|| text.clone());
        Err(other(text))
    }

    /// Counts a send against the limits of the invocation.
    fn count(&mut self, message: &NewMessage) -> Result<(), GuestError> {
        let limits = &self.settings.limits;
        let sent = self.facts.sent.saturating_add(1);
        let bytes = self.facts.sent_bytes.saturating_add(message.size());
        let over = if sent > limits.sends {
            format!("it sent more than {} messages (limits.sends)", limits.sends)
        } else if bytes > limits.sent_bytes {
            format!("it sent more than {} bytes (limits.sent-bytes)", limits.sent_bytes)
        } else {
            self.facts.sent = sent;
            self.facts.sent_bytes = bytes;
            return Ok(());
        };
        self.facts.too_much.get_or_insert_with(|| over.clone());
        Err(other(over))
    }

    async fn hand_over(&mut self, message: NewMessage) -> Result<(), GuestError> {
        let outbox = match &self.settings.sends {
            SendMode::WithAck => {
                self.facts.sends.push(message);
                return Ok(());
            }
            SendMode::Immediate(outbox) => std::sync::Arc::clone(outbox),
        };
        match outbox.publish(message).await {
            Ok(()) => Ok(()),
            Err(SendRefused::Full(why)) => {
                self.facts.full.get_or_insert_with(|| why.clone());
                Err(other(why))
            }
            Err(SendRefused::Other(why)) => Err(other(why)),
        }
    }
}

impl producer_host::Host for StoreData {
    async fn send(
        &mut self,
        client: Resource<ClientRes>,
        topic: String,
        message: Resource<MessageRes>,
    ) -> wasmtime::Result<Result<(), GuestError>> {
        let message = self.take_message(message)?;
        if !self.table.get(&client)?.connected {
            return Ok(Err(GuestError::Connection("the client is disconnected".to_owned())));
        }
        match self.outgoing(&topic, message) {
            Ok(message) => Ok(self.hand_over(message).await),
            Err(error) => Ok(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(all: &[(&str, &str)]) -> Metadata {
        all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_is_asked_is_taken_off_and_what_the_host_added_is_dropped() {
        let given = pairs(&[
            ("tag", "a"),
            ("windlass-id", "copied"),
            ("windlass-key", "order-7"),
            ("tag", "b"),
            ("windlass-delay-ms", "1500"),
            ("windlass-dedup-id", "d"),
        ]);
        let (metadata, asked) = split(given).unwrap();
        assert_eq!(metadata, pairs(&[("tag", "a"), ("tag", "b")]));
        let expected = Asked {
            key: Some("order-7".into()),
            delay: Some(Duration::from_millis(1_500)),
            dedup_id: Some("d".into()),
        };
        assert_eq!(asked, expected);
    }

    #[test]
    fn what_cannot_be_obeyed_is_refused() {
        for pair in [
            ("windlass-delay-ms", "soon"),
            ("windlass-delay-ms", "-1"),
            ("windlass-delay-ms", "99999999999999"),
            ("windlass-mine", "x"),
        ] {
            assert!(split(pairs(&[pair])).is_err(), "{pair:?}");
        }
    }
}
