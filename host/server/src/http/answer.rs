//! The form of answers: JSON, and errors with a code, a sentence, and whether to try again.

use crate::storage::chain;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use windlass_log::LogError;

/// How long who may try again should wait, in seconds.
const RETRY_AFTER: HeaderValue = HeaderValue::from_static("1");

/// A request that was not done.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    code: &'static str,
    text: String,
    retry: bool,
}

impl Problem {
    /// One that will be answered again as it stands.
    pub(super) fn new(status: StatusCode, code: &'static str, text: String) -> Self {
        Self { status, code, text, retry: false }
    }

    /// The same request may be done later.
    pub(super) fn again(self) -> Self {
        Self { retry: true, ..self }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self { status, code, text, retry } = self;
        let body = json!({ "error": { "code": code, "message": text, "retry": retry } });
        let mut response = Json(status, body).into_response();
        if retry {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER);
        }
        response
    }
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        let (status, code, retry) = match &error {
            LogError::TooLarge { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", false),
            LogError::QuotaFull { .. } => (StatusCode::TOO_MANY_REQUESTS, "quota-full", true),
            LogError::StorageFull { .. } => {
                (StatusCode::INSUFFICIENT_STORAGE, "storage-full", true)
            }
            LogError::Unavailable { .. } => (StatusCode::SERVICE_UNAVAILABLE, "unavailable", true),
            LogError::Closed => (StatusCode::SERVICE_UNAVAILABLE, "closed", true),
            LogError::UndeclaredTopic(_) => (StatusCode::NOT_FOUND, "undeclared-topic", false),
            LogError::NoTopic(_) | LogError::NoGroup { .. } | LogError::NoMessage(_) => {
                (StatusCode::NOT_FOUND, "not-found", false)
            }
            LogError::HoldsMore { .. }
            | LogError::TopicNotEmpty { .. }
            | LogError::BusyGroup { .. }
            | LogError::GroupHasDead { .. } => (StatusCode::CONFLICT, "conflict", false),
            LogError::ReadOnly => (StatusCode::FORBIDDEN, "read-only", false),
            LogError::Exhausted(_) => (StatusCode::INSUFFICIENT_STORAGE, "exhausted", false),
        };
        Self { status, code, text: chain(&error), retry }
    }
}

/// A body of JSON.
pub(super) struct Json<T>(pub(super) StatusCode, pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let Self(status, body) = self;
        // Bodies are ours: they have nothing that JSON cannot say.
        let text = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        let kind = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
