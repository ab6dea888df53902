//! Errors as a user meets them: what, why, and the next command.

use super::trouble;
use super::ui::shell;
use crate::manifest::ManifestError;
use std::error::Error;
use windlass_core::{Group, Topic};
use windlass_log::LogError;
use windlass_runtime::CheckError;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done.
    Done = 0,
    /// An error, or a consumer paused for what does not mend itself.
    Error = 1,
    /// Not used as it must be.
    Usage = 2,
    /// This run made dead letters.
    DeadLetters = 3,
    /// `--timeout` ran out.
    TimedOut = 4,
}

/// How often a change is tried while others change the same.
pub(super) const CHANGE_TRIES: usize = 16;

/// A command that could not do what was asked.
#[derive(Debug)]
pub(crate) struct Failure {
    /// In one sentence.
    pub what: String,
    /// The causes, outermost first.
    pub why: Vec<String>,
    /// What to do.
    pub next: Option<String>,
    /// The exit code.
    pub exit: Exit,
}

impl Failure {
    /// An error without more to say.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: Vec::new(), next: None, exit: Exit::Error }
    }

    /// An error made of another, with its causes.
    pub(crate) fn of(error: &dyn Error) -> Self {
        let mut why: Vec<String> = Vec::new();
        let mut source = error.source();
        while let Some(cause) = source {
            // What was said already is not said again.
            let text = cause.to_string();
            if !error.to_string().contains(&text) && !why.iter().any(|said| said.contains(&text)) {
                why.push(text);
            }
            source = cause.source();
        }
        Self { why, ..Self::new(error.to_string()) }
    }

    /// Something that the system refused to do.
    pub(crate) fn system(what: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(what).because(error.to_string())
    }

    /// A command that was not used as it must be.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::new(what) }
    }

    /// What others change each time it was read.
    pub(super) fn changing(what: &str) -> Self {
        Self::new(format!("{what} kept changing while this tried to change it"))
            .next("try again, once whoever changes it too is done")
    }

    /// Adds a cause.
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why.push(why.into());
        self
    }

    /// Adds what to do.
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let next = match &error {
            LogError::TooLarge { .. } => {
                Some("publish less data, or a reference to where it lies".to_owned())
            }
            LogError::UndeclaredTopic(topic) => {
                Some(format!("declare it in windlass.toml by [topics.\"{topic}\"]"))
            }
            LogError::QuotaFull { topic, .. } => {
                Some(format!("see what it holds: windlass topic show {}", shell(topic.as_str())))
            }
            LogError::StorageFull { .. } => {
                Some("make room on the disk, then try again".to_owned())
            }
            LogError::Unavailable { source, .. } => {
                let known = source.as_ref().and_then(|source| trouble::next_step(source));
                Some(known.unwrap_or("try again; what was asked may be asked twice").to_owned())
            }
            LogError::NoTopic(_)
            | LogError::HoldsMore { .. }
            | LogError::TopicNotEmpty { .. }
            | LogError::NoGroup { .. }
            | LogError::BusyGroup { .. }
            | LogError::GroupHasDead { .. }
            | LogError::NoMessage(_)
            | LogError::ReadOnly
            | LogError::Closed
            | LogError::Exhausted(_) => next_command(&error),
        };
        Self { next, ..Self::of(&error) }
    }
}

/// What to type about something that is not there, or is there already; `--log` apart.
pub(super) fn next_command(error: &LogError) -> Option<String> {
    let of = |topic: &Topic, group: &Group| {
        format!("{} {}", shell(topic.as_str()), shell(group.as_str()))
    };
    Some(match error {
        LogError::NoTopic(_) => "windlass topic ls".to_owned(),
        LogError::NoGroup { topic, .. } => format!("windlass group ls {}", shell(topic.as_str())),
        LogError::BusyGroup { topic, group } => format!("windlass group show {}", of(topic, group)),
        LogError::GroupHasDead { topic, group, .. } => {
            let (topic, group) = (shell(topic.as_str()), shell(group.as_str()));
            format!("windlass dlq ls {topic} --group {group}")
        }
        LogError::HoldsMore { topic, .. } | LogError::TopicNotEmpty { topic, .. } => {
            format!("windlass topic show {}", shell(topic.as_str()))
        }
        LogError::NoMessage(_) => "windlass tail TOPIC --no-follow".to_owned(),
        LogError::TooLarge { .. }
        | LogError::UndeclaredTopic(_)
        | LogError::QuotaFull { .. }
        | LogError::StorageFull { .. }
        | LogError::ReadOnly
        | LogError::Unavailable { .. }
        | LogError::Closed
        | LogError::Exhausted(_) => return None,
    })
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        let what = match error.count {
            1 => "windlass.toml has a problem".to_owned(),
            count => format!("windlass.toml has {count} problems"),
        };
        Self { why: error.text.lines().map(str::to_owned).collect(), ..Self::new(what) }
    }
}

impl From<CheckError> for Failure {
    fn from(error: CheckError) -> Self {
        Self { next: Some(error.next_step().to_owned()), ..Self::of(&error) }
    }
}
