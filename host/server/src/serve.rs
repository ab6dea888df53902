//! `windlass serve`: runs what is deployed, and answers requests.
//!
//! Owns the order of a run's steps. What is deployed is followed by `keeper`; how it stands is known
//! at the `desk`; requests are `http`'s.

mod desk;
mod keeper;
mod lock;
mod probation;

pub(crate) use desk::{Desk, state};
pub(crate) use lock::running;

use crate::cli::{self, Exit, Failure, Ui};
use crate::dispatch::{Dispatcher, HOST_PERMITS, Shared};
use crate::drain::{Phase, Phases, Stopper, phases};
use crate::event::{Event, Events};
use crate::http::{self, Api};
use crate::metrics::Metrics;
use crate::permits::Permits;
use crate::registry::LogOutbox;
use crate::report::Report;
use crate::run::{self, in_a_hurry, lag, last_lines, print, signals, worker};
use crate::stage::{Stage, Workshop};
use desk::GivenUp;
use keeper::Keeper;
use lock::ServeLock;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use windlass_log::sqlite::OpenOptions;
use windlass_log::{Change, Deployed, DynLog, LogError, Revision};

/// When what the log could not take is tried again.
const AGAIN: Duration = Duration::from_secs(1);
/// How long requests may take to end once the run does.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What the command line says about a server.
#[derive(Debug)]
pub(crate) struct Options {
    /// The log's folder; it is made where there is none.
    pub log: PathBuf,
    /// Where requests are answered.
    pub listen: SocketAddr,
    /// Whether messages that were handled well are not told one by one.
    pub quiet: bool,
}

/// Serves until told to end.
pub(crate) async fn run(options: Options, ui: Arc<Ui>) -> Exit {
    let (stopper, phases) = phases();
    let signals = tokio::spawn(signals::pass_on(stopper.clone(), Arc::clone(&ui)));
    let exit = match run_steps(&options, &ui, &stopper, &phases).await {
        Ok(exit) => exit,
        Err(failure) => {
            let exit = failure.exit;
            print(&ui, &phases, move |ui| ui.failure(&failure)).await;
            exit
        }
    };
    signals.abort();
    exit
}

async fn run_steps(
    options: &Options,
    ui: &Arc<Ui>,
    stopper: &Stopper,
    phases: &Phases,
) -> Result<Exit, Failure> {
    let listener = listen(options.listen).await?;
    let opening = OpenOptions { create: true, serve: true, ..OpenOptions::default() };
    // Another process may hold the file for seconds.
    let Some(log) = phases.or_drain(cli::open(&options.log, opening)).await else {
        return Ok(Exit::Done);
    };
    let log = log?;
    run::keep_out_of_git(&options.log);
    let ended = serve(options, &log, listener, ui, stopper, phases).await;
    drop(tokio::time::timeout(run::CLOSE, log.close()).await);
    ended
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    if !address.ip().is_loopback() {
        return Err(Failure::usage(format!("`{address}` can be reached from other machines"))
            .because("requests are not asked for a token yet, so only this machine may send them")
            .next("windlass serve --listen 127.0.0.1:7400"));
    }
    TcpListener::bind(address).await.map_err(|error| {
        Failure::system(format!("cannot listen on {address}"), &error)
            .next("name another port, or 0 for any that is free: --listen 127.0.0.1:0")
    })
}

