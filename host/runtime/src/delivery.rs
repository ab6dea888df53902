//! A delivery on its way into a guest, and what the host tells the guest about it.

use crate::bindings::delivery_host;
use crate::store::{LastWord, StoreData};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};
use tokio::time::Instant;
use windlass_core::history::{TEXT_BYTES_MAX, cut};
use windlass_core::policy::DELAY_MAX;
use windlass_core::{Message, Metadata};

/// Added to every message that is delivered, and dropped from every one that is sent.
pub(crate) const HOST_KEYS: [&str; 5] =
    ["windlass-id", "windlass-attempt", "windlass-published-at", "windlass-topic", "windlass-hops"];

/// One message in one attempt.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// What is delivered.
    pub message: Arc<Message>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// When the host ends the call, instantiation included. [`crate::Consumer::deadline`] makes
    /// one from the consumer's own limit.
    pub deadline: Instant,
}

/// Why a delivery ends that the guest did not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody else may have the message.
    LeaseLost,
    /// The drain time is over, or the consumer was undeployed.
    Interrupted,
}

impl Delivery {
    /// The message's metadata with what the host adds.
    pub(crate) fn metadata(&self) -> Metadata {
        let message = &self.message;
        let published = UNIX_EPOCH + Duration::from_millis(message.published_at);
        let values = [
            message.id.to_string(),
            self.attempt.to_string(),
            humantime::format_rfc3339_millis(published).to_string(),
            message.topic.to_string(),
            message.hops.to_string(),
        ];
        let mut metadata = Vec::with_capacity(message.metadata.len() + HOST_KEYS.len() + 1);
        metadata.extend_from_slice(&message.metadata);
        metadata.extend(HOST_KEYS.map(str::to_owned).into_iter().zip(values));
        if let Some(key) = &message.key {
            metadata.push(("windlass-key".to_owned(), key.clone()));
        }
        metadata
    }
}

impl delivery_host::Host for StoreData {
    fn id(&mut self) -> wasmtime::Result<String> {
        Ok(self.delivery.message.id.to_string())
    }

    fn attempt(&mut self) -> wasmtime::Result<u32> {
        Ok(self.delivery.attempt)
    }

    fn deadline_ms(&mut self) -> wasmtime::Result<u64> {
        let left = self.delivery.deadline.saturating_duration_since(Instant::now());
        Ok(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
    }

    fn retry_after(&mut self, ms: u64) -> wasmtime::Result<()> {
        let after = Duration::from_millis(ms).min(DELAY_MAX);
        self.facts.last_word = Some(LastWord::RetryAfter(after));
        Ok(())
    }

    fn reject(&mut self, reason: String) -> wasmtime::Result<()> {
        let reason = cut(&reason, TEXT_BYTES_MAX).to_owned();
        self.facts.last_word = Some(LastWord::Reject(reason));
        Ok(())
    }
}
