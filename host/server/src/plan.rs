//! What must happen so that what is wanted runs: a plan, made before anything is done.
//!
//! Owns the comparison of what runs with what is wanted. Who carries a plan out, and how code is
//! built, is the caller's business.

use std::fmt;

/// One consumer: its name, and all that its revision is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a, R> {
    /// Unique among what runs, and among what is wanted.
    pub name: &'a str,
    /// Code and configuration; equal ones need no change.
    pub revision: &'a R,
}

/// What is done about one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// It runs as wanted.
    Keep(&'a str),
    /// It does not run yet.
    Start(&'a str),
    /// It runs with other code or configuration.
    Swap(&'a str),
    /// Nobody wants it any more.
    Stop(&'a str),
}

/// Steps in the order of `wanted`, then what is to stop.
pub(crate) fn plan<'a, R: PartialEq>(
    running: &[Entry<'a, R>],
    wanted: &[Entry<'a, R>],
) -> Vec<Step<'a>> {
    let of = |entries: &[Entry<'a, R>], name: &str| {
        entries.iter().find(|entry| entry.name == name).map(|entry| entry.revision)
    };
    let steps = wanted.iter().map(|entry| match of(running, entry.name) {
        None => Step::Start(entry.name),
        Some(revision) if revision == entry.revision => Step::Keep(entry.name),
        Some(_) => Step::Swap(entry.name),
    });
    let gone = running.iter().filter(|entry| of(wanted, entry.name).is_none());
    steps.chain(gone.map(|entry| Step::Stop(entry.name))).collect()
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep(name) => write!(f, "= {name}"),
            Self::Start(name) => write!(f, "+ {name}"),
            Self::Swap(name) => write!(f, "~ {name}"),
            Self::Stop(name) => write!(f, "- {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_names_what_changes_and_nothing_else() {
        let entries = |all: &'static [(&str, u32)]| -> Vec<Entry<'static, u32>> {
            all.iter().map(|(name, revision)| Entry { name, revision }).collect()
        };
        for (running, wanted, expected) in [
            (&[][..], &[("a", 1)][..], "+ a"),
            (&[("a", 1)], &[("a", 1)], "= a"),
            (&[("a", 1), ("b", 1)], &[("b", 2), ("c", 1)], "~ b, + c, - a"),
            (&[("a", 1)], &[], "- a"),
            (&[], &[], ""),
        ] {
            let steps = plan(&entries(running), &entries(wanted));
            let told: Vec<_> = steps.iter().map(ToString::to_string).collect();
            assert_eq!(told.join(", "), expected, "{running:?} {wanted:?}");
        }
    }
}
