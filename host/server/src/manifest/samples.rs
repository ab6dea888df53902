//! `[[dev.samples]]`: messages that `windlass dev` publishes at its start.

use super::section::Section;
use bytes::Bytes;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use windlass_core::message::{DATA_BYTES_MAX, HOST_KEY_PREFIX};
use windlass_core::policy::DELAY_MAX;
use windlass_core::{Metadata, NewMessage, Topic};

const SAMPLE: (&[&str], &[&str]) =
    (&["topic", "data", "file", "content-type", "metadata", "key", "delay", "dedup-id"], &[]);

/// Content type of a sample's `data`.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of a sample's `file`.
pub(crate) const BINARY: &str = "application/octet-stream";

/// Whether a publisher may set this metadata.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    match key {
        "" => Err("a metadata key is empty".to_owned()),
        key if key.starts_with(HOST_KEY_PREFIX) => {
            Err(format!("metadata `{key}`: `{HOST_KEY_PREFIX}` keys are the host's"))
        }
        _ => Ok(()),
    }
}

/// Whether a publisher may give this content type: it becomes a header elsewhere.
pub(crate) fn check_content_type(content_type: &str) -> Result<(), &'static str> {
    if content_type.trim().is_empty() {
        Err("the content type is empty")
    } else if content_type.contains(char::is_control) {
        Err("the content type has a control character")
    } else {
        Ok(())
    }
}

/// A sample's file, never more than a message may have.
fn read_file(folder: &Path, file: &str) -> Result<Vec<u8>, String> {
    let mut data = Vec::new();
    std::fs::File::open(folder.join(file))
        .and_then(|input| input.take(DATA_BYTES_MAX as u64 + 1).read_to_end(&mut data))
        .map_err(|error| format!("`{file}`: {error}"))?;
    if data.len() > DATA_BYTES_MAX {
        let most = bytesize::ByteSize(DATA_BYTES_MAX as u64);
        return Err(format!("`{file}` is larger than the {most} of data a message may have"));
    }
    Ok(data)
}

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
            .parsed("file", |file| read_file(folder, file))
            .map(|data| (Bytes::from(data), BINARY)),
    };
    let metadata = read_metadata(&section);
    let content_type =
        section.parsed("content-type", |text| check_content_type(text).map(|()| text.to_owned()));
    let field = |key| {
        section.parsed(key, |text| match text {
            "" => Err("it is empty"),
            text => Ok(text.to_owned()),
        })
    };
    let (key, dedup_id) = (field("key"), field("dedup-id"));
    let delay = section.duration("delay", Duration::ZERO, DELAY_MAX);
    let (data, usual_type) = body?;
    let mut message = NewMessage::new(topic?, data);
    message.content_type = Some(content_type.unwrap_or_else(|| usual_type.to_owned()));
    message.metadata = metadata;
    (message.key, message.dedup_id, message.delay) = (key, dedup_id, delay);
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
    if let Some(problem) = metadata.iter().find_map(|(key, _)| check_key(key).err()) {
        section.problem(&value.span(), problem);
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
