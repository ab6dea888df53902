//! Reading the manifest that a command names.

use super::failure::Failure;
use crate::manifest::{FILE_NAME, Manifest};
use std::path::{Path, PathBuf};

/// The manifest that `path` means: itself, or the one in that folder.
pub(crate) fn manifest_file(path: &Path) -> PathBuf {
    if path.is_dir() { path.join(FILE_NAME) } else { path.to_owned() }
}

/// Reads the manifest that `path` means.
pub(crate) fn read_manifest(path: &Path) -> Result<Manifest, Failure> {
    let (file, text) = read_text(path)?;
    Ok(Manifest::parse(&file, &text)?)
}

/// The text of the manifest that `path` means, and its absolute path.
pub(super) fn read_text(path: &Path) -> Result<(PathBuf, String), Failure> {
    let file = manifest_file(path);
    let text = std::fs::read_to_string(&file).map_err(|error| {
        Failure::system(format!("cannot read `{}`", file.display()), &error)
            .next(format!("name a folder with a {FILE_NAME}, or that file"))
    })?;
    // Builds change their folder: what they are told must not depend on ours.
    let file = std::path::absolute(&file).map_err(|error| Failure::of(&error))?;
    Ok((file, text))
}
