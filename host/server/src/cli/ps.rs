//! `windlass ps`: what is deployed, how it stands, and which revisions there are.

use super::deploy::{file_of, find};
use super::failure::Failure;
use super::open::{self, LogArgs};
use super::sheet::Sheet;
use super::topic::group_name;
use super::ui::{Ui, clean, table};
use crate::manifest::{Config, ConsumerSpec, consumers};
use crate::serve::{self, state};
use crate::wire::when;
use serde_json::{Value, json};
use std::path::Path;
use windlass_core::Topic;
use windlass_log::{Deployment, DynLog, Revision, TopicState};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only this consumer, with its revisions.
    consumer: Option<String>,
    /// Print one JSON object a consumer.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let folder = open::folder(&args.log)?;
    let log = open::read_only(&args.log).await?;
    let shown = show(&args, &folder, &log, ui).await;
    log.close().await;
    shown
}

async fn show(args: &Args, folder: &Path, log: &DynLog, ui: &Ui) -> Result<(), Failure> {
    let deployed = log.deployed().await?;
    let topics = log.topics().await?;
    let server = serve::running(folder);
    if let Some(name) = &args.consumer {
        let one = find(&deployed, name, &args.log)?;
        let revisions = log.revisions(name).await?;
        let standing = Standing::new(one, &topics, server.is_some());
        if ui.json {
            let mut body = standing.body();
            body["revisions"] = revisions.iter().map(revision_body).collect();
            ui.object(&body);
        } else {
            ui.data(&standing.sheet(&revisions));
        }
        return Ok(());
    }
    let all: Vec<Standing<'_>> = deployed
        .deployments
        .iter()
        .map(|one| Standing::new(one, &topics, server.is_some()))
        .collect();
    if ui.json {
        for standing in &all {
            ui.object(&standing.body());
        }
        return Ok(());
    }
    if all.is_empty() {
        ui.note("nothing is deployed");
    } else {
        let head = ["CONSUMER", "REVISION", "STATE", "TOPICS", "LAG", "DEAD"];
        ui.data(&table(&head, all.iter().map(Standing::row).collect(), 4));
    }
    match server {
        Some(address) => ui.note(&format!("a server runs, on {}", clean(&address))),
        None => ui.note(&format!("no server runs: windlass serve{}", args.log.flag())),
    }
    Ok(())
}

/// How a consumer stands.
struct Standing<'a> {
    deployment: &'a Deployment,
    spec: Option<ConsumerSpec>,
    state: &'a str,
    text: &'a str,
    lag: u64,
    dead: u64,
}

impl<'a> Standing<'a> {
    fn new(deployment: &'a Deployment, topics: &[TopicState], server: bool) -> Self {
        let of = &deployment.revision;
        let config = Config::read(&of.config).ok();
        let read = config.and_then(|config| consumers(Path::new(""), [(config, "x".into())]).ok());
        let spec = read.and_then(|mut read| read.pop());
        let (mut lag, mut dead) = (0, 0);
        if let Some(spec) = &spec {
            let groups = topics.iter().filter(|topic| spec.topics.contains(&topic.topic));
            for group in groups.flat_map(|topic| &topic.groups) {
                if group.group == spec.group {
                    lag += group.counts.lag();
                    dead += group.counts.dead;
                }
            }
        }
        let told = deployment.told.as_ref().filter(|told| told.revision == of.number);
        let (state, text) = match told {
            // What a server said that is not there any more.
            _ if !server && deployment.paused => (state::PAUSED, ""),
            _ if !server => (state::STOPPED, ""),
            Some(told) => (told.state.as_str(), told.text.as_str()),
            None => ("starting", ""),
        };
        Self { deployment, spec, state, text, lag, dead }
    }

    fn topics(&self) -> &[Topic] {
        self.spec.as_ref().map(|spec| spec.topics.as_slice()).unwrap_or_default()
    }

    fn row(&self) -> Vec<String> {
        let of = &self.deployment.revision;
        let topics: Vec<_> = self.topics().iter().map(ToString::to_string).collect();
        vec![
            of.consumer.clone(),
            of.number.to_string(),
            self.state.to_owned(),
            topics.join(", "),
            self.lag.to_string(),
            self.dead.to_string(),
        ]
    }

    fn body(&self) -> Value {
        let of = &self.deployment.revision;
        let topics: Vec<_> = self.topics().iter().map(ToString::to_string).collect();
        json!({
            "consumer": of.consumer,
            "revision": of.number,
            "digest": of.digest,
            "deployed_at": when(of.at_ms),
            "state": self.state,
            "text": self.text,
            "paused": self.deployment.paused,
            "topics": topics,
            "group": self.spec.as_ref().map(|spec| spec.group.as_str()),
            "lag": self.lag,
            "dead": self.dead,
        })
    }

    fn sheet(&self, revisions: &[Revision]) -> String {
        let of = &self.deployment.revision;
        let mut sheet = Sheet::new(&of.consumer);
        sheet.line("state", self.state);
        sheet.lines("", self.text);
        sheet.line("component", &file_of(&of.digest));
        for topic in self.topics() {
            sheet.line("topic", topic.as_str());
        }
        if let Some(spec) = &self.spec {
            sheet.line("group", &group_name(&spec.group));
        }
        sheet.line("lag", &self.lag.to_string());
        sheet.line("dead", &self.dead.to_string());
        sheet.part("configuration");
        sheet.lines("", &of.config);
        sheet.part("revisions");
        for one in revisions {
            let serves = if one.number == of.number { "  serves" } else { "" };
            let digest = one.digest.get(..8).unwrap_or(&one.digest);
            let failed = one.failed.as_ref().map(|why| format!("  given up: {why}"));
            let text =
                format!("{}  {digest}{serves}{}", when(one.at_ms), failed.unwrap_or_default());
            sheet.line(&one.number.to_string(), &text);
        }
        sheet.into_text()
    }
}

fn revision_body(one: &Revision) -> Value {
    let Revision { number, digest, config, at_ms, failed, consumer: _ } = one;
    json!({
        "revision": number, "digest": digest, "config": config, "deployed_at": when(*at_ms),
        "failed": failed,
    })
}
