//! Everything at once for a while, by two processes on one file: memory stays flat, the write-ahead
//! log under its cap, and what is kept is what the rows say.
//!
//! Seconds in the test command; `tests/long soak` gives it ten minutes. How long: `WINDLASS_SOAK`,
//! in seconds.
#![allow(clippy::print_stdout, reason = "the figures of a soak are its result")]

mod figures;
mod work;

use crate::crash::processes::Other;
use crate::crash::{folder, number, open, run, runtime, say, seed};
use figures::{Figures, Watch};
use std::path::Path;
use std::time::{Duration, Instant};
use windlass_log::DynLog;
use windlass_log::sqlite::FILE_NAME;
use work::Work;

const NAME: &str = "soak::two_processes_with_everything_on_stay_as_small_as_they_were";
const USUAL_SECONDS: u64 = 8;
/// Runs of so many seconds are long enough for memory to have settled, and to be judged strictly.
const LONG_SECONDS: u64 = 120;
/// The write-ahead log's cap while nobody holds an old snapshot (ARCHITECTURE.md). In a short run on
/// a machine that does much else a reader may be stopped halfway for as long as the run takes.
const WAL_CAP: u64 = 64 << 20;
const WAL_MOST_SHORT: u64 = 4 * WAL_CAP;
/// No process takes more than this, however short the run.
const MEMORY_MOST: u64 = 256 << 20;
/// How often all rows are counted again.
const RECOUNT: Duration = Duration::from_secs(3);

/// Goal: what runs for long neither grows nor drifts. Method: keys, delays, dedup ids, retries, dead
/// letters and their copies, sends, redrives, leases let go, a group that nobody reads and that gets
/// gaps, groups that come and go, a reader of the stream, counts, in two processes; sizes are looked
/// at all the while, and the rows are counted again.
#[test]
fn two_processes_with_everything_on_stay_as_small_as_they_were() {
    let span = Duration::from_secs(number("WINDLASS_SOAK", USUAL_SECONDS));
    if let Some(folder) = folder() {
        let (_, seed) = run();
        let figures = runtime().block_on(soak(&folder, span, seed));
        println!("{figures}");
        return say(&format!("judge {}", figures.told()));
    }
    // Both are processes of their own, as in this one other tests take memory.
    let (seed, folder) = (seed(), tempfile::tempdir().unwrap());
    let mut both = [1, 2].map(|number| {
        Other::start_with_seed(NAME, folder.path(), number, seed.wrapping_add(number))
    });
    let is_long = span.as_secs() >= LONG_SECONDS;
    for (number, other) in both.iter_mut().enumerate() {
        let told = std::iter::from_fn(|| other.next()).last().unwrap_or_default();
        assert!(other.child.wait().unwrap().success(), "process {number} failed");
        println!("process {number}: {told}");
        let told: Vec<u64> = told.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [early, late, wal, recounts, published, settled] = told[..] else { panic!("{told:?}") };
        flat(number, early, late, is_long);
        let most = if is_long { WAL_CAP } else { WAL_MOST_SHORT };
        assert!(wal <= most, "the write-ahead log took {wal} bytes");
        assert!(recounts > 0 && published > 0 && settled > 0, "process {number} did nothing");
    }
}

/// A tenth more than early on, and what an allocator may keep, is flat.
fn flat(number: usize, early: u64, late: u64, is_long: bool) {
    let most = if is_long { early + early / 10 + (16 << 20) } else { MEMORY_MOST };
    assert!(late <= most, "process {number} took {early} bytes of memory early on and {late} late");
}

/// Works for `span`, and looks.
async fn soak(folder: &Path, span: Duration, seed: u64) -> Figures {
    let log = open(folder, true).await;
    let since = Instant::now();
    let work = Work::begin(&log, seed).await;
    let mut figures = Figures::default();
    let watch = Watch::begin(&folder.join(FILE_NAME), span);
    while since.elapsed() < span {
        tokio::time::sleep(RECOUNT.min(span.saturating_sub(since.elapsed()))).await;
        recount(&log, &mut figures).await;
    }
    figures.sizes = watch.end();
    (figures.published, figures.settled) = work.end().await;
    recount(&log, &mut figures).await;
    log.close().await;
    figures
}

async fn recount(log: &DynLog, figures: &mut Figures) {
    let recount = log.recount().await.unwrap();
    assert!(recount.drift.is_empty(), "{recount:#?}");
    figures.recounts += 1;
    figures.disturbed += recount.disturbed;
    figures.longest_read = figures.longest_read.max(recount.longest);
}
