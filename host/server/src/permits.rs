//! Permits: how many deliveries may run, of each consumer and of the host.
//!
//! Owns the two levels and the rule of fairness between consumers: with two or more host permits,
//! a consumer that holds some does not take the last one while one that holds none waits. A
//! permit comes before its message; dropping it is the only way back.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// What a wish for permits is judged by.
#[derive(Debug, Clone, Copy)]
struct Wish {
    /// How many are wanted.
    wanted: usize,
    /// How many the consumer holds.
    held: usize,
    /// How many it may hold.
    own_max: usize,
    /// Free ones of the host.
    free: usize,
    /// All of the host's.
    host_max: usize,
    /// Whether another consumer waits that holds none.
    others_starve: bool,
}

/// How many are granted now.
fn grant(wish: Wish) -> usize {
    let Wish { wanted, held, own_max, free, host_max, others_starve } = wish;
    let most = wanted.min(own_max.saturating_sub(held)).min(free);
    if !others_starve || host_max < 2 {
        most
    } else if held > 0 {
        most.min(free.saturating_sub(1))
    } else {
        // Its first one is its right; with that it holds some.
        most.min(free.saturating_sub(1).max(1))
    }
}

/// All permits of a process.
#[derive(Debug)]
pub(crate) struct Permits {
    state: Mutex<State>,
    /// Told whenever the last one came back.
    all_back: Notify,
}

#[derive(Debug)]
struct State {
    free: usize,
    max: usize,
    seats: Vec<SeatState>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct SeatState {
    held: usize,
    max: usize,
}

#[derive(Debug)]
struct Waiting {
    seat: usize,
    wanted: usize,
    answer: oneshot::Sender<PermitSet>,
}

/// One consumer's place among the permits.
#[derive(Debug, Clone)]
pub(crate) struct Seat {
    permits: Arc<Permits>,
    index: usize,
}

/// The right to so many deliveries.
#[derive(Debug)]
pub(crate) struct PermitSet {
    seat: Seat,
    count: usize,
}

impl Permits {
    /// `max` permits for the whole process.
    pub(crate) fn new(max: NonZeroUsize) -> Arc<Self> {
        let max = max.get();
        let state = State { free: max, max, seats: Vec::new(), waiting: VecDeque::new() };
        Arc::new(Self { state: Mutex::new(state), all_back: Notify::new() })
    }

    /// A place for a consumer that may run `max` deliveries at a time.
    pub(crate) fn seat(self: &Arc<Self>, max: NonZeroUsize) -> Seat {
        let mut state = self.lock();
        state.seats.push(SeatState { held: 0, max: max.get() });
        Seat { permits: Arc::clone(self), index: state.seats.len() - 1 }
    }

    /// How many are held.
    pub(crate) fn held(&self) -> usize {
        let state = self.lock();
        state.max - state.free
    }

