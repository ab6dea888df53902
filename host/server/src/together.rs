//! Several deliveries of one claim: those whose handlers answer at once are settled together.
//!
//! A task, a hand-over to the log's writer and a wake cost more than a quick handler does. So
//! handlers are called one after the other for as long as each answers at once, and the log is told
//! of all of them in one go. Whoever has to wait goes on as a task of its own, and when the first
//! ones have waited long enough for their settlement, so do all that are left.

use crate::delivery::{Handled, handle};
use crate::dispatch::{Consumer, Shared};
use crate::permits::PermitSet;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Instant;
use windlass_log::{Claim, LogError};

/// Most messages that are settled together.
const TOGETHER: usize = 16;
/// How long a message that is handled may wait for others, beside the call that runs then.
const WAIT_MOST: Duration = Duration::from_micros(500);

/// What sends more bytes than this is settled by itself: a transaction does not grow with those who
/// share a task.
const LIGHT: u64 = 64 << 10;

/// How many of `claims` messages go together, so that every one of `workers` has some.
pub(crate) fn share(claims: usize, workers: usize) -> usize {
    claims.div_ceil(workers.saturating_mul(2).max(1)).clamp(1, TOGETHER)
}

/// Delivers `claims`, each under its permit.
pub(crate) async fn deliver(
    shared: Arc<Shared>,
    consumer: Arc<Consumer>,
    claims: Vec<(Claim, PermitSet)>,
) {
    let since = Instant::now();
    let mut handled = Vec::with_capacity(claims.len());
    for (claim, permit) in claims {
        let (theirs, whose) = (Arc::clone(&shared), Arc::clone(&consumer));
        let mut call = Box::pin(handle(theirs, whose, claim, permit));
        if since.elapsed() < WAIT_MOST {
            match at_once(call.as_mut()).await {
                Looked::Ended(one) if one.sent_bytes() <= LIGHT => {
                    handled.push(one);
                    continue;
                }
                Looked::Ended(one) => {
                    let (shared, consumer) = (Arc::clone(&shared), Arc::clone(&consumer));
                    tokio::spawn(async move { settle(&shared, &consumer, vec![one]).await });
                    continue;
                }
                Looked::Panicked => continue,
                Looked::Waits => {}
            }
        }
        let (shared, consumer) = (Arc::clone(&shared), Arc::clone(&consumer));
        tokio::spawn(async move {
            let one = call.await;
            settle(&shared, &consumer, vec![one]).await;
        });
    }
    settle(&shared, &consumer, handled).await;
}

/// What came of looking at a call once.
enum Looked<T> {
    Ended(T),
    Waits,
    /// As in a task of its own, where it would end that: nothing is settled, and its lease ends.
    Panicked,
}

/// Polls `call` once.
async fn at_once<T>(mut call: Pin<&mut impl Future<Output = T>>) -> Looked<T> {
    poll_fn(|cx| {
        // After a panic the call is dropped unseen.
        Poll::Ready(match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
            Ok(Poll::Ready(value)) => Looked::Ended(value),
            Ok(Poll::Pending) => Looked::Waits,
            Err(_) => Looked::Panicked,
        })
    })
    .await
}

/// Settles all of `handled` in one go, and concludes each. One that storage did not take, or that it
/// refused, holds up no other.
async fn settle(shared: &Arc<Shared>, consumer: &Arc<Consumer>, handled: Vec<Handled>) {
    let wanted: Vec<_> = handled.iter().filter_map(Handled::settlement).cloned().collect();
    let mut answers = if wanted.is_empty() {
        Vec::new().into_iter()
    } else {
        shared.storage.log().settle(wanted).await.into_iter()
    };
    let mut permits: Option<PermitSet> = None;
    for one in handled {
        let settlement = one.settlement();
        let answer = settlement.map(|_| answers.next().unwrap_or(Err(LogError::Closed)));
        if matches!(answer, Some(Err(_))) {
            let (shared, consumer) = (Arc::clone(shared), Arc::clone(consumer));
            tokio::spawn(async move {
                drop(one.conclude(&shared, &consumer, answer).await);
            });
            continue;
        }
        let permit = one.conclude(shared, consumer, answer).await;
        match &mut permits {
            Some(permits) => permits.join(permit),
            none => *none = Some(permit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_its_share() {
        for (claims, workers, expected) in
            [(1, 2, 1), (4, 2, 1), (5, 2, 2), (40, 2, 10), (256, 2, 16), (256, 64, 2), (9, 0, 9)]
        {
            assert_eq!(share(claims, workers), expected, "{claims} over {workers}");
        }
    }
}
