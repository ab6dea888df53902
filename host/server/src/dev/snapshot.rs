//! What the watched files look like at one moment, and what has changed since another.
//!
//! Owns which files count. Content decides, not times alone: a file that was touched, or written
//! again as it was, has not changed. Nothing here waits for anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Folders that tools fill, not people.
const TOOLS_FOLDERS: [&str; 6] =
    ["target", "node_modules", "__pycache__", "venv", "dist", "componentize-py"];
/// Larger files are told apart by size and time.
const HASHED_BYTES_MAX: u64 = 1 << 20;
/// Files looked at beneath what is watched; a folder with more is not one of sources.
const FILES_MAX: usize = 50_000;

/// How one file looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    bytes: u64,
    modified: Option<SystemTime>,
    /// Of the content, where the file is small enough.
    hash: Option<u64>,
}

/// All watched files at one moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    files: BTreeMap<PathBuf, Look>,
    folders: BTreeSet<PathBuf>,
}

impl Snapshot {
    /// Looks at all files at and below `roots`, but for the folder `except`. What looks as it did
    /// `before` is not read again.
    pub(super) fn take(roots: &[PathBuf], except: Option<&Path>, before: &Self) -> Self {
        let mut now = Self::default();
        for root in roots {
            match std::fs::metadata(root) {
                Ok(meta) if meta.is_dir() => now.add_folder(root, except, before),
                // A root is meant, whatever its name is.
                Ok(meta) => now.add_file(root, &meta, before),
                Err(_) => {}
            }
        }
        now
    }

    fn add_folder(&mut self, folder: &Path, except: Option<&Path>, before: &Self) {
        if except == Some(folder) || !self.folders.insert(folder.to_owned()) {
            return;
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten() {
            let path = entry.path();
            // Links are not followed: they may lead round in a circle.
            let Ok(meta) = entry.metadata() else { continue };
            if self.files.len() >= FILES_MAX || is_ignored(&entry.file_name(), meta.is_dir()) {
                continue;
            }
            if meta.is_dir() {
                self.add_folder(&path, except, before);
            } else {
                self.add_file(&path, &meta, before);
            }
        }
    }

    fn add_file(&mut self, path: &Path, meta: &Metadata, before: &Self) {
        let (bytes, modified) = (meta.len(), meta.modified().ok());
        let known = before.files.get(path).filter(|look| {
            // Times are coarse: what was written just before it was looked at may have been
            // written again since.
            look.bytes == bytes && look.modified == modified && is_settled(modified)
        });
        let hash = match known {
            Some(look) => look.hash,
            None if bytes <= HASHED_BYTES_MAX && meta.is_file() => hash(path),
            None => None,
        };
        self.files.insert(path.to_owned(), Look { bytes, modified, hash });
    }

    /// Folders to be told about.
    pub(super) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path)
    }

    /// Files that were written again as they were.
    pub(super) fn touched_since(&self, before: &Self) -> Vec<PathBuf> {
        let is_touched = |path: &PathBuf, look: &Look| {
            let earlier = before.files.get(path);
            earlier.is_some_and(|e| look.is_same(e) && look.modified != e.modified)
        };
        let touched = self.files.iter().filter(|(path, look)| is_touched(path, look));
        touched.map(|(path, _)| path.clone()).collect()
    }

    /// Files that are there and were not, that were and are not, or that have other content.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<PathBuf> {
        let here = self.files.iter().filter(|(path, look)| {
            before.files.get(*path).is_none_or(|earlier| !look.is_same(earlier))
        });
        let gone = before.files.iter().filter(|(path, _)| !self.files.contains_key(*path));
        let mut changed: Vec<_> = here.chain(gone).map(|(path, _)| path.clone()).collect();
        changed.sort();
        changed
    }
}

impl Look {
    fn is_same(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(hash), Some(earlier)) => hash == earlier && self.bytes == other.bytes,
            _ => self == other,
        }
    }
}

/// Whether the file was written long enough ago that another write would show in its time.
fn is_settled(modified: Option<SystemTime>) -> bool {
    let age = modified.and_then(|modified| modified.elapsed().ok());
    age.is_some_and(|age| age.as_millis() > 50)
}

fn hash(path: &Path) -> Option<u64> {
    let content = std::fs::read(path).ok()?;
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    Some(hasher.finish())
}

/// Hidden files, what editors leave beside a file, and folders that tools fill.
fn is_ignored(name: &std::ffi::OsStr, is_folder: bool) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.')
        || name.ends_with('~')
        || name.ends_with(".swp")
        || name.starts_with('#')
        || (is_folder && TOOLS_FOLDERS.contains(&&*name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(root: &Path, change: impl FnOnce(&Path)) -> Vec<String> {
        let roots = [root.to_owned()];
        let before = Snapshot::take(&roots, None, &Snapshot::default());
        change(root);
        let changed = Snapshot::take(&roots, None, &before).changed_since(&before);
        let name = |path: PathBuf| path.strip_prefix(root).unwrap().display().to_string();
        changed.into_iter().map(name).collect()
    }

    fn project() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/lib.rs"), "one").unwrap();
        folder
    }

    #[test]
    fn content_decides_and_not_times() {
        let folder = project();
        let write = |text: &'static str| {
            move |root: &Path| std::fs::write(root.join("src/lib.rs"), text).unwrap()
        };
        assert!(changes(folder.path(), write("one")).is_empty(), "written again as it was");
        assert_eq!(changes(folder.path(), write("two")), ["src/lib.rs"], "of the same length");
        let moved = |root: &Path| {
            std::fs::rename(root.join("src/lib.rs"), root.join("src/main.rs")).unwrap();
        };
        assert_eq!(changes(folder.path(), moved), ["src/lib.rs", "src/main.rs"]);
        let below = |root: &Path| {
            std::fs::create_dir_all(root.join("a/b")).unwrap();
            std::fs::write(root.join("a/b/c"), "").unwrap();
        };
        assert_eq!(changes(folder.path(), below), ["a/b/c"]);
    }

    #[test]
    fn what_tools_and_editors_leave_does_not_count() {
        let folder = project();
        let litter = |root: &Path| {
            for name in ["target/x.wasm", ".git/HEAD", ".windlass/log.db", "node_modules/a/b.js"] {
                let path = root.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "x").unwrap();
            }
            for name in ["src/lib.rs~", "src/.lib.rs.swp", "src/#lib.rs#", ".hidden"] {
                std::fs::write(root.join(name), "x").unwrap();
            }
        };
        assert!(changes(folder.path(), litter).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn links_in_a_circle_end() {
        let folder = project();
        std::os::unix::fs::symlink("..", folder.path().join("src/up")).unwrap();
        let snapshot = Snapshot::take(&[folder.path().to_owned()], None, &Snapshot::default());
        assert_eq!(snapshot.files.len(), 2);
    }

    #[test]
    fn a_file_that_is_named_counts_whatever_its_name_and_folder_are() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("target");
        let roots = [file.clone()];
        let before = Snapshot::take(&roots, None, &Snapshot::default());
        std::fs::write(&file, "x").unwrap();
        let now = Snapshot::take(&roots, None, &before);
        assert_eq!(now.changed_since(&before), [file]);
    }
}
