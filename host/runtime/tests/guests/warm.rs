//! Warm instances: used again, but never carrying anything from one delivery to the next.

use crate::support::{config, consumer, deliver, message};
use std::num::NonZeroU32;
use std::time::Duration;
use windlass_core::Outcome;
use windlass_runtime::{ConsumerConfig, InstancePolicy};

fn warm(messages: u32) -> ConsumerConfig {
    let messages = NonZeroU32::new(messages).unwrap();
    let instances = InstancePolicy::Warm { messages, age: Duration::from_mins(1) };
    ConsumerConfig { instances, ..config() }
}

#[tokio::test]
async fn a_warm_instance_serves_again_with_limits_and_output_of_its_own() {
    let mut config = warm(1_000);
    config.limits.sends = 2;
    config.limits.resources = 20;
    let consumer = consumer("poison", config);
    for _ in 0..200 {
        let Outcome::Done { sends } = deliver(&consumer, message("sends:2")).await.outcome else {
            panic!("not done")
        };
        assert_eq!(sends.len(), 2);
    }
    let consumer = crate::support::consumer("slow", warm(1_000));
    for _ in 0..3 {
        assert_eq!(deliver(&consumer, message("1ms")).await.output.text, "slept 1 ms\n");
    }
}

#[tokio::test]
async fn an_instance_is_dropped_after_anything_but_ok() {
    let consumer = consumer("poison", warm(1_000));
    for way in ["panic", "err-other", "too-many-sends", "exit0"] {
        assert_eq!(deliver(&consumer, message("ok")).await.outcome.name(), "ok");
        assert_ne!(deliver(&consumer, message(way)).await.outcome.name(), "ok", "{way}");
    }
    assert_eq!(deliver(&consumer, message("ok")).await.outcome.name(), "ok");
}
