//! What is wrong with a manifest, and where.
//!
//! Problems are collected, not thrown, so that a user sees all of them at once.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;

/// Everything that is wrong with one manifest.
#[derive(Debug, thiserror::Error)]
#[error("{}", .text)]
pub(crate) struct ManifestError {
    /// The file.
    pub path: PathBuf,
    /// One `file:line: what` a line.
    pub text: String,
    /// How many problems there are.
    pub count: usize,
}

/// Collects problems while a manifest is read.
#[derive(Debug)]
pub(crate) struct Problems<'a> {
    text: &'a str,
    found: RefCell<Vec<(usize, String)>>,
}

impl<'a> Problems<'a> {
    /// Nothing wrong with `text` so far.
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// Enters a problem at a place in the text.
    pub(crate) fn add(&self, at: &Range<usize>, what: impl Into<String>) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line = 1 + before.bytes().filter(|byte| *byte == b'\n').count();
        self.found.borrow_mut().push((line, what.into()));
    }

    /// The error made of what was found, if anything was; by line.
    pub(crate) fn into_error(self, path: PathBuf) -> Option<ManifestError> {
        let mut found = self.found.into_inner();
        if found.is_empty() {
            return None;
        }
        found.sort_by_key(|(line, _)| *line);
        let mut text = String::new();
        for (line, what) in &found {
            let _infallible = writeln!(text, "{}:{line}: {what}", path.display());
        }
        text.truncate(text.trim_end().len());
        Some(ManifestError { path, text, count: found.len() })
    }
}
