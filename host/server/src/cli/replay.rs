//! `windlass replay TOPIC ID`: one stored message against a component, with no effect on the log.

mod report;

use super::failure::{Exit, Failure};
use super::open::{self, LogArgs};
use super::read_manifest;
use super::ui::{Ui, shell};
use crate::manifest::ConsumerSpec;
use crate::replay::{self, Trial};
use crate::stage::told_while;
use crate::wire::TrialBody;
use bytesize::ByteSize;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Message, MessageId, Outcome, Topic, TopicPattern};
use windlass_log::LogError;
use windlass_runtime::{CheckError, Component, Engine, EngineConfig, Stop};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The topic it was published to, exactly.
    topic: Topic,
    /// The message's id.
    id: MessageId,
    /// The component [default: the one of the consumer that --config and --consumer name].
    #[arg(long, value_name = "FILE.wasm", required_unless_present = "config")]
    component: Option<PathBuf>,
    /// A manifest, or its folder: limits, environment, grants and policy are those of its consumer.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
    /// Which consumer of the manifest [default: the only one that reads the topic].
    #[arg(long, value_name = "NAME", requires = "config")]
    consumer: Option<String>,
    /// Which attempt the handler is told that this is.
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    attempt: NonZeroU32,
    /// How long the handler may take [default: the consumer's, else 30s].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    wall: Option<Duration>,
    /// How long it may compute [default: the consumer's, else 10s].
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    cpu: Option<Duration>,
    /// How much memory it may have [default: the consumer's, else 64 MiB].
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Topics it may publish to, beside the consumer's: a name, or a pattern as in
    /// `[consumer.allow]`. May be given more than once.
    #[arg(long, value_name = "PATTERN")]
    allow_publish: Vec<TopicPattern>,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<Exit, Failure> {
    let spec = spec(&args)?;
    let message = message(&args).await?;
    let interrupted = || Failure::new("interrupted");
    let engine = Engine::new(&EngineConfig { pooling: false, ..EngineConfig::default() })
        .map_err(|error| Failure::of(&error))?;
    let load = Component::load_file(&engine, &spec.component);
    let telling = |text: String| ui.note(&super::clean(&text));
    let component = tokio::select! {
        loaded = told_while(load, &spec.component, &telling) => loaded,
        _ = tokio::signal::ctrl_c() => return Err(interrupted()),
    };
    let component = component.map_err(|error| unfit(error, &spec))?;
    let stop = Box::pin(async {
        drop(tokio::signal::ctrl_c().await);
        Stop::Interrupted
    });
    let attempt = args.attempt.get();
    let trial = replay::run(&component, &spec, Arc::clone(&message), attempt, stop).await;
    let trial = trial.map_err(|error| unfit(error, &spec))?;
    tell(&args, &spec, &message, &trial, ui);
    let done = matches!(trial.invocation.outcome, Outcome::Done { .. });
    Ok(if done { Exit::Done } else { Exit::Error })
}

fn tell(args: &Args, spec: &ConsumerSpec, message: &Message, trial: &Trial, ui: &Ui) {
    let (attempt, most) = (args.attempt.get(), spec.policy.max_attempts.get());
    if ui.json {
        ui.object(&TrialBody::new(message, attempt, most, trial));
    } else {
        ui.data(&report::describe(spec, message, attempt, trial));
    }
    if let Outcome::GrantMissing { grant, .. } = &trial.invocation.outcome
        && let Some(topic) = grant.strip_prefix("publish ")
    {
        let topic = topic.trim_matches('"');
        ui.note(&super::clean(&format!(
            "next: give --allow-publish {}, or a manifest that grants it by --config",
            shell(topic)
        )));
    }
}

/// The consumer that is played.
fn spec(args: &Args) -> Result<ConsumerSpec, Failure> {
    let mut spec = match &args.config {
        None => ConsumerSpec::plain("replay", PathBuf::new(), args.topic.clone()),
        Some(path) => chosen(read_manifest(path)?.consumers, args)?,
    };
    if let Some(component) = &args.component {
        spec.component.clone_from(component);
    }
    let limits = &mut spec.limits;
    limits.wall = args.wall.unwrap_or(limits.wall);
    limits.cpu = args.cpu.unwrap_or(limits.cpu);
    limits.memory_bytes = args.memory.map_or(limits.memory_bytes, |size| size.0);
    spec.grants.publish.extend(args.allow_publish.iter().cloned());
    Ok(spec)
}

fn chosen(consumers: Vec<ConsumerSpec>, args: &Args) -> Result<ConsumerSpec, Failure> {
    let names: Vec<_> = consumers.iter().map(|consumer| consumer.name.clone()).collect();
    let fits = |consumer: &ConsumerSpec| match &args.consumer {
        Some(name) => consumer.name == *name,
        None => consumer.topics.contains(&args.topic),
    };
    let mut fitting = consumers.into_iter().filter(fits);
    match (fitting.next(), fitting.next(), &args.consumer) {
        (Some(consumer), None, _) => Ok(consumer),
        (Some(_), Some(_), _) => {
            Err(Failure::usage(format!("several consumers read `{}`", args.topic))
                .next(format!("give --consumer, one of: {}", names.join(", "))))
        }
        (None, _, Some(name)) => {
            Err(Failure::usage(format!("the manifest has no consumer `{name}`"))
                .next(format!("give --consumer, one of: {}", names.join(", "))))
        }
        (None, _, None) => {
            Err(Failure::usage(format!("no consumer of the manifest reads `{}`", args.topic))
                .next(format!("give --consumer, one of: {}", names.join(", "))))
        }
    }
}

/// Reads the message, and closes the log.
async fn message(args: &Args) -> Result<Arc<Message>, Failure> {
    let log = open::read_only(&args.log).await?;
    let found = log.message(args.id).await.map_err(|error| args.log.failure(error))?;
    log.close().await;
    let Some(state) = found else {
        let topic = shell(args.topic.as_str());
        return Err(Failure::from(LogError::NoMessage(args.id))
            .because("what every group has settled goes after `retain`")
            .next(format!("windlass tail {topic} --no-follow{}", args.log.flag())));
    };
    if state.topic != args.topic {
        let topic = shell(state.topic.as_str());
        return Err(Failure::new(format!(
            "message {} was published to `{}`, not to `{}`",
            args.id, state.topic, args.topic
        ))
        .next(format!("windlass replay {topic} {} ...", args.id)));
    }
    state.message.ok_or_else(|| Failure::new(format!("the record of {} cannot be read", args.id)))
}

/// A component that cannot be played.
fn unfit(error: CheckError, spec: &ConsumerSpec) -> Failure {
    let named = matches!(error, CheckError::Unreadable { .. });
    let next = if named {
        "check the path, and that the build made the file".to_owned()
    } else if let CheckError::Memory { needed, .. } = &error {
        format!("give --memory '{}'", ByteSize(*needed))
    } else {
        error.next_step().to_owned()
    };
    let failure = Failure::from(error).next(next);
    if named { failure } else { failure.because(format!("in `{}`", spec.component.display())) }
}
