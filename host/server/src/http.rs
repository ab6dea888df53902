//! Requests over HTTP: the one room that knows of it.
//!
//! Owns who may ask, the form of errors, and how long anything may take. What is asked is in the
//! files below, one an affair; they answer values and know no more of HTTP than a status.

mod answer;
mod health;
mod metrics;
mod publish;

use crate::drain::Phases;
use crate::metrics::Metrics;
use crate::serve::Desk;
use answer::Problem;
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use windlass_log::DynLog;

/// How long the head of a request may take, and the next one on the same connection.
const HEAD: Duration = Duration::from_secs(30);
/// How long a request may take from there, with what it sends.
const REQUEST: Duration = Duration::from_secs(30);
/// Connections at a time; more wait to be taken.
const CONNECTIONS_MAX: usize = 1_024;
/// When a connection is tried to be taken again after the system refused to.
const AGAIN: Duration = Duration::from_millis(100);

/// What requests are answered from.
pub(crate) struct Api {
    log: DynLog,
    desk: Arc<Desk>,
    metrics: Arc<Metrics>,
    phases: Phases,
}

impl Api {
    /// Answers from these.
    pub(crate) fn new(
        log: DynLog,
        desk: Arc<Desk>,
        metrics: Arc<Metrics>,
        phases: Phases,
    ) -> Arc<Self> {
        Arc::new(Self { log, desk, metrics, phases })
    }
}

/// Answers requests until the run ends; what was begun then is finished.
pub(crate) async fn serve(listener: TcpListener, api: Arc<Api>, phases: Phases) {
    let router = router(api);
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let graceful = GracefulShutdown::new();
    let mut http = http1::Builder::new();
    // With a timer a connection that sends no head is closed.
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    while let Some((stream, place)) = phases.or_drain(accept(&listener, &connections)).await {
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // One that breaks is its sender's affair.
            drop(connection.await);
            drop(place);
        });
    }
    graceful.shutdown().await;
}

/// The next connection, once there is a place for it.
async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let place = Arc::clone(connections).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
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
        .layer(middleware::from_fn(admit))
        .with_state(api)
}

/// Lets a request in: from here, and not for ever.
async fn admit(request: Request, next: Next) -> Response {
    if let Err(problem) = check_origin(request.headers()) {
        return problem.into_response();
    }
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
    use crate::drain::phases;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use windlass_log::clock::SystemClock;

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

    /// What a server answers to this, until it closes the connection.
    async fn answer(request: &str) -> String {
        let log = windlass_log::memory::MemoryLog::new(Arc::new(SystemClock));
        let (_stopper, phases) = phases();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let api = Api::new(log, Arc::default(), Arc::default(), phases.clone());
        let serving = tokio::spawn(serve(listener, api, phases));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        // One that is closed while it sends may be reset.
        drop(stream.read_to_string(&mut answer).await);
        serving.abort();
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn who_sends_nothing_more_is_not_waited_for_without_end() {
        let head = "POST /v1/topics/t/messages HTTP/1.1\r\nHost: localhost\r\n";
        let no_head = answer(head).await;
        assert!(!no_head.contains(" 201 "), "{no_head}");
        let body = answer(&format!("{head}Content-Length: 5\r\n\r\nab")).await;
        assert!(body.starts_with("HTTP/1.1 408 ") && body.contains("\"timeout\""), "{body}");
        let whole = answer(&format!("{head}Content-Length: 2\r\n\r\nab")).await;
        assert!(whole.starts_with("HTTP/1.1 201 "), "{whole}");
    }
}
