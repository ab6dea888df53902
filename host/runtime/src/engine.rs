//! The engine: how code is compiled and where instances live.
//!
//! The one place that builds a wasmtime `Config`, so that what compiles and what runs always
//! agree. Owns the linker with everything a guest may import, and the epoch ticker.

use crate::bindings;
use crate::cache::Cache;
use crate::pool::{Needs, Pool, PoolSize};
use crate::store::StoreData;
use crate::ticker::{Running, Ticker};
use std::path::PathBuf;
use std::sync::Arc;
use wasmtime::component::Linker;
use wasmtime::{Config, InstanceAllocationStrategy};

/// Address space of a memory without the pool, where that is short, and of what guards it.
const SMALL_RESERVATION: u64 = 64 << 20;
const SMALL_GUARD: u64 = 64 << 10;

/// What an engine is sized by.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Instances alive at a time, warm idle ones included. With the default needs a pool takes
    /// about 12 GiB of address space for each, and memory only once used.
    pub instances_max: u32,
    /// What one takes from the pool on average. A component that needs more runs as well, in fewer
    /// instances at a time.
    pub each: Needs,
    /// Whether instances live in a pool made beforehand; without, each is mapped anew.
    pub pooling: bool,
    /// A folder for compiled code, of this user alone; without, everything is compiled anew.
    pub cache: Option<PathBuf>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { instances_max: 1_000, each: Needs::default(), pooling: true, cache: None }
    }
}

/// Where instances live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allocation {
    /// In a pool made beforehand.
    Pooling(PoolSize),
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
    pool: Pool,
    cache: Option<Cache>,
}

impl Engine {
    /// Makes an engine, with a pool where the address space allows one.
    pub fn new(config: &EngineConfig) -> Result<Self, EngineError> {
        let fault = |error: wasmtime::Error| EngineError(format!("{error:#}"));
        let (wasm, allocation) = allocate(config).map_err(fault)?;
        let linker = bindings::linker(&wasm).map_err(fault)?;
        let ticker = Ticker::start(wasm.weak()).map_err(|error| EngineError(error.to_string()))?;
        let pool = Pool::new(match allocation {
            Allocation::Pooling(size) => size,
            Allocation::OnDemand { .. } => {
                PoolSize { instances: config.instances_max, memories: u32::MAX, tables: u32::MAX }
            }
        });
        let cache = config.cache.as_ref().map(|folder| Cache::new(folder, &wasm));
        let inner = Inner { wasm, linker, ticker, allocation, pool, cache };
        Ok(Self(Arc::new(inner)))
    }

    /// Where instances live.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        &self.0.allocation
    }

    /// Whether instances that take `needs` may be as many as any; a component that needs more is
    /// run as well, in fewer at a time.
    #[must_use]
    pub fn is_sized_for(&self, needs: Needs) -> bool {
        match self.0.allocation {
            Allocation::Pooling(size) => {
                PoolSize::of(size.instances, needs).memories <= size.memories
                    && PoolSize::of(size.instances, needs).tables <= size.tables
            }
            Allocation::OnDemand { .. } => true,
        }
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

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Epochs pass while the answer lives.
    pub(crate) fn running(&self) -> Running<'_> {
        self.0.ticker.running()
    }
}

fn allocate(config: &EngineConfig) -> wasmtime::Result<(wasmtime::Engine, Allocation)> {
    let why = if config.pooling {
        let size = PoolSize::of(config.instances_max, config.each);
        match wasmtime::Engine::new(&wasm_config(Some(size))) {
            Ok(engine) => return Ok((engine, Allocation::Pooling(size))),
            Err(error) => format!("{error:#}"),
        }
    } else {
        "switched off".to_owned()
    };
    let engine = wasmtime::Engine::new(&wasm_config(None))?;
    Ok((engine, Allocation::OnDemand { why }))
}

/// The only `Config` there is. `pool`: its size, or none for no pool.
fn wasm_config(pool: Option<PoolSize>) -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    if let Some(size) = pool {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(size.config()));
    } else {
        config.memory_reservation(SMALL_RESERVATION);
        config.memory_reservation_for_growth(SMALL_RESERVATION);
        config.memory_guard_size(SMALL_GUARD);
    }
    config
}
