//! What a guest prints: stdout and stderr in the order written, bounded.
//!
//! Also keeps the end of stderr apart, where a panic or an exception is told. Writing always
//! succeeds; what is over the limit is counted and dropped, so printing is never a failure.

use bytes::Bytes;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// How much of stderr's end is kept for a trap's text.
const TAIL_BYTES: usize = 4 << 10;
/// Most bytes taken in one write.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// What an invocation printed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// The first bytes, as text; what is not UTF-8 is replaced.
    pub text: String,
    /// How many bytes over the limit were dropped behind it.
    pub dropped_bytes: u64,
}

#[derive(Debug, Default)]
struct Buffer {
    kept: Vec<u8>,
    most: usize,
    dropped: u64,
    stderr_tail: Vec<u8>,
}

/// One store's output, shared with its two streams.
#[derive(Debug, Clone, Default)]
pub(crate) struct Capture(Arc<Mutex<Buffer>>);

impl Capture {
    pub(crate) fn new(most: u64) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self(Arc::new(Mutex::new(Buffer { most, ..Buffer::default() })))
    }

    pub(crate) fn stdout(&self) -> Stream {
        Stream { capture: self.clone(), stderr: false }
    }

    pub(crate) fn stderr(&self) -> Stream {
        Stream { capture: self.clone(), stderr: true }
    }

    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was printed so far; nothing is left.
    pub(crate) fn take(&self) -> Output {
        let mut buffer = self.lock();
        buffer.stderr_tail.clear();
        let kept = std::mem::take(&mut buffer.kept);
        let text = String::from_utf8(kept)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Output { text, dropped_bytes: std::mem::take(&mut buffer.dropped) }
    }

    /// The last words on stderr: from where a panic begins, if one is told.
    pub(crate) fn last_words(&self) -> String {
        let buffer = self.lock();
        let tail = String::from_utf8_lossy(&buffer.stderr_tail);
        let from =
            tail.rfind("panicked at").map_or(0, |at| tail[..at].rfind('\n').map_or(0, |n| n + 1));
        tail[from..]
            .lines()
            .filter(|line| !line.starts_with("note: run with `RUST_BACKTRACE"))
            .collect::<Vec<_>>()
            .join("\n")
            .trim()
            .to_owned()
    }
}

impl Buffer {
    fn write(&mut self, bytes: &[u8], stderr: bool) {
        let room = self.most.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(&bytes[..room]);
        self.dropped += (bytes.len() - room) as u64;
        if stderr {
            let last = &bytes[bytes.len().saturating_sub(TAIL_BYTES)..];
            self.stderr_tail.extend_from_slice(last);
            let over = self.stderr_tail.len().saturating_sub(TAIL_BYTES);
            self.stderr_tail.drain(..over);
        }
    }
}

/// The guest's end of stdout or stderr.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    capture: Capture,
    stderr: bool,
}

impl Stream {
    fn put(&self, bytes: &[u8]) {
        self.capture.lock().write(bytes, self.stderr);
    }
}

impl IsTerminal for Stream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.put(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.put(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
