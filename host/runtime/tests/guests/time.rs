//! Guests that compute without end, beside others; and the ticker that stops them.

use crate::support::{bytes, config, consumer, deliver, message};
use std::sync::Arc;
use std::time::{Duration, Instant};
use windlass_core::Outcome;
use windlass_runtime::{Allocation, Component, Consumer, Delivery, Engine, EngineConfig, Stop};

#[tokio::test(flavor = "current_thread")]
async fn a_loop_lets_others_finish_on_one_thread() {
    let consumer = consumer("poison", config());
    let (stop, stopped) = tokio::sync::oneshot::channel::<Stop>();
    let looping = tokio::spawn({
        let consumer = consumer.clone();
        let message = Arc::new(message("loop"));
        let delivery = Delivery { message, attempt: 1, deadline: consumer.deadline() };
        async move { consumer.invoke(delivery, async { stopped.await.unwrap() }).await }
    });
    for _ in 0..5 {
        assert_eq!(deliver(&consumer, message("sleep:1")).await.outcome.name(), "ok");
    }
    assert!(!looping.is_finished(), "it ended before the others did");
    stop.send(Stop::Interrupted).unwrap();
    assert_eq!(looping.await.unwrap().outcome, Outcome::Interrupted);
}

/// Waits for a state that has no signal of its own.
fn eventually(what: &str, state: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !state() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn the_ticker_sleeps_when_nothing_runs_and_wakes_again() {
    let engine = Engine::new(&EngineConfig { instances_max: 4, ..<_>::default() }).unwrap();
    let component = Component::load(&engine, &bytes("poison")).unwrap();
    let mut config = config();
    config.limits.cpu = Duration::from_millis(50);
    let consumer = Consumer::new(&component, config).unwrap();
    for _ in 0..3 {
        eventually("the ticker does not sleep", || engine.is_idle());
        assert_eq!(deliver(&consumer, message("loop")).await.outcome.name(), "out-of-cpu");
    }
}

#[tokio::test]
async fn without_a_pool_guests_run_as_well() {
    let engine =
        Engine::new(&EngineConfig { instances_max: 4, pooling: false, ..<_>::default() }).unwrap();
    assert_eq!(*engine.allocation(), Allocation::OnDemand { why: "switched off".into() });
    let component = Component::load(&engine, &bytes("poison")).unwrap();
    let mut config = config();
    config.limits.cpu = Duration::from_secs(1);
    let consumer = Consumer::new(&component, config).unwrap();
    for (way, expected) in [
        ("ok", "ok"),
        ("loop", "out-of-cpu"),
        ("memory", "out-of-memory"),
        ("trap-stack", "trapped"),
        ("panic", "trapped"),
    ] {
        assert_eq!(deliver(&consumer, message(way)).await.outcome.name(), expected);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_ends() {
    let consumer = consumer("poison", config());
    for _ in 0..200 {
        let call = deliver(&consumer, message("sleep:60000"));
        let cut = tokio::time::timeout(Duration::from_millis(1), call).await;
        assert!(cut.is_err());
    }
    assert_eq!(deliver(&consumer, message("ok")).await.outcome.name(), "ok");
}
