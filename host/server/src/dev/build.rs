//! Building components by the manifest's commands.
//!
//! A command that several consumers name is run once. It runs in a process group of its own, so that
//! stopping it stops all of it. The first build's words go to our stderr as they come; those of later ones are kept, to be shown when it
//! fails and not between deliveries when it does not.

use crate::cli::Failure;
use crate::drain::Phases;
use crate::manifest::ConsumerSpec;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::{Child, Command};

/// How long a build may take to end once it is told to.
const TERMINATE: Duration = Duration::from_secs(2);
/// How often it is looked at meanwhile.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of a failed build shown.
const LINES_SHOWN: usize = 40;

/// Where a build's words go.
#[derive(Debug, Clone)]
pub(super) enum Words {
    /// To our stderr.
    Shown,
    /// To this file, and from there to whoever reads of its failure.
    Kept(PathBuf),
}

/// What became of builds, by command.
pub(super) type Built<'m> = HashMap<&'m str, Result<(), Failure>>;

/// Runs the builds of `consumers` in `folder`; nothing when the run was stopped. `begin` is told of
/// each and says where its words go.
pub(super) async fn all<'m>(
    consumers: &[&'m ConsumerSpec],
    folder: &Path,
    begin: impl Fn(&ConsumerSpec, &str) -> Words,
    phases: &Phases,
) -> Option<Built<'m>> {
    let mut built = Built::new();
    for consumer in consumers {
        let Some(command) = consumer.build.as_deref() else { continue };
        if built.contains_key(command) {
            continue;
        }
        let words = begin(consumer, command);
        built.insert(command, run(&consumer.name, command, folder, &words, phases).await?);
    }
    Some(built)
}

/// Runs `command` in `folder`; nothing when the run was stopped meanwhile.
async fn run(
    consumer: &str,
    command: &str,
    folder: &Path,
    words: &Words,
    phases: &Phases,
) -> Option<Result<(), Failure>> {
    let fault = |error: std::io::Error| {
        Failure::system(format!("the build of `{consumer}` does not start: {command}"), &error)
    };
    let mut child = match start(command, folder, words) {
        Ok(child) => child,
        Err(error) => return Some(Err(fault(error))),
    };
    let Some(status) = phases.or_drain(child.wait()).await else {
        stop(&mut child).await;
        return None;
    };
    Some(match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(failed(consumer, command, folder, words, status)),
        Err(error) => Err(fault(error)),
    })
}

fn start(command: &str, folder: &Path, words: &Words) -> std::io::Result<Child> {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null());
    match words {
        Words::Shown => shell.stdout(std::io::stderr()).stderr(Stdio::inherit()),
        Words::Kept(file) => {
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let file = std::fs::File::create(file)?;
            shell.stdout(file.try_clone()?).stderr(file)
        }
    };
    shell.process_group(0).kill_on_drop(true).spawn()
}

fn failed(
    consumer: &str,
    command: &str,
    folder: &Path,
    words: &Words,
    status: ExitStatus,
) -> Failure {
    let mut failure = Failure::new(format!("the build of `{consumer}` failed: {status}"));
    match words {
        Words::Shown => {
            failure = failure
                .because(format!("command: {command}"))
                .because(format!("in: {}", folder.display()))
                .next("run that command there, and mend what it says above");
        }
        Words::Kept(file) => {
            let text = std::fs::read(file).unwrap_or_default();
            let (lines, left) = excerpt(&String::from_utf8_lossy(&text), LINES_SHOWN);
            failure.why = lines;
            if left > 0 {
                failure = failure.because(format!("({left} more lines in {})", file.display()));
            }
            failure = failure.because(format!("({command})"));
        }
    }
    failure
}

/// The lines of a build that tell why it failed, and how many are left out: from the first error
/// on, or the last ones where none is called so.
fn excerpt(text: &str, most: usize) -> (Vec<String>, usize) {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let is_error = |line: &&str| {
        let line = line.trim_start().to_lowercase();
        line.starts_with("error") || line.contains("error:") || line.contains("error[")
    };
    let first = lines.iter().position(is_error);
    let from = first.unwrap_or(lines.len().saturating_sub(most));
    let shown: Vec<String> = lines[from..].iter().take(most).map(|l| (*l).to_owned()).collect();
    let left = lines.len() - from - shown.len();
    (shown, left)
}

/// Asks the whole group to end, and ends what does not.
async fn stop(child: &mut Child) {
    // The group's number is the child's, which is not reused before `wait` answered.
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(group) = group else { return };
    // An error means that it is gone.
    let _gone = kill_process_group(group, Signal::TERM);
    let all_gone = async {
        // Reaped, so that it does not count as one of the group.
        drop(child.wait().await);
        while test_kill_process_group(group).is_ok() {
            tokio::time::sleep(LOOK).await;
        }
    };
    if tokio::time::timeout(TERMINATE, all_gone).await.is_err() {
        let _gone = kill_process_group(group, Signal::KILL);
        drop(child.wait().await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_build_is_shown_from_its_first_error_on() {
        let text = "   Compiling a v0.1.0\nwarning: unused\nerror[E0425]: no `x`\n --> src/lib.rs:3\n\
                    error: could not compile `a`\n";
        let (lines, left) = excerpt(text, 2);
        assert_eq!(
            (lines, left),
            (vec!["error[E0425]: no `x`".into(), " --> src/lib.rs:3".into()], 1)
        );
        let (lines, left) = excerpt("one\ntwo\nthree", 2);
        assert_eq!((lines, left), (vec!["two".into(), "three".into()], 0));
        assert_eq!(excerpt("", 2), (vec![], 0));
    }
}
