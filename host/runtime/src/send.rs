//! What happens when a guest sends: the checks in order, then into the invocation's own list or
//! out through the port.

use crate::bindings::{GuestError, producer_host};
use crate::consumer::SendMode;
use crate::messaging::{ClientRes, MessageRes, is_host_key};
use crate::ports::SendRefused;
use crate::store::StoreData;
use wasmtime::component::Resource;
use windlass_core::message::{HOPS_MAX, HOST_KEY_PREFIX};
use windlass_core::{Metadata, NewMessage, Topic};

/// What a guest may ask of a send, once it is built.
const ASKED_BY_KEY: [&str; 3] = ["windlass-key", "windlass-delay-ms", "windlass-dedup-id"];

fn other(text: impl Into<String>) -> GuestError {
    GuestError::Other(text.into())
}

/// The metadata that goes on: what the host added is dropped, what it does not take is refused.
fn outgoing_metadata(message: &MessageRes) -> Result<Metadata, GuestError> {
    let mut metadata = message.all_metadata().unwrap_or_default();
    metadata.retain(|(key, _)| !is_host_key(key));
    match metadata.iter().find(|(key, _)| key.starts_with(HOST_KEY_PREFIX)) {
        None => Ok(metadata),
        Some((key, _)) if ASKED_BY_KEY.contains(&key.as_str()) => {
            Err(other(format!("not built yet: `{key}`")))
        }
        Some((key, _)) => {
            let key: String = key.chars().take(80).flat_map(char::escape_debug).collect();
            Err(other(format!("metadata under `{HOST_KEY_PREFIX}` is the host's: `{key}`")))
        }
    }
}

impl StoreData {
    /// What would be published, if all is well with it.
    fn outgoing(&mut self, topic: &str, message: MessageRes) -> Result<NewMessage, GuestError> {
        if let Some(fault) = message.fault() {
            return Err(other(fault));
        }
        let topic = Topic::new(topic).map_err(|error| other(error.to_string()))?;
        let metadata = outgoing_metadata(&message)?;
        let mut outgoing = NewMessage::new(topic, message.data);
        outgoing.content_type = message.content_type;
        outgoing.metadata = metadata;
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
