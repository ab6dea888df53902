//! `POST /v1/topics/{topic}/messages`: the body is the message's data, headers are the rest.

use super::Api;
use super::answer::{Json, Problem};
use crate::manifest::{BINARY, check_content_type, check_key};
use crate::wire::PublishedBody;
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use std::sync::Arc;
use std::time::Duration;
use windlass_core::message::DATA_BYTES_MAX;
use windlass_core::policy::DELAY_MAX;
use windlass_core::{Metadata, NewMessage, Topic};

const KEY: &str = "windlass-key";
const DEDUP_ID: &str = "windlass-dedup-id";
const DELAY: &str = "windlass-delay-ms";
const META: &str = "windlass-meta-";
/// What GitHub says about a webhook beside its body.
const GITHUB: &str = "x-github-";

pub(super) async fn publish(
    State(api): State<Arc<Api>>,
    Path(topic): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<PublishedBody>, Problem> {
    let topic = Topic::new(&topic)
        .map_err(|error| Problem::new(StatusCode::BAD_REQUEST, "bad-name", error.to_string()))?;
    let mut message = message(topic, &headers)?;
    message.data = data(&headers, body).await?;
    let published = api.log.publish(vec![message]).await?;
    let Some(published) = published.first() else {
        return Err(windlass_log::LogError::Closed.into());
    };
    let status = if published.duplicate { StatusCode::OK } else { StatusCode::CREATED };
    let (id, duplicate) = (published.id.to_string(), published.duplicate);
    Ok(Json(status, PublishedBody { id, duplicate }))
}

/// All of the body, never more than a message may have.
async fn data(headers: &HeaderMap, body: Body) -> Result<bytes::Bytes, Problem> {
    let too_large = || {
        let text = format!("a message may have {DATA_BYTES_MAX} bytes of data");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", text)
    };
    let said = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if said.and_then(|said| said.parse::<u64>().ok()).is_some_and(|n| n > DATA_BYTES_MAX as u64) {
        return Err(too_large());
    }
    to_bytes(body, DATA_BYTES_MAX).await.map_err(|error| {
        let text = error.to_string();
        if text.contains("length limit") {
            return too_large();
        }
        let text = format!("the body did not come whole: {text}");
        Problem::new(StatusCode::BAD_REQUEST, "bad-body", text).again()
    })
}

/// Everything but the data.
fn message(topic: Topic, headers: &HeaderMap) -> Result<NewMessage, Problem> {
    let mut message = NewMessage::new(topic, "");
    let kind = match headers.get(header::CONTENT_TYPE) {
        Some(value) => text(&header::CONTENT_TYPE, value)?,
        None => BINARY,
    };
    check_content_type(kind).map_err(|why| bad(&header::CONTENT_TYPE, why))?;
    message.content_type = Some(kind.to_owned());
    message.metadata = metadata(headers)?;
    for (name, value) in headers {
        match name.as_str() {
            KEY => message.key = Some(field(name, value)?),
            DEDUP_ID => message.dedup_id = Some(field(name, value)?),
            DELAY => message.delay = Some(delay(name, value)?),
            other if other.starts_with("windlass-") && !other.starts_with(META) => {
                let why = "there is no such header; a pair of metadata is `windlass-meta-NAME`";
                return Err(bad(name, why));
            }
            _ => {}
        }
    }
    Ok(message)
}

fn metadata(headers: &HeaderMap) -> Result<Metadata, Problem> {
    let mut metadata = Metadata::new();
    for (name, value) in headers {
        let key = match name.as_str().strip_prefix(META) {
            Some(key) => key,
            None if name.as_str().starts_with(GITHUB) => name.as_str(),
            None => continue,
        };
        check_key(key).map_err(|why| bad(name, why))?;
        metadata.push((key.to_owned(), text(name, value)?.to_owned()));
    }
    Ok(metadata)
}

fn text<'v>(name: &HeaderName, value: &'v HeaderValue) -> Result<&'v str, Problem> {
    std::str::from_utf8(value.as_bytes()).map_err(|_| bad(name, "it is not UTF-8"))
}

fn field(name: &HeaderName, value: &HeaderValue) -> Result<String, Problem> {
    match text(name, value)? {
        "" => Err(bad(name, "it is empty")),
        text => Ok(text.to_owned()),
    }
}

fn delay(name: &HeaderName, value: &HeaderValue) -> Result<Duration, Problem> {
    let ms = text(name, value)?.trim().parse();
    let delay =
        Duration::from_millis(ms.map_err(|_| bad(name, "it is no number of milliseconds"))?);
    if delay > DELAY_MAX {
        return Err(bad(name, "it is longer than 365 days"));
    }
    Ok(delay)
}

fn bad(name: &HeaderName, why: impl std::fmt::Display) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "bad-header", format!("`{name}`: {why}"))
}
