//! `topics = "declared"` and `[topics."name"]`.
//!
//! TOML does not let one key be a string and a table. So that a manifest may say both, the line
//! with the string is taken out of the text first, leaving the lines' numbers as they are.

use super::section::Section;
use std::borrow::Cow;
use std::time::Duration;
use windlass_core::Topic;
use windlass_core::policy::DELAY_MAX;
use windlass_log::{RETAIN, TopicLimits, TopicsMode};

const TOPIC: (&[&str], &[&str]) =
    (&["max-messages", "max-bytes", "dedup-window", "retain", "max-age"], &[]);

/// What the manifest says about topics.
pub(crate) struct Said {
    /// Whether a publish may create one.
    pub mode: TopicsMode,
    /// Those that it names, with what they may hold.
    pub topics: Vec<(Topic, TopicLimits)>,
}

/// The text without a `topics = "..."` line above its first table, and the string that it gave,
/// where the text has `[topics...]` tables too.
pub(crate) fn split_mode(text: &str) -> (Cow<'_, str>, Option<&str>) {
    let has_tables = text.lines().any(|line| line.trim_start().starts_with("[topics"));
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if !has_tables || line.trim_start().starts_with('[') {
            break;
        }
        if let Some(mode) = mode_of(line) {
            let blank = " ".repeat(line.trim_end().len());
            let end = start + line.trim_end().len();
            return (Cow::Owned([&text[..start], &blank, &text[end..]].concat()), Some(mode));
        }
        start += line.len();
    }
    (Cow::Borrowed(text), None)
}

fn mode_of(line: &str) -> Option<&str> {
    let value = line.trim().strip_prefix("topics")?.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (mode, rest) = value[1..].split_once(quote)?;
    let rest = rest.trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(mode)
}

/// Reads `topics`, of which `split` is the mode where it was taken out of the text.
pub(crate) fn read(root: &Section<'_>, split: Option<&str>) -> Said {
    let mut mode = TopicsMode::Open;
    let mut topics = Vec::new();
    let mut said = |text: &str, at: &std::ops::Range<usize>| match text {
        "declared" => mode = TopicsMode::Declared,
        "open" => mode = TopicsMode::Open,
        _ => root.problem(at, "`topics` must be \"declared\" or \"open\""),
    };
    if let Some(text) = split {
        said(text, &(0..0));
    }
    let Some(value) = root.value("topics") else { return Said { mode, topics } };
    if let Some(text) = value.get_ref().as_str() {
        said(text, &value.span());
        return Said { mode, topics };
    }
    let Some(tables) = value.get_ref().as_table() else {
        root.wrong_kind("topics", value, "\"declared\", or tables such as [topics.\"orders\"]");
        return Said { mode, topics };
    };
    for (name, entry) in tables {
        let table = entry.get_ref().as_table();
        if table.is_none() {
            root.wrong_kind(name.get_ref(), entry, "a table");
        }
        let limits = table
            .map(|table| read_limits(&root.below("[topics.\"..\"]", table, entry.span(), TOPIC)));
        let limits = limits.unwrap_or_default();
        match Topic::new(name.get_ref()) {
            Ok(topic) => topics.push((topic, limits)),
            Err(error) => root.problem(&name.span(), error.to_string()),
        }
    }
    Said { mode, topics }
}

fn read_limits(section: &Section<'_>) -> TopicLimits {
    let default = TopicLimits::default();
    let span = |key| section.duration(key, Duration::from_secs(1), DELAY_MAX);
    let max_messages = section.count("max-messages", u32::MAX).map(u64::from);
    TopicLimits {
        max_messages: max_messages.unwrap_or(default.max_messages),
        max_bytes: section.size("max-bytes", 1).unwrap_or(default.max_bytes),
        dedup_window: span("dedup-window").unwrap_or(default.dedup_window),
        retain: span("retain").map(|span| (span, RETAIN.1)),
        max_age: span("max-age"),
    }
}
