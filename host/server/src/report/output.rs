//! What guests print, in `.windlass/output/`: one file a consumer, never in the database.
//!
//! Each line has its time, consumer and message id. A file is turned over at 64 MiB, and one older
//! one is kept.

use crate::event::Delivered;
use crate::wire::when;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_log::clock::{Clock, SystemClock};

/// The folder below the log's.
pub(crate) const FOLDER: &str = "output";
const FILE_BYTES_MAX: u64 = 64 << 20;

/// All output files of a run.
#[derive(Debug)]
pub(crate) struct OutputFiles {
    folder: PathBuf,
    files: HashMap<Arc<str>, OutputFile>,
    bytes_max: u64,
}

#[derive(Debug)]
struct OutputFile {
    file: File,
    path: PathBuf,
    bytes: u64,
}

impl OutputFiles {
    /// Files below the log's folder.
    pub(crate) fn new(log: &Path) -> Self {
        Self { folder: log.join(FOLDER), files: HashMap::new(), bytes_max: FILE_BYTES_MAX }
    }

    /// Where a consumer's output is.
    pub(crate) fn path(&self, consumer: &str) -> PathBuf {
        self.folder.join(format!("{consumer}.log"))
    }

    /// Writes down what a delivery printed.
    pub(crate) fn write(&mut self, delivered: &Delivered) -> std::io::Result<()> {
        let (output, consumer) = (&delivered.output, &delivered.consumer);
        if output.text.is_empty() && output.dropped_bytes == 0 {
            return Ok(());
        }
        let start = format!("{} {consumer} {} ", when(SystemClock.wall_ms()), delivered.message.id);
        let mut text = String::with_capacity(output.text.len() + start.len() * 2);
        for line in output.text.lines() {
            text.extend([start.as_str(), line, "\n"]);
        }
        if output.dropped_bytes > 0 {
            let dropped = output.dropped_bytes;
            let _infallible =
                writeln!(text, "{start}({dropped} bytes over limits.output are not kept)");
        }
        let bytes_max = self.bytes_max;
        self.file(consumer)?.append(&text, bytes_max)
    }

    fn file(&mut self, consumer: &Arc<str>) -> std::io::Result<&mut OutputFile> {
        if !self.files.contains_key(consumer) {
            std::fs::create_dir_all(&self.folder)?;
            let file = OutputFile::open(self.path(consumer))?;
            self.files.insert(Arc::clone(consumer), file);
        }
        self.files.get_mut(consumer).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }
}

impl OutputFile {
    fn open(path: PathBuf) -> std::io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = file.metadata()?.len();
        Ok(Self { file, path, bytes })
    }

    fn append(&mut self, text: &str, bytes_max: u64) -> std::io::Result<()> {
        if self.bytes > 0 && self.bytes + text.len() as u64 > bytes_max {
            let mut older = self.path.clone().into_os_string();
            older.push(".1");
            std::fs::rename(&self.path, older)?;
            *self = Self::open(self.path.clone())?;
        }
        self.file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::delivered;

    #[test]
    fn a_full_file_is_turned_over_and_one_older_one_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut files = OutputFiles { bytes_max: 150, ..OutputFiles::new(folder.path()) };
        for text in ["first\n", "second\n", "third\nand more\n"] {
            let mut delivered = delivered();
            delivered.output.text = text.into();
            files.write(&delivered).unwrap();
        }
        let path = files.path("c");
        let now = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = now.lines().collect();
        assert_eq!(lines.len(), 2, "{now}");
        assert!(lines[0].ends_with("c 1700000000000-0000000000000001 third"), "{now}");
        let older = std::fs::read_to_string(path.with_extension("log.1")).unwrap();
        assert!(older.contains("second"), "{older}");
    }
}
