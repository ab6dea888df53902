//! SIGKILL at random moments, over and over, on one log.

use super::verify::{Account, verify};
use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::io::{BufRead, BufReader};
use std::time::Instant;

const KILLS_BETWEEN_LOOKS: u64 = 50;

/// Goal: whatever moment the process dies, an acknowledged publish is there, a message whose ack
/// was answered is not given again, its sends are there all or not at all, and no message is in
/// two places or in none. Method: a child works on the log and tells what it was answered; it is
/// killed, a new one goes on; every 50 kills all that the log holds is claimed and compared with
/// what the children told.
#[test]
fn whatever_moment_the_process_dies_nothing_is_lost_repeated_or_doubled() {
    if let Some(folder) = folder() {
        return child::main(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let kills = number("WINDLASS_KILLS", 300);
    let seed = seed();
    let mut dice = StdRng::seed_from_u64(seed);
    let mut account = Account::default();
    let start = Instant::now();
    for kill in 1..=kills {
        live_and_die(folder.path(), kill, seed, dice.random_range(20..150), &mut account);
        if kill % KILLS_BETWEEN_LOOKS == 0 || kill == kills {
            runtime().block_on(verify(folder.path(), &mut account));
        }
    }
    println!("{kills} kills in {:.0?}: {}", start.elapsed(), account.summary());
    account.assert_that_much_happened(kills);
}

/// One child, killed `after_ms` from its start; what it told is entered.
fn live_and_die(folder: &Path, number: u64, seed: u64, after_ms: u64, account: &mut Account) {
    let name = "crash::kills::whatever_moment_the_process_dies_nothing_is_lost_repeated_or_doubled";
    let mut child = super::start(name, folder, number, seed, "");
    let told = BufReader::new(child.stdout.take().unwrap());
    let listener = std::thread::spawn(move || {
        told.lines().map_while(Result::ok).filter(|line| line.starts_with("@ ")).collect::<Vec<_>>()
    });
    std::thread::sleep(Duration::from_millis(after_ms));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), None, "child {number} ended by itself: {status}");
    account.new_run();
    for line in listener.join().unwrap() {
        account.enter(&said(&line).unwrap());
    }
}
