//! Components' files, by what is in them: `components/DIGEST.wasm` beside the database.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use windlass_runtime::digest;

/// The folder below the log's.
pub(crate) const FOLDER: &str = "components";

/// A component's file name.
pub(crate) fn name(digest: &str) -> String {
    format!("{digest}.wasm")
}

/// Where a component lies.
pub(crate) fn path(log: &Path, digest: &str) -> PathBuf {
    log.join(FOLDER).join(name(digest))
}

/// Keeps `bytes`, which have this digest; answers when they are on disk.
pub(crate) fn keep(log: &Path, digest_of: &str, bytes: &[u8]) -> io::Result<()> {
    let path = path(log, digest_of);
    if fs::read(&path).is_ok_and(|there| digest(&there) == digest_of) {
        return Ok(());
    }
    let folder = log.join(FOLDER);
    fs::create_dir_all(&folder)?;
    // Under its name only once it is whole: a server may look for it at any moment.
    let mut file = tempfile::NamedTempFile::new_in(&folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&path)?;
    File::open(&folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_kept_once_and_a_broken_one_is_replaced() {
        let log = tempfile::tempdir().unwrap();
        let of = digest(b"code");
        keep(log.path(), &of, b"code").unwrap();
        fs::write(path(log.path(), &of), b"broken").unwrap();
        keep(log.path(), &of, b"code").unwrap();
        keep(log.path(), &of, b"code").unwrap();
        assert_eq!(fs::read(path(log.path(), &of)).unwrap(), b"code");
        let left: Vec<_> = fs::read_dir(log.path().join(FOLDER)).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}
