//! Somebody who only looks, at a log that another process writes to.

use super::processes::{Other, next_order};
use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use windlass_log::LogAdmin as _;

const WRITERS: usize = 4;
const LOOKS: usize = 2_000;

/// Goal: a log that is opened to be read only answers whatever another process is doing. Method: one
/// commits without rest; a reader that looks in the midst of a commit finds SQLite's index of the
/// log file half written, which SQLite may tell as a log that is to be recovered.
#[test]
fn a_busy_log_can_be_read_at_any_moment() {
    if let Some(folder) = folder() {
        return write_until_told(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let name = "crash::inspector::a_busy_log_can_be_read_at_any_moment";
    let mut other = Other::start(name, folder.path(), 1);
    assert_eq!(other.next().as_deref(), Some("ready"));
    runtime().block_on(async {
        let log = SqliteLog::open_read_only(folder.path()).await.unwrap();
        let mut seen = 0;
        for look in 0..LOOKS {
            let state = log.topic(&Topic::new("t").unwrap()).await;
            let state = state.unwrap_or_else(|error| panic!("look {look}: {error:?}"));
            seen = state.unwrap().counts.ready.max(seen);
        }
        println!("{seen} messages were there at the last look");
        assert!(seen > 100, "the other process wrote nothing meanwhile");
    });
    drop(other.child.stdin.take());
    assert!(other.child.wait().unwrap().success());
}

fn write_until_told(folder: &Path) {
    runtime().block_on(async {
        let log = open(folder, true).await;
        kit::declare(&log, "t", "g", GroupPolicy::default()).await;
        say("ready");
        let told = Arc::new(AtomicBool::new(false));
        let writers = [(); WRITERS].map(|()| {
            let (log, told) = (Arc::clone(&log), Arc::clone(&told));
            tokio::spawn(async move {
                while !told.load(Ordering::Relaxed) {
                    kit::publish(&log, "t", 1).await;
                }
            })
        });
        tokio::task::spawn_blocking(next_order).await.unwrap();
        told.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.await.unwrap();
        }
        log.close().await;
    });
}
