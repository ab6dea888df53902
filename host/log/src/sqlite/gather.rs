//! How many callers share a commit.
//!
//! An idle log commits at once. Under load the callers just answered come back within moments;
//! taking only those who queued during the last commit would lock closed-loop callers into batches
//! of a few and many in turn, so the writer waits for about as many as it has just answered, for
//! at most 0.2 ms.

use super::command::Command;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_micros(200);
const MESSAGES_MAX: usize = 1_024;
const BYTES_MAX: u64 = 4 << 20;

/// `first`, and those who come with it.
pub(super) async fn gather(
    first: Command,
    commands: &mut mpsc::Receiver<Command>,
    expected: usize,
) -> Vec<Command> {
    let (mut messages, mut bytes) = first.weight();
    let mut batch = vec![first];
    let since = Instant::now();
    loop {
        while messages < MESSAGES_MAX && bytes < BYTES_MAX {
            let Ok(next) = commands.try_recv() else { break };
            let weight = next.weight();
            messages += weight.0;
            bytes += weight.1;
            batch.push(next);
        }
        let full = messages >= MESSAGES_MAX || bytes >= BYTES_MAX;
        if full || expected <= 1 || batch.len() >= expected || since.elapsed() >= PATIENCE {
            return batch;
        }
        tokio::task::yield_now().await;
    }
}
