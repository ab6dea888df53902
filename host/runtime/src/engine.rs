//! The engine: how code is compiled and where instances live.
//!
//! The one place that builds a wasmtime `Config`, so that what compiles and what runs always
//! agree. Owns the linker with everything a guest may import, and the epoch ticker.

use crate::bindings;
use crate::cache::Cache;
use crate::store::StoreData;
use crate::ticker::{Running, Ticker};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wasmtime::component::Linker;
use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

/// Kept resident of each memory, table and stack slot: what a small guest touches. Resetting it
/// is cheaper than giving it back to the system and faulting it in again.
const KEEP_RESIDENT: usize = 64 << 10;
/// Python and JavaScript guests pass wasmtime's 20,000.
const TABLE_ELEMENTS: usize = 200_000;
/// The same guests pass wasmtime's 1 MiB.
const INSTANCE_BYTES: usize = 8 << 20;
/// Core instances a component has at most, on average over a full pool: a Rust guest has 3,
/// a Go one 5, Python some dozens.
const CORE_INSTANCES_EACH: u32 = 16;
/// Address space of a memory without the pool, where that is short.
const SMALL_RESERVATION: u64 = 64 << 20;

/// What an engine is sized by.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Instances alive at a time, warm idle ones included. A pool slot takes about 12 GiB of
    /// address space, and memory only once used.
    pub instances_max: u32,
    /// Whether instances live in a pool made beforehand; without, each is mapped anew.
    pub pooling: bool,
    /// A folder for compiled code, of this user alone; without, everything is compiled anew.
    pub cache: Option<PathBuf>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { instances_max: 1_000, pooling: true, cache: None }
    }
}

/// Where instances live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// In a pool made beforehand.
    Pooling,
    /// Each is mapped when needed, which is slower.
    OnDemand {
        /// Why there is no pool.
        why: String,
    },
}

/// The engine could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine does not start: {0}")]
pub struct EngineError(String);

/// Compiles components and runs them. Cheap to clone; the ticker ends with the last clone.
#[derive(Clone)]
pub struct Engine(Arc<Inner>);

struct Inner {
    wasm: wasmtime::Engine,
    linker: Linker<StoreData>,
    ticker: Ticker,
    allocation: Allocation,
    instances_max: u32,
    cache: Option<Cache>,
    /// Warm instances that wait for a message, over all consumers.
    idle: AtomicUsize,
}

impl Engine {
    /// Makes an engine, with a pool where the address space allows one.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let fault = |error: wasmtime::Error| EngineError(format!("{error:#}"));
        let (wasm, allocation) = allocate(config).map_err(fault)?;
        let linker = bindings::linker(&wasm).map_err(fault)?;
        let ticker = Ticker::start(wasm.weak()).map_err(|error| EngineError(error.to_string()))?;
        let instances_max = config.instances_max;
        let idle = AtomicUsize::new(0);
        let cache = config.cache.as_ref().map(|folder| Cache::new(folder, &wasm));
        let inner = Inner { wasm, linker, ticker, allocation, instances_max, cache, idle };
        Ok(Self(Arc::new(inner)))
    }

    /// Where instances live.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        &self.0.allocation
    }

    /// How many instances may be alive at a time.
    #[must_use]
    pub fn instances_max(&self) -> u32 {
        self.0.instances_max
    }

    /// Whether the epoch ticker sleeps: it does, soon after the last invocation ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.0.ticker.is_asleep()
    }

    pub(crate) fn cache(&self) -> Option<&Cache> {
        self.0.cache.as_ref()
    }

    pub(crate) fn wasm(&self) -> &wasmtime::Engine {
        &self.0.wasm
    }

    pub(crate) fn linker(&self) -> &Linker<StoreData> {
        &self.0.linker
    }

    /// Whether one more warm instance may wait; counts it if so. At most half of all may, so
    /// that idle consumers leave room to those with work.
    pub(crate) fn may_keep_idle(&self) -> bool {
        let most = (self.0.instances_max / 2) as usize;
        let kept = self.0.idle.fetch_add(1, Ordering::Relaxed) < most;
        if !kept {
            self.idle_ended(1);
        }
        kept
    }

    /// So many wait no longer.
    pub(crate) fn idle_ended(&self, count: usize) {
        self.0.idle.fetch_sub(count, Ordering::Relaxed);
    }

    /// Epochs pass while the answer lives.
    pub(crate) fn running(&self) -> Running<'_> {
        self.0.ticker.running()
    }
}

fn allocate(config: &EngineConfig) -> wasmtime::Result<(wasmtime::Engine, Allocation)> {
    let why = if config.pooling {
        match wasmtime::Engine::new(&wasm_config(Some(config.instances_max))) {
            Ok(engine) => return Ok((engine, Allocation::Pooling)),
            Err(error) => format!("{error:#}"),
        }
    } else {
        "switched off".to_owned()
    };
    let engine = wasmtime::Engine::new(&wasm_config(None))?;
    Ok((engine, Allocation::OnDemand { why }))
}

/// The only `Config` there is. `pool`: how many instances, or none for no pool.
fn wasm_config(pool: Option<u32>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    if let Some(instances) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool_config(instances)));
    } else {
        config.memory_reservation(SMALL_RESERVATION);
        config.memory_reservation_for_growth(SMALL_RESERVATION);
        config.memory_guard_size(KEEP_RESIDENT as u64);
    }
    config
}

fn pool_config(instances: u32) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(CORE_INSTANCES_EACH))
        .total_memories(instances.saturating_mul(2))
        .total_tables(instances.saturating_mul(4))
        .total_stacks(instances)
        .max_component_instance_size(INSTANCE_BYTES)
        .max_core_instance_size(INSTANCE_BYTES)
        .max_memories_per_module(8)
        .max_tables_per_module(8)
        .table_elements(TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT)
        .async_stack_keep_resident(KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    pool
}
