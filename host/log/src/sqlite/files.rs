//! Whether a connection's file is the one that lies in the folder.
//!
//! A file that is removed or moved away lives on for whoever has it open. What is committed to it
//! then is gone with the process, so it must not be acknowledged.

use super::location::Location;
use std::io;
use std::os::unix::fs::MetadataExt;

/// What names a file as long as it is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    /// The file that lies in the folder now; none where there is none.
    pub(super) fn of(place: &Location) -> Option<Self> {
        let meta = std::fs::metadata(&place.file).ok()?;
        Some(Self { device: meta.dev(), number: meta.ino() })
    }

    /// Fails where another file lies there, or none.
    pub(super) fn check(opened: Option<Self>, place: &Location) -> Result<(), sqlx::Error> {
        if opened.is_some() && Self::of(place) == opened {
            return Ok(());
        }
        let what = format!("`{}` was removed, moved or replaced", place.file.display());
        Err(sqlx::Error::Io(io::Error::new(io::ErrorKind::NotFound, what)))
    }
}
