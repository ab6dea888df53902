//! What every backend asks of a message before it touches storage.

use crate::error::LogError;
use windlass_core::policy::DELAY_MAX;
use windlass_core::{NewMessage, Timestamp};

/// Whether `message` may be stored at all; topics and room are the backend's to judge.
pub(crate) fn check(message: &NewMessage) -> Result<(), LogError> {
    message
        .check_sizes()
        .map_err(|source| LogError::TooLarge { topic: message.topic.clone(), source })
}

/// When a message accepted at `now` may first be handled, where it was given a delay.
pub(crate) fn due(message: &NewMessage, now: Timestamp) -> Option<Timestamp> {
    message.delay.map(|delay| now.after(delay.min(DELAY_MAX)))
}
