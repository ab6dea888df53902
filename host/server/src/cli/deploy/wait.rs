//! Waiting for a running server to take up what was changed.

use super::super::failure::Failure;
use super::super::open::LogArgs;
use super::super::ui::{Tone, Ui, clean, shell};
use crate::serve::state;
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use windlass_log::{Deployed, DynLog, LogError, Told};

/// How long it may take: compiling a large component is seconds.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(50);

/// Waits until all of these serve, and says so; an error where one does not come to it.
pub(super) async fn serving(
    awaited: &[(String, u64)],
    log: &DynLog,
    ui: &Ui,
    args: &LogArgs,
) -> Result<(), Failure> {
    for (name, revision) in awaited {
        let told = until(log, |deployed| judge(deployed, name, *revision)).await?;
        let Some(told) = told else {
            return Err(late(args));
        };
        match told {
            Ok(told) if ui.json => {
                let (state, text) = (told.state, told.text);
                ui.object(&json!({
                    "consumer": name, "revision": revision, "state": state, "text": text,
                }));
            }
            Ok(told) => {
                let text = clean(&format!("{name} revision {revision}: {}", told.state));
                ui.data(&ui.tone(Tone::Good, &text));
            }
            Err(why) => {
                return Err(Failure::new(format!(
                    "revision {revision} of `{}` does not serve",
                    clean(name)
                ))
                .because(why)
                .next(format!("windlass ps {}{}", shell(name), args.flag())));
            }
        }
    }
    Ok(())
}

/// How it came out with a revision, once that is known.
fn judge(deployed: &Deployed, name: &str, revision: u64) -> Option<Result<Told, String>> {
    let Some(one) = deployed.find(name) else {
        return Some(Err("it was undeployed meanwhile".to_owned()));
    };
    let now = one.revision.number;
    if now != revision {
        return Some(Err(format!("revision {now} is to serve meanwhile")));
    }
    let told = one.told.as_ref().filter(|told| told.revision == revision)?;
    match told.state.as_str() {
        state::FAILED => Some(Err(told.text.clone())),
        state::STOPPED => None,
        _ => Some(Ok(told.clone())),
    }
}

/// Waits until the server has taken up this version.
pub(super) async fn taken(version: u64, log: &DynLog, args: &LogArgs) -> Result<(), Failure> {
    let is_taken = |deployed: &Deployed| (deployed.taken >= version).then_some(());
    until(log, is_taken).await?.ok_or_else(|| late(args))
}

async fn until<T>(
    log: &DynLog,
    found: impl Fn(&Deployed) -> Option<T>,
) -> Result<Option<T>, LogError> {
    let start = Instant::now();
    loop {
        if let Some(found) = found(&log.deployed().await?) {
            return Ok(Some(found));
        }
        if start.elapsed() > PATIENCE {
            return Ok(None);
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn late(args: &LogArgs) -> Failure {
    Failure::new(format!("the server did not take it up within {} s", PATIENCE.as_secs()))
        .because("the change is written, and is taken up when the server comes to it")
        .next(format!("windlass ps{}", args.flag()))
}
