//! What the tests share: one engine, the guests, and a short way to hand poison a message.

use std::collections::HashMap;
use std::future::pending;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;
use windlass_core::{
    Grants, Limits, Message, MessageId, NewMessage, Outcome, Sequence, Timestamp, Topic,
    TopicPattern,
};
use windlass_runtime::{
    Component, Consumer, ConsumerConfig, Delivery, Engine, EngineConfig, Invocation, Outbox,
    SendRefused,
};

pub(crate) static ENGINE: LazyLock<Engine> =
    LazyLock::new(|| Engine::new(&EngineConfig { instances_max: 100, ..<_>::default() }).unwrap());

/// The file of a guest.
pub(crate) fn path(guest: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guest-examples");
    let file = format!("{folder}/target/wasm32-wasip2/release/{guest}.wasm");
    let file = PathBuf::from(file);
    assert!(file.exists(), "{} is missing: run guest-examples/build first", file.display());
    file
}

pub(crate) fn bytes(guest: &str) -> Vec<u8> {
    std::fs::read(path(guest)).unwrap()
}

/// A guest, compiled once for all tests.
pub(crate) fn guest(name: &'static str) -> Component {
    static GUESTS: LazyLock<Mutex<HashMap<&'static str, Component>>> =
        LazyLock::new(Mutex::default);
    let mut guests = GUESTS.lock().unwrap();
    let load = || Component::load(&ENGINE, &bytes(name)).unwrap();
    guests.entry(name).or_insert_with(load).clone()
}

pub(crate) fn topic(name: &str) -> Topic {
    Topic::new(name).unwrap()
}

/// A stored message with this text.
pub(crate) fn message(text: &str) -> Message {
    Message {
        id: MessageId { millis: Timestamp(1_700_000_000_000), sequence: Sequence(7) },
        topic: topic("in"),
        data: text.to_owned().into(),
        content_type: None,
        metadata: vec![],
        key: None,
        published_at: 1_700_000_000_123,
        hops: 0,
    }
}

/// What the tests grant; `denied` is not among it.
pub(crate) fn config() -> ConsumerConfig {
    let publish = ["poison/*", "echo/out", "in"].map(|p| TopicPattern::new(p).unwrap()).to_vec();
    ConsumerConfig {
        name: "test".into(),
        grants: Grants { publish, env: vec![] },
        ..ConsumerConfig::default()
    }
}

pub(crate) fn with_limits(limits: Limits) -> ConsumerConfig {
    ConsumerConfig { limits, ..config() }
}

pub(crate) fn consumer(guest_name: &'static str, config: ConsumerConfig) -> Consumer {
    Consumer::new(&guest(guest_name), config).unwrap()
}

pub(crate) async fn deliver(consumer: &Consumer, message: Message) -> Invocation {
    let delivery =
        Delivery { message: Arc::new(message), attempt: 1, deadline: consumer.deadline() };
    consumer.invoke(delivery, pending()).await
}

/// What poison makes of `text` under the default limits.
pub(crate) async fn poison(text: &str) -> Outcome {
    poison_under(Limits::default(), text).await
}

pub(crate) async fn poison_under(limits: Limits, text: &str) -> Outcome {
    deliver(&consumer("poison", with_limits(limits)), message(text)).await.outcome
}

/// Limits under which nothing takes long.
pub(crate) fn short() -> Limits {
    Limits {
        wall: Duration::from_millis(300),
        cpu: Duration::from_millis(100),
        ..Limits::default()
    }
}

/// An outbox that keeps what it gets, or answers always the same.
#[derive(Default)]
pub(crate) struct TestOutbox {
    pub(crate) refuse: Option<SendRefused>,
    pub(crate) taken: Mutex<Vec<NewMessage>>,
}

#[async_trait::async_trait]
impl Outbox for TestOutbox {
    async fn publish(&self, message: NewMessage) -> Result<(), SendRefused> {
        if let Some(refused) = &self.refuse {
            return Err(refused.clone());
        }
        self.taken.lock().unwrap().push(message);
        Ok(())
    }
}
