//! `windlass tail TOPIC`: a topic's messages as they are published, or those that are stored.
//!
//! Owns where a tail starts and how it ends. Reads page by page and holds nothing between them, so
//! that a reader that stands still holds up nobody but itself.

mod line;

use super::failure::Failure;
use super::moment::Moment;
use super::open::{self, LogArgs};
use super::ui::{Ui, clean};
use crate::drain::{Phase, Phases, Stopper, phases};
use crate::wire::{GapBody, StreamedBody};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use windlass_core::{MessageId, Topic};
use windlass_log::{DynLog, LogError, ReadFrom, ReadGap, ReadPage, ReadRequest, Waiter};

/// Messages read at a time.
const PAGE: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);
/// How long a tail that hears of nothing waits until it looks by itself.
const LOOK: Duration = Duration::from_millis(100);
/// How long the last lines may take to be printed once the tail was told to end.
const LAST_LINES: Duration = Duration::from_secs(1);

#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("from").args(["after", "from_start", "since"])))]
pub(super) struct Args {
    /// The topic, exactly. It need not be there yet.
    topic: Topic,
    /// Start behind the message with this id, whether it is still stored or not [default: from now
    /// on; with --no-follow: from the first that is stored].
    #[arg(long, value_name = "ID")]
    after: Option<MessageId>,
    /// Start with the first message that is stored.
    #[arg(long)]
    from_start: bool,
    /// Start with what was published at or after this time: `2026-01-31T12:00:00Z` (UTC), or an age
    /// such as `5m` or `2h`.
    #[arg(long, value_name = "TIME")]
    since: Option<Moment>,
    /// End after so many messages [default: never].
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// End at the end of what is stored.
    #[arg(long)]
    no_follow: bool,
    /// Show the data whole, below each message.
    #[arg(long)]
    full: bool,
    /// Print one JSON object a message, and one with `gap` where messages are missing.
    #[arg(long, conflicts_with = "full")]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: &Arc<Ui>) -> Result<(), Failure> {
    let log = open::read_only(&args.log).await?;
    let (stopper, phases) = phases();
    let signals = tokio::spawn(pass_on_signals(stopper));
    let known = log.topic(&args.topic).await?.is_some();
    if !known && args.no_follow {
        return Err(args.log.no_topic(&args.topic));
    }
    if !known {
        let topic = clean(args.topic.as_str());
        ui.note(&format!("there is no topic `{topic}` yet; waiting for its first message"));
    }
    let mut tail = Tail::new(&args, &log, ui);
    let ended = tokio::select! {
        ended = tail.run(&phases) => ended,
        () = in_a_hurry(&phases) => Ok(()),
    };
    signals.abort();
    log.close().await;
    ended.map_err(|error| args.log.failure(error))
}

/// Tells once that somebody wants the end.
async fn pass_on_signals(stopper: Stopper) {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    stopper.advance(Phase::Drain);
}

/// Returns a moment after the end was asked for: whoever reads may stand still.
async fn in_a_hurry(phases: &Phases) {
    phases.reached(Phase::Drain).await;
    tokio::time::sleep(LAST_LINES).await;
}

/// One tail on its way through a topic.
struct Tail<'a> {
    log: &'a DynLog,
    ui: &'a Arc<Ui>,
    topic: Topic,
    from: ReadFrom,
    left: usize,
    follow: bool,
    full: bool,
    arrivals: Waiter,
}

impl<'a> Tail<'a> {
    fn new(args: &Args, log: &'a DynLog, ui: &'a Arc<Ui>) -> Self {
        let from = match (args.after, args.since) {
            (Some(id), _) => ReadFrom::After(id),
            (None, Some(since)) => ReadFrom::Time(since.log_time(log.now())),
            (None, None) if args.from_start || args.no_follow => ReadFrom::Earliest,
            (None, None) => ReadFrom::Latest,
        };
        Self {
            log,
            ui,
            topic: args.topic.clone(),
            from,
            left: args.limit.map_or(usize::MAX, NonZeroUsize::get),
            follow: !args.no_follow,
            full: args.full,
            // Made before the first look, so that it hears of all that comes after it.
            arrivals: log.arrivals(&args.topic),
        }
    }

    /// Until it has shown all it should, nobody reads, or it is told to end.
    async fn run(&mut self, phases: &Phases) -> Result<(), LogError> {
        loop {
            let limit = NonZeroUsize::new(self.left).map_or(PAGE, |left| left.min(PAGE));
            let request = ReadRequest { topic: self.topic.clone(), from: self.from, limit };
            let Some(page) = phases.or_drain(self.log.stream(request)).await else { return Ok(()) };
            let page = page?;
            self.from = ReadFrom::Position(page.position);
            self.left = self.left.saturating_sub(page.messages.len());
            let more = page.more;
            self.show(page).await;
            if self.left == 0 || self.ui.is_out_gone() || (!more && !self.follow) {
                return Ok(());
            }
            if !more && phases.or_drain(self.wait()).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Until there may be something new.
    async fn wait(&self) {
        // Nothing will come where the log has ended; the next look says so.
        let look = if self.arrivals.is_over() { Duration::ZERO } else { LOOK };
        let _heard = tokio::time::timeout(look, self.arrivals.woken()).await;
        self.ui.look_for_reader();
    }

    /// Prints a page on a thread that may wait.
    async fn show(&self, page: ReadPage) {
        if page.gap.is_none() && page.messages.is_empty() {
            return;
        }
        let (ui, topic, full) = (Arc::clone(self.ui), self.topic.clone(), self.full);
        let printed = tokio::task::spawn_blocking(move || print(&ui, &topic, &page, full));
        drop(printed.await);
    }
}

fn print(ui: &Ui, topic: &Topic, page: &ReadPage, full: bool) {
    if let Some(gap) = &page.gap {
        tell_gap(ui, topic, gap);
    }
    for message in &page.messages {
        if ui.is_out_gone() {
            return;
        }
        if ui.json {
            ui.object(&StreamedBody::new(topic.as_str(), message));
        } else {
            ui.data(&line::line(ui, message, full));
        }
    }
}

fn tell_gap(ui: &Ui, topic: &Topic, gap: &ReadGap) {
    if ui.json {
        ui.object(&GapBody::new(topic.as_str(), gap));
    }
    ui.note(&format!(
        "gap: what was between {:016x} and {:016x} was removed before it was read here",
        gap.after.0, gap.through.0
    ));
}
