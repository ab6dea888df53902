//! Waiting for files to change.
//!
//! The system's news are only a hint that it is time to look: what changed is told by comparing
//! two [`Snapshot`]s, and a look now and then finds what no news told (files on a network, a
//! system that has run out of watches).

use super::snapshot::Snapshot;
use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Without any news, looks are so far apart.
const LOOK: Duration = Duration::from_secs(2);
/// A save is over when nothing came for so long ...
const QUIET: Duration = Duration::from_millis(30);
/// ... and is not waited for longer than this.
const QUIET_MOST: Duration = Duration::from_millis(500);

/// Watches files and folders.
pub(super) struct Watcher {
    roots: Vec<PathBuf>,
    seen: Snapshot,
    bell: Arc<Notify>,
    /// None where the system has no news for us.
    news: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches `roots` as they look now.
    pub(super) async fn new(roots: Vec<PathBuf>) -> Self {
        let bell = Arc::new(Notify::new());
        let ring = Arc::clone(&bell);
        let news = notify::recommended_watcher(move |news: notify::Result<notify::Event>| {
            // Reading a file is no news.
            if news.map_or(true, |event| !event.kind.is_access()) {
                ring.notify_one();
            }
        });
        let mut it = Self {
            roots: Vec::new(),
            seen: Snapshot::default(),
            bell,
            news: news.ok(),
            watched: BTreeSet::new(),
        };
        it.set_roots(roots).await;
        it
    }

    /// Watches these from now on. What is new among them counts as seen.
    pub(super) async fn set_roots(&mut self, mut roots: Vec<PathBuf>) {
        roots.sort();
        roots.dedup();
        if roots == self.roots {
            return;
        }
        self.roots = roots;
        self.look().await;
    }

    /// Waits until something has changed since the last look; what.
    pub(super) async fn changed(&mut self) -> Vec<PathBuf> {
        loop {
            // Either way it is time to look.
            let _bell_or_time = timeout(LOOK, self.bell.notified()).await;
            self.quiet().await;
            let changed = self.look().await;
            if !changed.is_empty() {
                return changed;
            }
        }
    }

    /// Waits until nothing has rung for a moment.
    async fn quiet(&self) {
        let start = Instant::now();
        while start.elapsed() < QUIET_MOST && timeout(QUIET, self.bell.notified()).await.is_ok() {}
    }

    /// What has changed since the last look.
    pub(super) async fn look(&mut self) -> Vec<PathBuf> {
        let (roots, before) = (self.roots.clone(), std::mem::take(&mut self.seen));
        let looking = tokio::task::spawn_blocking(move || {
            let now = Snapshot::take(&roots, &before);
            let changed = now.changed_since(&before);
            (now, changed)
        });
        let Ok((now, changed)) = looking.await else { return Vec::new() };
        self.seen = now;
        self.listen();
        changed
    }

    /// Asks for news of every folder there is. A folder at a time and not all below it: those that
    /// tools fill would cost more than all others.
    fn listen(&mut self) {
        let Some(news) = &mut self.news else { return };
        let parents = self.roots.iter().filter_map(|root| root.parent());
        let wanted: BTreeSet<&Path> =
            self.seen.folders().chain(parents.filter(|parent| parent.is_dir())).collect();
        let gone: Vec<_> =
            self.watched.iter().filter(|old| !wanted.contains(old.as_path())).collect();
        for folder in gone {
            // A folder that was removed is not watched any more anyway.
            drop(news.unwatch(folder));
        }
        for folder in &wanted {
            if !self.watched.contains(*folder) {
                // A system without watches left: looks do without.
                drop(news.watch(folder, RecursiveMode::NonRecursive));
            }
        }
        self.watched = wanted.into_iter().map(Path::to_owned).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_save_in_a_new_folder_and_a_file_replaced_by_another_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let component = folder.path().join("target/app.wasm");
        let source = folder.path().join("src");
        std::fs::create_dir(&source).unwrap();
        let mut watcher = Watcher::new(vec![source.clone(), component.clone()]).await;
        std::fs::create_dir(source.join("deep")).unwrap();
        std::fs::write(source.join("deep/lib.rs"), "x").unwrap();
        assert_eq!(watcher.changed().await, [source.join("deep/lib.rs")]);
        // Its folder was not there when the watch began.
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::write(folder.path().join("target/new"), "code").unwrap();
        std::fs::rename(folder.path().join("target/new"), &component).unwrap();
        assert_eq!(watcher.changed().await, [component]);
        assert!(watcher.look().await.is_empty());
    }
}
