//! What a store holds beside the guest: its WASI, its resources, its limits, and what happened
//! in the invocation that runs.
//!
//! Owns the limiter. Who may call what is in `messaging` and `send`; what it all came to is for
//! `classify` to say.

use crate::consumer::Settings;
use crate::delivery::Delivery;
use crate::meter::Meter;
use crate::output::Capture;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::{Resource, ResourceTable, ResourceTableError};
use wasmtime::{ResourceLimiter, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use windlass_core::{Limits, NewMessage};

/// Most bytes one call may copy from the guest to the host: all metadata of a message, with
/// room for the pairs themselves. Message data is not among it, see `messaging::link_uncopied`.
pub(crate) const CALL_BYTES_MAX: usize = 2 << 20;
/// Most bytes of randomness in one call.
const RANDOM_BYTES_MAX: u64 = 1 << 20;
/// Table elements over all tables; 8 bytes each.
const TABLE_ELEMENTS_MAX: usize = 1 << 20;
/// Core instances, memories and tables of one component. Python guests have some dozens.
const PARTS_MAX: usize = 1_000;

/// Why the host stopped a guest; the root of the error that then ends the call.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum Stopped {
    #[error("the memory limit is reached")]
    OutOfMemory,
    #[error("the CPU limit is reached")]
    OutOfCpu,
    #[error("the wall-clock limit is reached")]
    TimedOut,
    #[error("{0}")]
    TooMuch(String),
}

/// The last of `reject` and `retry-after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LastWord {
    Reject(String),
    RetryAfter(Duration),
}

/// What happened so far in one invocation.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Whether `handle` was entered.
    pub(crate) entered: bool,
    /// The first grant that was refused, as written in the manifest.
    pub(crate) grant_refused: Option<String>,
    /// What there was too much of.
    pub(crate) too_much: Option<String>,
    /// Where a send beyond the last hop would have gone.
    pub(crate) hops_exceeded: Option<String>,
    /// Why a send found no room.
    pub(crate) full: Option<String>,
    pub(crate) last_word: Option<LastWord>,
    /// Sends that go with the ack.
    pub(crate) sends: Vec<NewMessage>,
    /// Sends of either kind.
    pub(crate) sent: u32,
    pub(crate) sent_bytes: u64,
}

pub(crate) struct StoreData {
    wasi: WasiCtx,
    pub(crate) table: ResourceTable,
    pub(crate) limiter: Limiter,
    pub(crate) meter: Arc<Meter>,
    pub(crate) capture: Capture,
    pub(crate) settings: Arc<Settings>,
    pub(crate) delivery: Delivery,
    pub(crate) facts: Facts,
    /// Messages the guest holds.
    pub(crate) messages: u32,
    /// Messages of earlier deliveries that a warm guest holds still.
    pub(crate) tombstones: u32,
}

impl StoreData {
    pub(crate) fn new(settings: &Arc<Settings>, delivery: Delivery) -> Self {
        let limits = &settings.limits;
        let capture = Capture::new(limits.output_bytes);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.resources as usize);
        Self {
            wasi: wasi(settings, &capture),
            table,
            limiter: Limiter::new(limits),
            meter: Arc::new(Meter::new()),
            capture,
            settings: Arc::clone(settings),
            delivery,
            facts: Facts::default(),
            messages: 0,
            tombstones: 0,
        }
    }

    /// Called at each epoch while the guest computes: lets others run, or stops it.
    pub(crate) fn on_tick(&self) -> wasmtime::Result<UpdateDeadline> {
        if self.meter.so_far() >= self.settings.limits.cpu {
            return Err(Stopped::OutOfCpu.into());
        }
        if tokio::time::Instant::now() >= self.delivery.deadline {
            return Err(Stopped::TimedOut.into());
        }
        Ok(UpdateDeadline::YieldCustom(1, Box::pin(tokio::task::yield_now())))
    }

    /// Gives the guest a handle for `entry`.
    pub(crate) fn hold<T: Send + 'static>(&mut self, entry: T) -> wasmtime::Result<Resource<T>> {
        self.table.push(entry).map_err(|error| {
            if matches!(error, ResourceTableError::Full) {
                return self.stop(too_many_resources(&self.settings.limits));
            }
            error.into()
        })
    }

    /// Counts bytes that a message keeps on our side.
    pub(crate) fn charge(&mut self, bytes: usize) -> wasmtime::Result<()> {
        if self.limiter.keep(bytes as u64) {
            return Ok(());
        }
        let most = self.settings.limits.memory_bytes;
        Err(self.stop(format!(
            "its memory and the messages it holds take more than {most} bytes (limits.memory)"
        )))
    }

    /// An error that ends the call because there was too much of something.
    fn stop(&mut self, text: String) -> wasmtime::Error {
        self.facts.too_much.get_or_insert_with(|| text.clone());
        Stopped::TooMuch(text).into()
    }
}

