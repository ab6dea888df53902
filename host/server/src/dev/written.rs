//! Files that a build writes into what it is made of: they must not make it run for ever.
//!
//! What changes while a build runs may be a person's save, which calls for another build, or the
//! build's own doing. A file is taken for the build's own once it has changed in two builds in a
//! row, the second of which nothing else had called for. From then on a change of it while a
//! build runs counts for nothing; at any other time it does.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// What builds of one run wrote.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Changed while the last build ran.
    suspects: BTreeSet<PathBuf>,
    /// Known to be the builds' own.
    own: BTreeSet<PathBuf>,
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
        let changed: BTreeSet<PathBuf> =
            changed.into_iter().filter(|path| !self.own.contains(path)).collect();
        let alone = !causes.is_empty() && causes.iter().all(|cause| self.suspects.contains(cause));
        let newly_own: Vec<PathBuf> = if alone {
            changed.intersection(&self.suspects).cloned().collect()
        } else {
            Vec::new()
        };
        self.own.extend(newly_own.iter().cloned());
        self.suspects.clone_from(&changed);
        let changed = changed.into_iter().filter(|path| !self.own.contains(path)).collect();
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
    fn a_build_that_writes_into_its_sources_runs_once_more_and_then_rests() {
        let mut written = Written::default();
        let first = written.judge(&paths(&["lib.rs"]), paths(&["made.rs"]));
        assert_eq!(first.changed, paths(&["made.rs"]), "it may have been a person");
        let second = written.judge(&first.changed, paths(&["made.rs"]));
        assert_eq!(second, Verdict { changed: vec![], newly_own: paths(&["made.rs"]) });
        let third = written.judge(&paths(&["lib.rs"]), paths(&["made.rs"]));
        assert_eq!(third, Verdict::default(), "known, and told once");
    }

    #[test]
    fn a_save_during_a_build_is_built() {
        let mut written = Written::default();
        let first = written.judge(&paths(&["lib.rs"]), paths(&["lib.rs"]));
        assert_eq!(first.changed, paths(&["lib.rs"]));
        let second = written.judge(&first.changed, vec![]);
        assert_eq!(second, Verdict::default());
        // Saved in two builds in a row, the second of which something else had called for too.
        written.judge(&paths(&["a.rs"]), paths(&["lib.rs"]));
        let again = written.judge(&paths(&["lib.rs", "b.rs"]), paths(&["lib.rs"]));
        assert_eq!(again.changed, paths(&["lib.rs"]));
    }
}
