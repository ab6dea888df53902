//! One server a log: a file that is locked while it runs, and says where it listens.

use crate::cli::Failure;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;

const FILE: &str = "serve.lock";

/// Held while a server runs.
#[derive(Debug)]
pub(super) struct ServeLock(File);

impl ServeLock {
    /// Takes the lock of the log in `folder`, and says where this server listens.
    pub(super) fn take(folder: &Path, address: SocketAddr) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let fault = |error: &std::io::Error| {
            Failure::system(format!("cannot use `{}`", path.display()), error)
        };
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(|error| fault(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let log = folder.display();
                return Err(Failure::new(format!("a server runs on the log in `{log}` already"))
                    .because(
                        said(&mut file)
                            .map_or_else(String::new, |at| format!("it listens on {at}")),
                    )
                    .next("see what it runs: windlass ps"));
            }
            Err(TryLockError::Error(error)) => return Err(fault(&error)),
        }
        file.set_len(0)
            .and_then(|()| writeln!(file, "http://{address}"))
            .map_err(|error| fault(&error))?;
        Ok(Self(file))
    }
}

impl Drop for ServeLock {
    fn drop(&mut self) {
        // What is left there would be read for an address.
        drop(self.0.set_len(0));
    }
}

/// Where the server of the log in `folder` listens, if one runs.
pub(crate) fn running(folder: &Path) -> Option<String> {
    let mut file = File::open(folder.join(FILE)).ok()?;
    // Shared, so that two who look do not see each other.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(said(&mut file).unwrap_or_default()),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

fn said(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_has_one_server_and_says_where_it_listens() {
        let folder = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:7400".parse().unwrap();
        assert_eq!(running(folder.path()), None);
        let lock = ServeLock::take(folder.path(), address).unwrap();
        assert_eq!(running(folder.path()).as_deref(), Some("http://127.0.0.1:7400"));
        let failure = ServeLock::take(folder.path(), address).unwrap_err();
        assert!(failure.why[0].contains("7400"), "{failure:?}");
        drop(lock);
        assert_eq!(running(folder.path()), None);
        ServeLock::take(folder.path(), address).unwrap();
    }
}
