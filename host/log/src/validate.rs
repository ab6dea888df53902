//! What every backend asks of a message before it touches storage.

use crate::error::LogError;
use windlass_core::NewMessage;

/// Whether `message` may be stored at all; topics and room are the backend's to judge.
pub(crate) fn check(message: &NewMessage) -> Result<(), LogError> {
    message
        .check_sizes()
        .map_err(|source| LogError::TooLarge { topic: message.topic.clone(), source })?;
    let not_built = [
        (message.key.is_some(), "a message's key"),
        (message.dedup_id.is_some(), "a message's dedup id"),
        (message.delay.is_some(), "a message's delay"),
    ];
    match not_built.iter().find(|(set, _)| *set) {
        Some((_, what)) => Err(LogError::NotBuilt(what)),
        None => Ok(()),
    }
}
