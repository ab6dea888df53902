//! Requests over HTTP: the one room that knows of it.
//!
//! Owns who may ask, the form of errors, and how long anything may take. What is asked is in the
//! files below, one an affair; they answer values and know no more of HTTP than a status.

mod answer;
mod health;
mod publish;

use crate::drain::{Phase, Phases};
use crate::serve::Desk;
use answer::Problem;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use windlass_log::DynLog;

/// How long a request may take, with what it sends.
const REQUEST: Duration = Duration::from_secs(30);
/// Requests answered at a time; more are told to come again.
const REQUESTS_MAX: usize = 1_024;

/// What requests are answered from.
pub(crate) struct Api {
    log: DynLog,
    desk: Arc<Desk>,
    phases: Phases,
    requests: Semaphore,
}

impl Api {
    /// Answers from this log and desk.
    pub(crate) fn new(log: DynLog, desk: Arc<Desk>, phases: Phases) -> Arc<Self> {
        Arc::new(Self { log, desk, phases, requests: Semaphore::new(REQUESTS_MAX) })
    }
}

/// Answers requests until the run ends.
pub(crate) async fn serve(listener: TcpListener, api: Arc<Api>, phases: Phases) {
    let ended = async move { phases.reached(Phase::Drain).await };
    if let Err(error) = axum::serve(listener, router(api)).with_graceful_shutdown(ended).await {
        tracing::error!(%error, "requests are not answered any more");
    }
}

fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/v1/topics/{topic}/messages", post(publish::publish))
        .fallback(async |uri: Uri| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "no-such-path",
                format!("there is no `{}`", uri.path()),
            )
        })
        .method_not_allowed_fallback(async || {
            let text = "this path does not take this method".to_owned();
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", text)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&api), admit))
        .with_state(api)
}

/// Lets a request in: from here, not too many at a time, and not for ever.
async fn admit(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    if let Err(problem) = check_origin(request.headers()) {
        return problem.into_response();
    }
    let Ok(_admitted) = api.requests.try_acquire() else {
        let text = format!("{REQUESTS_MAX} requests are being answered");
        return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "busy", text).again().into_response();
    };
    tokio::time::timeout(REQUEST, next.run(request)).await.unwrap_or_else(|_| {
        let text = format!("the request was not done within {} s", REQUEST.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", text).again().into_response()
    })
}

/// A page in somebody's browser must not reach a log on the same machine, by whatever name it calls
/// it: `Host` and `Origin` must name this machine.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let foreign = |name: &str| {
        let text = format!("`{name}` names another machine");
        Problem::new(StatusCode::FORBIDDEN, "foreign", text)
    };
    let text = |name: header::HeaderName| {
        headers.get(name).map(|value| value.to_str().unwrap_or("?").to_owned())
    };
    if !text(header::HOST).is_some_and(|host| is_here(&host)) {
        return Err(foreign("Host"));
    }
    match text(header::ORIGIN) {
        None => Ok(()),
        Some(origin) => match origin.split_once("://") {
            Some((_, host)) if is_here(host) => Ok(()),
            Some(_) | None => Err(foreign("Origin")),
        },
    }
}

/// Whether a host, with or without a port, is this machine by a name that nobody else can give out.
fn is_here(host: &str) -> bool {
    let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_let_in() {
        for (host, expected) in [
            ("localhost", true),
            ("LOCALHOST:7400", true),
            ("127.0.0.1:7400", true),
            ("127.1.2.3", true),
            ("[::1]:7400", true),
            ("[::1]", true),
            ("example.com", false),
            ("localhost.example.com", false),
            ("10.0.0.1:7400", false),
            ("[2001:db8::1]:7400", false),
            ("", false),
            ("?", false),
        ] {
            assert_eq!(is_here(host), expected, "{host}");
        }
        let headers = |pairs: &[(&str, &str)]| -> HeaderMap {
            let name = |name: &str| header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            pairs.iter().map(|(key, value)| (name(key), value.parse().unwrap())).collect()
        };
        let host = ("host", "localhost:7400");
        for (pairs, expected) in [
            (&[host][..], true),
            (&[host, ("origin", "http://localhost:3000")], true),
            (&[host, ("origin", "https://example.com")], false),
            (&[host, ("origin", "null")], false),
            (&[], false),
        ] {
            assert_eq!(check_origin(&headers(pairs)).is_ok(), expected, "{pairs:?}");
        }
    }
}
