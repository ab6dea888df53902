//! Storage that fails: settlements that cannot be written are kept, and written before any claim.
//!
//! Owns how a settlement is written however long that takes, and says once that storage went and
//! once that it came back. What a settlement is, and what a refused one leads to, is `delivery`'s.

use crate::drain::{Phase, Phases};
use crate::event::{Event, Events};
use std::time::Duration;
use tokio::sync::watch;
use windlass_log::{DynLog, LogError, Settled, Settlement};

const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Nothing else is done meanwhile, so that storage that is back should be seen soon.
const RETRY_MOST: Duration = Duration::from_secs(1);
/// How long the last try may take, once the run was told to stop.
const LAST_TRY: Duration = Duration::from_secs(1);

/// The log as deliveries write to it.
#[derive(Debug)]
pub(crate) struct Storage {
    log: DynLog,
    events: Events,
    phases: Phases,
    /// How many settlements are kept.
    kept: watch::Sender<usize>,
    /// How many are waiting for storage at all, claims among them.
    waiting: tokio::sync::Mutex<usize>,
}

/// What may be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Until storage is available. A full one is an answer.
    Available,
    /// Until it is written: nothing else can be done with the message.
    Written,
}

impl Storage {
    /// Writes to `log` until the run is told to stop.
    pub(crate) fn new(log: DynLog, events: Events, phases: Phases) -> Self {
        let (kept, waiting) = (watch::Sender::new(0), tokio::sync::Mutex::new(0));
        Self { log, events, phases, kept, waiting }
    }

    /// The log.
    pub(crate) fn log(&self) -> &DynLog {
        &self.log
    }

    /// Returns when no settlement is kept.
    pub(crate) async fn nothing_kept(&self) {
        // The sender is ours: this cannot fail.
        drop(self.kept.subscribe().wait_for(|kept| *kept == 0).await);
    }

    /// Settles, however long it takes. An error is a refusal, or means that the run ended before
    /// storage came back.
    pub(crate) async fn settle(
        &self,
        settlement: &Settlement,
        patience: Patience,
    ) -> Result<Settled, LogError> {
        let first = self.try_settle(settlement).await;
        self.written(settlement, patience, first).await
    }

    /// The same for a settlement that the log has answered once.
    pub(crate) async fn written(
        &self,
        settlement: &Settlement,
        patience: Patience,
        first: Result<Settled, LogError>,
    ) -> Result<Settled, LogError> {
        let Err(error) = &first else { return first };
        if !must_wait(error, patience) {
            return first;
        }
        self.kept.send_modify(|kept| *kept += 1);
        self.trouble_began(error).await;
        let answer = self.settle_later(settlement, patience, error.clone()).await;
        self.trouble_ended().await;
        self.kept.send_modify(|kept| *kept = kept.saturating_sub(1));
        answer
    }

    async fn settle_later(
        &self,
        settlement: &Settlement,
        patience: Patience,
        mut last: LogError,
    ) -> Result<Settled, LogError> {
        let mut wait = RETRY_FIRST;
        loop {
            tokio::select! {
                biased;
                () = self.phases.reached(Phase::Stop) => {
                    // Storage may be back since the last try.
                    let try_once = self.try_settle(settlement);
                    return tokio::time::timeout(LAST_TRY, try_once).await.unwrap_or(Err(last));
                }
                () = tokio::time::sleep(wait) => {}
            }
            match self.try_settle(settlement).await {
                Err(error) if must_wait(&error, patience) => last = error,
                answer => return answer,
            }
            wait = (wait * 2).min(RETRY_MOST);
        }
    }

    async fn try_settle(&self, settlement: &Settlement) -> Result<Settled, LogError> {
        let mut answers = self.log.settle(vec![settlement.clone()]).await;
        answers.pop().unwrap_or(Err(LogError::Closed))
    }

    /// Somebody waits for storage; told once, however many do.
    pub(crate) async fn trouble_began(&self, error: &LogError) {
        let mut waiting = self.waiting.lock().await;
        *waiting += 1;
        if *waiting == 1 {
            self.events.tell(Event::StorageLost { text: chain(error) }).await;
        }
    }

    /// The counterpart of [`Storage::trouble_began`].
    pub(crate) async fn trouble_ended(&self) {
        let mut waiting = self.waiting.lock().await;
        *waiting = waiting.saturating_sub(1);
        if *waiting == 0 && self.phases.now() < Phase::Stop {
            self.events.tell(Event::StorageBack).await;
        }
    }
}

fn must_wait(error: &LogError, patience: Patience) -> bool {
    match error {
        LogError::Unavailable { .. } => true,
        LogError::StorageFull { .. } => patience == Patience::Written,
        LogError::TooLarge { .. }
        | LogError::UndeclaredTopic(_)
        | LogError::QuotaFull { .. }
        | LogError::HoldsMore { .. }
        | LogError::TopicNotEmpty { .. }
        | LogError::NoGroup { .. }
        | LogError::BusyGroup { .. }
        | LogError::GroupHasDead { .. }
        | LogError::NoMessage(_)
        | LogError::ReadOnly
        | LogError::NoTopic(_)
        | LogError::Closed
        | LogError::Exhausted(_) => false,
    }
}

/// An error with its causes, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Transparent errors say what their cause says.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
