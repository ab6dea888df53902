//! Building a consumer's component by the manifest's command.
//!
//! The command runs in a process group of its own, so that stopping it stops all of it. What it
//! prints goes to our stderr as it comes.

use crate::cli::Failure;
use crate::drain::Phases;
use rustix::process::{Pid, Signal, kill_process_group};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};

/// How long a build may take to end once it is told to.
const TERMINATE: Duration = Duration::from_secs(2);

/// Runs `command` in `folder`; nothing when the run was stopped meanwhile.
pub(super) async fn run(
    consumer: &str,
    command: &str,
    folder: &Path,
    phases: &Phases,
) -> Result<Option<()>, Failure> {
    let fault = |error: std::io::Error| {
        Failure::system(format!("the build of `{consumer}` does not start: {command}"), &error)
    };
    let mut child = Command::new("sh")
        .args(["-c", command])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .stderr(Stdio::inherit())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(fault)?;
    let Some(status) = phases.or_drain(child.wait()).await else {
        stop(&mut child).await;
        return Ok(None);
    };
    let status = status.map_err(fault)?;
    if status.success() {
        return Ok(Some(()));
    }
    Err(Failure::new(format!("the build of `{consumer}` failed: {status}"))
        .because(format!("command: {command}"))
        .because(format!("in: {}", folder.display()))
        .next("run that command there, and mend what it says above"))
}

/// Asks the whole group to end, and ends what does not.
async fn stop(child: &mut Child) {
    // The group's number is the child's, which is not reused before `wait` answered.
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let Some(group) = group else { return };
    // An error means that it is gone.
    let _gone = kill_process_group(group, Signal::TERM);
    if tokio::time::timeout(TERMINATE, child.wait()).await.is_err() {
        let _gone = kill_process_group(group, Signal::KILL);
        drop(child.wait().await);
    }
}
