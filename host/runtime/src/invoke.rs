//! One call into a guest, from a delivery to its outcome.
//!
//! Owns the clock around the call: the wall clock and the caller's stop are looked at whenever
//! the guest waits or yields, its computing is billed by the time it is being polled. Reads no
//! answer; that is `classify`.

use crate::classify::{self, Ending};
use crate::consumer::Consumer;
use crate::delivery::{Delivery, Stop};
use crate::instance::Instance;
use crate::meter::Meter;
use crate::output::Output;
use crate::store::Facts;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, sleep_until};
use windlass_core::Outcome;

/// What came of one call.
#[derive(Debug)]
pub struct Invocation {
    /// What it came to.
    pub outcome: Outcome,
    /// What the guest printed.
    pub output: Output,
    /// From the call of `invoke` to the outcome.
    pub elapsed: Duration,
    /// How much of that the guest computed.
    pub cpu: Duration,
    /// The most memory it had, all its memories together, in bytes.
    pub memory_peak: u64,
}

/// How the wait for a call ended.
enum Waited<T> {
    Called(T),
    Stopped(Stop),
    TimedOut,
}

impl Consumer {
    /// Hands `delivery` to the guest. When `stop` ends first, the call ends at once with what
    /// `stop` says; [`std::future::pending`] never does.
    ///
    /// Needs a tokio runtime with time. Dropping the future ends the call as well.
    pub async fn invoke(&self, delivery: Delivery, stop: impl Future<Output = Stop>) -> Invocation {
        let started = Instant::now();
        // A guest may use up the task's budget in every poll; the clock must be seen nevertheless.
        let mut stop = pin!(unconstrained(stop));
        let mut instance = match self.instance(&delivery, stop.as_mut()).await {
            Ok(instance) => instance,
            Err(stop) => return self.not_begun(stop, started),
        };
        let _running = self.engine().running();
        let meter = Arc::clone(&instance.data().meter);
        let waited = wait(instance.handle(self.pre()), &meter, delivery.deadline, stop).await;
        let data = instance.data_mut();
        let limits = self.limits();
        let ending = match waited {
            Waited::Called(called) => {
                classify::ending(called, || data.capture.last_words(), limits)
            }
            Waited::Stopped(stop) => Ending::Stopped(stop),
            Waited::TimedOut => Ending::TimedOut,
        };
        let facts = std::mem::take(&mut data.facts);
        let outcome = classify::outcome(ending, facts, limits);
        let clean = matches!(outcome, Outcome::Done { .. });
        let output = data.capture.take();
        let memory_peak = data.limiter.peak();
        self.release(instance, clean);
        Invocation { outcome, output, elapsed: started.elapsed(), cpu: meter.total(), memory_peak }
    }

    /// An instance for `delivery`. Where the pool is used up it comes when another ends; that it
    /// does not come in time is no fault of the message's.
    async fn instance(
        &self,
        delivery: &Delivery,
        stop: Pin<&mut impl Future<Output = Stop>>,
    ) -> Result<Instance, Stop> {
        if let Some(instance) = self.reuse(delivery) {
            return Ok(instance);
        }
        let slots = match self.try_take() {
            Some(slots) => slots,
            None => match wait(self.take(), &Meter::new(), delivery.deadline, stop).await {
                Waited::Called(Some(slots)) => slots,
                Waited::Stopped(stop) => return Err(stop),
                Waited::Called(None) | Waited::TimedOut => return Err(Stop::Interrupted),
            },
        };
        Ok(self.make(delivery, slots))
    }

    /// What came of a call that was not begun.
    fn not_begun(&self, stop: Stop, started: Instant) -> Invocation {
        Invocation {
            outcome: classify::outcome(Ending::Stopped(stop), Facts::default(), self.limits()),
            output: Output::default(),
            elapsed: started.elapsed(),
            cpu: Duration::ZERO,
            memory_peak: 0,
        }
    }
}

/// Polls `call` until it ends, is stopped, or `deadline` has come, billing its polls.
async fn wait<T>(
    call: impl Future<Output = T>,
    meter: &Meter,
    deadline: Instant,
    stop: impl Future<Output = Stop>,
) -> Waited<T> {
    let mut call = pin!(call);
    let mut stop = pin!(stop);
    // Most calls end in their first poll and need no timer.
    let mut alarm = pin!(None);
    poll_fn(|cx| {
        meter.resume();
        let called = call.as_mut().poll(cx);
        meter.pause();
        if let Poll::Ready(called) = called {
            return Poll::Ready(Waited::Called(called));
        }
        if let Poll::Ready(stop) = stop.as_mut().poll(cx) {
            return Poll::Ready(Waited::Stopped(stop));
        }
        if alarm.is_none() {
            alarm.set(Some(unconstrained(sleep_until(deadline))));
        }
        match alarm.as_mut().as_pin_mut() {
            Some(alarm) => alarm.poll(cx).map(|()| Waited::TimedOut),
            None => Poll::Pending,
        }
    })
    .await
}