    /// Returns when none is held.
    pub(crate) async fn all_back(&self) {
        loop {
            let mut told = std::pin::pin!(self.all_back.notified());
            told.as_mut().enable();
            if self.held() == 0 {
                return;
            }
            told.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves those who wait, in their order. Answers are sent without the lock: one that nobody
    /// takes any more comes straight back.
    fn serve(self: &Arc<Self>) {
        let mut answers = Vec::new();
        {
            let mut state = self.lock();
            state.waiting.retain(|waiting| !waiting.answer.is_closed());
            let mut at = 0;
            while at < state.waiting.len() {
                let granted = state.grant_to(at);
                if granted == 0 {
                    at += 1;
                } else if let Some(waiting) = state.waiting.remove(at) {
                    let seat = Seat { permits: Arc::clone(self), index: waiting.seat };
                    answers.push((waiting.answer, PermitSet { seat, count: granted }));
                }
            }
        }
        for (answer, set) in answers {
            drop(answer.send(set));
        }
    }
}

impl State {
    /// Takes what the waiting one at `at` may have; how many.
    fn grant_to(&mut self, at: usize) -> usize {
        let Some(waiting) = self.waiting.get(at) else { return 0 };
        let (seat, wanted) = (waiting.seat, waiting.wanted);
        self.grant(seat, wanted)
    }

    /// Takes up to `wanted` of what the seat may have; how many.
    fn grant(&mut self, seat: usize, wanted: usize) -> usize {
        let others_starve = self.waiting.iter().any(|other| {
            other.seat != seat && self.seats.get(other.seat).is_some_and(|s| s.held == 0)
        });
        let (free, host_max) = (self.free, self.max);
        let Some(seat) = self.seats.get_mut(seat) else { return 0 };
        let (held, own_max) = (seat.held, seat.max);
        let granted = grant(Wish { wanted, held, own_max, free, host_max, others_starve });
        seat.held += granted;
        self.free -= granted;
        granted
    }
}

impl Seat {
    /// The same place with another maximum, for what comes after its consumer: what that still
    /// holds counts on.
    pub(crate) fn resized(&self, max: NonZeroUsize) -> Self {
        if let Some(seat) = self.permits.lock().seats.get_mut(self.index) {
            seat.max = max.get();
        }
        self.permits.serve();
        self.clone()
    }

    /// Waits for at least one permit; takes up to `most` of those that are free then.
    pub(crate) async fn acquire(&self, most: NonZeroUsize) -> PermitSet {
        loop {
            let (answer, mut granted) = oneshot::channel();
            let waiting = Waiting { seat: self.index, wanted: most.get(), answer };
            self.permits.lock().waiting.push_back(waiting);
            self.permits.serve();
            // Without waiting, where enough are free.
            if let Ok(set) = granted.try_recv() {
                return set;
            }
            if let Ok(mut set) = granted.await {
                // They come back one by one: those that are about to are taken along.
                tokio::task::yield_now().await;
                set.top_up(most);
                return set;
            }
        }
    }
}

impl PermitSet {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Takes more of those that are free, up to `most` in all, where nobody else has a right to them.
    fn top_up(&mut self, most: NonZeroUsize) {
        let wanted = most.get().saturating_sub(self.count);
        self.count += self.seat.permits.lock().grant(self.seat.index, wanted);
    }

    /// Both together; they are of one seat.
    pub(crate) fn join(&mut self, mut other: Self) {
        debug_assert_eq!(self.seat.index, other.seat.index, "permits of different consumers");
        self.count += std::mem::take(&mut other.count);
    }

    /// One of them on its own.
    pub(crate) fn take_one(&mut self) -> Option<Self> {
        self.count = self.count.checked_sub(1)?;
        Some(Self { seat: self.seat.clone(), count: 1 })
    }
}

impl Drop for PermitSet {
    fn drop(&mut self) {
        if self.count == 0 {
            return;
        }
        let permits = &self.seat.permits;
        let none_held = {
            let mut state = permits.lock();
            state.free += self.count;
            if let Some(seat) = state.seats.get_mut(self.seat.index) {
                seat.held -= self.count;
            }
            state.free == state.max
        };
        permits.serve();
        if none_held {
            permits.all_back.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nz(n: usize) -> NonZeroUsize {
        NonZeroUsize::new(n).unwrap()
    }

    #[tokio::test]
    async fn who_waited_takes_along_what_comes_back_meanwhile() {
        let permits = Permits::new(nz(8));
        let seat = permits.seat(nz(8));
        let mut held = seat.acquire(nz(8)).await;
        let waiting = tokio::spawn({
            let seat = seat.clone();
            async move { seat.acquire(nz(6)).await }
        });
        tokio::task::yield_now().await;
        for _ in 0..7 {
            drop(held.take_one());
        }
        let mut taken = waiting.await.unwrap();
        assert_eq!(taken.count(), 6, "all it asked for, and no more");
        taken.join(held);
        assert_eq!((taken.count(), permits.held()), (7, 7));
        drop(taken);
        assert_eq!(permits.held(), 0);
    }

    #[test]
    fn grants_follow_the_table() {
        // wanted, held, own, free, host, others starve, granted
        for (wanted, held, own_max, free, host_max, others_starve, expected) in [
            (8, 0, 8, 64, 64, false, 8),
            (8, 3, 8, 64, 64, false, 5),
            (8, 8, 8, 64, 64, false, 0),
            (8, 0, 8, 3, 64, false, 3),
            (8, 0, 8, 0, 64, true, 0),
            (8, 0, 8, 1, 64, true, 1),
            (8, 0, 8, 3, 64, true, 2),
            (8, 2, 8, 1, 64, true, 0),
            (8, 2, 8, 3, 64, true, 2),
            (8, 2, 8, 1, 64, false, 1),
            (1, 1, 8, 1, 2, true, 0),
            (1, 0, 8, 1, 1, true, 1),
            (1, 1, 2, 1, 1, true, 1),
        ] {
            let wish = Wish { wanted, held, own_max, free, host_max, others_starve };
            assert_eq!(grant(wish), expected, "{wish:?}");
        }
    }

    #[tokio::test]
    async fn a_consumer_with_some_leaves_the_last_one_to_one_with_none() {
        let permits = Permits::new(nz(2));
        let (busy, idle) = (permits.seat(nz(2)), permits.seat(nz(2)));
        let first = busy.acquire(nz(1)).await;
        let second = busy.acquire(nz(1)).await;
        let more = tokio::spawn(async move { busy.acquire(nz(1)).await });
        tokio::task::yield_now().await;
        let waiting = tokio::spawn(async move { idle.acquire(nz(2)).await });
        tokio::task::yield_now().await;
        drop(first);
        assert_eq!(waiting.await.unwrap().count(), 1, "though it came later");
        drop(second);
        assert_eq!(more.await.unwrap().count(), 1);
        permits.all_back().await;
        assert_eq!(permits.held(), 0);
    }

    #[tokio::test]
    async fn permits_of_one_who_went_away_come_back() {
        let permits = Permits::new(nz(1));
        let seat = permits.seat(nz(1));
        let held = seat.acquire(nz(1)).await;
        {
            let gone = seat.acquire(nz(1));
            tokio::select! { biased; _ = gone => panic!("there is none"), () = async {} => {} }
        }
        drop(held);
        assert_eq!(permits.held(), 0);
        assert_eq!(seat.acquire(nz(5)).await.count(), 1);
    }

    #[tokio::test]
    async fn who_comes_after_a_consumer_shares_its_maximum_with_what_that_still_holds() {
        let permits = Permits::new(nz(8));
        let old = permits.seat(nz(3));
        let held = old.acquire(nz(3)).await;
        let new = old.resized(nz(4));
        let more = new.acquire(nz(4)).await;
        assert_eq!((held.count(), more.count()), (3, 1));
        let fewer = new.resized(nz(2));
        drop(held);
        let waiting = fewer.acquire(nz(9)).await;
        assert_eq!(waiting.count(), 1, "one of two is out");
    }

    #[tokio::test]
    async fn a_set_splits_into_single_permits() {
        let permits = Permits::new(nz(3));
        let seat = permits.seat(nz(3));
        let mut three = seat.acquire(nz(9)).await;
        let one = three.take_one().unwrap();
        assert_eq!((three.count(), one.count(), permits.held()), (2, 1, 3));
        drop(three);
        assert_eq!(permits.held(), 1);
    }
}
