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
    /// A folder that is none of the sources, wherever it lies: the log's.
    except: Option<PathBuf>,
    seen: Arc<Snapshot>,
    /// What a look found that nobody has asked for yet.
    found: BTreeSet<PathBuf>,
    /// The same of files that were written again as they were.
    touched: BTreeSet<PathBuf>,
    bell: Arc<Notify>,
    /// None where the system has no news for us.
    news: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches `roots` as they look now, but for the folder `except`.
    pub(super) async fn new(roots: Vec<PathBuf>, except: Option<PathBuf>) -> Self {
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
            except,
            seen: Arc::default(),
            found: BTreeSet::new(),
            touched: BTreeSet::new(),
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
        let before = std::mem::replace(&mut self.roots, roots);
        self.see().await;
        // Of what was watched before nothing is missed.
        self.found.retain(|path| before.iter().any(|root| path.starts_with(root)));
    }

    /// Waits until something has changed since the last look, or was just written again, if that
    /// counts too; what.
    pub(super) async fn changed(&mut self, also_touched: bool) -> Vec<PathBuf> {
        loop {
            // Either way it is time to look.
            let _bell_or_time = timeout(LOOK, self.bell.notified()).await;
            self.quiet().await;
            self.see().await;
            let touched = std::mem::take(&mut self.touched);
            if also_touched {
                self.found.extend(touched);
            }
            if !self.found.is_empty() {
                return std::mem::take(&mut self.found).into_iter().collect();
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
        self.see().await;
        self.touched.clear();
        std::mem::take(&mut self.found).into_iter().collect()
    }

    /// Whoever drops this has lost nothing: what was seen stands until the next look is done.
    async fn see(&mut self) {
        let (roots, except) = (self.roots.clone(), self.except.clone());
        let before = Arc::clone(&self.seen);
        let looking = tokio::task::spawn_blocking(move || {
            let now = Snapshot::take(&roots, except.as_deref(), &before);
            let (changed, touched) = (now.changed_since(&before), now.touched_since(&before));
            (now, changed, touched)
        });
        let Ok((now, changed, touched)) = looking.await else { return };
        self.seen = Arc::new(now);
        self.found.extend(changed);
        self.touched.extend(touched);
        self.listen();
    }

    /// Asks for news of every folder there is. A folder at a time and not all below it: those that
    /// tools fill would cost more than all others.
    fn listen(&mut self) {
        let Some(news) = &mut self.news else { return };
        // A file that is replaced by another is news of its folder.
        let files = self.roots.iter().filter(|root| !root.is_dir());
        let parents = files.filter_map(|root| root.parent());
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
        let mut watcher = Watcher::new(vec![source.clone(), component.clone()], None).await;
        std::fs::create_dir(source.join("deep")).unwrap();
        std::fs::write(source.join("deep/lib.rs"), "x").unwrap();
        assert_eq!(watcher.changed(false).await, [source.join("deep/lib.rs")]);
        // Its folder was not there when the watch began.
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::write(folder.path().join("target/new"), "code").unwrap();
        std::fs::rename(folder.path().join("target/new"), &component).unwrap();
        assert_eq!(watcher.changed(false).await, std::slice::from_ref(&component));
        assert!(watcher.look().await.is_empty());
        let touched = std::fs::File::open(&component).unwrap();
        touched.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(watcher.changed(true).await, [component]);
    }

    #[tokio::test]
    async fn what_was_watched_before_is_not_missed_when_more_is_and_a_log_is_no_source() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two, log) =
            (folder.path().join("one"), folder.path().join("two"), folder.path().join("one/log"));
        for path in [&one, &two, &log] {
            std::fs::create_dir(path).unwrap();
        }
        let mut watcher = Watcher::new(vec![one.clone()], Some(log.clone())).await;
        std::fs::write(one.join("a"), "x").unwrap();
        std::fs::write(two.join("b"), "x").unwrap();
        std::fs::write(log.join("c"), "x").unwrap();
        watcher.set_roots(vec![one.clone(), two.clone()]).await;
        assert_eq!(watcher.look().await, [one.join("a")]);
    }
}
