//! Files that a build writes into what it is made of: they must not make it run for ever.
//!
//! What changes while a build runs may be a person's save, which calls for another build, or the
//! build's own doing. A person seldom saves during three builds in a row that nothing else had
//! called for; a file that changes in all of them is taken for the build's own, and after that
//! everything that such builds change. An own file's change counts for nothing while a build runs,
//! at any other time it does; and one that a build leaves alone is a person's after all.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Builds in a row that nothing but their like had called for, until they are seen through.
const ALONE: u32 = 2;

/// What builds of one run wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Changed while the last build ran, and not known to be its own.
    suspects: BTreeSet<PathBuf>,
    /// Known to be the builds' own.
    own: BTreeSet<PathBuf>,
    /// How many builds in a row only suspects had called for.
    alone: u32,
}

/// What the end of a build tells.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Changes that call for another build.
    pub changed: Vec<PathBuf>,
    /// Files that from now on are taken for the build's own.
    pub newly_own: Vec<PathBuf>,
}

impl Written {
    /// A build that `causes` had called for has ended, and these files changed while it ran.
    pub(super) fn judge(&mut self, causes: &[PathBuf], changed: Vec<PathBuf>) -> Verdict {
        let changed: BTreeSet<PathBuf> = changed.into_iter().collect();
        self.own.retain(|path| changed.contains(path));
        let by_itself =
            !causes.is_empty() && causes.iter().all(|cause| self.suspects.contains(cause));
        self.alone = if by_itself { self.alone + 1 } else { 0 };
        let fresh: BTreeSet<PathBuf> = changed.difference(&self.own).cloned().collect();
        let newly_own: Vec<PathBuf> = match self.alone.cmp(&ALONE) {
            Ordering::Less => Vec::new(),
            Ordering::Equal => fresh.intersection(&self.suspects).cloned().collect(),
            // A new name each time.
            Ordering::Greater => fresh.iter().cloned().collect(),
        };
        self.own.extend(newly_own.iter().cloned());
        self.suspects.clone_from(&fresh);
        let changed = fresh.into_iter().filter(|path| !self.own.contains(path)).collect();
        Verdict { changed, newly_own }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(names: &[&str]) -> Vec<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn a_build_that_writes_into_its_sources_is_seen_through_and_rests() {
        let mut written = Written::default();
        let mut causes = paths(&["lib.rs"]);
        for _ in 0..2 {
            let verdict = written.judge(&causes, paths(&["made.rs"]));
            assert_eq!(verdict.changed, paths(&["made.rs"]), "it may have been a person");
            causes = verdict.changed;
        }
        let third = written.judge(&causes, paths(&["made.rs"]));
        assert_eq!(third, Verdict { changed: vec![], newly_own: paths(&["made.rs"]) });
        let later = written.judge(&paths(&["lib.rs"]), paths(&["made.rs"]));
        assert_eq!(later, Verdict::default(), "known, and told once");
        written.judge(&paths(&["lib.rs"]), vec![]);
        let left_alone = written.judge(&paths(&["lib.rs"]), paths(&["made.rs"]));
        assert_eq!(left_alone.changed, paths(&["made.rs"]), "a person's after all");
    }

    #[test]
    fn a_build_that_writes_another_name_each_time_rests_too() {
        let mut written = Written::default();
        let mut causes = paths(&["lib.rs"]);
        for number in 0..10 {
            let verdict = written.judge(&causes, paths(&[&format!("app-{number}.js")]));
            if verdict.changed.is_empty() {
                assert!(number <= 3, "{number}");
                return;
            }
            causes = verdict.changed;
        }
        panic!("it builds for ever");
    }

    /// Twice in a row: a build takes seconds, and people save often.
    #[test]
    fn a_save_during_a_build_is_built() {
        let mut written = Written::default();
        let first = written.judge(&paths(&["lib.rs"]), paths(&["lib.rs"]));
        assert_eq!(first.changed, paths(&["lib.rs"]));
        let second = written.judge(&first.changed, paths(&["lib.rs"]));
        assert_eq!(second.changed, paths(&["lib.rs"]));
        let third = written.judge(&second.changed, vec![]);
        assert_eq!(third, Verdict::default());
    }
}
