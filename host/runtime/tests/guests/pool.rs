//! The pool: what is not there is waited for, and never an error.

use crate::support::{bytes, config, deliver, message};
use std::future::pending;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use windlass_core::Outcome;
use windlass_runtime::{
    Component, Consumer, ConsumerConfig, Delivery, Engine, EngineConfig, InstancePolicy,
    Invocation, Stop,
};

/// A pool for one instance of poison, and a message in it that sleeps until it is stopped.
struct Full {
    consumer: Consumer,
    stop: oneshot::Sender<Stop>,
    sleeper: JoinHandle<Invocation>,
}

impl Full {
    async fn new() -> Self {
        let size = EngineConfig { instances_max: 1, ..EngineConfig::default() };
        let engine = Engine::new(&size).unwrap();
        let component = Component::load(&engine, &bytes("poison")).unwrap();
        let consumer = Consumer::new(&component, config()).unwrap();
        let (stop, stopped) = oneshot::channel::<Stop>();
        let sleeper = tokio::spawn({
            let (consumer, delivery) = (consumer.clone(), of("sleep:60000", &consumer));
            async move { consumer.invoke(delivery, async { stopped.await.unwrap() }).await }
        });
        // On this one thread it runs until it waits, that is until it sleeps in the guest.
        tokio::task::yield_now().await;
        Self { consumer, stop, sleeper }
    }
}

fn of(text: &str, consumer: &Consumer) -> Delivery {
    Delivery { message: Arc::new(message(text)), attempt: 1, deadline: consumer.deadline() }
}

#[tokio::test]
async fn where_the_pool_is_used_up_a_delivery_waits() {
    let Full { consumer, stop, sleeper } = Full::new().await;
    let mut second = Box::pin(deliver(&consumer, message("ok")));
    let early = tokio::time::timeout(Duration::from_millis(20), &mut second).await;
    assert!(early.is_err(), "{early:?}");
    stop.send(Stop::Interrupted).unwrap();
    assert_eq!(sleeper.await.unwrap().outcome, Outcome::Interrupted);
    assert_eq!(second.await.outcome.name(), "ok");
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_the_pool_ends_with_its_stop_or_its_time_and_costs_no_attempt() {
    let Full { consumer, stop: _stop, sleeper } = Full::new().await;
    let lost = consumer.invoke(of("ok", &consumer), async { Stop::LeaseLost }).await;
    assert_eq!(lost.outcome, Outcome::LeaseLost);
    let mut late = of("ok", &consumer);
    late.deadline = tokio::time::Instant::now() + Duration::from_secs(1);
    let late = consumer.invoke(late, pending()).await;
    assert_eq!(late.outcome, Outcome::Interrupted);
    assert_eq!(late.cpu, Duration::ZERO);
    drop(sleeper);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_pool_serves_any_crowd() {
    let size = EngineConfig { instances_max: 3, ..EngineConfig::default() };
    let engine = Engine::new(&size).unwrap();
    let warm =
        InstancePolicy::Warm { messages: NonZeroU32::new(5).unwrap(), age: Duration::from_mins(1) };
    let consumers: Vec<_> = [("poison", InstancePolicy::Fresh), ("echo", warm)]
        .into_iter()
        .map(|(guest, instances)| {
            let component = Component::load(&engine, &bytes(guest)).unwrap();
            let config = ConsumerConfig { instances, ..config() };
            Consumer::new(&component, config).unwrap()
        })
        .collect();
    let mut crowd = JoinSet::new();
    for turn in 0..400 {
        let consumer = consumers[turn % 2].clone();
        let text = if turn % 4 == 0 { "sleep:1" } else { "ok" };
        crowd.spawn(async move { deliver(&consumer, message(text)).await.outcome });
    }
    let outcomes = crowd.join_all().await;
    assert!(outcomes.iter().all(|outcome| outcome.name() == "ok"), "{outcomes:?}");
}
