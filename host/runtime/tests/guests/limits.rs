//! What an invocation may use, and that nothing it does grows or stops the host.

use crate::support::{
    config, consumer, deliver, message, poison, poison_under, short, with_limits,
};
use std::time::Duration;
use windlass_core::{Limits, Outcome};

#[tokio::test]
async fn a_loop_ends_at_the_cpu_limit() {
    let limits = Limits { cpu: Duration::from_millis(100), ..Limits::default() };
    let consumer = consumer("poison", with_limits(limits.clone()));
    let invocation = deliver(&consumer, message("loop")).await;
    assert_eq!(invocation.outcome, Outcome::OutOfCpu { limit: limits.cpu });
    assert!(invocation.cpu >= limits.cpu && invocation.cpu < Duration::from_secs(2));
}

#[tokio::test]
async fn a_loop_ends_at_the_wall_clock() {
    let limits = Limits { wall: Duration::from_millis(100), ..Limits::default() };
    assert_eq!(
        poison_under(limits.clone(), "loop").await,
        Outcome::TimedOut { limit: limits.wall }
    );
}

#[tokio::test]
async fn a_sleep_ends_at_the_wall_clock_and_costs_no_cpu() {
    let limits = short();
    let consumer = consumer("poison", with_limits(limits.clone()));
    let invocation = deliver(&consumer, message("sleep:60000")).await;
    assert_eq!(invocation.outcome, Outcome::TimedOut { limit: limits.wall });
    assert!(invocation.cpu < limits.cpu, "{:?}", invocation.cpu);
}

#[tokio::test]
async fn memory_ends_at_its_limit() {
    let limits = Limits { memory_bytes: 8 << 20, ..Limits::default() };
    let consumer = consumer("poison", with_limits(limits));
    let invocation = deliver(&consumer, message("memory")).await;
    assert_eq!(invocation.outcome, Outcome::OutOfMemory { limit: 8 << 20 });
    assert!(invocation.memory_peak > 1 << 20 && invocation.memory_peak <= 8 << 20);
}

#[tokio::test]
async fn output_is_kept_to_its_limit_and_is_no_failure() {
    let limits = Limits { output_bytes: 1_000, ..Limits::default() };
    let invocation = deliver(&consumer("poison", with_limits(limits)), message("output")).await;
    assert_eq!(invocation.outcome.name(), "ok");
    assert_eq!(invocation.output.text.len(), 1_000);
    assert_eq!(invocation.output.dropped_bytes, (8 << 20) - 1_000);
}

#[tokio::test]
async fn what_is_printed_comes_back() {
    let invocation = deliver(&consumer("slow", config()), message("1ms")).await;
    assert_eq!(invocation.output.text, "slept 1 ms\n");
    let panicked = deliver(&consumer("poison", config()), message("panic:oh")).await;
    assert!(panicked.output.text.contains("oh"), "{:?}", panicked.output);
}

#[tokio::test]
async fn limits_are_one_invocations_own() {
    let limits = Limits { sends: 2, resources: 10, ..Limits::default() };
    let consumer = consumer("poison", with_limits(limits));
    for _ in 0..3 {
        assert_eq!(deliver(&consumer, message("sends:2")).await.outcome.name(), "ok");
    }
    assert_eq!(deliver(&consumer, message("sends:3")).await.outcome.name(), "too-much");
}

#[tokio::test]
async fn an_oversize_body_is_refused_by_send_and_not_a_trap() {
    let outcome = poison("oversize").await;
    assert_eq!(outcome.name(), "error-other");
    assert!(outcome.text().contains("2097152 bytes"), "{}", outcome.text());
}
