//! Which log a command means, and opening it.

use super::failure::{Failure, next_command};
use super::trouble;
use super::ui::shell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use windlass_core::Topic;
use windlass_log::sqlite::{FILE_NAME, OpenError, OpenOptions, SqliteLog};
use windlass_log::{DynLog, LogError};

/// A log's folder, beside the manifest.
pub(crate) const FOLDER: &str = ".windlass";

/// `--log`, of every command that opens a log by itself.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The log's folder [default: `.windlass` in the working folder or a parent].
    #[arg(long, value_name = "DIR", env = "WINDLASS_LOG")]
    pub log: Option<PathBuf>,
}

impl LogArgs {
    /// What a command to be copied needs to mean the same log: nothing when it finds it anyway.
    pub(crate) fn flag(&self) -> String {
        let given = self.log.as_ref();
        let by_itself = |folder: &&PathBuf| {
            std::env::var_os("WINDLASS_LOG").is_some_and(|log| log == folder.as_os_str())
        };
        let given = given.filter(|folder| !by_itself(folder));
        given.map_or_else(String::new, |folder| {
            format!(" --log {}", shell(&folder.display().to_string()))
        })
    }

    /// There is no such topic in this log.
    pub(crate) fn no_topic(&self, topic: &Topic) -> Failure {
        self.failure(LogError::NoTopic(topic.clone()))
    }

    /// What this log answered; a command to type next means the same log.
    pub(crate) fn failure(&self, error: LogError) -> Failure {
        let next = next_command(&error);
        let failure = Failure::from(error);
        match next {
            Some(next) => failure.next(format!("{next}{}", self.flag())),
            None => failure,
        }
    }
}

/// Opens the log that is meant; never makes one, and says where it looked.
pub(crate) async fn existing(args: &LogArgs) -> Result<DynLog, Failure> {
    open(&folder(args)?, OpenOptions::default()).await
}

/// The same, for a command that only looks: nothing is written there, and it may be a copy.
pub(crate) async fn read_only(args: &LogArgs) -> Result<DynLog, Failure> {
    opened(SqliteLog::open_read_only(&folder(args)?).await)
}

/// The folder of the log that is meant.
pub(super) fn folder(args: &LogArgs) -> Result<PathBuf, Failure> {
    match &args.log {
        Some(folder) if folder.join(FILE_NAME).is_file() => Ok(folder.clone()),
        Some(folder) => Err(not_in(folder)),
        None => {
            let here = std::env::current_dir()
                .map_err(|error| Failure::system("the working folder is gone", &error))?;
            find(&here)
        }
    }
}

/// Opens the log in `folder` as `options` say.
pub(crate) async fn open(folder: &Path, options: OpenOptions) -> Result<DynLog, Failure> {
    opened(SqliteLog::open(folder, options).await)
}

fn opened(log: Result<Arc<SqliteLog>, OpenError>) -> Result<DynLog, Failure> {
    match log {
        Ok(log) => Ok(log),
        Err(OpenError::Missing(folder)) => Err(not_in(&folder)),
        Err(error) => {
            let failure = Failure::of(&error);
            Err(match next_step(&error) {
                Some(next) => failure.next(next),
                None => failure,
            })
        }
    }
}

/// What to do about a log that does not open.
fn next_step(error: &OpenError) -> Option<&'static str> {
    match error {
        OpenError::Sqlite { source, .. } => trouble::next_step(source),
        OpenError::Folder { .. } => {
            Some("see that the folder can be made and written, or name another by `--log DIR`")
        }
        OpenError::Foreign(_) => Some("name another folder by `--log DIR`"),
        OpenError::Newer { .. } => {
            Some("install a newer Windlass, or name another folder by `--log DIR`")
        }
        OpenError::Older { .. } => Some(
            "start a new log in another folder, and empty this one with the Windlass that wrote it",
        ),
        OpenError::Damaged { .. } => Some(trouble::DAMAGED),
        OpenError::Missing(_) | OpenError::SqliteTooOld(_) | OpenError::Random => None,
    }
}

fn not_in(folder: &Path) -> Failure {
    let failure = Failure::new(format!("there is no log in `{}`", folder.display()));
    let below = folder.join(FOLDER);
    if below.join(FILE_NAME).is_file() {
        failure.next(format!("--log {}", shell(&below.display().to_string())))
    } else {
        failure.next(
            "start one by `windlass serve` or `windlass dev PATH`, or name another by `--log DIR`",
        )
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
            .next(
                "start one by `windlass serve` or `windlass dev PATH`, or name one by `--log DIR`",
            )
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

    #[test]
    fn a_next_command_means_the_same_log() {
        let topic = Topic::new("t").unwrap();
        let next = |log: Option<PathBuf>| LogArgs { log }.no_topic(&topic).next.unwrap();
        assert_eq!(next(None), "windlass topic ls");
        assert_eq!(next(Some("my log".into())), "windlass topic ls --log 'my log'");
    }
}
