//! Each write and each sync failing once.

use super::account::{Account, Wrong};
use super::losses::{Outcome, lose_at};
use super::recorder::Recorder;
use super::recording::Operation;
use super::verify::verify;
use super::work::Amount;
use crate::crash::{number, seed};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use std::time::Instant;

const AMOUNT: Amount = Amount { rounds: 2, tasks: 1, steps: 12, faults: true };
/// Power losses played over each recording, behind the failure.
const LOSSES: usize = 4;

/// What came of the runs.
#[derive(Debug, Default)]
struct Tally {
    writes: u32,
    syncs: u32,
    /// Runs that ended before the operation that was to fail.
    unfailed: u32,
    /// Runs in which some call was answered with an error.
    told: u32,
    losses: Outcome,
    wrong: Vec<String>,
}

/// Goal: whatever write or sync fails, nothing is acknowledged that is not there, every call ends,
/// and the log works on without being opened again; also when the power goes some time after that,
/// where what a failed sync did not write stays unwritten. Method: one short run for each
/// operation, in which that one fails; all syncs and a choice of the writes.
#[test]
fn a_failing_write_or_sync_acknowledges_nothing_false_and_stops_nothing() {
    let name =
        "power::faults::a_failing_write_or_sync_acknowledges_nothing_false_and_stops_nothing";
    if let Some(folder) = super::folder() {
        return super::work::main(&folder);
    }
    let Some(recorder) = Recorder::build() else { return };
    let most = usize::try_from(number("WINDLASS_FAULTS", 300)).unwrap();
    let seed = seed();
    let start = Instant::now();
    let operations = recorder.run(name, AMOUNT, seed, true, None).operations;
    let own = Operation::Mark("checkpointed".into());
    assert!(operations.contains(&own), "the log's own checkpoints are among what fails");
    let ordinals = choose(&operations, most, seed);
    let halves = [0, 1].map(|half| ordinals.iter().copied().skip(half).step_by(2));
    let tally = std::thread::scope(|scope| {
        let threads = halves.map(|ordinals| {
            scope.spawn(|| {
                let mut tally = Tally::default();
                for ordinal in ordinals {
                    tally.fail_one(&recorder, name, seed, ordinal);
                }
                tally
            })
        });
        let mut whole = Tally::default();
        for thread in threads {
            whole.add(thread.join().unwrap());
        }
        whole
    });
    let Tally { writes, syncs, unfailed, told, losses, wrong } = tally;
    println!(
        "{writes} failed writes and {syncs} failed syncs in {:.0?} ({unfailed} runs ended before); \
         {told} runs were told of an error; of {} acknowledged {} lost",
        start.elapsed(),
        losses.acknowledged,
        losses.lost
    );
    assert_eq!(wrong.first(), None, "{} wrong", wrong.len());
    assert_eq!(losses.first, None, "{} lost, {:?}", losses.lost, losses.broken);
    assert!(syncs > 10 && told * 3 > writes + syncs, "the failures reached the log");
}

/// The ordinals of all syncs, and of as many writes as there is room for, by chance.
fn choose(operations: &[Operation], most: usize, seed: u64) -> Vec<u64> {
    let (mut writes, mut syncs) = (Vec::new(), Vec::new());
    let mut ordinal = 0;
    for operation in operations {
        let of = match operation {
            Operation::Write { .. } => &mut writes,
            Operation::Sync { .. } | Operation::SyncFolder => &mut syncs,
            Operation::Create { .. }
            | Operation::Truncate { .. }
            | Operation::Unlink { .. }
            | Operation::Rename { .. }
            | Operation::Mark(_)
            | Operation::Failed { .. } => continue,
        };
        ordinal += 1;
        of.push(ordinal);
    }
    writes.shuffle(&mut StdRng::seed_from_u64(seed));
    writes.truncate(most.saturating_sub(syncs.len()));
    println!("{ordinal} writes and syncs; {} of them fail", writes.len() + syncs.len());
    syncs.append(&mut writes);
    syncs
}

impl Tally {
    /// One run in which the `ordinal`th write or sync fails.
    fn fail_one(&mut self, recorder: &Recorder, name: &str, seed: u64, ordinal: u64) {
        let how = ["eio", "enospc", "short"][usize::try_from(ordinal % 3).unwrap()];
        let run = recorder.run(name, AMOUNT, seed, true, Some((ordinal, how)));
        let operations = &run.operations;
        let failed = operations.iter().position(|one| matches!(one, Operation::Failed { .. }));
        let Some(failed) = failed else {
            self.unfailed += 1;
            return;
        };
        let is_sync = matches!(&operations[failed], Operation::Failed { how, .. } if how == "sync");
        *if is_sync { &mut self.syncs } else { &mut self.writes } += 1;
        let mut account = Account::default();
        for operation in operations {
            if let Operation::Mark(line) = operation {
                account.enter(line);
            }
        }
        self.told += u32::from(!account.errors.is_empty());
        let mut dice = StdRng::seed_from_u64(seed ^ ordinal);
        let moment = |_| (dice.random_range(failed + 1..=operations.len()), ordinal);
        let mut moments: Vec<_> = (0..LOSSES).map(moment).collect();
        moments.sort_unstable();
        if matches!(&operations[failed], Operation::Failed { file: 0, .. }) {
            // SQLite goes on after a failed sync of the folder. The file systems of Linux write a
            // new file's name with the file, so that this is of no weight there.
            moments.clear();
        }
        let which = format!("WINDLASS_SEED={seed}, operation {ordinal}, {how}");
        let mut outcome = lose_at(operations, moments);
        outcome.first = outcome.first.map(|first| format!("{which}: {first}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wrong = runtime.block_on(verify(&run.log(), &account));
        if outcome.first.is_some() || !wrong.is_empty() {
            println!("{which}: the recording is kept in {}", run.keep().display());
        }
        self.losses.add(outcome);
        let tell = |wrong: &Wrong| format!("{which}: {wrong:?}");
        self.wrong.extend(wrong.iter().map(tell));
    }

    fn add(&mut self, other: Self) {
        self.writes += other.writes;
        self.syncs += other.syncs;
        self.unfailed += other.unfailed;
        self.told += other.told;
        self.losses.add(other.losses);
        self.wrong.extend(other.wrong);
    }
}
