//! Events: facts that are already durable, or states a consumer came to.
//!
//! Told once, after the fact, to whoever shows them. The dispatcher knows nobody who reads them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use windlass_core::{Group, Message};
use windlass_runtime::Output;

/// How many events may wait for who shows them; beyond that, deliveries wait.
const WAITING_MAX: usize = 1_024;

/// Something that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A delivery came to its end.
    Delivered(Box<Delivered>),
    /// A consumer stopped claiming.
    Paused {
        /// Which.
        consumer: Arc<str>,
        /// The outcome's name that made it pause.
        reason: &'static str,
        /// What is missing or wrong.
        text: String,
        /// When it tries again; never by itself where there is none.
        retry: Option<Duration>,
        /// Whether time alone may mend it.
        mends: bool,
    },
    /// A consumer claims again.
    Resumed {
        /// Which.
        consumer: Arc<str>,
    },
    /// Everything is declared, and all that can run claims.
    Ready {
        /// The log's folder.
        log: String,
        /// All consumers that are wanted.
        consumers: Vec<String>,
    },
    /// Builds began.
    Building {
        /// Whose.
        consumers: Vec<String>,
        /// What had changed; nothing at a start.
        changed: Vec<String>,
    },
    /// The builds went well.
    Built {
        /// Whose.
        consumers: Vec<String>,
        /// How long they took.
        elapsed: Duration,
    },
    /// A consumer takes its next claim with this code and configuration.
    Serving {
        /// Which.
        consumer: String,
        /// What it reads.
        topics: Vec<String>,
        /// As which group.
        group: Group,
        /// Its code, short.
        revision: String,
        /// The code before, where it ran already.
        before: Option<String>,
    },
    /// A consumer is wanted no more: it claims nothing, and finishes what it has.
    Retired {
        /// Which.
        consumer: String,
    },
    /// Something is wrong until somebody mends it; what ran goes on.
    Problem(Box<Problem>),
    /// What was wrong is mended.
    Mended {
        /// What it was about.
        subject: String,
    },
    /// Files that builds write where they are watched: they count no longer.
    OwnFiles {
        /// Which.
        files: Vec<String>,
    },
    /// Something worth knowing that is no fault.
    Remark {
        /// In a sentence.
        text: String,
    },
    /// Requests are answered here.
    Listening {
        /// `http://HOST:PORT`.
        address: String,
    },
    /// A revision was given up, and the one before serves again.
    RolledBack {
        /// Which consumer.
        consumer: String,
        /// The revision given up.
        from: u64,
        /// The one that serves again.
        to: u64,
        /// Why.
        why: String,
    },
    /// A group falls behind.
    Lag(Lag),
    /// Storage does not answer; what is to be settled is kept.
    StorageLost {
        /// What it says.
        text: String,
    },
    /// Storage answers again, and what was kept is written.
    StorageBack,
    /// The log ended by itself: nothing more will be claimed or settled.
    LogEnded,
    /// Time has passed; there may be something to sum up.
    Tick,
    /// The run is over; nothing follows.
    End,
}

/// What is wrong until somebody mends it.
#[derive(Debug)]
pub(crate) struct Problem {
    /// What it is about, short.
    pub subject: String,
    /// In one sentence.
    pub what: String,
    /// The causes, or what a build said.
    pub why: Vec<String>,
    /// What to do.
    pub next: Option<String>,
    /// What goes on meanwhile, in words.
    pub meanwhile: String,
}

/// A group that falls behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lag {
    /// The group's topic.
    pub topic: String,
    /// The group.
    pub group: Group,
    /// What it has not settled.
    pub messages: u64,
    /// What that was when it was looked at before.
    pub before: u64,
    /// How long before.
    pub over: Duration,
}

/// One delivery from its claim to its settlement.
#[derive(Debug)]
pub(crate) struct Delivered {
    /// Whose.
    pub consumer: Arc<str>,
    /// As which group.
    pub group: Group,
    /// Of what.
    pub message: Arc<Message>,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The code that handled it, short.
    pub revision: Arc<str>,
    /// The group's maximum.
    pub attempts_max: u32,
    /// The outcome's name.
    pub outcome: &'static str,
    /// What there is to say beyond the name; empty for a success.
    pub text: String,
    /// What became of the message.
    pub fate: Fate,
    /// What the guest printed.
    pub output: Output,
    /// From the call to the outcome.
    pub elapsed: Duration,
    /// How much of that the guest computed.
    pub cpu: Duration,
    /// The most memory it had.
    pub memory_peak: u64,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Settled for good; so many messages were sent with the ack.
    Acked {
        /// How many.
        sent: usize,
    },
    /// Again after this long.
    Retry {
        /// How long.
        delay: Duration,
    },
    /// A dead letter.
    Dead,
    /// Given back, the attempt too.
    Released,
    /// The lease was lost: nothing was settled.
    Lost,
    /// The settlement could not be written before the end; the lease will end by itself.
    Unwritten,
}

impl Fate {
    /// Its name in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Acked { .. } => "ack",
            Self::Retry { .. } => "retry",
            Self::Dead => "dead-letter",
            Self::Released => "release",
            Self::Lost => "lease-lost",
            Self::Unwritten => "unwritten",
        }
    }
}

/// What became of all deliveries so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Sent with acks.
    pub sent: u64,
    /// Acks.
    pub handled: u64,
    /// Retries that were scheduled.
    pub retried: u64,
    /// Dead letters.
    pub dead: u64,
    /// Given back.
    pub released: u64,
}

impl Figures {
    fn count(&mut self, fate: Fate) {
        match fate {
            Fate::Acked { sent } => {
                self.handled += 1;
                self.sent += sent as u64;
            }
            Fate::Retry { .. } => self.retried += 1,
            Fate::Dead => self.dead += 1,
            Fate::Released => self.released += 1,
            Fate::Lost | Fate::Unwritten => {}
        }
    }
}

/// Where events are told. Counts them itself, so that the figures hold whoever reads.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    sender: mpsc::Sender<Event>,
    figures: Arc<Mutex<Figures>>,
}

impl Events {
    /// A teller, and where its events come out in order.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        (Self { sender, figures: Arc::default() }, receiver)
    }

    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.figures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The figures of everything told so far.
    pub(crate) fn figures(&self) -> Figures {
        *self.lock()
    }

    /// Tells an event; waits while too many are waiting. With nobody there it is told to nobody.
    pub(crate) async fn tell(&self, event: Event) {
        if let Event::Delivered(delivered) = &event {
            self.lock().count(delivered.fate);
        }
        drop(self.sender.send(event).await);
    }

    /// Tells what is worth knowing only now: where too many events wait it is left out.
    pub(crate) fn mention(&self, text: String) {
        drop(self.sender.try_send(Event::Remark { text }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_count_what_became_of_messages() {
        let mut figures = Figures::default();
        let retry = Fate::Retry { delay: Duration::from_secs(1) };
        let (two, none) = (Fate::Acked { sent: 2 }, Fate::Acked { sent: 0 });
        for fate in [two, none, retry, Fate::Dead, Fate::Released, Fate::Lost, Fate::Unwritten] {
            figures.count(fate);
        }
        let expected = Figures { sent: 2, handled: 2, retried: 1, dead: 1, released: 1 };
        assert_eq!(figures, expected);
    }
}
