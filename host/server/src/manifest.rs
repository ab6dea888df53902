//! `windlass.toml`, checked whole before anything starts.
//!
//! Owns what a manifest may say and every complaint about it: a [`Manifest`] that exists is valid.
//! It reads the files that samples name, and nothing else: whether a component is there is known
//! only after its build.

mod config;
mod consumer;
mod problem;
mod samples;
mod section;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use config::{Config, consumers};
pub(crate) use consumer::{ConsumerSpec, SendMode};
pub(crate) use problem::ManifestError;
pub(crate) use samples::{BINARY, TEXT, check_content_type, check_key};

use problem::Problems;
use section::Section;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use toml::de::DeTable;
use windlass_core::{NewMessage, Topic};
use windlass_log::{GroupSpec, TopicLimits, TopicsMode};

/// The manifest's file name.
pub(crate) const FILE_NAME: &str = "windlass.toml";

const ROOT: (&[&str], &[&str]) = (&["topics", "consumer", "dev"], &[]);
const DEV: (&[&str], &[&str]) = (&["samples"], &[]);

/// A valid manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    /// Where it lies; paths in it start there.
    pub folder: PathBuf,
    /// Whether a publish may create its topic.
    pub topics_mode: TopicsMode,
    /// Topics declared by name, with what they may hold.
    pub topics: Vec<(Topic, TopicLimits)>,
    /// At least one.
    pub consumers: Vec<ConsumerSpec>,
    /// What `dev` publishes at its start.
    pub samples: Vec<NewMessage>,
}

impl Manifest {
    /// Checks `text`, which was read from `path`.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, ManifestError> {
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let (document, mode) = topics::split_mode(text);
        let problems = Problems::new(&document);
        let read = match DeTable::parse(&document) {
            Ok(root) => Some(read(&root, mode, folder, &problems)),
            Err(error) => {
                problems.add(&error.span().unwrap_or_default(), error.message().to_owned());
                None
            }
        };
        match (problems.into_error(path.to_owned()), read) {
            (None, Some(manifest)) => Ok(manifest),
            (Some(error), _) => Err(error),
            (None, None) => Err(ManifestError {
                path: path.to_owned(),
                text: format!("{}: not a TOML file", path.display()),
                count: 1,
            }),
        }
    }

    /// Every group that its consumers read as, once.
    pub(crate) fn groups(&self) -> Vec<GroupSpec> {
        groups(&self.consumers)
    }

    /// Topics that take messages when only declared ones do.
    pub(crate) fn declared_topics(&self) -> Vec<Topic> {
        let read = self.consumers.iter().flat_map(|consumer| consumer.topics.iter());
        let copies = self.consumers.iter().filter_map(|c| c.policy.dead_letter_topic.as_ref());
        let named = self.topics.iter().map(|(topic, _)| topic);
        let mut topics: Vec<Topic> = named.chain(read).chain(copies).cloned().collect();
        topics.sort();
        topics.dedup();
        topics
    }
}

/// Every group that `consumers` read as, once.
pub(crate) fn groups<'c>(consumers: impl IntoIterator<Item = &'c ConsumerSpec>) -> Vec<GroupSpec> {
    let mut groups: Vec<GroupSpec> = Vec::new();
    for consumer in consumers {
        for topic in &consumer.topics {
            if !groups.iter().any(|g| g.topic == *topic && g.group == consumer.group) {
                groups.push(GroupSpec {
                    topic: topic.clone(),
                    group: consumer.group.clone(),
                    policy: consumer.policy.clone(),
                    start: consumer.start,
                });
            }
        }
    }
    groups
}

fn read(
    root: &toml::Spanned<DeTable<'_>>,
    mode: Option<&str>,
    folder: PathBuf,
    problems: &Problems<'_>,
) -> Manifest {
    // The whole document stands for what is missing in it: line 1.
    let root = Section::new("the manifest", root.get_ref(), 0..0, problems, ROOT);
    let topics::Said { mode: topics_mode, topics } = topics::read(&root, mode);
    let mut consumers = Vec::new();
    let tables = root.tables("consumer");
    let given = root.value("consumer").map(|value| value.get_ref().as_array());
    if given.is_none_or(|list| list.is_some_and(|list| list.is_empty())) {
        root.problem(root.at(), "there is no [[consumer]]");
    }
    for table in tables {
        let at = table.at.clone();
        if let Some(spec) = consumer::read(&root, table.value, table.at, &folder) {
            check_against(&consumers, &spec, &at, &root);
            consumers.push(spec);
        }
    }
    let mut manifest = Manifest { folder, topics_mode, topics, consumers, samples: Vec::new() };
    if let Some(dev) = root.table("dev") {
        let dev = root.below("[dev]", dev.value, dev.at, DEV);
        for table in dev.tables("samples") {
            let at = table.at.clone();
            let Some(sample) = samples::read(&dev, table.value, table.at, &manifest.folder) else {
                continue;
            };
            let known = manifest.declared_topics().contains(&sample.topic);
            if manifest.topics_mode == TopicsMode::Declared && !known {
                dev.problem(&at, format!("topic `{}` of the sample is not declared", sample.topic));
            }
            manifest.samples.push(sample);
        }
    }
    manifest
}

/// What one consumer may not do because of those before it.
fn check_against(
    earlier: &[ConsumerSpec],
    spec: &ConsumerSpec,
    at: &std::ops::Range<usize>,
    root: &Section<'_>,
) {
    let mut by_group = HashMap::new();
    for other in earlier {
        if other.name == spec.name {
            root.problem(at, format!("there are two consumers named `{}`", spec.name));
        }
        for topic in &other.topics {
            by_group.entry((topic, &other.group)).or_insert(other);
        }
    }
    for topic in &spec.topics {
        let Some(other) = by_group.get(&(topic, &spec.group)) else { continue };
        if other.policy != spec.policy || other.start != spec.start {
            let group = if spec.group.is_work_queue() {
                "the work queue".to_owned()
            } else {
                format!("group `{}`", spec.group)
            };
            root.problem(
                at,
                format!(
                    "`{}` and `{}` both read `{topic}` as {group}, but differ in its policy \
                     (lease, max-attempts, in-flight, dead-letter-topic, backoff or start)",
                    other.name, spec.name
                ),
            );
        }
    }
}
