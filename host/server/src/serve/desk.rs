//! How each deployed consumer stands: what events taught, for the log and for who asks.
//!
//! Told of every event before it is shown. Writes nothing by itself: what changed is taken away by
//! `serve`, and so is who is to be rolled back.

use super::probation::{Probation, Sign};
use crate::event::{Event, Problem};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use windlass_log::Told;
use windlass_log::clock::{Clock as _, SystemClock};

/// The states that a consumer is told to be in.
pub(crate) mod state {
    /// It claims.
    pub(crate) const SERVING: &str = "serving";
    /// It does not claim for a reason of its own, and looks again.
    pub(crate) const WAITING: &str = "waiting";
    /// It was paused by an operator.
    pub(crate) const PAUSED: &str = "paused";
    /// Its revision does not come to run; an earlier one goes on if one ran.
    pub(crate) const FAILED: &str = "failed";
    /// No server runs it.
    pub(crate) const STOPPED: &str = "stopped";
}

/// A revision that is to be given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GivenUp {
    /// The consumer.
    pub consumer: String,
    /// The revision.
    pub revision: u64,
    /// The same as deliveries name it.
    pub label: String,
    /// Why.
    pub why: String,
}

/// How all consumers stand.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    inner: Mutex<Inner>,
    /// Something is to be written or done.
    pub(super) news: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    consumers: BTreeMap<String, One>,
    given_up: Vec<GivenUp>,
    /// What storage says, while it does not answer.
    storage: Option<String>,
    /// What else is wrong, by what it is about.
    problems: BTreeMap<String, String>,
    /// Whether what was deployed at the start has been looked at.
    looked: bool,
}

#[derive(Debug)]
struct One {
    told: Told,
    /// As deliveries name it.
    label: String,
    probation: Option<Probation>,
    changed: bool,
}

