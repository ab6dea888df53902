//! `[[dev.samples]]`: messages that `windlass dev` publishes at its start.

use super::section::Section;
use bytes::Bytes;
use std::path::Path;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_core::{Metadata, NewMessage, Topic, message::HOST_KEY_PREFIX};

const SAMPLE: (&[&str], &[&str]) =
    (&["topic", "data", "file", "content-type", "metadata"], &["key", "delay", "dedup-id"]);

/// Content type of a sample's `data`.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of a sample's `file`.
pub(crate) const BINARY: &str = "application/octet-stream";

/// Reads one sample; nothing when it is not whole.
pub(crate) fn read<'a>(
    dev: &Section<'a>,
    table: &'a DeTable<'a>,
    at: std::ops::Range<usize>,
    folder: &Path,
) -> Option<NewMessage> {
    let section = dev.below("[[dev.samples]]", table, at, SAMPLE);
    let named = section.needed_text("topic").is_some();
    let topic = if named { section.parsed("topic", Topic::new) } else { None };
    let body = match (section.value("data"), section.value("file")) {
        (Some(_), Some(_)) | (None, None) => {
            section.problem(section.at(), "[[dev.samples]] needs `data` or `file`, one of them");
            None
        }
        (Some(_), None) => {
            section.text("data").map(|text| (Bytes::from(text.value.to_owned()), TEXT))
        }
        (None, Some(_)) => section
            .parsed("file", |file| {
                std::fs::read(folder.join(file)).map_err(|error| format!("`{file}`: {error}"))
            })
            .map(|data| (Bytes::from(data), BINARY)),
    };
    let metadata = read_metadata(&section);
    let content_type = section.text("content-type").map(|text| text.value.to_owned());
    let (data, usual_type) = body?;
    let mut message = NewMessage::new(topic?, data);
    message.content_type = Some(content_type.unwrap_or_else(|| usual_type.to_owned()));
    message.metadata = metadata;
    if let Err(error) = message.check_sizes() {
        section.problem(section.at(), error.to_string());
        return None;
    }
    Some(message)
}

/// A table of texts, or a list of pairs where a key stands twice.
fn read_metadata(section: &Section<'_>) -> Metadata {
    let Some(value) = section.value("metadata") else { return Vec::new() };
    let metadata = match value.get_ref() {
        DeValue::Table(table) => section.open("metadata", table, value.span()).pairs(),
        DeValue::Array(pairs) => {
            let read: Option<Metadata> = pairs.iter().map(pair).collect();
            read.unwrap_or_else(|| {
                section.wrong_kind("metadata", value, "a list of pairs such as [[\"k\", \"v\"]]");
                Vec::new()
            })
        }
        DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_) => {
            section.wrong_kind("metadata", value, "a table");
            Vec::new()
        }
    };
    if let Some((key, _)) = metadata.iter().find(|(key, _)| key.starts_with(HOST_KEY_PREFIX)) {
        section.problem(
            &value.span(),
            format!("metadata `{key}`: `{HOST_KEY_PREFIX}` keys are the host's"),
        );
    }
    metadata
}

fn pair(value: &Spanned<DeValue<'_>>) -> Option<(String, String)> {
    let items = value.get_ref().as_array()?;
    let mut texts = items.iter().map(|item| item.get_ref().as_str());
    match (texts.next()?, texts.next()?, texts.next()) {
        (Some(key), Some(value), None) => Some((key.to_owned(), value.to_owned())),
        _ => None,
    }
}
