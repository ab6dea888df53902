//! `[[consumer]]`: one component with its topics, group, limits and grants.

use super::section::Section;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeTable;
use windlass_core::policy::{DELAY_MAX, LEASE_MIN};
use windlass_core::{Backoff, Grants, Group, GroupPolicy, Limits, Topic, TopicPattern};
use windlass_log::Start;
use windlass_runtime::InstancePolicy;

const CONSUMER: (&[&str], &[&str]) = (
    &[
        "name",
        "component",
        "build",
        "watch",
        "topics",
        "group",
        "start",
        "concurrency",
        "rate",
        "lease",
        "max-attempts",
        "in-flight",
        "dead-letter-topic",
        "sends",
        "instances",
        "rollback-after",
        "backoff",
        "limits",
        "allow",
        "env",
    ],
    &[],
);
const BACKOFF: (&[&str], &[&str]) = (&["initial", "factor", "max", "jitter"], &[]);
const LIMITS: (&[&str], &[&str]) =
    (&["memory", "wall", "cpu", "sends", "sent-bytes", "resources", "output"], &[]);
const ALLOW: (&[&str], &[&str]) = (&["publish"], &["http", "config", "folders"]);

/// Smallest memory a component can do anything with: one page.
const MEMORY_MIN: u64 = 64 << 10;
/// A span that a limit may have at least.
const SPAN_MIN: Duration = Duration::from_millis(1);
/// Deliveries of one consumer at a time, unless it says otherwise.
const CONCURRENCY: NonZeroUsize = NonZeroUsize::MIN.saturating_add(7);
/// Messages a second: one in a quarter of an hour, and what no limit is needed for.
const RATE_MIN: f64 = 0.001;
const RATE_MAX: f64 = 1e6;
/// `instances = "warm"`: enough messages to spread the cost of a start thin, and a life short
/// enough that what a guest piles up goes.
const WARM: InstancePolicy = InstancePolicy::Warm {
    messages: NonZeroU32::MIN.saturating_add(999),
    age: Duration::from_mins(1),
};

/// When what a guest sends is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    /// In one transaction with the ack.
    WithAck,
    /// At once.
    Immediate,
}

/// A consumer as the manifest wants it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConsumerSpec {
    /// Unique in its manifest; also the name of its output file.
    pub name: String,
    /// The component's file.
    pub component: PathBuf,
    /// The command that makes it.
    pub build: Option<String>,
    /// Files and folders that its code is made of: a change in them calls for `build`. Without
    /// any, all of the manifest's folder is.
    pub watch: Vec<PathBuf>,
    /// What it reads.
    pub topics: Vec<Topic>,
    /// As which group.
    pub group: Group,
    /// Where a new group starts.
    pub start: Start,
    /// Deliveries at a time.
    pub concurrency: NonZeroUsize,
    /// Messages a second at most.
    pub rate: Option<f64>,
    /// Its group's policy.
    pub policy: GroupPolicy,
    /// When its sends are published.
    pub sends: SendMode,
    /// How long its instances live.
    pub instances: InstancePolicy,
    /// Its hard limits.
    pub limits: Limits,
    /// What it may do.
    pub grants: Grants,
    /// A new revision whose first so many messages all fail is rolled back.
    pub rollback_after: Option<NonZeroU32>,
    /// The revision's number, where it is deployed.
    pub revision: Option<u64>,
}

impl ConsumerSpec {
    /// A consumer of one topic's work queue of which nothing else is said.
    pub(crate) fn plain(name: &str, component: PathBuf, topic: Topic) -> Self {
        Self {
            name: name.to_owned(),
            component,
            build: None,
            watch: Vec::new(),
            topics: vec![topic],
            group: Group::work_queue(),
            start: Start::Earliest,
            concurrency: CONCURRENCY,
            rate: None,
            policy: GroupPolicy::default(),
            sends: SendMode::WithAck,
            instances: InstancePolicy::default(),
            limits: Limits::default(),
            grants: Grants::default(),
            rollback_after: None,
            revision: None,
        }
    }
}