/// What is to be known of a consumer before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expected {
    /// The consumer.
    pub consumer: String,
    /// The revision that it is to run on.
    pub revision: u64,
    /// Whether that has handled a message well before.
    pub proven: bool,
    /// When it is given up, where there is an earlier one to go back to.
    pub rollback_after: Option<NonZeroU32>,
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A revision is about to run, as deliveries name it by `label`.
    pub(super) fn expect(&self, expected: Expected, label: String) {
        let Expected { consumer, revision, proven, rollback_after } = expected;
        let mut inner = self.lock();
        let known = inner.consumers.get(&consumer);
        if known.is_some_and(|one| one.label == label && one.told.revision == revision) {
            return;
        }
        let probation = rollback_after.filter(|_| !proven).map(Probation::new);
        let told = told(revision, state::STOPPED, String::new(), proven);
        inner.consumers.insert(consumer, One { told, label, probation, changed: false });
    }

    /// A consumer stands so, whatever events say.
    pub(super) fn set(&self, consumer: &str, revision: u64, state: &str, text: String) {
        let mut inner = self.lock();
        let proven = inner
            .consumers
            .get(consumer)
            .is_some_and(|one| one.told.revision == revision && one.told.proven);
        let told = told(revision, state, text, proven);
        if let Some(one) = inner.consumers.get_mut(consumer) {
            one.tell(told);
        } else {
            let one = One { told, label: String::new(), probation: None, changed: true };
            inner.consumers.insert(consumer.to_owned(), one);
        }
        drop(inner);
        self.news.notify_one();
    }

    /// A consumer runs on this revision, whether it began to just now or did all the time.
    pub(super) fn runs(&self, consumer: &str, revision: u64) {
        self.of(consumer, |one| {
            let claims = matches!(one.told.state.as_str(), state::SERVING | state::WAITING);
            if one.told.revision == revision && !claims {
                one.state(state::SERVING, String::new());
            }
        });
    }

    /// These are deployed and no others.
    pub(super) fn keep(&self, consumers: &BTreeSet<&str>) {
        let mut inner = self.lock();
        inner.consumers.retain(|name, _| consumers.contains(name.as_str()));
        inner.looked = true;
    }

    /// Takes an event in.
    pub(super) fn learn(&self, event: &Event) {
        match event {
            Event::Serving { consumer, revision, .. } => {
                self.of(consumer, |one| {
                    if one.label == *revision {
                        one.state(state::SERVING, String::new());
                    }
                });
            }
            Event::Delivered(delivered) => self.delivered(delivered),
            Event::Paused { consumer, reason, text, .. } => {
                self.of(consumer, |one| one.state(state::WAITING, format!("{reason}: {text}")));
            }
            Event::Resumed { consumer } => {
                self.of(consumer, |one| one.state(state::SERVING, String::new()));
            }
            Event::StorageLost { text } => self.lock().storage = Some(text.clone()),
            Event::StorageBack => self.lock().storage = None,
            Event::Problem(problem) => {
                let Problem { subject, what, .. } = &**problem;
                self.lock().problems.insert(subject.clone(), what.clone());
            }
            Event::Mended { subject } => drop(self.lock().problems.remove(subject)),
            Event::Ready { .. }
            | Event::Building { .. }
            | Event::Built { .. }
            | Event::Retired { .. }
            | Event::OwnFiles { .. }
            | Event::Remark { .. }
            | Event::Listening { .. }
            | Event::RolledBack { .. }
            | Event::Lag(_)
            | Event::LogEnded
            | Event::Tick
            | Event::End => {}
        }
    }

    fn delivered(&self, delivered: &crate::event::Delivered) {
        let sign = Sign::of(delivered);
        let mut inner = self.lock();
        let Some(one) = inner.consumers.get_mut(&*delivered.consumer) else { return };
        // What an earlier revision still has says nothing about this one.
        if *one.label != *delivered.revision {
            return;
        }
        if sign == Sign::Good {
            if !one.told.proven {
                one.probation = None;
                one.told.proven = true;
                one.changed = true;
                self.news.notify_one();
            }
            return;
        }
        if !one.probation.as_mut().is_some_and(|probation| probation.learn(sign)) {
            return;
        }
        one.probation = None;
        let why = format!("its first messages failed, the last one by {}", delivered.outcome);
        let why =
            if delivered.text.is_empty() { why } else { format!("{why}: {}", delivered.text) };
        let consumer = delivered.consumer.to_string();
        let (revision, label) = (one.told.revision, one.label.clone());
        let given_up = GivenUp { consumer, revision, label, why };
        inner.given_up.push(given_up);
        self.news.notify_one();
    }

    fn of(&self, consumer: &str, change: impl FnOnce(&mut One)) {
        if let Some(one) = self.lock().consumers.get_mut(consumer) {
            change(one);
        }
        self.news.notify_one();
    }

    /// What changed since this was asked last.
    pub(super) fn take_changed(&self) -> Vec<(String, Told)> {
        let mut inner = self.lock();
        let changed = inner.consumers.iter_mut().filter(|(_, one)| one.changed);
        changed
            .map(|(name, one)| {
                one.changed = false;
                (name.clone(), one.told.clone())
            })
            .collect()
    }

    /// What could not be written is to be written later.
    pub(super) fn put_back(&self, consumer: &str) {
        if let Some(one) = self.lock().consumers.get_mut(consumer) {
            one.changed = true;
        }
    }

    /// Who is to be rolled back.
    pub(super) fn take_given_up(&self) -> Vec<GivenUp> {
        std::mem::take(&mut self.lock().given_up)
    }

    /// The run is over.
    pub(super) fn stop_all(&self) {
        for one in self.lock().consumers.values_mut() {
            if one.told.state != state::PAUSED && one.told.state != state::FAILED {
                one.state(state::STOPPED, String::new());
            }
        }
    }

    /// Why not everything that is deployed is being served; empty when it is.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let inner = self.lock();
        let mut reasons = Vec::new();
        if !inner.looked {
            reasons.push("what is deployed is being started".to_owned());
        }
        if let Some(text) = &inner.storage {
            reasons.push(format!("storage does not answer: {text}"));
        }
        for (about, what) in &inner.problems {
            reasons.push(format!("{about}: {what}"));
        }
        reasons
    }
}

impl One {
    fn state(&mut self, state: &str, text: String) {
        let told = told(self.told.revision, state, text, self.told.proven);
        self.tell(told);
    }

