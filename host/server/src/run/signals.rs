//! Signals: the first drains, the second ends at once.

use crate::cli::Ui;
use crate::drain::Stopper;
use std::sync::Arc;

/// Passes signals on to `stopper` for as long as the process lives. A terminal that goes away is
/// a signal too, unless whoever started the run said that it is not (`nohup`).
pub(crate) async fn pass_on(stopper: Stopper, ui: Arc<Ui>) {
    use tokio::signal::unix::{SignalKind, signal};
    let hangup = (!ignores_hangup()).then(|| signal(SignalKind::hangup())).transpose();
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (mut interrupt, mut terminate, mut hangup) = match (interrupt, terminate, hangup) {
        (Ok(interrupt), Ok(terminate), Ok(hangup)) => (interrupt, terminate, hangup),
        (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
            ui.note(&format!("signals cannot be waited for: {error}"));
            return;
        }
    };
    let mut hung_up = async move || match &mut hangup {
        Some(hangup) => hangup.recv().await,
        None => std::future::pending().await,
    };
    let mut first = true;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hung_up() => {}
        }
        stopper.next();
        if std::mem::replace(&mut first, false) {
            // On a thread that may wait: the next signal must be heard.
            let ui = Arc::clone(&ui);
            drop(tokio::task::spawn_blocking(move || {
                ui.note("ending: what runs may finish; once more ends at once");
            }));
        }
    }
}

/// Whether this process was started to outlive its terminal. Where the system does not tell, it
/// was not.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & 1 == 1
}

/// The signals that are ignored, the lowest bit being the first (SIGHUP).
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_under_nohup_is_told_by_its_mask() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t1\n") & 1, 1);
        assert_eq!(ignored("SigIgn:\t0000000000001000\n") & 1, 0);
        assert_eq!(ignored(""), 0);
    }
}
