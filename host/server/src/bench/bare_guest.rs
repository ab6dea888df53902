//! The bare machine under a component host: instantiating and calling one handler, with a store
//! such as ours (limits, captured output, a timeout) and nothing around it.

use super::figures::rate;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use wasmtime::component::{Component, HasSelf, Linker, Resource, ResourceTable};
use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    StoreLimits, StoreLimitsBuilder,
};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

mod generated {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        clippy::pedantic,
        clippy::wildcard_enum_match_arm,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::allow_attributes_without_reason,
        reason = "made by bindgen"
    )]
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "windlass:messaging/consumer",
        // As in the reference loop, where every import may wait.
        imports: { default: async | trappable },
        exports: { default: async },
        with: {
            "wasi:messaging/types.message": super::Message,
            "wasi:messaging/types.client": super::Client,
        },
    });
}

use generated::ConsumerPre;
use generated::wasi::messaging::types;

const MEMORY_BYTES: usize = 64 << 20;
const OUTPUT_BYTES: usize = 64 << 10;
const KEEP_RESIDENT: usize = 64 << 10;
const WALL: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(10);

/// A message as the guest sees it.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "bindgen re-exports it as public")]
pub struct Message(Vec<u8>);

/// What the guest never makes.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "bindgen re-exports it as public")]
pub struct Client;

struct Data {
    wasi: WasiCtx,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for Data {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

type Wasm<T> = wasmtime::Result<T>;

impl types::Host for Data {}

impl types::HostClient for Data {
    async fn connect(&mut self, _: String) -> Wasm<Result<Resource<Client>, types::Error>> {
        Ok(Ok(self.table.push(Client)?))
    }

    async fn disconnect(&mut self, _: Resource<Client>) -> Wasm<Result<(), types::Error>> {
        Ok(Ok(()))
    }

    async fn drop(&mut self, client: Resource<Client>) -> Wasm<()> {
        self.table.delete(client)?;
        Ok(())
    }
}

impl types::HostMessage for Data {
    async fn new(&mut self, data: Vec<u8>) -> Wasm<Resource<Message>> {
        Ok(self.table.push(Message(data))?)
    }

    async fn topic(&mut self, _: Resource<Message>) -> Wasm<Option<String>> {
        Ok(None)
    }

    async fn content_type(&mut self, _: Resource<Message>) -> Wasm<Option<String>> {
        Ok(None)
    }

    async fn set_content_type(&mut self, _: Resource<Message>, _: String) -> Wasm<()> {
        Ok(())
    }

    async fn data(&mut self, message: Resource<Message>) -> Wasm<Vec<u8>> {
        Ok(self.table.get(&message)?.0.clone())
    }

    async fn set_data(&mut self, message: Resource<Message>, data: Vec<u8>) -> Wasm<()> {
        self.table.get_mut(&message)?.0 = data;
        Ok(())
    }

    async fn metadata(&mut self, _: Resource<Message>) -> Wasm<Option<Vec<(String, String)>>> {
        Ok(None)
    }

    async fn add_metadata(&mut self, _: Resource<Message>, _: String, _: String) -> Wasm<()> {
        Ok(())
    }

    async fn set_metadata(&mut self, _: Resource<Message>, _: Vec<(String, String)>) -> Wasm<()> {
        Ok(())
    }

    async fn remove_metadata(&mut self, _: Resource<Message>, _: String) -> Wasm<()> {
        Ok(())
    }

    async fn drop(&mut self, message: Resource<Message>) -> Wasm<()> {
        self.table.delete(message)?;
        Ok(())
    }
}

/// The component, ready to be instantiated.
#[derive(Clone)]
pub(super) struct BareGuest {
    engine: Engine,
    pre: ConsumerPre<Data>,
    payload: usize,
}

impl BareGuest {
    /// Compiles `component` for a pool of instances.
    pub(super) fn new(component: &[u8], payload: usize) -> Wasm<Self> {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(1000)
            .total_core_instances(3000)
            .total_memories(1000)
            .total_tables(2000)
            .total_stacks(1000)
            .linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(KEEP_RESIDENT)
            .async_stack_keep_resident(KEEP_RESIDENT)
            .pagemap_scan(Enabled::Auto);
        let mut config = Config::new();
        config.epoch_interruption(true);
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config)?;
        let weak = engine.weak();
        std::thread::spawn(move || {
            while let Some(engine) = weak.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        });
        let component = Component::new(&engine, component)?;
        let mut linker: Linker<Data> = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
        types::add_to_linker::<_, HasSelf<_>>(&mut linker, |data| data)?;
        let pre = ConsumerPre::new(linker.instantiate_pre(&component)?)?;
        Ok(Self { engine, pre, payload })
    }

    fn store(&self) -> Store<Data> {
        let wasi = WasiCtx::builder()
            .stdout(MemoryOutputPipe::new(OUTPUT_BYTES))
            .stderr(MemoryOutputPipe::new(OUTPUT_BYTES))
            .build();
        let limits = StoreLimitsBuilder::new().memory_size(MEMORY_BYTES).build();
        let data = Data { wasi, table: ResourceTable::new(), limits };
        let mut store = Store::new(&self.engine, data);
        store.limiter(|data| &mut data.limits);
        store.set_epoch_deadline(1000);
        store.epoch_deadline_async_yield_and_update(10);
        store
    }

    async fn call(&self) -> anyhow::Result<()> {
        let mut store = self.store();
        let called = async {
            let guest = self.pre.instantiate_async(&mut store).await?;
            let message = store.data_mut().table.push(Message(vec![7; self.payload]))?;
            guest.wasi_messaging_incoming_handler().call_handle(&mut store, message).await
        };
        match tokio::time::timeout(WALL, called).await? {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => anyhow::bail!("the component answered {error:?}"),
            Err(error) => anyhow::bail!("the component failed: {error:#}"),
        }
    }

    /// Calls a fresh instance for each of `messages` on `threads` tasks; calls a second.
    pub(super) async fn fresh(
        self: &Arc<Self>,
        messages: usize,
        threads: usize,
    ) -> anyhow::Result<f64> {
        let since = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..threads {
            let guest = Arc::clone(self);
            tasks.spawn(async move {
                for _ in 0..messages / threads {
                    guest.call().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        Ok(rate(messages / threads * threads, since.elapsed()))
    }
}
