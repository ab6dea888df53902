//! Which log a command means, and opening it.

use super::failure::Failure;
use super::ui::shell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_log::DynLog;
use windlass_log::sqlite::{FILE_NAME, OpenError, OpenOptions, SqliteLog};

/// A log's folder, beside the manifest.
pub(crate) const FOLDER: &str = ".windlass";

/// `--log`, of every command that opens a log by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The log's folder [default: `.windlass` in the working folder or a parent].
    #[arg(long, value_name = "DIR", env = "WINDLASS_LOG")]
    pub log: Option<PathBuf>,
}

/// Opens the log that is meant; never makes one, and says where it looked.
pub(crate) async fn existing(args: &LogArgs) -> Result<DynLog, Failure> {
    let folder = match &args.log {
        Some(folder) if folder.join(FILE_NAME).is_file() => folder.clone(),
        Some(folder) => return Err(not_in(folder)),
        None => {
            let here = std::env::current_dir()
                .map_err(|error| Failure::system("the working folder is gone", &error))?;
            find(&here)?
        }
    };
    open(&folder, OpenOptions::default()).await
}

/// Opens the log in `folder` as `options` say.
pub(crate) async fn open(folder: &Path, options: OpenOptions) -> Result<DynLog, Failure> {
    match SqliteLog::open(folder, options).await {
        Ok(log) => {
            let log: Arc<SqliteLog> = log;
            Ok(log)
        }
        Err(OpenError::Missing(folder)) => Err(not_in(&folder)),
        Err(error) => Err(Failure::of(&error)),
    }
}

fn not_in(folder: &Path) -> Failure {
    let failure = Failure::new(format!("there is no log in `{}`", folder.display()));
    let below = folder.join(FOLDER);
    if below.join(FILE_NAME).is_file() {
        failure.next(format!("--log {}", shell(&below.display().to_string())))
    } else {
        failure.next("start one by `windlass dev PATH`, or name another by `--log DIR`")
    }
}

/// The nearest log, from `here` upwards.
fn find(here: &Path) -> Result<PathBuf, Failure> {
    let folders = || here.ancestors().map(|folder| folder.join(FOLDER));
    folders().find(|folder| folder.join(FILE_NAME).is_file()).ok_or_else(|| {
        Failure::new("there is no log here")
            .because(format!(
                "looked for `{FOLDER}/{FILE_NAME}` in `{}` and its parents",
                here.display()
            ))
            .next("start one by `windlass dev PATH`, or name one by `--log DIR`")
    })
}

/// What a command run from here needs to find the log in `folder`; nothing when it finds it anyway.
pub(crate) fn log_flag(folder: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    if std::env::var_os("WINDLASS_LOG").is_none() && find(&here).is_ok_and(|log| log == folder) {
        return String::new();
    }
    let folder = folder.strip_prefix(&here).unwrap_or(folder);
    format!(" --log {}", shell(&folder.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_log_upwards_is_meant() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        let error = find(&deep).unwrap_err();
        assert!(error.why[0].contains("a/b"), "{error:?}");
        let log = root.path().join(FOLDER);
        std::fs::create_dir_all(&log).unwrap();
        assert!(find(&deep).is_err(), "an empty folder is no log");
        std::fs::write(log.join(FILE_NAME), "").unwrap();
        assert_eq!(find(&deep).unwrap(), log);
    }
}
