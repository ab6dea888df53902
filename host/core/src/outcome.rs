//! What an invocation came to. The runtime makes it in one place; only [`crate::settle`] reads it.

use crate::message::NewMessage;
use std::time::Duration;

/// What an invocation came to, in the order of the contract's law 26.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The lease was lost while the handler ran: somebody else may have the message.
    LeaseLost,
    /// The component failed before `handle` was entered.
    StartFailed {
        /// Why.
        text: String,
    },
    /// The consumer stopped before the handler ended.
    Interrupted,
    /// The invocation failed after the host refused it a grant.
    GrantMissing {
        /// What was refused, as the user would write it in the manifest.
        grant: String,
        /// The failure's own text.
        text: String,
    },
    /// The guest trapped (panic, unreachable, exit).
    Trapped {
        /// The guest's own text and the trap's.
        text: String,
    },
    /// The handler ran past its wall clock.
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// The handler computed past its CPU limit.
    OutOfCpu {
        /// The limit.
        limit: Duration,
    },
    /// The component's memories grew past their limit.
    OutOfMemory {
        /// The limit in bytes.
        limit: u64,
    },
    /// More messages, bytes or resources than allowed, whatever was returned.
    TooMuch {
        /// What there was too much of, and the limit.
        text: String,
    },
    /// The guest's last word was `reject`.
    Rejected {
        /// Its reason.
        reason: String,
    },
    /// The guest's last word was `retry-after`.
    RetryAsked {
        /// How long to wait.
        after: Duration,
    },
    /// `err(permission-denied)`: the guest says this message will never succeed.
    Denied {
        /// Its text.
        text: String,
    },
    /// `err(timeout)`, `err(connection)` or `err(other)`.
    Failed {
        /// `timeout`, `connection` or `other`.
        kind: &'static str,
        /// The guest's text.
        text: String,
    },
    /// A send went past the last hop allowed: messages run in a circle.
    HopsExceeded {
        /// Where it would have gone.
        text: String,
    },
    /// `ok`.
    Done {
        /// What it sent, to be committed with the ack.
        sends: Vec<NewMessage>,
    },
    /// The settle was refused, or an immediate send was refused as full.
    Refused {
        /// By what.
        text: String,
    },
}

impl Outcome {
    /// The name in logs, metrics and histories.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::LeaseLost => "lease-lost",
            Self::StartFailed { .. } => "start-failed",
            Self::Interrupted => "interrupted",
            Self::GrantMissing { .. } => "grant-missing",
            Self::Trapped { .. } => "trapped",
            Self::TimedOut { .. } => "timed-out",
            Self::OutOfCpu { .. } => "out-of-cpu",
            Self::OutOfMemory { .. } => "out-of-memory",
            Self::TooMuch { .. } => "too-much",
            Self::Rejected { .. } => "rejected",
            Self::RetryAsked { .. } => "retry-asked",
            Self::Denied { .. } => "permission-denied",
            Self::Failed { kind: "timeout", .. } => "error-timeout",
            Self::Failed { kind: "connection", .. } => "error-connection",
            Self::Failed { .. } => "error-other",
            Self::HopsExceeded { .. } => "hops-exceeded",
            Self::Done { .. } => "ok",
            Self::Refused { .. } => "refused",
        }
    }

    /// What there is to say about it beyond its name; empty for a success.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::LeaseLost => "the lease was lost; another worker may have the message".into(),
            Self::Interrupted => "the consumer stopped before the handler ended".into(),
            Self::GrantMissing { grant, text } => format!("not granted: {grant}; {text}"),
            Self::TimedOut { limit } => {
                format!("the handler ran longer than {limit:?} (limits.wall)")
            }
            Self::OutOfCpu { limit } => {
                format!("the handler computed longer than {limit:?} (limits.cpu)")
            }
            Self::OutOfMemory { limit } => {
                format!("the component's memory grew past {limit} bytes (limits.memory)")
            }
            Self::RetryAsked { after } => format!("the handler asked for a retry after {after:?}"),
            Self::StartFailed { text }
            | Self::Trapped { text }
            | Self::TooMuch { text }
            | Self::Rejected { reason: text }
            | Self::Denied { text }
            | Self::Failed { text, .. }
            | Self::HopsExceeded { text }
            | Self::Refused { text } => text.clone(),
            Self::Done { .. } => String::new(),
        }
    }
}