    fn tell(&mut self, told: Told) {
        let at_ms = self.told.at_ms;
        if self.told != (Told { at_ms, ..told.clone() }) {
            self.told = told;
            self.changed = true;
        }
    }
}

fn told(revision: u64, state: &str, text: String, proven: bool) -> Told {
    Told { revision, state: state.to_owned(), text, at_ms: SystemClock.wall_ms(), proven }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Delivered, Fate};
    use crate::run::tests::delivered;

    fn expected(revision: u64, proven: bool) -> Expected {
        let rollback_after = NonZeroU32::new(1);
        Expected { consumer: "c".to_owned(), revision, proven, rollback_after }
    }

    fn fails(label: &str) -> Event {
        let (fate, revision) = (Fate::Dead, label.into());
        Event::Delivered(Box::new(Delivered { fate, revision, outcome: "trap", ..delivered() }))
    }

    fn states(desk: &Desk) -> Vec<(u64, String, bool)> {
        let changed = desk.take_changed();
        changed.into_iter().map(|(_, told)| (told.revision, told.state, told.proven)).collect()
    }

    fn serving(label: &str) -> Event {
        Event::Serving {
            consumer: "c".to_owned(),
            topics: Vec::new(),
            group: windlass_core::Group::work_queue(),
            revision: label.to_owned(),
            before: None,
        }
    }

    #[test]
    fn a_new_revision_whose_first_message_fails_is_given_up_and_a_proven_one_is_not() {
        let desk = Desk::default();
        desk.expect(expected(2, false), "2-ab".to_owned());
        desk.learn(&serving("2-ab"));
        assert_eq!(states(&desk), [(2, "serving".to_owned(), false)]);
        desk.learn(&fails("1-cd"));
        assert!(desk.take_given_up().is_empty(), "that was the one before");
        desk.learn(&fails("2-ab"));
        let given_up = desk.take_given_up();
        assert_eq!((given_up[0].revision, given_up.len()), (2, 1));
        assert!(given_up[0].why.ends_with("by trap"), "{given_up:?}");
        desk.expect(expected(3, true), "3-ef".to_owned());
        desk.learn(&fails("3-ef"));
        assert!(desk.take_given_up().is_empty());
    }

    #[test]
    fn a_success_is_told_once_and_ends_the_probation() {
        let desk = Desk::default();
        desk.expect(expected(2, false), "2-ab".to_owned());
        desk.learn(&serving("2-ab"));
        let good =
            || Event::Delivered(Box::new(Delivered { revision: "2-ab".into(), ..delivered() }));
        desk.learn(&good());
        assert_eq!(states(&desk), [(2, "serving".to_owned(), true)]);
        desk.learn(&good());
        desk.learn(&fails("2-ab"));
        assert_eq!((states(&desk), desk.take_given_up()), (vec![], vec![]));
        desk.stop_all();
        assert_eq!(states(&desk), [(2, "stopped".to_owned(), true)]);
    }

    #[test]
    fn what_goes_on_after_a_later_revision_failed_is_told_to_serve() {
        let desk = Desk::default();
        desk.expect(expected(1, true), "1-ab".to_owned());
        desk.learn(&serving("1-ab"));
        desk.set("c", 2, state::FAILED, "broken".to_owned());
        desk.runs("c", 1);
        assert_eq!(states(&desk), [(2, "failed".to_owned(), false)]);
        // Rolled back: it runs already, and nobody tells that it begins to.
        desk.expect(expected(1, true), "1-ab".to_owned());
        desk.runs("c", 1);
        assert_eq!(states(&desk), [(1, "serving".to_owned(), true)]);
    }

    #[test]
    fn it_is_ready_when_nothing_is_wrong() {
        let desk = Desk::default();
        assert_eq!(desk.reasons(), ["what is deployed is being started"]);
        desk.keep(&BTreeSet::new());
        assert!(desk.reasons().is_empty());
        desk.learn(&Event::StorageLost { text: "full".into() });
        assert_eq!(desk.reasons(), ["storage does not answer: full"]);
        desk.learn(&Event::StorageBack);
        assert!(desk.reasons().is_empty());
    }
}