pub(crate) fn too_many_resources(limits: &Limits) -> String {
    format!("it held more than {} resources at a time (limits.resources)", limits.resources)
}

pub(crate) fn too_much_in_a_call() -> String {
    format!("it handed over more than {CALL_BYTES_MAX} bytes in one call of the host")
}

fn wasi(settings: &Settings, capture: &Capture) -> WasiCtx {
    let mut builder = WasiCtx::builder();
    builder
        .stdout(capture.stdout())
        .stderr(capture.stderr())
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false);
    if !settings.grants.env.is_empty() {
        builder.envs(&settings.grants.env);
    }
    builder.build()
}

impl WasiView for StoreData {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// Bounds what an instance takes: all its memories and what its messages keep on our side, added
/// up.
#[derive(Debug)]
pub(crate) struct Limiter {
    used: u64,
    /// What `used` was before the growth that is under way.
    before: u64,
    peak: u64,
    /// Bytes of the messages the guest keeps on our side.
    kept: u64,
    most: u64,
    table_elements: usize,
}

impl Limiter {
    fn new(limits: &Limits) -> Self {
        let most = limits.memory_bytes;
        Self { used: 0, before: 0, peak: 0, kept: 0, most, table_elements: 0 }
    }

    /// The most that was used since `begin`.
    pub(crate) fn peak(&self) -> u64 {
        self.peak
    }

    /// A new invocation of a warm instance starts with what there is.
    pub(crate) fn begin(&mut self) {
        self.peak = self.used;
    }

    /// Whether more than three quarters are used.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.used.saturating_add(self.kept) > self.most / 4 * 3
    }

    /// Counts bytes that a message keeps; whether they fit.
    fn keep(&mut self, bytes: u64) -> bool {
        self.kept = self.kept.saturating_add(bytes);
        self.used.saturating_add(self.kept) <= self.most
    }

    /// The counterpart of [`Limiter::keep`].
    pub(crate) fn release(&mut self, bytes: usize) {
        self.kept = self.kept.saturating_sub(bytes as u64);
    }

    /// Messages keep nothing any more.
    pub(crate) fn release_all(&mut self) {
        self.kept = 0;
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let grown = desired.saturating_sub(current) as u64;
        let after = self.used.saturating_add(grown);
        if after.saturating_add(self.kept) > self.most {
            return Err(Stopped::OutOfMemory.into());
        }
        self.before = self.used;
        self.used = after;
        self.peak = self.peak.max(after);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used = self.before;
        Ok(())
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let after = self.table_elements.saturating_add(desired.saturating_sub(current));
        if after > TABLE_ELEMENTS_MAX || maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.table_elements = after;
        Ok(true)
    }

    fn instances(&self) -> usize {
        PARTS_MAX
    }

    fn tables(&self) -> usize {
        PARTS_MAX
    }

    fn memories(&self) -> usize {
        PARTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_kept_messages_share_one_limit() {
        let mut limiter = Limiter::new(&Limits { memory_bytes: 100, ..Limits::default() });
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.keep(40));
        assert!(limiter.is_nearly_full());
        assert!(limiter.memory_growing(60, 61, None).is_err(), "messages take the rest");
        limiter.release(10);
        assert!(limiter.memory_growing(60, 70, None).unwrap());
        assert!(!limiter.keep(1), "the memory takes the rest");
        limiter.release_all();
        assert!(!limiter.is_nearly_full());
        assert_eq!(limiter.peak(), 70);
    }
}
