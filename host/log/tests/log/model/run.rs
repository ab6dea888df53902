//! One run: draws operations, has both logs do them, and compares.

use super::operation::Operation;
use super::side::Side;
use super::view::Scope;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use windlass_log::conformance::Harness;
use windlass_log::sqlite::Faults;

/// How many operations before a difference are told.
const TAIL: usize = 30;
/// How many operations are remembered at all.
const KEPT: usize = 1_000;
/// Each time after so many operations everything is compared, and not only what the operation may
/// have touched.
const WHOLE_LOOK: usize = 8;
/// After so many operations all rows are counted again.
const RECOUNT_EVERY: usize = 20;
/// Each time after so many operations a log that has grown is cleared, so that a run may be of any
/// length.
const GROWN_LOOK: usize = 100;
/// Messages stored and dead letters from which on a log has grown.
const GROWN: u64 = 60;
/// After storage has failed the SQLite log lets ended leases be for so long; the memory log does not.
const GRACE: Operation = Operation::Advance(3_000);

/// Runs so many operations on both logs; some of `b`'s commits fail where it has faults. What was
/// done last, or the first difference as a text to read.
pub(super) async fn run_model(
    seed: u64,
    operations: usize,
    a: &dyn Harness,
    (b, faults): (&dyn Harness, Option<&Faults>),
) -> Result<Vec<String>, String> {
    let (a, b) = (Side::new(a).await, Side::new(b).await);
    let random = StdRng::seed_from_u64(seed);
    let mut run = Run { random, a, b, faults, process: 0, trace: VecDeque::new() };
    for n in 0..operations {
        if let Err(difference) = run.step(n).await {
            let from = run.trace.len().saturating_sub(TAIL);
            let tail: Vec<_> = run.trace.drain(from..).collect();
            let tail = tail.join("\n");
            return Err(format!("{tail}\nseed {seed}, operation {n}: {difference}"));
        }
    }
    Ok(run.trace.into())
}

struct Run<'a> {
    random: StdRng,
    a: Side<'a>,
    b: Side<'a>,
    faults: Option<&'a Faults>,
    /// Which of the two openings of each log acts.
    process: usize,
    trace: VecDeque<String>,
}

impl Run<'_> {
    /// The next operation, and everything compared that follows from it.
    async fn step(&mut self, n: usize) -> Result<(), String> {
        let grown = n % GROWN_LOOK == GROWN_LOOK - 1 && self.a.weight().await > GROWN;
        let operation = if grown {
            Operation::Clear
        } else {
            Operation::draw(&mut self.random, self.a.claims())
        };
        self.process = usize::from(self.random.random_bool(0.3));
        let fails = self.random.random_bool(0.05) && operation.may_fail();
        // Of a claim, what it owes to the disk may fail behind what it wrote.
        let spared = u32::from(self.random.random_bool(0.5) && operation.is_claim());
        let again = self.random.random_bool(0.5);
        let scope = if n.is_multiple_of(WHOLE_LOOK) {
            Scope::All
        } else {
            Scope::Of(operation.topics(self.a.claimed_on()))
        };
        if fails {
            return self.fail(n, &operation, spared, again).await;
        }
        self.both(n, &operation).await?;
        if n.is_multiple_of(RECOUNT_EVERY) {
            self.a.recount().await?;
            self.b.recount().await?;
        }
        self.compare(&scope).await
    }

    /// Both do it; their answers are compared.
    async fn both(&mut self, n: usize, operation: &Operation) -> Result<(), String> {
        let told_a = self.a.run(operation, self.process).await;
        self.note(n, operation, &told_a);
        let told_b = self.b.run(operation, self.process).await;
        differ("answers", &told_a, &told_b)
    }

    /// A commit fails while `b` does it: it is done wholly or not at all, and if not, `b` can be
    /// asked again.
    async fn fail(
        &mut self,
        n: usize,
        operation: &Operation,
        spared: u32,
        again: bool,
    ) -> Result<(), String> {
        let before = self.a.view(self.process, &Scope::All, true).await;
        self.arm(spared, 1);
        let told = self.b.run(operation, self.process).await;
        let failed = told.contains(UNAVAILABLE);
        if failed {
            self.arm(0, 0);
            self.note(n, operation, "a commit fails");
            if told.contains(ANSWERED) {
                return Err(format!("a part was answered, and the commit failed: {told}"));
            }
            let after = self.b.view(self.process, &Scope::All, true).await;
            if after == before {
                self.both(n, &GRACE).await?;
                if again {
                    self.both(n, operation).await?;
                }
            } else {
                // It was done, and nobody was told: what was given is held by nobody.
                let told = self.a.run_unheard(operation, self.process).await;
                self.note(n, operation, &format!("is done all the same: {told}"));
                self.compare(&Scope::All).await?;
                self.both(n, &GRACE).await?;
            }
        } else {
            let told_a = self.a.run(operation, self.process).await;
            self.note(n, operation, &told_a);
            // What was answered is committed: had it not been, it would fail instead of this.
            self.b.knock(self.process).await;
            self.arm(0, 0);
            differ("answers", &told_a, &told)?;
            self.compare(&Scope::All).await?;
            self.both(n, &GRACE).await?;
        }
        self.compare(&Scope::All).await
    }

    fn arm(&self, spared: u32, failing: u32) {
        if let Some(faults) = self.faults {
            faults.spared_commits.store(spared, Ordering::Relaxed);
            faults.failing_commits.store(failing, Ordering::Relaxed);
        }
    }

    /// What can be seen of both.
    async fn compare(&self, scope: &Scope) -> Result<(), String> {
        let seen = (
            self.a.view(self.process, scope, false).await,
            self.b.view(self.process, scope, false).await,
        );
        if seen.0 == seen.1 {
            return Ok(());
        }
        // Once more, in lines.
        let (a, b) = (
            self.a.view(self.process, scope, true).await,
            self.b.view(self.process, scope, true).await,
        );
        differ("what is there then", &a, &b)?;
        Err(format!("what is there then differs, and then not\na {}\nb {}", seen.0, seen.1))
    }

    fn note(&mut self, n: usize, operation: &Operation, told: &str) {
        if self.trace.len() >= KEPT {
            self.trace.pop_front();
        }
        let process = self.process;
        self.trace.push_back(format!("{n:4} {operation:?} by {process}\n     -> {told}"));
    }
}

/// What a log says whose storage has failed.
const UNAVAILABLE: &str = "the log is unavailable";
/// What is found in the answers of settlements that went through.
const ANSWERED: &str = "Applied";

fn differ(what: &str, a: &str, b: &str) -> Result<(), String> {
    match first_difference(a, b) {
        Some(difference) => Err(format!("{what} differ\n{difference}")),
        None => Ok(()),
    }
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
