//! A live component in its store, and whether it may serve again.
//!
//! An instance is made for one delivery, or lent by the consumer that keeps warm ones. It is
//! never shared between consumers or revisions, and never used again after anything but `ok`.

use crate::bindings::{Guest, GuestError, GuestPre};
use crate::consumer::{InstancePolicy, Settings};
use crate::delivery::Delivery;
use crate::messaging::MessageRes;
use crate::store::{CALL_BYTES_MAX, Facts, StoreData};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Store;

pub(crate) struct Instance {
    store: Store<StoreData>,
    guest: Option<Guest>,
    born: Instant,
    deliveries: u32,
}

impl Instance {
    /// A store for `delivery`; the guest is instantiated when called.
    pub(crate) fn new(
        engine: &wasmtime::Engine,
        settings: &Arc<Settings>,
        delivery: Delivery,
    ) -> Self {
        let mut store = Store::new(engine, StoreData::new(settings, delivery));
        store.limiter(|data| &mut data.limiter);
        store.set_hostcall_fuel(CALL_BYTES_MAX);
        // Before instantiation: the deadline of a new store has passed already.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|store| store.data().on_tick());
        Self { store, guest: None, born: Instant::now(), deliveries: 0 }
    }

    /// Readies a warm instance for another delivery.
    pub(crate) fn begin(&mut self, delivery: Delivery) {
        self.store.set_epoch_deadline(1);
        let data = self.store.data_mut();
        data.limiter.begin();
        data.meter.reset();
        data.delivery = delivery;
        data.facts = Facts::default();
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
        let message = data.hold_message(MessageRes::delivered(&data.delivery))?;
        data.facts.entered = true;
        guest.wasi_messaging_incoming_handler().call_handle(&mut self.store, message).await
    }

    pub(crate) fn data(&self) -> &StoreData {
        self.store.data()
    }

    pub(crate) fn data_mut(&mut self) -> &mut StoreData {
        self.store.data_mut()
    }

    /// Whether it may serve once more, judged when a delivery is over and again before the next.
    pub(crate) fn may_serve(&self, policy: &InstancePolicy) -> bool {
        let InstancePolicy::Warm { messages, age } = policy else { return false };
        let data = self.data();
        self.deliveries < messages.get()
            && self.born.elapsed() < *age
            && !data.limiter.is_nearly_full()
            && data.tombstones < data.settings.limits.resources / 4
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
        data.kept_bytes = 0;
    }
}
