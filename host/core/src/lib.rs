//! The words and decisions of Windlass.
//!
//! Everything here is a function of its arguments: no I/O, no clock, no dice, nothing that waits.
//! Times come in as [`time::Timestamp`] of log time, jitter as a number. The log and the runtime
//! ask these functions and carry out what they say.

pub mod copy;
pub mod history;
pub mod id;
pub mod lease;
pub mod limits;
pub mod message;
pub mod name;
pub mod outcome;
pub mod passing;
pub mod pattern;
pub mod policy;
pub mod quota;
pub mod settle;
pub mod time;
pub mod token;

pub use history::{AttemptRecord, History};
pub use id::{MessageId, Sequence};
pub use limits::{Grants, Limits};
pub use message::{Message, MessageError, Metadata, NewMessage};
pub use name::{Group, NameError, Topic};
pub use outcome::Outcome;
pub use pattern::TopicPattern;
pub use policy::{Backoff, GroupPolicy};
pub use settle::Disposition;
pub use time::Timestamp;
pub use token::Token;
