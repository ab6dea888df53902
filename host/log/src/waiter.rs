//! Waking those who wait for work, or for what comes to a topic.
//!
//! A wake-up is a permit that is kept until it is taken, so one that comes between an empty claim
//! and the wait after it is not lost.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::Notify;
use windlass_core::{Group, Topic};

/// Tells one waiting claimer that there may be something to claim, or one reader that there may be
/// something to read.
#[derive(Debug)]
pub struct Waiter {
    notify: Arc<Notify>,
    ended: Arc<AtomicBool>,
}

impl Waiter {
    /// Returns when there may be something to claim since the last time it returned. Once the log
    /// has ended it always returns, at once: a claim tells that it is closed.
    pub async fn woken(&self) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        self.notify.notified().await;
    }

    /// Whether the log has ended: nothing will ever come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }
}

/// Who waits on a topic: for work of a group, or for the topic itself.
type OfTopic = Vec<(Option<Group>, Weak<Notify>)>;

/// All waiters of one log.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    ended: Arc<AtomicBool>,
    by_topic: Mutex<HashMap<Topic, OfTopic>>,
}

impl Waiters {
    /// A new waiter for work of a group, or for the topic itself where none is named. Woken once at
    /// the start: what came before it was made counts too.
    pub(crate) fn add(&self, topic: &Topic, group: Option<&Group>) -> Waiter {
        let notify = Arc::new(Notify::new());
        notify.notify_one();
        let mut by_topic = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
        let of_topic = by_topic.entry(topic.clone()).or_default();
        of_topic.retain(|(_, waiter)| waiter.strong_count() > 0);
        of_topic.push((group.cloned(), Arc::downgrade(&notify)));
        Waiter { notify, ended: Arc::clone(&self.ended) }
    }

    /// Wakes all who wait on `topic`.
    pub(crate) fn wake_topic(&self, topic: &Topic) {
        self.wake(topic, |_| true);
    }

    /// Wakes those of one group.
    pub(crate) fn wake_group(&self, topic: &Topic, group: &Group) {
        self.wake(topic, |waiting| waiting == Some(group));
    }

    /// The log has ended: wakes everybody, for good.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        for topic in self.topics() {
            self.wake_topic(&topic);
        }
    }

    /// Topics somebody waits on.
    pub(crate) fn topics(&self) -> Vec<Topic> {
        let by_topic = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
        by_topic.keys().cloned().collect()
    }

    fn wake(&self, topic: &Topic, meant: impl Fn(Option<&Group>) -> bool) {
        let mut by_topic = self.by_topic.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(of_topic) = by_topic.get_mut(topic) else { return };
        of_topic.retain(|(group, waiter)| match waiter.upgrade() {
            None => false,
            Some(waiter) => {
                if meant(group.as_ref()) {
                    waiter.notify_one();
                }
                true
            }
        });
        if of_topic.is_empty() {
            by_topic.remove(topic);
        }
    }
}
