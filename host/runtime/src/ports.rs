//! What the runtime asks of the rest of Windlass. Implemented by the server over the log.

use windlass_core::NewMessage;

/// Where messages go that a guest sends at once, whatever becomes of its delivery.
///
/// Grants, sizes, names, hops and the limits of the delivery were checked before.
#[async_trait::async_trait]
pub trait Outbox: Send + Sync {
    /// Publishes `message`; Ok only once it is durable.
    async fn publish(&self, message: NewMessage) -> Result<(), SendRefused>;
}

/// Why a message was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendRefused {
    /// There is no room, or no storage: a failure of this delivery is then not the guest's.
    #[error("{0}")]
    Full(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}
