//! Messages as JSON: what they carry, and what became of their attempts.

use super::{AttemptBody, when};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use windlass_core::{History, Message, Metadata};
use windlass_log::{ReadGap, ReadMessage};

/// What a stored message carries. All null where its record cannot be read.
#[derive(Debug, Default, Serialize)]
pub(crate) struct ContentBody {
    published_at: Option<String>,
    content_type: Option<String>,
    key: Option<String>,
    metadata: Option<Metadata>,
    size: Option<u64>,
    #[serde(flatten)]
    data: DataBody,
}

/// Data as text where it is UTF-8, else as base64.
#[derive(Debug, Default, Serialize)]
pub(super) struct DataBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

impl DataBody {
    pub(super) fn new(data: &[u8]) -> Self {
        match std::str::from_utf8(data) {
            Ok(text) => Self { data: Some(text.to_owned()), data_base64: None },
            Err(_) => Self { data: None, data_base64: Some(STANDARD.encode(data)) },
        }
    }
}

impl ContentBody {
    /// All but the data.
    pub(crate) fn brief(message: Option<&Message>) -> Self {
        let Some(message) = message else { return Self::default() };
        Self {
            published_at: Some(when(message.published_at)),
            content_type: message.content_type.clone(),
            key: message.key.clone(),
            metadata: Some(message.metadata.clone()),
            size: Some(message.size()),
            data: DataBody::default(),
        }
    }

    /// All of it.
    pub(crate) fn whole(message: Option<&Message>) -> Self {
        let data = message.map(|message| DataBody::new(&message.data)).unwrap_or_default();
        Self { data, ..Self::brief(message) }
    }
}

/// A message in `tail`.
#[derive(Debug, Serialize)]
pub(crate) struct StreamedBody<'a> {
    topic: &'a str,
    id: String,
    #[serde(flatten)]
    content: ContentBody,
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<String>,
}

impl<'a> StreamedBody<'a> {
    /// One message of `topic`.
    pub(crate) fn new(topic: &'a str, read: &ReadMessage) -> Self {
        Self {
            topic,
            id: read.id.to_string(),
            content: ContentBody::whole(read.message.as_deref()),
            due: read.due.map(|due| when(due.0)),
        }
    }
}

/// What a `tail` can no longer have. The figures are the last part of ids.
#[derive(Debug, Serialize)]
pub(crate) struct GapBody<'a> {
    topic: &'a str,
    gap: GapRange,
}

#[derive(Debug, Serialize)]
struct GapRange {
    after: String,
    through: String,
}

impl<'a> GapBody<'a> {
    /// A gap in `topic`.
    pub(crate) fn new(topic: &'a str, gap: &ReadGap) -> Self {
        let [after, through] = [gap.after, gap.through].map(|at| format!("{:016x}", at.0));
        Self { topic, gap: GapRange { after, through } }
    }
}

/// What became of attempts.
#[derive(Debug, Serialize)]
pub(super) struct HistoryBody {
    history: Vec<AttemptBody>,
    history_omitted: u32,
}

impl From<&History> for HistoryBody {
    fn from(history: &History) -> Self {
        Self {
            history: history.attempts.iter().map(AttemptBody::from).collect(),
            history_omitted: history.omitted,
        }
    }
}
