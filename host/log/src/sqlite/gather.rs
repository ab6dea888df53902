//! How many callers share a commit.
//!
//! An idle log commits at once. Under load the callers just answered come back within moments;
//! taking only those who queued during the last commit would lock closed-loop callers into batches
//! of a few and many in turn, so the writer waits for about as many as it has just answered, for
//! at most 0.2 ms. The transaction begins meanwhile: what it may decide on is read after that.

use super::command::Command;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const PATIENCE: Duration = Duration::from_micros(200);
const MESSAGES_MAX: usize = 1_024;
const BYTES_MAX: u64 = 4 << 20;

/// Commands of one transaction.
struct Batch {
    commands: Vec<Command>,
    messages: usize,
    bytes: u64,
    synced: bool,
    since: Instant,
    expected: usize,
}

impl Batch {
    fn is_full(&self) -> bool {
        self.messages >= MESSAGES_MAX || self.bytes >= BYTES_MAX
    }

    /// Whether more are not worth waiting for.
    fn is_enough(&self) -> bool {
        let few = self.expected <= 1 || self.commands.len() >= self.expected;
        few || self.is_full() || self.since.elapsed() >= PATIENCE
    }

    fn add(&mut self, command: Command) {
        let (messages, bytes) = command.weight();
        self.messages += messages;
        self.bytes += bytes;
        self.synced |= command.must_sync();
        self.commands.push(command);
    }

    /// Takes those who wait.
    fn drain(&mut self, commands: &mut mpsc::Receiver<Command>) {
        while !self.is_full()
            && let Ok(next) = commands.try_recv()
        {
            self.add(next);
        }
    }
}

/// `first`, and those who come with it. As soon as one of them needs a synced transaction `begin`,
/// which begins one, is run beside, and its answer comes along.
pub(super) async fn gather<T>(
    first: Command,
    commands: &mut mpsc::Receiver<Command>,
    expected: usize,
    begin: impl Future<Output = T>,
) -> (Vec<Command>, Option<T>) {
    let since = Instant::now();
    let mut batch =
        Batch { commands: Vec::new(), messages: 0, bytes: 0, synced: false, since, expected };
    batch.add(first);
    batch.drain(commands);
    while !batch.synced {
        if batch.is_enough() {
            return (batch.commands, None);
        }
        tokio::task::yield_now().await;
        batch.drain(commands);
    }
    let mut begin = pin!(begin);
    let mut answer = look(begin.as_mut()).await;
    while !batch.is_enough() {
        tokio::task::yield_now().await;
        batch.drain(commands);
        if answer.is_none() {
            answer = look(begin.as_mut()).await;
        }
    }
    let answer = match answer {
        Some(answer) => answer,
        None => begin.await,
    };
    // Who came while the write lock was waited for comes along.
    batch.drain(commands);
    (batch.commands, Some(answer))
}

/// What `future` has to say now.
async fn look<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}
