//! Power lost at a thousand moments.

use super::account::{Account, Wrong};
use super::disk::{Disk, Image, Left};
use super::recorder::{Recorded, Recorder, scratch};
use super::recording::{Operation, count};
use super::verify::verify;
use super::work::Amount;
use crate::crash::{number, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::path::Path;
use std::time::Instant;

/// So many losses are played over one recording.
const LOSSES_A_RECORDING: usize = 250;
const AMOUNT: Amount = Amount { rounds: 3, tasks: 3, steps: 40, faults: false };

/// What came of the losses over one recording.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What was acknowledged at the moments of loss, all together.
    pub(super) acknowledged: usize,
    pub(super) lost: usize,
    /// Losses that took something.
    pub(super) lossy: u64,
    pub(super) broken: Vec<String>,
    pub(super) first: Option<String>,
}

/// Goal: a power loss at any moment takes nothing acknowledged, brings nothing back, leaves nothing
/// in two places or in none, and a log that works. Method: as said above, 1,000 moments.
#[test]
fn a_power_loss_takes_nothing_that_was_acknowledged() {
    let name = "power::losses::a_power_loss_takes_nothing_that_was_acknowledged";
    let Some(outcome) = play(name, number("WINDLASS_LOSSES", 1_000), true) else { return };
    assert_eq!(outcome.first, None, "{} lost; {:?}", outcome.lost, outcome.broken);
}

/// The same without syncs must lose something: a recorder that shows nothing then would see
/// nothing above either.
#[test]
fn without_syncs_a_power_loss_takes_something_and_the_recorder_sees_it() {
    let name = "power::losses::without_syncs_a_power_loss_takes_something_and_the_recorder_sees_it";
    let Some(outcome) = play(name, number("WINDLASS_LOSSES", 1_000).min(250), false) else {
        return;
    };
    assert!(outcome.lost > 0 && outcome.lossy > 10, "{outcome:?}");
    assert!(outcome.broken.is_empty(), "newer commits go, but nothing breaks: {outcome:?}");
}

/// None where nothing can be recorded, or this process is the recorded one.
fn play(name: &str, losses: u64, synced: bool) -> Option<Outcome> {
    if let Some(folder) = super::folder() {
        super::work::main(&folder);
        return None;
    }
    let recorder = Recorder::build()?;
    let seed = seed();
    let start = Instant::now();
    let mut whole = Outcome::default();
    for (recording, first) in (0_u64..).zip((0..losses).step_by(LOSSES_A_RECORDING)) {
        let seed = seed.wrapping_add(recording << 32);
        let run = recorder.run(name, AMOUNT, seed, synced, None);
        println!("{}", count(&run.operations));
        let losses = (LOSSES_A_RECORDING as u64).min(losses - first);
        let outcome = lose(&run, seed, losses);
        if outcome.first.is_some() && (synced || !outcome.broken.is_empty()) {
            println!("the recording is kept in {}", run.keep().display());
        }
        whole.add(outcome);
    }
    println!(
        "{losses} power losses in {:.0?}: of {} acknowledged {} lost, in {} losses",
        start.elapsed(),
        whole.acknowledged,
        whole.lost,
        whole.lossy
    );
    Some(whole)
}

/// Plays so many losses over one recording, in order of their moments, on two threads.
fn lose(run: &Recorded, seed: u64, losses: u64) -> Outcome {
    let operations = &run.operations;
    let marks: Vec<usize> = operations
        .iter()
        .enumerate()
        .filter(|(_, operation)| matches!(operation, Operation::Mark(_)))
        .map(|(when, _)| when)
        .collect();
    let mut dice = StdRng::seed_from_u64(seed);
    // Half of them right after something was answered.
    let mut moments: Vec<(usize, u64)> = (0..losses)
        .map(|_| {
            let anywhere = dice.random_range(0..=operations.len());
            let answered = marks[dice.random_range(0..marks.len())] + 1;
            (if dice.random_bool(0.5) { anywhere } else { answered }, dice.random())
        })
        .collect();
    moments.sort_unstable();
    let halves = [0, 1].map(|half| moments.iter().copied().skip(half).step_by(2).collect());
    std::thread::scope(|scope| {
        let threads = halves.map(|moments: Vec<_>| scope.spawn(|| lose_at(operations, moments)));
        let mut whole = Outcome::default();
        for thread in threads {
            whole.add(thread.join().unwrap());
        }
        whole
    })
}

/// The power goes at these moments, which rise.
pub(super) fn lose_at(operations: &[Operation], moments: Vec<(usize, u64)>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut disk, mut account) = (Disk::default(), Account::default());
    let mut outcome = Outcome::default();
    let mut done = 0;
    for (moment, seed) in moments {
        for (when, operation) in operations.iter().enumerate().take(moment).skip(done) {
            disk.apply(when, operation);
            if let Operation::Mark(line) = operation {
                account.enter(line);
            }
        }
        done = moment;
        let mut dice = StdRng::seed_from_u64(seed);
        let left = Left::draw(&mut dice, disk.oldest_unsure(moment), moment);
        let image = disk.after_power_loss(left, &mut dice);
        let folder = scratch();
        write(folder.path(), &image);
        let wrong = runtime.block_on(verify(folder.path(), &account));
        outcome.enter(&account, &wrong, &format!("at {moment}, {left:?}, seed {seed}"));
    }
    outcome
}

fn write(folder: &Path, image: &Image) {
    for (name, data) in image {
        std::fs::write(folder.join(name), data).unwrap();
    }
}

impl Outcome {
    fn enter(&mut self, account: &Account, wrong: &[Wrong], which: &str) {
        self.acknowledged += account.acknowledged();
        let lost = wrong.iter().filter(|wrong| matches!(wrong, Wrong::Lost(_))).count();
        self.lost += lost;
        self.lossy += u64::from(lost > 0);
        for wrong in wrong {
            self.first.get_or_insert_with(|| format!("{which}: {wrong:?}"));
            if let Wrong::Broken(what) = wrong {
                self.broken.push(format!("{which}: {what}"));
            }
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.lost += other.lost;
        self.lossy += other.lossy;
        self.broken.extend(other.broken);
        self.first = self.first.take().or(other.first);
    }
}