/// From the first claim to the last settlement.
async fn serve(
    options: &Options,
    log: &DynLog,
    listener: TcpListener,
    ui: &Arc<Ui>,
    stopper: &Stopper,
    phases: &Phases,
) -> Result<Exit, Failure> {
    let address = listener.local_addr().map_err(|error| Failure::of(&error))?;
    let _only_one = ServeLock::take(&options.log, address)?;
    let (desk, metrics) = (Arc::new(Desk::default()), Arc::new(Metrics::default()));
    let report = Report::new(Arc::clone(ui), &options.log, &options.log).quiet(options.quiet);
    let (events, shown) = run::show(report, {
        let (desk, metrics) = (Arc::clone(&desk), Arc::clone(&metrics));
        move |event| {
            metrics.learn(event);
            desk.learn(event);
        }
    })?;
    let shared = Shared::new(Arc::clone(log), events.clone(), phases.clone(), &worker());
    let dispatcher = Arc::new(Dispatcher::start(Arc::new(shared), Permits::new(HOST_PERMITS)));
    let (declared, all_groups) = watch::channel(Vec::new());
    let outbox = LogOutbox::new(Arc::clone(log));
    let stage =
        Stage::new(Arc::clone(log), outbox, Arc::clone(&dispatcher), events.clone(), declared);
    let nudge = Arc::new(Notify::new());
    let mut keeper = Keeper {
        log: Arc::clone(log),
        folder: options.log.clone(),
        workshop: Workshop::new(phases.clone(), &options.log)?,
        stage,
        desk: Arc::clone(&desk),
        phases: phases.clone(),
        nudge: Arc::clone(&nudge),
    };
    // Before the first component is compiled: publishing waits for no consumer.
    let api = Api::new(Arc::clone(log), Arc::clone(&desk), metrics, phases.clone());
    let answering = tokio::spawn(http::serve(listener, api, phases.clone()));
    let address = format!("http://{address}");
    events.tell(Event::Listening { address }).await;
    events.tell(Event::Remark { text: keeper.workshop.describe() }).await;

    let deployed = log.deployed().await?;
    let started = keeper.apply(&deployed).await;
    if started.is_some() {
        keeper.tell_ready(&deployed).await;
    }
    let keeping = tokio::spawn(keeper.run(deployed.version));
    let writing = tokio::spawn(write_down(Writing {
        log: Arc::clone(log),
        desk: Arc::clone(&desk),
        dispatcher: Arc::clone(&dispatcher),
        events: events.clone(),
        nudge,
    }));
    let ticks = tokio::spawn(run::tick(events.clone()));
    let lag = tokio::spawn(lag::watch(Arc::clone(log), all_groups, events.clone()));

    let log_ended = tokio::select! {
        () = phases.reached(Phase::Drain) => false,
        () = dispatcher.log_ended() => true,
    };
    let stuck = dispatcher.is_stuck();
    dispatcher.drain(stopper).await;
    drop(tokio::time::timeout(LAST_ANSWERS, answering).await);
    drop(tokio::time::timeout(LAST_ANSWERS, keeping).await);
    for task in [ticks, lag, writing] {
        task.abort();
    }
    tokio::select! {
        () = last_lines(&events, shown, phases) => {}
        () = in_a_hurry(phases) => {}
    }
    desk.stop_all();
    tell_all(log, &desk).await;
    Ok(if log_ended || stuck { Exit::Error } else { Exit::Done })
}

/// What the desk's news are written with.
struct Writing {
    log: DynLog,
    desk: Arc<Desk>,
    dispatcher: Arc<Dispatcher>,
    events: Events,
    nudge: Arc<Notify>,
}

/// Writes down how consumers stand, and rolls back what is given up, until it is ended.
async fn write_down(writing: Writing) {
    let Writing { log, desk, dispatcher, events, nudge } = writing;
    loop {
        desk.news.notified().await;
        for given_up in desk.take_given_up() {
            while let Err(error) = roll_back(&log, &given_up, &dispatcher, &events).await {
                tracing::debug!(%error, consumer = given_up.consumer, "not rolled back yet");
                tokio::time::sleep(AGAIN).await;
            }
            nudge.notify_one();
        }
        if !tell_all(&log, &desk).await {
            tokio::time::sleep(AGAIN).await;
            desk.news.notify_one();
        }
    }
}

/// Writes what changed; whether all of it was taken.
async fn tell_all(log: &DynLog, desk: &Desk) -> bool {
    let mut taken = true;
    for (consumer, told) in desk.take_changed() {
        if log.tell_deployment(&consumer, told).await.is_err() {
            desk.put_back(&consumer);
            taken = false;
        }
    }
    taken
}

/// Lets the revision before serve again, and keeps why.
async fn roll_back(
    log: &DynLog,
    given_up: &GivenUp,
    dispatcher: &Dispatcher,
    events: &Events,
) -> Result<(), LogError> {
    let GivenUp { consumer, revision, label, why } = given_up;
    loop {
        let deployed: Deployed = log.deployed().await?;
        let serving = deployed.find(consumer).map(|one| &one.revision);
        // Somebody has deployed another one meanwhile.
        let Some(serving) = serving.filter(|serving| serving.number == *revision) else {
            return Ok(());
        };
        let Some(to) = earlier(log, serving).await? else { return Ok(()) };
        // Before it is written: each message more would be one more that fails. What has taken its
        // place meanwhile goes on.
        dispatcher.retire_revision(consumer, label);
        let failed = Some(why.clone());
        let change = Change::Return { consumer: consumer.clone(), to: to.number, failed };
        if log.deploy(deployed.version, vec![change]).await?.is_some() {
            let (consumer, why) = (consumer.clone(), why.clone());
            let event = Event::RolledBack { consumer, from: *revision, to: to.number, why };
            events.tell(event).await;
            return Ok(());
        }
    }
}

/// The revision that a rollback goes back to: the newest one before that was not given up.
pub(crate) async fn earlier(
    log: &DynLog,
    serving: &Revision,
) -> Result<Option<Revision>, LogError> {
    let revisions = log.revisions(&serving.consumer).await?;
    Ok(revisions.into_iter().find(|one| one.number < serving.number && one.failed.is_none()))
}
