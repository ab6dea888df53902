//! Names of topics and groups, checked once at the edge.
//!
//! A name that exists as one of these types is valid; nothing behind the edge checks again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Longest name of a topic or group, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Names under this prefix belong to the host; nobody may publish to them.
pub const HOST_PREFIX: &str = "windlass/";

/// Why a name was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a valid {kind} name: {why}")]
pub struct NameError {
    kind: &'static str,
    name: String,
    why: &'static str,
}

/// Where messages are published, such as `orders` or `orders/created`.
///
/// `orders` never includes `orders/created`. 1 to 255 bytes of UTF-8 without control characters,
/// `*` or `>`, without a leading, trailing or double `/`.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(try_from = "String", into = "String")]
pub struct Topic(Arc<str>);

impl TryFrom<String> for Topic {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        Self::new(&name)
    }
}

impl From<Topic> for String {
    fn from(topic: Topic) -> Self {
        topic.as_str().to_owned()
    }
}

/// A durable reading position on a topic. The one named by nothing is the work queue.
///
/// Same rules as a [`Topic`], but may be empty and has no `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Group(Arc<str>);

/// What is wrong with `name`, if anything; rules that topics and groups share.
fn fault(name: &str) -> Option<&'static str> {
    if name.len() > NAME_BYTES_MAX {
        Some("it is longer than 255 bytes")
    } else if name.chars().any(char::is_control) {
        Some("it has a control character")
    } else if name.contains(['*', '>']) {
        Some("`*` and `>` are for patterns")
    } else {
        None
    }
}

impl Topic {
    /// Checks `name`, which must be one a user may choose.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let why = if name.is_empty() {
            Some("it is empty")
        } else if name.starts_with('/') || name.ends_with('/') || name.contains("//") {
            Some("a `/` must stand between two segments")
        } else if name.starts_with(HOST_PREFIX) || name == "windlass" {
            Some("names under `windlass` are the host's")
        } else {
            fault(name)
        };
        match why {
            Some(why) => Err(NameError { kind: "topic", name: shown(name), why }),
            None => Ok(Self(name.into())),
        }
    }

    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Group {
    /// Checks `name`; the empty name is the work queue.
    pub fn new(name: &str) -> Result<Self, NameError> {
        let why = if name.contains('/') { Some("a group has no `/`") } else { fault(name) };
        match why {
            Some(why) => Err(NameError { kind: "group", name: shown(name), why }),
            None => Ok(Self(name.into())),
        }
    }

    /// The group named by nothing.
    #[must_use]
    pub fn work_queue() -> Self {
        Self::default()
    }

    /// The name as written; empty for the work queue.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the work queue.
    #[must_use]
    pub fn is_work_queue(&self) -> bool {
        self.0.is_empty()
    }
}

/// A refused name as it may be shown on a terminal: escaped, and cut where it is long.
fn shown(name: &str) -> String {
    let mut text: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    if name.chars().nth(80).is_some() {
        text.push_str("...");
    }
    text
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Topic {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

impl FromStr for Group {
    type Err = NameError;
    fn from_str(name: &str) -> Result<Self, NameError> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_follow_the_rules() {
        for good in ["a", "orders/created", "github/pull_request", "ä/ö", &"x".repeat(255)] {
            assert!(Topic::new(good).is_ok(), "{good}");
        }
        let long = "x".repeat(256);
        for bad in ["", "/a", "a/", "a//b", "a*", "a/>", "a\nb", "windlass/x", "windlass", &long] {
            assert!(Topic::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_may_be_empty_but_have_no_slash() {
        assert!(Group::new("").unwrap().is_work_queue());
        assert!(Group::new("billing").is_ok());
        for bad in ["a/b", "a*", "\u{7}"] {
            assert!(Group::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refused_name_is_shown_without_control_characters() {
        let text = Topic::new("a\u{1b}[31m").unwrap_err().to_string();
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
