//! The command line: what there is, and which function runs it.
//!
//! One file a command, each with its arguments and its `run`. Printing is `ui`'s alone.

mod bench;
mod check;
mod deploy;
mod dev;
mod dlq;
mod doctor;
mod failure;
mod group;
mod logs;
mod manifest;
mod message;
mod moment;
mod new;
mod open;
mod pages;
mod ps;
mod publish;
mod replay;
mod serve;
mod sheet;
mod tail;
mod topic;
mod trouble;
mod ui;

pub(crate) use failure::{Exit, Failure};
pub(crate) use manifest::{manifest_file, read_manifest};
pub(crate) use open::{FOLDER, log_flag, open};
pub(crate) use ui::{Tone, Ui, clean, shell, span};

use clap::{Parser, Subcommand};
use std::sync::Arc;

/// Run WebAssembly components as consumers of durable messages.
#[derive(Debug, Parser)]
#[command(name = "windlass", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make the folder of a new consumer.
    New(new::Args),
    /// Build and run the consumers of a manifest, and show every delivery.
    Dev(dev::Args),
    /// Run what is deployed, and answer requests over HTTP.
    ///
    /// The log is `.windlass` in the working folder or a parent; it is made in the working folder where
    /// there is none. There is one server a log.
    ///
    /// Requests: `POST /v1/topics/TOPIC/messages` publishes its body, with the headers `windlass-key`,
    /// `windlass-dedup-id`, `windlass-delay-ms` and `windlass-meta-NAME` (`/` in a topic is `%2F`);
    /// `GET /healthz` and `GET /readyz` answer 200 or 503 with reasons.
    Serve(serve::Args),
    /// Deploy the consumers of a manifest, or one component.
    ///
    /// What is to be done is shown as a plan and done in one change: `+` starts, `~` swaps, `-` stops
    /// and `=` stays as it is. Every component is checked first; one that does not pass changes
    /// nothing. A server that runs on the log takes it up at once, others when they start.
    Deploy(deploy::Args),
    /// Run consumers no more; what they have begun on is finished.
    ///
    /// Their groups, messages and revisions stay.
    Undeploy(deploy::Names),
    /// Let an earlier revision of a consumer serve again, code and configuration.
    Rollback(deploy::RollbackArgs),
    /// Let consumers claim nothing for now.
    Pause(deploy::Names),
    /// Let consumers claim again that were paused.
    Resume(deploy::Names),
    /// List what is deployed and how it stands, or show one consumer with its revisions.
    Ps(ps::Args),
    /// Show what a consumer's guests printed.
    Logs(logs::Args),
    /// Publish a message, or a file of them.
    Publish(publish::Args),
    /// Show a topic's messages as they are published, or those that are stored.
    Tail(tail::Args),
    /// Run one stored message against a component, with no effect on the log.
    ///
    /// The log is only read: it may be a copy, and a `windlass dev` may run on it. What the component
    /// sends is shown and goes nowhere. Dead letters and settled messages can be replayed as well, as
    /// long as they are stored.
    ///
    /// Ends with 0 when the handler answered `ok`, else with 1.
    Replay(replay::Args),
    /// List, show, make, limit, empty or delete topics.
    #[command(subcommand)]
    Topic(topic::Command),
    /// List, show, add, change, move or remove groups, and see to what they have pending.
    #[command(subcommand)]
    Group(group::Command),
    /// Show one message by its id, cancel it, or make it due.
    #[command(subcommand)]
    Message(message::Command),
    /// List, show, redrive or purge dead letters.
    #[command(subcommand)]
    Dlq(dlq::Command),
    /// Check whether a component can run as a consumer.
    Check(check::Args),
    /// Measure this machine, and Windlass on it.
    Bench(bench::Args),
    /// Look whether a log is as it should be, and say what to do where it is not.
    ///
    /// The log is only read, beside whoever runs on it; all rows are counted again. One small file is
    /// written in its folder, to see how fast the disk is, and removed.
    ///
    /// Ends with 0 when nothing is wrong with the log, whatever is worth a warning, else with 1.
    Doctor(doctor::Args),
}

impl Cli {
    /// Runs the command and says how it ended.
    pub(crate) async fn run(self) -> Exit {
        let json = match &self.command {
            Command::New(args) => args.json,
            Command::Dev(args) => args.json,
            Command::Serve(args) => args.json,
            Command::Deploy(args) => args.json,
            Command::Undeploy(args) | Command::Pause(args) | Command::Resume(args) => args.json,
            Command::Rollback(args) => args.json,
            Command::Ps(args) => args.json,
            Command::Logs(args) => args.json,
            Command::Publish(args) => args.json,
            Command::Tail(args) => args.json,
            Command::Replay(args) => args.json,
            Command::Topic(command) => command.json(),
            Command::Group(command) => command.json(),
            Command::Message(command) => command.json(),
            Command::Dlq(command) => command.json(),
            Command::Check(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Doctor(args) => args.json,
        };
        let ui = Arc::new(Ui::new(json));
        let done = match self.command {
            Command::New(args) => new::run(args, &ui).await,
            Command::Dev(args) => return dev::run(args, ui).await,
            Command::Serve(args) => return serve::run(args, ui).await,
            Command::Deploy(args) => deploy::run(args, &ui).await,
            Command::Undeploy(args) => deploy::undeploy(&args, &ui).await,
            Command::Pause(args) => deploy::pause(&args, &ui).await,
            Command::Resume(args) => deploy::resume(&args, &ui).await,
            Command::Rollback(args) => deploy::rollback(&args, &ui).await,
            Command::Ps(args) => ps::run(args, &ui).await,
            Command::Logs(args) => logs::run(args, &ui).await,
            Command::Publish(args) => publish::run(args, &ui).await,
            Command::Tail(args) => tail::run(args, &ui).await,
            Command::Replay(args) => return ended(&ui, replay::run(args, &ui).await),
            Command::Topic(command) => topic::run(command, &ui).await,
            Command::Group(command) => group::run(command, &ui).await,
            Command::Message(command) => message::run(command, &ui).await,
            Command::Dlq(command) => dlq::run(command, &ui).await,
            Command::Check(args) => check::run(args, &ui).await,
            Command::Bench(args) => bench::run(args, &ui).await,
            Command::Doctor(args) => return ended(&ui, doctor::run(args, &ui).await),
        };
        ended(&ui, done.map(|()| Exit::Done))
    }
}

fn ended(ui: &Ui, ended: Result<Exit, Failure>) -> Exit {
    ended.unwrap_or_else(|failure| {
        ui.failure(&failure);
        failure.exit
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
