//! Several processes on one log.

use super::*;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::ChildStdout;
use std::time::Instant;

const MESSAGES: usize = 3_000;

/// A child, and what it says.
pub(crate) struct Other {
    pub(crate) child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    pub(super) fn start(name: &str, folder: &Path, number: u64) -> Self {
        Self::of(super::start(name, folder, number, 0, ""))
    }

    /// The same, with a seed.
    pub(crate) fn start_with_seed(name: &str, folder: &Path, number: u64, seed: u64) -> Self {
        Self::of(super::start(name, folder, number, seed, ""))
    }

    /// The same, where the test is one that only runs when it is asked for.
    pub(super) fn start_ignored(name: &str, folder: &Path, number: u64) -> Self {
        let mut command = super::command(name, folder, number, 0, "");
        Self::of(command.arg("--ignored").spawn().unwrap())
    }

    fn of(mut child: Child) -> Self {
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next thing it says.
    pub(crate) fn next(&mut self) -> Option<String> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.into_iter().find_map(|line| line.strip_prefix("@ ").map(str::to_owned))
    }

    pub(super) fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

pub(super) fn next_order() -> bool {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap() > 0
}

/// Goal: two processes that claim at once never get the same message. Method: both start at one
/// word, claim in batches of changing size and ack, until there is nothing left.
#[test]
fn two_processes_share_the_work_and_no_message_goes_to_both() {
    if let Some(folder) = folder() {
        return claim_until_empty(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let log = open(folder.path(), false).await;
        kit::declare(&log, "t", "g", GroupPolicy::default()).await;
        kit::publish(&log, "t", MESSAGES).await;
        log.close().await;
    });
    let name = "crash::processes::two_processes_share_the_work_and_no_message_goes_to_both";
    let mut others = [1, 2].map(|number| Other::start(name, folder.path(), number));
    for other in &mut others {
        assert_eq!(other.next().as_deref(), Some("ready"));
    }
    for other in &mut others {
        other.tell("go");
    }
    let listeners = others.map(|mut other| {
        std::thread::spawn(move || {
            let mut acked = Vec::new();
            while let Some(line) = other.next() {
                acked.push(line.strip_prefix("acked ").expect("an ack").to_owned());
            }
            assert!(other.child.wait().unwrap().success());
            acked
        })
    });
    let shares = listeners.map(|listener| listener.join().unwrap());
    println!("shares: {} and {}", shares[0].len(), shares[1].len());
    assert!(shares.iter().all(|share| !share.is_empty()), "both work");
    let all = shares.concat();
    assert_eq!(all.len(), MESSAGES, "each once");
    assert_eq!(all.into_iter().collect::<BTreeSet<_>>().len(), MESSAGES, "none twice");
}

fn claim_until_empty(folder: &Path) {
    let (number, _) = run();
    runtime().block_on(async {
        let log = open(folder, true).await;
        say("ready");
        assert!(next_order());
        for round in 0.. {
            let max = 1 + (round * 7 + usize::try_from(number).unwrap()) % 20;
            let request =
                ClaimRequest { worker: number.to_string().into(), ..kit::request("t", "g", max) };
            let claims = log.claim(request).await.unwrap();
            if claims.is_empty() {
                break;
            }
            for claim in claims {
                assert_eq!(claim.attempt, 1);
                kit::ack(&log, &claim).await;
                say(&format!("acked {}", claim.message.id));
            }
        }
        log.close().await;
    });
}

/// Goal: who waits for work in one process is woken by a publish in another. The time from the
/// publish's answer to the claim is printed.
#[test]
fn a_publish_from_another_process_wakes_who_waits_here() {
    if let Some(folder) = folder() {
        return publish_on_order(&folder);
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let log = runtime.block_on(open(folder.path(), true));
    let name = "crash::processes::a_publish_from_another_process_wakes_who_waits_here";
    let mut other = Other::start(name, folder.path(), 1);
    let mut spans = runtime.block_on(async {
        kit::declare(&log, "t", "g", GroupPolicy::default()).await;
        let waiter = log.waiter(&kit::topic("t"), &kit::group("g"));
        let mut spans = Vec::new();
        for _ in 0..40 {
            assert!(kit::claim(&log, "t", "g", 1).await.is_empty());
            other.tell("publish");
            let start = Instant::now();
            let claim = kit::claim_when_woken(&log, &waiter, "t", "g").await;
            spans.push(start.elapsed());
            kit::ack(&log, &claim).await;
        }
        spans
    });
    drop(other.child.stdin.take());
    assert!(other.child.wait().unwrap().success());
    spans.sort_unstable();
    let [median, worst] = [spans[spans.len() / 2], spans[spans.len() - 1]];
    println!("from the order to publish to the claim: median {median:.1?}, worst {worst:.1?}");
    assert!(median < Duration::from_millis(250), "the median is {median:?}");
    assert!(worst < Duration::from_secs(5), "the worst is {worst:?}");
}

fn publish_on_order(folder: &Path) {
    runtime().block_on(async {
        let log = open(folder, false).await;
        while next_order() {
            kit::publish(&log, "t", 1).await;
        }
        log.close().await;
    });
}
