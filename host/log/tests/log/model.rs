//! The model: the same random operations on two logs, answers and what is there compared after each.
//!
//! Both logs must do nothing by themselves (not serve), so that what happens is what is asked. A
//! seed gives the same operations always; a difference names the seed, the operation and the ones
//! before it. Tokens differ between logs and are matched by the order in which they were given.
//! Some commits of the SQLite log are made to fail: what was asked is then done or not, as a whole.

mod operation;
mod run;
mod side;
mod view;

use crate::sqlite::SqliteHarness;
use run::run_model;
use std::sync::atomic::{AtomicU64, Ordering};
use windlass_log::conformance::{Harness, MemoryHarness};
use windlass_log::memory::MemoryOptions;

/// What is told of a commit that fails, and of one that fails behind what was done.
const FAILURES: [&str; 2] = ["a commit fails", "is done all the same"];
/// Seeds that run beside each other.
const THREADS: usize = 2;

fn quiet() -> MemoryHarness {
    MemoryHarness::with_options(MemoryOptions { serve: false })
}

async fn twins(seed: u64, operations: usize) -> Vec<String> {
    run_model(seed, operations, &quiet(), (&quiet(), None)).await.unwrap()
}

/// Meta: a run is its seed, and nothing else.
#[tokio::test]
async fn one_seed_gives_the_same_run_twice() {
    for seed in 0..8 {
        let first = twins(seed, 300).await;
        assert_eq!(first, twins(seed, 300).await);
        assert_ne!(first, twins(seed + 100, 300).await);
    }
}

/// The SQLite log, by two processes at once, against the memory log.
#[test]
fn sqlite_and_memory_agree() {
    let number = crate::crash::number;
    let operations = usize::try_from(number("WINDLASS_MODEL_OPERATIONS", 500)).unwrap();
    let first = number("WINDLASS_MODEL_SEED", 0);
    let seeds = if std::env::var_os("WINDLASS_MODEL_SEED").is_some() { 1 } else { 100 };
    let seeds = number("WINDLASS_MODEL_SEEDS", seeds);
    let next = AtomicU64::new(first);
    let failed = FAILURES.map(|_| AtomicU64::new(0));
    let share = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return;
            }
            let told = runtime.block_on(async {
                let (harness, faults) = SqliteHarness::faulty().await;
                run_model(seed, operations, &quiet(), (&harness, Some(&faults))).await
            });
            let trace = told.unwrap_or_else(|difference| {
                next.store(u64::MAX / 2, Ordering::Relaxed);
                panic!("{difference}")
            });
            for (times, wanted) in failed.iter().zip(FAILURES) {
                let found = trace.iter().filter(|done| done.contains(wanted)).count();
                times.fetch_add(found as u64, Ordering::Relaxed);
            }
        }
    };
    let started = std::time::Instant::now();
    std::thread::scope(|scope| {
        let shares: Vec<_> = (0..THREADS).map(|_| scope.spawn(share)).collect();
        for share in shares {
            if let Err(difference) = share.join() {
                std::panic::resume_unwind(difference);
            }
        }
    });
    let total = seeds * operations as u64;
    let last = first + seeds - 1;
    println!("{total} operations, seeds {first} to {last}, {:.0?}", started.elapsed());
    // A long run remembers only its last operations.
    for (times, wanted) in failed.iter().zip(FAILURES).filter(|_| seeds >= 100) {
        assert!(times.load(Ordering::Relaxed) > 0, "no run came to `{wanted}`");
    }
}

/// Meta: a log that differs is found out.
#[tokio::test]
async fn a_difference_is_never_missed() {
    let (a, b) = (quiet(), quiet());
    b.advance(std::time::Duration::from_millis(1)).await;
    let told = run_model(1, 100, &a, (&b, None)).await.unwrap_err();
    assert!(told.contains("seed 1, operation"), "{told}");
}

/// Meta: a long run stays small, and goes on to do things.
#[tokio::test]
async fn a_long_run_is_cleared_now_and_then() {
    let mut all = String::new();
    for seed in 0..4 {
        all += &twins(seed, 4_000).await.join("\n");
    }
    assert!(all.contains("Clear"), "among the last 1,000 operations of each");
    assert!(all.contains("Applied") && all.contains("attempt 2"));
}

/// Meta: the operations reach what they are meant to reach.
#[tokio::test]
async fn runs_reach_every_answer() {
    let mut all = String::new();
    for seed in 0..150 {
        all += &twins(seed, 300).await.join("\n");
    }
    for wanted in [
        "Applied",
        "DeadLettered",
        "LeaseLost",
        "AlreadySettled",
        "Held(",
        "Lost",
        "NOGROUP",
        "there is no topic",
        "not declared",
        "BUSYGROUP",
        "dead letters",
        "duplicate: true",
        " is full",
        "too large",
        "Created",
        "Known",
        "moved: 3",
        "attempt 3",
        "messages to settle",
        "was to be limited to",
    ] {
        assert!(all.contains(wanted), "no run came to `{wanted}`");
    }
}
