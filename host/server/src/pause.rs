//! A consumer's pauses: when it stops claiming, and when it tries again.
//!
//! Owns the rules of the contract's law 26 that are about the consumer and not the message. The
//! rules are a value that is told what happened ([`Rules::learn`]); [`Health`] shares it between
//! the consumer's topics and lets them wait. After a pause one delivery goes ahead as a trial;
//! the others wait for what comes of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_core::settle::Pause;
use windlass_core::{MessageId, Topic};

/// So many deliveries in a row that miss a grant pause a consumer that had successes before.
const GRANTS_IN_A_ROW: u32 = 20;
const START_WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));
const ROOM_WAITS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// So many different messages that failed in a row pause a consumer: one outage downstream is not
/// to use up the attempts of a backlog.
const FAILURES_IN_A_ROW: usize = 20;
const GUARD_WAITS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What a delivery taught about its consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// It was acked.
    Success,
    /// It entered the handler and failed there, with this outcome.
    Failure(MessageId, &'static str),
    /// The handler ran, and gave the message up for what it is.
    Rejected,
    /// It ended for reasons of ours.
    Nothing,
    /// It says that the consumer should pause.
    Pause(Pause, Remedy),
}

/// What must happen before a refused settlement can be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Time passes.
    Time,
    /// This topic is declared.
    Topic(Topic),
    /// Somebody changes the component, the group or the log: it is tried again, but nothing says
    /// that it will ever be taken.
    Somebody,
}

/// Why a consumer is paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paused {
    /// The outcome's name.
    pub reason: &'static str,
    /// What is missing or wrong.
    pub text: String,
    /// How long until it tries again; never by itself where there is none.
    pub retry: Option<Duration>,
    /// Whether time alone may mend it.
    pub mends: bool,
    /// A topic that must be there before it tries again.
    pub needs: Option<Topic>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Open,
    /// One delivery may go ahead.
    Trial,
    /// It is under way.
    Trying,
    Paused {
        until: Option<Instant>,
        why: Paused,
    },
}

/// The rules, without waiting.
#[derive(Debug)]
struct Rules {
    state: State,
    pauses_in_a_row: u32,
    grants_in_a_row: u32,
    succeeded: bool,
    /// Messages that failed since the last success, as many as pause it at most.
    failed: BTreeSet<MessageId>,
    /// How many do.
    failures_max: usize,
}

/// What a lesson changed for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum News {
    /// It claims no more.
    Paused(Paused),
    /// It claims again.
    Resumed,
}

impl Rules {
    fn new(failures_max: usize) -> Self {
        Self {
            state: State::Open,
            pauses_in_a_row: 0,
            grants_in_a_row: 0,
            succeeded: false,
            failed: BTreeSet::new(),
            failures_max,
        }
    }

    /// Takes a lesson in; answers the pause that begins or ends with it, if one does.
    fn learn(&mut self, lesson: Lesson, now: Instant) -> Option<News> {
        let was_open = self.state == State::Open;
        if let Some(paused) = self.take(lesson, now) {
            return Some(News::Paused(paused));
        }
        (!was_open && self.state == State::Open).then_some(News::Resumed)
    }

    fn take(&mut self, lesson: Lesson, now: Instant) -> Option<Paused> {
        match lesson {
            Lesson::Success => {
                self.succeeded = true;
                self.failed.clear();
                self.went_well();
                None
            }
            Lesson::Failure(id, outcome) => self.failure(id, outcome, now),
            // It tells nothing of what the failures had in common.
            Lesson::Rejected if self.failed.len() >= self.failures_max => {
                self.give_back();
                None
            }
            Lesson::Rejected | Lesson::Pause(Pause::No, _) => {
                self.went_well();
                None
            }
            Lesson::Nothing => {
                self.give_back();
                None
            }
            Lesson::Pause(Pause::Start(text), _) => {
                self.pause("start-failed", text, Some(START_WAITS), Remedy::Time, now)
            }
            Lesson::Pause(Pause::Room(text), remedy) => {
                self.pause("refused", text, Some(ROOM_WAITS), remedy, now)
            }
            Lesson::Pause(Pause::Grant(grant), _) => {
                self.grants_in_a_row = self.grants_in_a_row.saturating_add(1);
                if self.succeeded && self.grants_in_a_row < GRANTS_IN_A_ROW {
                    let count = self.grants_in_a_row;
                    self.went_well();
                    self.grants_in_a_row = count;
                    return None;
                }
                self.pause("grant-missing", grant, None, Remedy::Somebody, now)
            }
        }
    }

    fn failure(&mut self, id: MessageId, outcome: &str, now: Instant) -> Option<Paused> {
        if self.failed.len() < self.failures_max {
            self.failed.insert(id);
        }
        if self.failed.len() < self.failures_max {
            self.went_well();
            return None;
        }
        let count = self.failed.len();
        let text = format!("the last {count} different messages failed, the last one: {outcome}");
        self.pause("failing", text, Some(GUARD_WAITS), Remedy::Time, now)
    }

    /// A trial that showed nothing goes to the next.
    fn give_back(&mut self) {
        if self.state == State::Trying {
            self.state = State::Trial;
        }
    }

    fn went_well(&mut self) {
        self.grants_in_a_row = 0;
        if matches!(self.state, State::Trial | State::Trying) {
            self.state = State::Open;
        }
        if self.state == State::Open {
            self.pauses_in_a_row = 0;
        }
    }