/// Reads one consumer; nothing when a part it cannot do without is missing.
pub(crate) fn read<'a>(
    root: &Section<'a>,
    table: &'a DeTable<'a>,
    at: std::ops::Range<usize>,
    folder: &Path,
) -> Option<ConsumerSpec> {
    let section = root.below("[[consumer]]", table, at, CONSUMER);
    let name = section.needed_text("name").and_then(|name| match check_name(name.value) {
        Ok(()) => Some(name.value.to_owned()),
        Err(why) => {
            section.problem(&name.at, format!("`name`: {why}"));
            None
        }
    });
    let component = section.needed_text("component");
    if let Some(file) = component.as_ref().filter(|file| file.value.trim().is_empty()) {
        section.problem(&file.at, "`component` is empty: it is the path of a `.wasm` file");
    }
    let topics = read_topics(&section);
    let instances = section.parsed("instances", |text| match text {
        "fresh" => Ok(InstancePolicy::Fresh),
        "warm" => Ok(WARM),
        _ => Err("must be \"fresh\" or \"warm\""),
    });
    let sends = section.parsed("sends", |text| match text {
        "with-ack" => Ok(SendMode::WithAck),
        "immediate" => Ok(SendMode::Immediate),
        _ => Err("must be \"with-ack\" or \"immediate\""),
    });
    let start = section.parsed("start", |text| match text {
        "earliest" => Ok(Start::Earliest),
        "latest" => Ok(Start::Latest),
        _ => Err("must be \"earliest\" or \"latest\""),
    });
    let policy = read_policy(&section);
    check_dead_letter_topic(&section, &policy, &topics);
    let spec = ConsumerSpec {
        name: name.unwrap_or_default(),
        component: component.as_ref().map(|file| folder.join(file.value)).unwrap_or_default(),
        build: section.text("build").map(|command| command.value.to_owned()),
        watch: read_watch(&section, folder),
        topics,
        group: section.parsed("group", Group::new).unwrap_or_default(),
        start: start.unwrap_or(Start::Earliest),
        concurrency: section
            .count("concurrency", 10_000)
            .and_then(|count| NonZeroUsize::new(count as usize))
            .unwrap_or(CONCURRENCY),
        rate: section.number("rate", RATE_MIN, RATE_MAX),
        policy,
        sends: sends.unwrap_or(SendMode::WithAck),
        instances: instances.unwrap_or_default(),
        limits: read_limits(&section),
        grants: read_grants(&section),
        rollback_after: section.count("rollback-after", 1_000).and_then(NonZeroU32::new),
        revision: None,
    };
    (!spec.name.is_empty() && component.is_some()).then_some(spec)
}

/// The name is also a file's: what a file system or a shell could trip over is refused.
fn check_name(name: &str) -> Result<(), &'static str> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 100 {
        Err("it must have 1 to 100 bytes")
    } else if !name.chars().all(plain) || name.starts_with(['.', '-']) {
        Err("letters, digits, `-`, `_` and `.`, and it begins with a letter or digit")
    } else {
        Ok(())
    }
}

fn read_watch(section: &Section<'_>, folder: &Path) -> Vec<PathBuf> {
    let watch = section.list("watch", |path| match path.trim() {
        "" => Err("a path is empty: name a file or folder, such as \"src\""),
        path => Ok(folder.join(path)),
    });
    if section.value("watch").is_some() && section.value("build").is_none() {
        section.problem(section.at(), "`watch` says when to `build`, and there is no `build`");
    }
    watch.into_iter().map(|path| path.value).collect()
}

/// Copies of what it gave up must not come back to it.
fn check_dead_letter_topic(section: &Section<'_>, policy: &GroupPolicy, topics: &[Topic]) {
    let Some(value) = section.value("dead-letter-topic") else { return };
    if policy.dead_letter_topic.as_ref().is_some_and(|topic| topics.contains(topic)) {
        section.problem(&value.span(), "`dead-letter-topic` is a topic that this consumer reads");
    }
}

