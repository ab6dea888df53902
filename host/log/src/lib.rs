//! The durable message log: its law, written on the traits below, and the backends that keep it.
//!
//! [`MessageLog`] is the data path, [`LogAdmin`] what operators ask, [`Deployments`] what is to run. [`memory::MemoryLog`] is made
//! of the core's pure decisions and is the oracle for [`sqlite::SqliteLog`]. Nothing here knows
//! of components, HTTP or the command line.
//!
//! ```text
//!   sequence   1    2    3    4    5    6          a acked, c claimed, r retry at a later time,
//!              a    d    c    a    r    -          d dead letter
//!                                  ^cursor
//!                                       ^ new: everything after the cursor
//!   a group's leases (c) are one compact value; what waits (r) and what is dead (d) are rows;
//!   at or before the cursor, neither leased nor waiting: settled.
//! ```

pub mod admin;
pub mod api;
pub mod clock;
pub mod deployments;
mod error;
pub mod health;
pub mod inspect;
pub mod memory;
pub mod sqlite;
mod validate;
mod waiter;

#[cfg(feature = "testing")]
pub mod conformance;

pub use admin::{
    Counts, DeadLetter, DeadLetterFilter, DeadLetterQuery, Declared, Gap, GroupSpec, GroupState,
    LogAdmin, Purged, RETAIN, Redriven, TopicLimits, TopicState, TopicsMode,
};
pub use api::{
    Capabilities, Claim, ClaimRequest, Extended, Extension, Fence, MessageLog, Prefer, Published,
    Settled, Settlement, Start,
};
pub use deployments::{Change, Deployed, Deployment, Deployments, REVISIONS_KEPT, Revision, Told};
pub use error::LogError;
pub use health::{ClockHealth, Drift, FileHealth, Health, Recount, UNREAD_LONG};
pub use inspect::{
    GroupLag, MessageState, Pending, PendingQuery, Place, ReadFrom, ReadGap, ReadMessage, ReadPage,
    ReadRequest, Standing, TransferRequest,
};
pub use waiter::Waiter;

use std::sync::Arc;

/// A log with all of its faces.
pub trait Log: MessageLog + LogAdmin + Deployments {}
impl<T: MessageLog + LogAdmin + Deployments> Log for T {}

/// Any backend.
pub type DynLog = Arc<dyn Log>;