    /// What was under way when a pause began does not begin it again, unless it is for good.
    fn pause(
        &mut self,
        reason: &'static str,
        text: String,
        waits: Option<(Duration, Duration)>,
        remedy: Remedy,
        now: Instant,
    ) -> Option<Paused> {
        if let State::Paused { until, .. } = &self.state
            && (until.is_none() || waits.is_some())
        {
            return None;
        }
        let exponent = self.pauses_in_a_row.min(16);
        self.pauses_in_a_row += 1;
        let retry = waits.map(|(first, most)| first.saturating_mul(1 << exponent).min(most));
        let mends = retry.is_some() && remedy == Remedy::Time;
        let needs = match remedy {
            Remedy::Topic(topic) => Some(topic),
            Remedy::Time | Remedy::Somebody => None,
        };
        let why = Paused { reason, text, retry, mends, needs };
        self.state = State::Paused { until: retry.map(|wait| now + wait), why: why.clone() };
        Some(why)
    }

    /// Ends a pause whose time is over, or prolongs it while what it needs is not there; whether
    /// it ended.
    fn look_again(&mut self, ready: bool, now: Instant) -> bool {
        let State::Paused { until: Some(until), why } = &mut self.state else { return false };
        if *until > now {
            return false;
        }
        if ready {
            self.state = State::Trial;
        } else {
            *until = now + why.retry.unwrap_or(ROOM_WAITS.1).min(ROOM_WAITS.1);
        }
        ready
    }
}

/// How a consumer may claim now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// As many as there are permits.
    Open,
    /// One message, to see whether it works again.
    Trial,
}

/// What a topic of a paused consumer is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Claim.
    Enter(Entry),
    /// Look whether this topic is there (where one is named), then call
    /// [`Health::look_again`].
    Look(Option<Topic>),
}

/// A delivery that is to teach something. One whose task fails taught nothing: a trial that it
/// was goes to the next.
#[derive(Debug)]
pub(crate) struct Pupil(Option<Arc<Health>>);

impl Pupil {
    /// Takes the lesson in, as [`Health::learn`] does.
    pub(crate) fn teach(mut self, lesson: Lesson) -> Option<News> {
        self.0.take().and_then(|health| health.learn(lesson))
    }
}

impl Drop for Pupil {
    fn drop(&mut self) {
        if let Some(health) = self.0.take() {
            health.learn(Lesson::Nothing);
        }
    }
}

/// One consumer's state, shared by its topics.
#[derive(Debug)]
pub(crate) struct Health {
    rules: Mutex<Rules>,
    changed: watch::Sender<()>,
}

impl Health {
    /// A consumer that had neither success nor failure.
    pub(crate) fn new() -> Self {
        Self::guarded(FAILURES_IN_A_ROW)
    }

    /// One that so many failures in a row pause.
    pub(crate) fn guarded(failures_max: usize) -> Self {
        Self { rules: Mutex::new(Rules::new(failures_max)), changed: watch::Sender::new(()) }
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a lesson in; answers the pause that begins or ends with it, if one does.
    pub(crate) fn learn(&self, lesson: Lesson) -> Option<News> {
        let (began, changed) = {
            let mut rules = self.lock();
            let before = rules.state.clone();
            let began = rules.learn(lesson, Instant::now());
            (began, rules.state != before)
        };
        if changed {
            self.changed.send_replace(());
        }
        began
    }

    /// A delivery begins.
    pub(crate) fn pupil(self: &Arc<Self>) -> Pupil {
        Pupil(Some(Arc::clone(self)))
    }

    /// Why it is paused, if it is.
    pub(crate) fn paused(&self) -> Option<Paused> {
        match &self.lock().state {
            State::Paused { why, .. } => Some(why.clone()),
            State::Open | State::Trial | State::Trying => None,
        }
    }

    /// Whether claims are open at this moment as `entry` said earlier.
    pub(crate) fn still(&self, entry: Entry) -> bool {
        match self.lock().state {
            State::Open => true,
            State::Trying => entry == Entry::Trial,
            State::Trial | State::Paused { .. } => false,
        }
    }

    /// Waits until there is something to do. An [`Entry::Trial`] belongs to the caller, who must
    /// either deliver, or give it back by a [`Lesson::Nothing`].
    pub(crate) async fn turn(&self) -> Turn {
        let mut changed = self.changed.subscribe();
        loop {
            let wait = {
                let mut rules = self.lock();
                match &rules.state {
                    State::Open => return Turn::Enter(Entry::Open),
                    State::Trial => {
                        rules.state = State::Trying;
                        return Turn::Enter(Entry::Trial);
                    }
                    State::Paused { until: Some(until), why } if *until <= Instant::now() => {
                        return Turn::Look(why.needs.clone());
                    }
                    State::Paused { until, .. } => *until,
                    State::Trying => None,
                }
            };
            let over = async {
                match wait {
                    Some(until) => tokio::time::sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = over => {}
                _ = changed.changed() => {}
            }
        }
    }

    /// After a [`Turn::Look`]: `ready` says whether what was missing is there.
    pub(crate) fn look_again(&self, ready: bool) {
        self.lock().look_again(ready, Instant::now());
        self.changed.send_replace(());
    }
}

#[cfg(test)]
mod tests;
