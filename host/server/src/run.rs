//! What every run of consumers needs, `dev` as well as `serve`: signals, lines, a name, an orderly end.

pub(crate) mod lag;
pub(crate) mod signals;
#[cfg(test)]
pub(crate) mod tests;

use crate::cli::{FOLDER, Failure, Ui};
use crate::drain::{Phase, Phases};
use crate::event::{Event, Events};
use crate::report::Report;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// How long the last lines may take to be shown once a run was told to stop.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How long the log may take to close.
pub(crate) const CLOSE: Duration = Duration::from_secs(5);

/// Prints, but not for ever: whoever reads may stand still, and a run that was told to end at once
/// does not wait for that.
pub(crate) async fn print(ui: &Arc<Ui>, phases: &Phases, print: impl FnOnce(&Ui) + Send + 'static) {
    let ui = Arc::clone(ui);
    let printed = tokio::task::spawn_blocking(move || print(&ui));
    tokio::select! {
        _printed = printed => {}
        () = in_a_hurry(phases) => {}
    }
}

/// Returns a moment after the run was told to end at once.
pub(crate) async fn in_a_hurry(phases: &Phases) {
    phases.reached(Phase::Stop).await;
    tokio::time::sleep(LAST_LINES).await;
}

/// Starts the thread that shows events and tells each to `also`; it answers when all are shown.
pub(crate) fn show(
    report: Report,
    also: impl FnMut(&Event) + Send + 'static,
) -> Result<(Events, oneshot::Receiver<()>), Failure> {
    let (events, receiver) = Events::channel();
    let (answer, shown) = oneshot::channel();
    std::thread::Builder::new()
        .name("windlass-report".to_owned())
        .spawn(move || {
            report.run(receiver, also);
            // Nobody waits in a run that was ended at once.
            let _nobody = answer.send(());
        })
        .map_err(|error| Failure::of(&error))?;
    Ok((events, shown))
}

/// Waits until everything told is shown; not for ever, once the run was told to stop at once.
pub(crate) async fn last_lines(events: &Events, shown: oneshot::Receiver<()>, phases: &Phases) {
    let all = async {
        events.tell(Event::End).await;
        drop(shown.await);
    };
    tokio::select! {
        () = all => {}
        () = in_a_hurry(phases) => {}
    }
}

/// Lets sums be shown once a second.
pub(crate) async fn tick(events: Events) {
    let mut every = tokio::time::interval(Duration::from_secs(1));
    loop {
        every.tick().await;
        events.tell(Event::Tick).await;
    }
}

/// A log lies in a project's folder: it is not to be committed by accident. A folder that somebody
/// named may hold more than a log.
pub(crate) fn keep_out_of_git(log: &Path) {
    let file = log.join(".gitignore");
    if log.file_name() == Some(FOLDER.as_ref()) && !file.exists() {
        // Not worth a failure.
        drop(std::fs::write(file, "*\n"));
    }
}

/// Who claims: this machine and process.
pub(crate) fn worker() -> String {
    let system = rustix::system::uname();
    format!("{}-{}", system.nodename().to_string_lossy(), std::process::id())
}