fn read_topics(section: &Section<'_>) -> Vec<Topic> {
    let mut topics: Vec<Topic> = Vec::new();
    let given = section.list("topics", |text| {
        Topic::new(text).map_err(|error| {
            if text.contains(['*', '>']) {
                format!("{error}; a consumer names exact topics")
            } else {
                error.to_string()
            }
        })
    });
    for topic in given {
        if topics.contains(&topic.value) {
            section.problem(&topic.at, format!("topic `{}` stands there twice", topic.value));
        } else {
            topics.push(topic.value);
        }
    }
    let named = section.value("topics").and_then(|value| value.get_ref().as_array());
    if section.value("topics").is_none() || named.is_some_and(|list| list.is_empty()) {
        section.problem(section.at(), "[[consumer]] needs at least one topic in `topics`");
    }
    topics
}

fn read_policy(section: &Section<'_>) -> GroupPolicy {
    let default = GroupPolicy::default();
    let count = |key| section.count(key, u32::MAX).and_then(NonZeroU32::new);
    GroupPolicy {
        max_attempts: count("max-attempts").unwrap_or(default.max_attempts),
        lease: section.duration("lease", LEASE_MIN, DELAY_MAX).unwrap_or(default.lease),
        in_flight_max: count("in-flight").unwrap_or(default.in_flight_max),
        dead_letter_topic: section.parsed("dead-letter-topic", Topic::new),
        backoff: read_backoff(section),
    }
}

fn read_backoff(section: &Section<'_>) -> Backoff {
    let default = Backoff::default();
    let Some(table) = section.table("backoff") else { return default };
    let section = section.below("[consumer.backoff]", table.value, table.at, BACKOFF);
    let initial = section.duration("initial", SPAN_MIN, DELAY_MAX);
    let max = section.duration("max", SPAN_MIN, DELAY_MAX);
    let backoff = Backoff {
        initial: initial.unwrap_or(default.initial),
        factor: section.number("factor", 1.0, 1_000.0).unwrap_or(default.factor),
        // A first wait above the default maximum says what the maximum must be.
        max: max.unwrap_or(default.max.max(initial.unwrap_or_default())),
        jitter: section.number("jitter", 0.0, 1.0).unwrap_or(default.jitter),
    };
    if backoff.initial > backoff.max {
        section.problem(section.at(), "`initial` of the backoff is longer than its `max`");
    }
    backoff
}

fn read_limits(section: &Section<'_>) -> Limits {
    let default = Limits::default();
    let Some(table) = section.table("limits") else { return default };
    let section = section.below("[consumer.limits]", table.value, table.at, LIMITS);
    Limits {
        memory_bytes: section.size("memory", MEMORY_MIN).unwrap_or(default.memory_bytes),
        wall: section.duration("wall", SPAN_MIN, DELAY_MAX).unwrap_or(default.wall),
        cpu: section.duration("cpu", SPAN_MIN, DELAY_MAX).unwrap_or(default.cpu),
        sends: section.count("sends", 1_000_000).unwrap_or(default.sends),
        sent_bytes: section.size("sent-bytes", 1).unwrap_or(default.sent_bytes),
        resources: section.count("resources", 1_000_000).unwrap_or(default.resources),
        output_bytes: section.size("output", 1).unwrap_or(default.output_bytes),
    }
}

fn read_grants(section: &Section<'_>) -> Grants {
    let mut grants = Grants::default();
    if let Some(table) = section.table("allow") {
        let allow = section.below("[consumer.allow]", table.value, table.at, ALLOW);
        let patterns = allow.list("publish", TopicPattern::new);
        grants.publish = patterns.into_iter().map(|pattern| pattern.value).collect();
    }
    if let Some(table) = section.table("env") {
        let at = table.at.clone();
        let env = section.open("[consumer.env]", table.value, table.at);
        grants.env = env.pairs();
        for (key, value) in &grants.env {
            if key.is_empty() || key.contains(['=', '\0']) || value.contains('\0') {
                env.problem(
                    &at,
                    format!("`{}` cannot be set in an environment", key.escape_debug()),
                );
            }
        }
    }
    grants
}
