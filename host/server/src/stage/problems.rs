//! What is wrong until somebody mends it.
//!
//! Told when it begins and when it has become something else, not at every look; and told when it
//! is mended.

use crate::cli::Failure;
use std::collections::BTreeMap;
use windlass_core::Topic;

/// What a problem is about. There is at most one of each.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The manifest.
    Manifest,
    /// The build by this command.
    Build(String),
    /// The component of this consumer.
    Component(String),
    /// Declaring topics and groups in the log.
    Log,
    /// What this topic is to be limited to.
    Limits(Topic),
}

impl Subject {
    /// For a line about it.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Manifest => "windlass.toml".to_owned(),
            Self::Build(command) => format!("build `{command}`"),
            Self::Component(consumer) => format!("component of {consumer}"),
            Self::Log => "the log".to_owned(),
            Self::Limits(topic) => format!("limits of {topic}"),
        }
    }
}

/// All problems of a run.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    standing: BTreeMap<Subject, Vec<String>>,
}

impl Problems {
    /// A problem is there; whether that is news.
    pub(crate) fn begin(&mut self, subject: &Subject, failure: &Failure) -> bool {
        let mut text = failure.why.clone();
        text.insert(0, failure.what.clone());
        let before = self.standing.insert(subject.clone(), text.clone());
        before.as_ref() != Some(&text)
    }

    /// Whether it is there.
    pub(crate) fn has(&self, subject: &Subject) -> bool {
        self.standing.contains_key(subject)
    }

    /// Whether one is there that `is_meant`.
    pub(crate) fn any(&self, is_meant: impl Fn(&Subject) -> bool) -> bool {
        self.standing.keys().any(is_meant)
    }

    /// There is no such problem; whether there was.
    pub(crate) fn end(&mut self, subject: &Subject) -> bool {
        self.standing.remove(subject).is_some()
    }

    /// Ends those that `is_over` says; which.
    pub(crate) fn end_all(&mut self, is_over: impl Fn(&Subject) -> bool) -> Vec<Subject> {
        let over = self.standing.extract_if(.., |subject, _| is_over(subject));
        over.map(|(subject, _)| subject).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_told_once_until_it_is_another() {
        let mut problems = Problems::default();
        let subject = Subject::Component("c".into());
        let first = Failure::new("broken").because("a");
        assert!(problems.begin(&subject, &first));
        assert!(!problems.begin(&subject, &first));
        assert!(problems.begin(&subject, &Failure::new("broken").because("b")));
        assert!(!problems.end(&Subject::Manifest));
        assert!(problems.end(&subject));
        assert!(problems.begin(&subject, &first), "there again");
        assert_eq!(problems.end_all(|of| *of == subject), [subject]);
    }
}
