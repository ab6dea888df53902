//! The pool that instances live in: how large it is, and who may take from it.
//!
//! A full pool is an error in wasmtime, in the midst of a start. So nobody starts an instance
//! before all it takes is his: what is not there is waited for. Warm instances that only wait for a
//! message hold at most half of everything, so that those with work always find something that
//! comes back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{Enabled, PoolingAllocationConfig, ResourcesRequired};

/// Kept resident of each memory, table and stack slot: what a small guest touches. Resetting it
/// is cheaper than giving it back to the system and faulting it in again.
const KEEP_RESIDENT: usize = 64 << 10;
/// Python and JavaScript guests pass wasmtime's 20,000.
const TABLE_ELEMENTS: usize = 200_000;
/// The same guests pass wasmtime's 1 MiB.
const INSTANCE_BYTES: usize = 8 << 20;
/// Memories and tables of one module.
const PER_MODULE: u32 = 8;

/// What one instance of a component takes from a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Needs {
    /// Linear memories.
    pub memories: u32,
    /// Tables.
    pub tables: u32,
}

impl Default for Needs {
    /// More than what Rust, Go and C guests take.
    fn default() -> Self {
        Self { memories: 2, tables: 4 }
    }
}

impl Needs {
    /// What wasmtime says of a component; nothing of one that brings no modules of its own.
    pub(crate) fn of(resources: Option<&ResourcesRequired>) -> Self {
        let (memories, tables) = resources.map_or((0, 0), |all| (all.num_memories, all.num_tables));
        Self { memories, tables }
    }

    /// Enough for one of either.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self { memories: self.memories.max(other.memories), tables: self.tables.max(other.tables) }
    }

    /// Some more, so that what comes next is likely to fit.
    #[must_use]
    pub fn rounded_up(self) -> Self {
        let up = |count: u32| count.checked_next_power_of_two().unwrap_or(count);
        Self { memories: up(self.memories), tables: up(self.tables) }
    }
}

/// What there is in a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolSize {
    /// Instances alive at a time, each with a stack of its own.
    pub instances: u32,
    /// Linear memories of all of them.
    pub memories: u32,
    /// Tables of all of them.
    pub tables: u32,
}

impl PoolSize {
    /// So many instances that take `each` on average.
    pub(crate) fn of(instances: u32, each: Needs) -> Self {
        let all = |each: u32| instances.saturating_mul(each).max(PER_MODULE);
        Self { instances, memories: all(each.memories), tables: all(each.tables) }
    }

    fn one(needs: Needs) -> Self {
        Self { instances: 1, memories: needs.memories, tables: needs.tables }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            instances: self.instances.saturating_add(other.instances),
            memories: self.memories.saturating_add(other.memories),
            tables: self.tables.saturating_add(other.tables),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            instances: self.instances.saturating_sub(other.instances),
            memories: self.memories.saturating_sub(other.memories),
            tables: self.tables.saturating_sub(other.tables),
        }
    }

    /// Whether it is no more than half of `all`, in nothing.
    fn is_half_of(self, all: Self) -> bool {
        self.instances <= all.instances / 2
            && self.memories <= all.memories / 2
            && self.tables <= all.tables / 2
    }

    pub(crate) fn config(self) -> PoolingAllocationConfig {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(self.instances)
            // These take no room of the pool: the system's memory and the store's limiter bound them.
            .total_core_instances(u32::MAX)
            .total_memories(self.memories)
            .total_tables(self.tables)
            .total_stacks(self.instances)
            .max_component_instance_size(INSTANCE_BYTES)
            .max_core_instance_size(INSTANCE_BYTES)
            .max_memories_per_module(PER_MODULE)
            .max_tables_per_module(PER_MODULE)
            .table_elements(TABLE_ELEMENTS)
            .linear_memory_keep_resident(KEEP_RESIDENT)
            .table_keep_resident(KEEP_RESIDENT)
            .async_stack_keep_resident(KEEP_RESIDENT)
            .pagemap_scan(Enabled::Auto);
        pool
    }
}

/// Who may have an instance.
#[derive(Debug)]
pub(crate) struct Pool {
    size: PoolSize,
    instances: Arc<Semaphore>,
    memories: Arc<Semaphore>,
    tables: Arc<Semaphore>,
    /// What warm instances hold that wait for a message, over all consumers.
    idle: Mutex<PoolSize>,
}

/// What one instance holds; to be dropped behind it.
#[derive(Debug)]
pub(crate) struct Slots {
    needs: Needs,
    _permits: [OwnedSemaphorePermit; 3],
}

