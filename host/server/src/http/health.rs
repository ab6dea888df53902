//! Whether this server is alive, and whether all that is deployed is served.

use super::Api;
use super::answer::Json;
use crate::drain::Phase;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// A log that does not answer for so long is not well.
const PATIENCE: Duration = Duration::from_secs(5);

/// The log can be read. A server that is not alive is to be started anew.
pub(super) async fn alive(State(api): State<Arc<Api>>) -> Response {
    let reading = tokio::time::timeout(PATIENCE, api.log.deployed_version()).await;
    let why = match reading {
        Ok(Ok(_)) => return Json(StatusCode::OK, json!({ "ok": true })).into_response(),
        Ok(Err(error)) => crate::storage::chain(&error),
        Err(_) => format!("the log did not answer for {} s", PATIENCE.as_secs()),
    };
    let body = json!({ "ok": false, "reasons": [why] });
    Json(StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}

/// All that is deployed runs, and storage takes messages. A server that is not ready may become so
/// by itself.
pub(super) async fn ready(State(api): State<Arc<Api>>) -> Response {
    let mut reasons = api.desk.reasons();
    if api.phases.now() >= Phase::Drain {
        reasons.push("the server is ending".to_owned());
    }
    if reasons.is_empty() {
        return Json(StatusCode::OK, json!({ "ready": true })).into_response();
    }
    let body = json!({ "ready": false, "reasons": reasons });
    Json(StatusCode::SERVICE_UNAVAILABLE, body).into_response()
}
