//! A live component in its store, and whether it may serve again.
//!
//! An instance is made for one delivery, or lent by the consumer that keeps warm ones. It is
//! never shared between consumers or revisions, and never used again after anything but `ok`.

use crate::bindings::{Guest, GuestError, GuestPre};
use crate::consumer::{InstancePolicy, Settings};
use crate::delivery::Delivery;
use crate::messaging::MessageRes;
use crate::pool::Slots;
use crate::store::{CALL_BYTES_MAX, Facts, StoreData};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Store;
use wasmtime::component::Resource;

pub(crate) struct Instance {
    store: Store<StoreData>,
    guest: Option<Guest>,
    /// What a warm one is to be handed next.
    message: Option<Resource<MessageRes>>,
    born: Instant,
    deliveries: u32,
    /// Last, as it is given back when the store is gone.
    slots: Slots,
}

impl Instance {
    /// A store for `delivery`; the guest is instantiated when called.
    pub(crate) fn new(
        engine: &wasmtime::Engine,
        settings: &Arc<Settings>,
        delivery: Delivery,
        slots: Slots,
    ) -> Self {
        let mut store = Store::new(engine, StoreData::new(settings, delivery));
        store.limiter(|data| &mut data.limiter);
        store.set_hostcall_fuel(CALL_BYTES_MAX);
        // Before instantiation: the deadline of a new store has passed already.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|store| store.data().on_tick());
        Self { store, guest: None, message: None, born: Instant::now(), deliveries: 0, slots }
    }

    /// Readies a warm instance for another delivery; whether it has room for that. Without, it
    /// can only be dropped: what it holds is of earlier deliveries and no fault of this one.
    pub(crate) fn begin(&mut self, delivery: Delivery) -> bool {
        self.store.set_epoch_deadline(1);
        let data = self.store.data_mut();
        data.limiter.begin();
        data.meter.reset();
        data.delivery = delivery;
        data.facts = Facts::default();
        self.message = data.hold_message(MessageRes::delivered(&data.delivery)).ok();
        self.message.is_some()
    }

    /// Instantiates where that was not done yet, and calls `handle`. When this is dropped halfway
    /// the instance can only be dropped as well.
    pub(crate) async fn handle(
        &mut self,
        pre: &GuestPre<StoreData>,
    ) -> wasmtime::Result<Result<(), GuestError>> {
        let guest = match &mut self.guest {
            Some(guest) => guest,
            none => none.insert(pre.instantiate_async(&mut self.store).await?),
        };
        self.deliveries += 1;
        let data = self.store.data_mut();
        let message = match self.message.take() {
            Some(message) => message,
            None => data.hold_message(MessageRes::delivered(&data.delivery))?,
        };
        data.facts.entered = true;
        guest.wasi_messaging_incoming_handler().call_handle(&mut self.store, message).await
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn data(&self) -> &StoreData {
        self.store.data()
    }

    pub(crate) fn data_mut(&mut self) -> &mut StoreData {
        self.store.data_mut()
    }

    /// Whether it may serve once more, judged when a delivery is over: it must have left room to
    /// the next, in memory and among its resources of every kind.
    pub(crate) fn may_serve(&mut self, policy: &InstancePolicy) -> bool {
        let InstancePolicy::Warm { messages, .. } = policy else { return false };
        let data = self.store.data_mut();
        self.deliveries < messages.get()
            && !data.limiter.is_nearly_full()
            && data.table.iter_mut().count() < data.settings.limits.resources as usize / 2
            && !self.is_old(policy)
    }

    /// Whether its life is over, however little it served.
    pub(crate) fn is_old(&self, policy: &InstancePolicy) -> bool {
        match policy {
            InstancePolicy::Fresh => true,
            InstancePolicy::Warm { age, .. } => self.born.elapsed() >= *age,
        }
    }

    /// Empties every message the guest kept: its handle must never reach another's message.
    pub(crate) fn bury_messages(&mut self) {
        let data = self.store.data_mut();
        if data.messages == data.tombstones {
            return;
        }
        for entry in data.table.iter_mut() {
            if let Some(message) = (entry as &mut dyn std::any::Any).downcast_mut::<MessageRes>() {
                message.bury();
            }
        }
        data.tombstones = data.messages;
        data.limiter.release_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consumer::SendMode;
    use crate::engine::{Engine, EngineConfig};
    use crate::messaging::ClientRes;
    use crate::pool::Needs;
    use std::num::NonZeroU32;
    use std::time::Duration;
    use windlass_core::{Grants, Limits, Message, MessageId, Sequence, Timestamp, Topic};

    const WARM: InstancePolicy =
        InstancePolicy::Warm { messages: NonZeroU32::MAX, age: Duration::from_mins(1) };

    fn delivery() -> Delivery {
        let message = Message {
            id: MessageId { millis: Timestamp(1), sequence: Sequence(1) },
            topic: Topic::new("t").unwrap(),
            data: "x".into(),
            content_type: None,
            metadata: vec![],
            key: None,
            published_at: 0,
            hops: 0,
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(1);
        Delivery { message: Arc::new(message), attempt: 1, deadline }
    }

    /// One whose guest keeps this many clients.
    fn with_clients(count: u32) -> Instance {
        let engine =
            Engine::new(&EngineConfig { instances_max: 1, pooling: false, ..<_>::default() })
                .unwrap();
        let limits = Limits { resources: 100, ..Limits::default() };
        let (grants, sends) = (Grants::default(), SendMode::WithAck);
        let settings = Arc::new(Settings { limits, grants, sends });
        let slots = engine.pool().try_take(Needs { memories: 1, tables: 1 }).unwrap();
        let mut instance = Instance::new(engine.wasm(), &settings, delivery(), slots);
        for _ in 0..count {
            instance.data_mut().hold(ClientRes { connected: true }).unwrap();
        }
        instance
    }

    #[test]
    fn resources_of_every_kind_count_against_serving_again() {
        for (clients, expected) in [(0, true), (49, true), (50, false), (100, false)] {
            assert_eq!(with_clients(clients).may_serve(&WARM), expected, "{clients}");
        }
        assert!(!with_clients(0).may_serve(&InstancePolicy::Fresh));
    }

    #[test]
    fn one_that_has_no_room_for_a_message_says_so() {
        assert!(with_clients(99).begin(delivery()));
        assert!(!with_clients(100).begin(delivery()));
    }

    #[test]
    fn a_life_ends_at_its_age() {
        let instance = with_clients(0);
        assert!(!instance.is_old(&WARM));
        let short = InstancePolicy::Warm { messages: NonZeroU32::MAX, age: Duration::ZERO };
        assert!(instance.is_old(&short));
    }
}
