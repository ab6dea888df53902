//! The guest side of Windlass: components in a sandbox with hard limits.
//!
//! [`Engine`] compiles and runs, [`Component`] is code that was checked whole, and a
//! [`Consumer`] is a component with its limits and grants. [`Consumer::invoke`] hands one
//! delivery to the guest and answers with an [`Outcome`](windlass_core::Outcome), made in one
//! place (`classify`). What becomes of the message is decided elsewhere; nothing here knows the
//! log, and what a guest sends at once goes through the port [`Outbox`].
//!
//! A guest never ends the host: it cannot make it panic, wait without end, or grow.

mod bindings;
mod cache;
mod classify;
mod component;
mod consumer;
mod delivery;
mod engine;
mod instance;
mod invoke;
mod messaging;
mod meter;
mod output;
mod pool;
mod ports;
mod report;
mod send;
mod shape;
mod store;
mod ticker;

pub use component::{CheckError, Component, FILE_BYTES_MAX, digest};
pub use consumer::{Consumer, ConsumerConfig, InstancePolicy, SendMode};
pub use delivery::{Delivery, Stop};
pub use engine::{Allocation, Engine, EngineConfig, EngineError};
pub use invoke::Invocation;
pub use output::Output;
pub use pool::{Needs, PoolSize};
pub use ports::{Outbox, SendRefused};
pub use report::{Import, Report};
