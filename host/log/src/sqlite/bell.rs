//! The doorbell between processes on one log.
//!
//! Each process that listens keeps a file of its own in `bells/`, locked while it lives, and
//! watches it. Who has committed something to claim writes a byte to the others' files. The bell
//! only wakes; what has changed is read from the database.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;

/// Rings the bells of other processes.
#[derive(Debug)]
pub(super) struct Bell {
    folder: PathBuf,
    own: Option<Own>,
    heard: Arc<Notify>,
}

#[derive(Debug)]
struct Own {
    name: std::ffi::OsString,
    path: PathBuf,
    _locked: File,
    _watcher: RecommendedWatcher,
}

impl Bell {
    /// A bell that can ring others; `listen`: with a file of its own. Where the system cannot
    /// watch files the log goes on without, and looks around once a second.
    pub(super) fn new(log: &Path, nonce: u64, listen: bool) -> Self {
        let folder = log.join("bells");
        let heard = Arc::new(Notify::new());
        let own = if listen {
            Own::hang(&folder, nonce, heard.clone())
                .inspect_err(|error| tracing::warn!(%error, "no doorbell between processes"))
                .ok()
        } else {
            None
        };
        Self { folder, own, heard }
    }

    /// Returns when another process has rung.
    pub(super) fn heard(&self) -> Arc<Notify> {
        self.heard.clone()
    }

    /// Rings all others.
    pub(super) fn ring(&self) {
        let Ok(bells) = std::fs::read_dir(&self.folder) else { return };
        for bell in bells.flatten() {
            if self.own.as_ref().is_none_or(|own| own.name != bell.file_name()) {
                // A bell that is gone has nobody behind it.
                let _gone = ring_one(&bell.path());
            }
        }
    }
}

fn ring_one(path: &Path) -> io::Result<()> {
    let mut bell = OpenOptions::new().write(true).open(path)?;
    bell.seek(SeekFrom::Start(0))?;
    bell.write_all(b"!")
}

impl Own {
    fn hang(folder: &Path, nonce: u64, heard: Arc<Notify>) -> notify::Result<Self> {
        std::fs::create_dir_all(folder)?;
        clear_away(folder);
        let path = folder.join(format!("{nonce:016x}"));
        // Locked before it has its name, so that nobody clears it away in between.
        let unnamed = folder.join(format!("{nonce:016x}.new"));
        let mut file = File::create(&unnamed)?;
        file.lock()?;
        file.write_all(b".")?;
        std::fs::rename(&unnamed, &path)?;
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                if event.is_ok_and(|event| event.kind.is_modify()) {
                    heard.notify_one();
                }
            })?;
        watcher.watch(&path, RecursiveMode::NonRecursive)?;
        let name = path.file_name().unwrap_or_default().to_owned();
        Ok(Self { name, path, _locked: file, _watcher: watcher })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        let _already_gone = std::fs::remove_file(&self.path);
    }
}

/// Removes bells whose process is gone: nobody holds their lock.
fn clear_away(folder: &Path) {
    let Ok(bells) = std::fs::read_dir(folder) else { return };
    for bell in bells.flatten() {
        if let Ok(file) = File::open(bell.path())
            && file.try_lock().is_ok()
        {
            let _already_gone = std::fs::remove_file(bell.path());
        }
    }
}
