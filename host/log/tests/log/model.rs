//! The model: the same random operations on two logs, answers and counts compared after each.
//!
//! Both logs must do nothing by themselves (not serve), so that what happens is what is asked. A
//! seed gives the same operations always; a difference names the seed, the operation and the ones
//! before it. Tokens differ between logs and are matched by the order in which they were given.

mod operation;
mod side;

use crate::sqlite::SqliteHarness;
use operation::Operation;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use side::Side;
use windlass_log::conformance::{Harness, MemoryHarness};
use windlass_log::memory::MemoryOptions;

/// How many operations before a difference are told.
const TAIL: usize = 30;
/// After so many operations all rows are counted again.
const RECOUNT_EVERY: usize = 10;

/// Runs so many operations on both logs. The trace, or the first difference as a text to read.
pub(crate) async fn run_model(
    seed: u64,
    operations: usize,
    first: &dyn Harness,
    second: &dyn Harness,
) -> Result<Vec<String>, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let (mut a, mut b) = (Side::new(first).await, Side::new(second).await);
    let mut trace: Vec<String> = Vec::with_capacity(operations);
    for n in 0..operations {
        let operation = Operation::draw(&mut random, a.claims());
        let process = usize::from(random.random_bool(0.3));
        let told = (a.run(&operation, process).await, b.run(&operation, process).await);
        trace.push(format!("{n:4} {operation:?}\n     -> {}", told.0));
        let there = (a.view(process).await, b.view(process).await);
        for (what, found) in [("answers", told), ("what is there then", there)] {
            if let Some(difference) = first_difference(&found.0, &found.1) {
                let tail = trace[trace.len().saturating_sub(TAIL)..].join("\n");
                return Err(format!(
                    "{tail}\nseed {seed}, operation {n}: {what} differ\n{difference}"
                ));
            }
        }
        if n % RECOUNT_EVERY == 0 {
            for harness in [first, second] {
                let drift = harness.log().recount().await.unwrap().drift;
                if !drift.is_empty() {
                    let tail = trace[trace.len().saturating_sub(TAIL)..].join("\n");
                    return Err(format!("{tail}\nseed {seed}, operation {n}: {drift:#?}"));
                }
            }
        }
    }
    Ok(trace)
}

/// The first lines that differ, with a little of what stands before.
fn first_difference(a: &str, b: &str) -> Option<String> {
    if a == b {
        return None;
    }
    let (a, b): (Vec<_>, Vec<_>) = (a.lines().collect(), b.lines().collect());
    let at = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let before = a[at.saturating_sub(12)..at].join("\n");
    let shown = |lines: &[&str]| lines[at..lines.len().min(at + 6)].join("\n  ");
    Some(format!("{before}\na {}\nb {}", shown(&a), shown(&b)))
}

fn quiet() -> MemoryHarness {
    MemoryHarness::with_options(MemoryOptions { serve: false })
}

/// Meta: a run is its seed, and nothing else.
#[tokio::test]
async fn one_seed_gives_the_same_run_twice() {
    for seed in 0..8 {
        let first = run_model(seed, 300, &quiet(), &quiet()).await.unwrap();
        let second = run_model(seed, 300, &quiet(), &quiet()).await.unwrap();
        assert_eq!(first, second);
        assert_ne!(first, run_model(seed + 100, 300, &quiet(), &quiet()).await.unwrap());
    }
}

/// The SQLite log, by two processes at once, against the memory log.
#[tokio::test]
async fn sqlite_and_memory_agree() {
    for seed in seeds() {
        let told = run_model(seed, 400, &quiet(), &SqliteHarness::quiet().await).await;
        if let Err(difference) = told {
            panic!("{difference}");
        }
    }
}

/// The seeds of this run: the one asked for, or as many as are asked for, or a few.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    match number("WINDLASS_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WINDLASS_MODEL_SEEDS").unwrap_or(12),
    }
}

/// Meta: a log that differs is found out.
#[tokio::test]
async fn a_difference_is_never_missed() {
    let (a, b) = (quiet(), quiet());
    b.advance(std::time::Duration::from_millis(1)).await;
    let told = run_model(1, 100, &a, &b).await.unwrap_err();
    assert!(told.contains("seed 1, operation"), "{told}");
}

/// Meta: the operations reach what they are meant to reach.
#[tokio::test]
async fn runs_reach_every_answer() {
    let mut all = String::new();
    for seed in 0..60 {
        all += &run_model(seed, 300, &quiet(), &quiet()).await.unwrap().join("\n");
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
    ] {
        assert!(all.contains(wanted), "no run came to `{wanted}`");
    }
}
