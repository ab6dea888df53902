//! Metrics, in the form that Prometheus reads. The only room that names one.
//!
//! Learnt from events, so that they say what is durable. Labels are bounded: outcomes and
//! dispositions are closed sets, and of consumers the first [`CONSUMERS_MAX`] of a process have
//! their own; what comes later is counted as [`OTHER`]. Nothing a message carries is a label.

use crate::event::{Delivered, Event, Fate};
use prometheus_client::encoding::{EncodeLabelSet, text::encode};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, PoisonError};

/// Consumers that have a label of their own, over the life of a process.
const CONSUMERS_MAX: usize = 1_000;
/// The label of all others.
const OTHER: &str = "other";
/// Bounds of how long deliveries take, in seconds: the shortest call to past the default limit.
const SECONDS: [f64; 9] = [0.000_5, 0.002, 0.008, 0.032, 0.128, 0.512, 2.048, 8.192, 32.768];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfConsumer {
    consumer: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDelivery {
    consumer: String,
    outcome: &'static str,
    disposition: &'static str,
}

type Seconds = Family<OfConsumer, Histogram, fn() -> Histogram>;

/// What a server counts.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    names: Mutex<HashSet<String>>,
    deliveries: Family<OfDelivery, Counter>,
    seconds: Seconds,
    cpu: Family<OfConsumer, Counter<f64, AtomicU64>>,
    sent: Family<OfConsumer, Counter>,
    paused: Family<OfConsumer, Gauge>,
    rollbacks: Family<OfConsumer, Counter>,
    storage: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("windlass");
        let seconds: fn() -> Histogram = || Histogram::new(SECONDS);
        let of = Self {
            deliveries: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            cpu: Family::default(),
            sent: Family::default(),
            paused: Family::default(),
            rollbacks: Family::default(),
            storage: Gauge::default(),
            names: Mutex::default(),
            registry: Registry::default(),
        };
        of.storage.set(1);
        registry.register(
            "deliveries",
            "Deliveries, by outcome and what became of the message",
            of.deliveries.clone(),
        );
        registry.register_with_unit(
            "delivery",
            "From the call of a handler to its outcome",
            Unit::Seconds,
            of.seconds.clone(),
        );
        registry.register_with_unit("cpu", "What handlers computed", Unit::Seconds, of.cpu.clone());
        registry.register("sent", "Messages sent with acks", of.sent.clone());
        registry.register("paused", "Whether a consumer does not claim", of.paused.clone());
        registry.register("rollbacks", "Revisions given up", of.rollbacks.clone());
        registry.register("storage_up", "Whether storage answers", of.storage.clone());
        Self { registry, ..of }
    }
}

impl Metrics {
    /// Counts what happened.
    pub(crate) fn learn(&self, event: &Event) {
        match event {
            Event::Delivered(delivered) => self.count(delivered),
            Event::Paused { consumer, .. } => {
                self.paused.get_or_create(&self.of(consumer)).set(1);
            }
            Event::Resumed { consumer } => {
                self.paused.get_or_create(&self.of(consumer)).set(0);
            }
            Event::Serving { consumer, .. } | Event::Retired { consumer } => {
                self.paused.get_or_create(&self.of(consumer)).set(0);
            }
            Event::RolledBack { consumer, .. } => {
                self.rollbacks.get_or_create(&self.of(consumer)).inc();
            }
            Event::StorageLost { .. } => {
                self.storage.set(0);
            }
            Event::StorageBack => {
                self.storage.set(1);
            }
            Event::Ready { .. }
            | Event::Building { .. }
            | Event::Built { .. }
            | Event::Problem(_)
            | Event::Mended { .. }
            | Event::OwnFiles { .. }
            | Event::Remark { .. }
            | Event::Listening { .. }
            | Event::Lag(_)
            | Event::LogEnded
            | Event::Tick
            | Event::End => {}
        }
    }

    fn count(&self, delivered: &Delivered) {
        let of = self.of(&delivered.consumer);
        self.seconds.get_or_create(&of).observe(delivered.elapsed.as_secs_f64());
        self.cpu.get_or_create(&of).inc_by(delivered.cpu.as_secs_f64());
        if let Fate::Acked { sent } = delivered.fate {
            self.sent.get_or_create(&of).inc_by(sent as u64);
        }
        let (outcome, disposition) = (delivered.outcome, delivered.fate.name());
        let of = OfDelivery { consumer: of.consumer, outcome, disposition };
        self.deliveries.get_or_create(&of).inc();
    }

    /// A consumer's label.
    fn of(&self, consumer: &str) -> OfConsumer {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let known = names.contains(consumer)
            || (names.len() < CONSUMERS_MAX && names.insert(consumer.to_owned()));
        OfConsumer { consumer: if known { consumer } else { OTHER }.to_owned() }
    }

    /// All of them as text.
    pub(crate) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resumed(consumer: &str) -> Event {
        Event::Resumed { consumer: consumer.into() }
    }

    #[test]
    fn labels_are_bounded_whatever_is_deployed() {
        let metrics = Metrics::default();
        for number in 0..CONSUMERS_MAX * 3 {
            metrics.learn(&resumed(&format!("c{number}")));
        }
        metrics.learn(&resumed("c0"));
        let text = metrics.text().unwrap();
        let series = text.lines().filter(|line| line.starts_with("windlass_paused{"));
        assert_eq!(series.count(), CONSUMERS_MAX + 1);
        assert!(text.contains("windlass_paused{consumer=\"c999\"} 0\n"), "{text}");
        assert!(text.contains("windlass_paused{consumer=\"other\"} 0\n"), "{text}");
        assert!(!text.contains("c1000"), "{text}");
    }

    #[test]
    fn what_stands_is_told_as_it_stands_last() {
        let metrics = Metrics::default();
        metrics.learn(&Event::StorageLost { text: "full".into() });
        assert!(metrics.text().unwrap().contains("windlass_storage_up 0\n"));
        metrics.learn(&Event::StorageBack);
        assert!(metrics.text().unwrap().contains("windlass_storage_up 1\n"));
    }
}
