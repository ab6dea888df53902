//! What a server has counted since it started.

use super::Api;
use super::answer::Problem;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use std::sync::Arc;

/// The text that Prometheus reads.
const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics as text.
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Response {
    match api.metrics.text() {
        Ok(text) => ([(header::CONTENT_TYPE, TYPE)], text).into_response(),
        Err(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", error.to_string()).into_response()
        }
    }
}
