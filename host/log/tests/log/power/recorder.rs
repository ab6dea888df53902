//! Builds the recorder and runs this test binary again under it.

use super::recording::{Operation, read};
use super::work::Amount;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Tells a test that it is the recorded process: the log's folder.
pub(super) const FOLDER: &str = "WINDLASS_POWER_FOLDER";
/// What it does; see [`Amount`].
pub(super) const RUN: &str = "WINDLASS_POWER_RUN";
/// Whether it commits without syncs.
pub(super) const NEVER_SYNC: &str = "WINDLASS_POWER_NEVER_SYNC";
/// Where it says what it was answered.
pub(super) const MARKS: &str = "RECORD_MARKS";

/// The library, in a folder of its own.
#[derive(Debug)]
pub(super) struct Recorder {
    _folder: TempDir,
    library: PathBuf,
}

/// One recorded process.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) operations: Vec<Operation>,
    folder: TempDir,
}

impl Recorder {
    /// None where nothing can be loaded before the C library: then it says so. On a Linux with a C
    /// compiler it is an error when this does not work.
    pub(super) fn build() -> Option<Self> {
        if !cfg!(all(target_os = "linux", target_pointer_width = "64", not(target_env = "musl"))) {
            println!("SKIPPED: no library can be loaded before this system's own");
            return None;
        }
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        if Command::new(&compiler).arg("--version").output().is_err() {
            println!("SKIPPED: there is no C compiler ({})", compiler.display());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("recorder.c");
        std::fs::write(&source, include_str!("recorder.c")).unwrap();
        let library = folder.path().join("recorder.so");
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-O1", "-pthread", "-o"]).arg(&library).arg(&source);
        assert!(command.status().unwrap().success(), "the recorder is compiled");
        Some(Self { _folder: folder, library })
    }

    /// Runs `test` as the recorded process; `fail`: which operation fails, and how.
    pub(super) fn run(
        &self,
        test: &str,
        amount: Amount,
        seed: u64,
        synced: bool,
        fail: Option<(u64, &str)>,
    ) -> Recorded {
        let folder = scratch();
        let path = folder.path().canonicalize().unwrap();
        let (log, file) = (path.join("log"), path.join("recording"));
        std::fs::create_dir(&log).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env("LD_PRELOAD", &self.library)
            .env("RECORD_FOLDER", &log)
            .env("RECORD_TO", &file)
            .env(MARKS, path.join("marks"))
            .env(FOLDER, &log)
            .env(RUN, amount.text(seed))
            .env(NEVER_SYNC, if synced { "0" } else { "1" });
        if let Some((ordinal, how)) = fail {
            command.env("RECORD_FAIL", format!("{ordinal} {how}"));
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}, {fail:?}: {said}\n{complained}");
        let operations = read(&std::fs::read(&file).unwrap());
        let writes = |operation: &Operation| matches!(operation, Operation::Write { .. });
        assert!(operations.iter().any(writes), "the recorder sees what the log writes");
        Recorded { operations, folder }
    }
}

impl Recorded {
    /// The log as the process left it.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Keeps the recording for whoever looks at a failure.
    pub(super) fn keep(&self) -> PathBuf {
        let kept = std::env::temp_dir().join(format!("windlass-recording-{}", std::process::id()));
        std::fs::copy(self.folder.path().join("recording"), &kept).unwrap();
        kept
    }
}

/// A folder in memory where there is one: nothing here is kept over a real power loss.
pub(super) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.or_else(|_| tempfile::tempdir()).unwrap()
}