impl Pool {
    /// One of this size. Without a pool of wasmtime's only the instances are bounded.
    pub(crate) fn new(size: PoolSize) -> Self {
        let semaphore = |count: u32| Arc::new(Semaphore::new(count as usize));
        Self {
            size,
            instances: semaphore(size.instances),
            memories: semaphore(size.memories),
            tables: semaphore(size.tables),
            idle: Mutex::default(),
        }
    }

    pub(crate) fn size(&self) -> PoolSize {
        self.size
    }

    /// Whether an instance can ever be had beside idle ones.
    pub(crate) fn serves(&self, needs: Needs) -> bool {
        needs.memories <= self.size.memories && needs.tables <= self.size.tables
    }

    /// What one instance takes, where that is free and nobody waits for it.
    pub(crate) fn try_take(&self, needs: Needs) -> Option<Slots> {
        let take = |from: &Arc<Semaphore>, count| from.clone().try_acquire_many_owned(count).ok();
        let permits = [
            take(&self.instances, 1)?,
            take(&self.memories, needs.memories)?,
            take(&self.tables, needs.tables)?,
        ];
        Some(Slots { needs, _permits: permits })
    }

    /// The same once it is free, in the order of asking. All ask in the same order of resources,
    /// so that nobody waits in a ring. None where there is no pool any more.
    pub(crate) async fn take(&self, needs: Needs) -> Option<Slots> {
        let take =
            async |from: &Arc<Semaphore>, count| from.clone().acquire_many_owned(count).await;
        let permits = [
            take(&self.instances, 1).await.ok()?,
            take(&self.memories, needs.memories).await.ok()?,
            take(&self.tables, needs.tables).await.ok()?,
        ];
        Some(Slots { needs, _permits: permits })
    }

    fn idle(&self) -> MutexGuard<'_, PoolSize> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the holder of `slots` may wait for a message; counts it if so. All that wait hold at
    /// most half of everything.
    pub(crate) fn may_idle(&self, slots: &Slots) -> bool {
        let mut idle = self.idle();
        let with = idle.plus(PoolSize::one(slots.needs));
        let may = with.is_half_of(self.size);
        if may {
            *idle = with;
        }
        may
    }

    /// The holder of `slots` waits no longer.
    pub(crate) fn idle_ended(&self, slots: &Slots) {
        let mut idle = self.idle();
        *idle = idle.minus(PoolSize::one(slots.needs));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Needs = Needs { memories: 1, tables: 3 };

    #[test]
    fn a_pool_has_what_its_instances_take() {
        let size = |instances, memories, tables| PoolSize { instances, memories, tables };
        assert_eq!(PoolSize::of(1_000, Needs::default()), size(1_000, 2_000, 4_000));
        assert_eq!(PoolSize::of(10, Needs { memories: 3, tables: 40 }), size(10, 30, 400));
        assert_eq!(PoolSize::of(1, ONE), size(1, PER_MODULE, PER_MODULE), "a module must fit");
        assert_eq!(PoolSize::of(u32::MAX, ONE).tables, u32::MAX);
    }

    #[test]
    fn what_one_lacks_it_takes_nothing_of() {
        let pool = Pool::new(PoolSize { instances: 4, memories: 4, tables: 7 });
        let held = [pool.try_take(ONE).unwrap(), pool.try_take(ONE).unwrap()];
        assert!(pool.try_take(ONE).is_none(), "one table is left");
        assert!(pool.try_take(Needs { memories: 2, tables: 1 }).is_some());
        drop(held);
        let all = Needs { memories: 4, tables: 7 };
        assert!(pool.serves(all) && pool.try_take(all).is_some());
        assert!(!pool.serves(Needs { memories: 5, tables: 0 }));
    }

    #[tokio::test]
    async fn who_waits_is_served_before_who_comes_later() {
        let pool = Arc::new(Pool::new(PoolSize { instances: 1, memories: 8, tables: 8 }));
        let held = pool.try_take(ONE).unwrap();
        let mut waiting = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move { pool.take(ONE).await }
        });
        tokio::task::yield_now().await;
        drop(held);
        assert!(pool.try_take(ONE).is_none(), "it is the other's");
        assert!((&mut waiting).await.unwrap().is_some());
    }

    #[test]
    fn those_that_wait_hold_half_at_most() {
        let pool = Pool::new(PoolSize { instances: 10, memories: 10, tables: 14 });
        let take = || pool.try_take(ONE).unwrap();
        let [a, b, c] = [take(), take(), take()];
        assert!(pool.may_idle(&a) && pool.may_idle(&b));
        assert!(!pool.may_idle(&c), "9 of 14 tables");
        pool.idle_ended(&a);
        assert!(pool.may_idle(&c));
    }
}
