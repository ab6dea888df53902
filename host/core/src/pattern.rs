//! Patterns of topics, for grants: `*` stands for one segment, a final `>` for one or more.

use crate::name::{NameError, Topic};
use std::fmt;
use std::str::FromStr;

/// A checked pattern such as `orders`, `github/*` or `audit/>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPattern(Vec<String>);

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A segment mixes text with a wildcard, or `>` is not the last one.
    #[error("`{0}` is not a valid pattern: `*` stands for one whole segment, `>` only at the end")]
    Wildcard(String),
    /// What is left beside the wildcards is not a topic.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl TopicPattern {
    /// Checks a pattern.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let segments: Vec<String> = text.split('/').map(str::to_owned).collect();
        let last = segments.len() - 1;
        for (at, segment) in segments.iter().enumerate() {
            let wild = segment.contains(['*', '>']);
            if wild && segment != "*" && !(segment == ">" && at == last) {
                return Err(PatternError::Wildcard(text.to_owned()));
            }
        }
        Topic::new(&text.replace(['*', '>'], "x"))?;
        Ok(Self(segments))
    }

    /// Whether `topic` is one of those meant.
    #[must_use]
    pub fn matches(&self, topic: &Topic) -> bool {
        let mut segments = topic.as_str().split('/');
        for wanted in &self.0 {
            match (wanted.as_str(), segments.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(found)) if wanted == found => {}
                _ => return false,
            }
        }
        segments.next().is_none()
    }
}

impl fmt::Display for TopicPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

impl FromStr for TopicPattern {
    type Err = PatternError;
    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_for_whole_segments() {
        for (pattern, topic, expected) in [
            ("orders", "orders", true),
            ("orders", "orders/created", false),
            ("github/*", "github/push", true),
            ("github/*", "github", false),
            ("github/*", "github/a/b", false),
            ("audit/>", "audit/a/b", true),
            ("audit/>", "audit", false),
            (">", "anything/at/all", true),
            ("*/created", "orders/created", true),
            ("*/created", "orders/paid", false),
        ] {
            let found = TopicPattern::new(pattern).unwrap().matches(&Topic::new(topic).unwrap());
            assert_eq!(found, expected, "{pattern} {topic}");
        }
    }

    #[test]
    fn mixed_and_misplaced_wildcards_are_refused() {
        for bad in ["a*", ">/a", "a/>/b", "", "a//b", "windlass/*"] {
            assert!(TopicPattern::new(bad).is_err(), "{bad}");
        }
    }
}
