//! Every way a guest can be hostile, in one table: each ends by its own limit, under its own name, and
//! the next message finds the host as it was.

use crate::binary::{LOOPS, TAKES_MEMORY, TAKES_TABLE, TRAPS, with_start};
use crate::support::{ENGINE, bytes, config, consumer, deliver, message, short, with_limits};
use std::time::{Duration, Instant};
use windlass_core::{Limits, Outcome};
use windlass_runtime::{Component, Consumer, Invocation};

/// Enough of everything but what a row is about.
fn limits() -> Limits {
    Limits { cpu: Duration::from_secs(1), wall: Duration::from_secs(5), ..Limits::default() }
}

fn roomy() -> Limits {
    Limits { memory_bytes: 512 << 20, ..limits() }
}

/// Memory of this process that is not shared, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn sends(invocation: &Invocation) -> usize {
    if let Outcome::Done { sends } = &invocation.outcome { sends.len() } else { 0 }
}

#[tokio::test]
async fn every_hostile_guest_ends_under_its_own_name_and_the_next_message_is_handled() {
    for (way, limits, expected) in [
        ("loop", limits(), "out-of-cpu"),
        ("loop", short(), "out-of-cpu"),
        ("sleep:60000", short(), "timed-out"),
        ("memory", limits(), "out-of-memory"),
        ("trap-stack", limits(), "trapped"),
        ("trap-unreachable", limits(), "trapped"),
        ("panic", limits(), "trapped"),
        ("exit0", limits(), "trapped"),
        ("exit1", limits(), "trapped"),
        ("endless-sends", limits(), "too-much"),
        ("endless-output", limits(), "out-of-cpu"),
        ("too-many-sends", limits(), "too-much"),
        ("resources", limits(), "too-much"),
        ("send-bytes:104857600", limits(), "out-of-memory"),
        ("send-bytes:104857600", roomy(), "too-much"),
        ("pairs:1000000", roomy(), "error-other"),
        ("send-after:400", short(), "timed-out"),
    ] {
        let consumer = consumer("poison", with_limits(limits.clone()));
        let start = Instant::now();
        let invocation = deliver(&consumer, message(way)).await;
        assert_eq!(invocation.outcome.name(), expected, "{way}: {}", invocation.outcome.text());
        assert_eq!(sends(&invocation), 0, "{way}");
        assert!(start.elapsed() < Duration::from_secs(20), "{way}: {:?}", start.elapsed());
        assert!(invocation.output.text.len() as u64 <= limits.output_bytes, "{way}");
        assert!(invocation.memory_peak <= limits.memory_bytes, "{way}");
        let next = deliver(&consumer, message("ok")).await;
        assert_eq!(next.outcome.name(), "ok", "after {way}");
    }
}

/// A start function runs before `handle` is entered: what fails there is the revision's fault.
#[tokio::test]
async fn every_hostile_start_ends_as_a_start_that_failed() {
    let poison = bytes("poison");
    let twice = with_start(&with_start(&poison, TAKES_MEMORY), TAKES_MEMORY);
    for (what, code, limits, expected) in [
        ("a trap", with_start(&poison, TRAPS), limits(), "start-failed"),
        ("a loop", with_start(&poison, LOOPS), short(), "start-failed"),
        ("one memory", with_start(&poison, TAKES_MEMORY), limits(), "ok"),
        ("two memories", twice.clone(), limits(), "start-failed"),
        ("two memories with room", twice, roomy(), "ok"),
        ("a table", with_start(&poison, TAKES_TABLE), roomy(), "start-failed"),
    ] {
        let component = Component::load(&ENGINE, &code).unwrap();
        let consumer = Consumer::new(&component, with_limits(limits)).unwrap();
        for _ in 0..2 {
            let outcome = deliver(&consumer, message("ok")).await.outcome;
            assert_eq!(outcome.name(), expected, "{what}: {}", outcome.text());
        }
    }
    assert_eq!(deliver(&consumer("poison", config()), message("ok")).await.outcome.name(), "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_hogs_at_once_take_what_their_limits_say_and_give_it_back() {
    const LIMIT: u64 = 16 << 20;
    let hogs = consumer("poison", with_limits(Limits { memory_bytes: LIMIT, ..limits() }));
    assert_eq!(deliver(&hogs, message("ok")).await.outcome.name(), "ok");
    let before = resident();
    for _ in 0..3 {
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let hogs = hogs.clone();
            running.spawn(async move { deliver(&hogs, message("memory")).await });
        }
        let mut most = 0;
        while let Some(ended) = running.join_next().await {
            assert_eq!(ended.unwrap().outcome.name(), "out-of-memory");
            most = most.max(resident().saturating_sub(before));
        }
        assert!(most <= 20 * LIMIT + (128 << 20), "{most}");
    }
    // What a pool keeps resident of its slots, and what other tests do meanwhile.
    let left = resident().saturating_sub(before);
    assert!(left < 128 << 20, "{left}");
    assert_eq!(deliver(&hogs, message("ok")).await.outcome.name(), "ok");
}
