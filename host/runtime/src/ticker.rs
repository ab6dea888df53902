//! The epoch ticker: what stops a guest that computes without end.
//!
//! A thread of its own, because a busy async runtime could not be trusted to tick. It sleeps
//! while nothing runs. Waking it costs a system call, so it stays awake for a moment after the
//! last invocation: a consumer under load never wakes it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wasmtime::EngineWeak;

/// How long an epoch is.
const TICK: Duration = Duration::from_millis(10);
/// Ticks with nothing running before the thread sleeps.
const LINGER_TICKS: u32 = 20;

#[derive(Default)]
struct Shared {
    running: AtomicUsize,
    /// True only while the thread is parked, or about to look at `running` once more.
    asleep: AtomicBool,
    closed: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
}

/// The thread; ends when dropped.
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// While one of these lives, epochs pass.
pub(crate) struct Running<'a>(&'a Shared);

impl Ticker {
    pub(crate) fn start(engine: EngineWeak) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("windlass-epoch".to_owned())
            .spawn(move || tick(&theirs, &engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(crate) fn running(&self) -> Running<'_> {
        // Sequentially consistent with `doze`: either it sees the count, or we see it asleep.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        if self.shared.asleep.load(Ordering::SeqCst) {
            self.shared.notify();
        }
        Running(&self.shared)
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.shared.asleep.load(Ordering::SeqCst)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        self.shared.notify();
        if let Some(thread) = self.thread.take() {
            // A panic over there changes nothing here.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Wakes the thread. Under the lock, so that it cannot fall between a look and a wait.
    fn notify(&self) {
        let _held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.wake.notify_one();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Waits one tick.
    fn pause(&self) {
        let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_closed() {
            // Woken early or late: either way an epoch passes.
            drop(self.wake.wait_timeout(held, TICK));
        }
    }

    /// Waits until something runs.
    fn doze(&self) {
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.asleep.store(true, Ordering::SeqCst);
        while self.running.load(Ordering::SeqCst) == 0 && !self.is_closed() {
            held = self.wake.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        self.asleep.store(false, Ordering::SeqCst);
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    let mut idle_ticks = 0;
    while !shared.is_closed() {
        if shared.running.load(Ordering::SeqCst) > 0 {
            idle_ticks = 0;
        } else if idle_ticks < LINGER_TICKS {
            idle_ticks += 1;
        } else {
            shared.doze();
            idle_ticks = 0;
        }
        shared.pause();
        match engine.upgrade() {
            Some(engine) => engine.increment_epoch(),
            None => return,
        }
    }
}
