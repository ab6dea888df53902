//! The host's side of `wasi:messaging`: messages and clients as a guest sees them.
//!
//! Owns what a message keeps and its bounds. Sending is in `send`.

use crate::bindings::{GuestError, request_reply_host, types_host};
use crate::delivery::Delivery;
use crate::store::StoreData;
use bytes::Bytes;
use wasmtime::component::{Linker, Resource, WasmList};
use windlass_core::Metadata;
use windlass_core::message::{DATA_BYTES_MAX, FIELD_BYTES_MAX, METADATA_BYTES_MAX, MessageError};

/// Most pairs of metadata: the pairs themselves take room on the host, empty ones too.
const METADATA_PAIRS_MAX: usize = 4_096;

/// Most bytes that pairs of the host's take beside them.
const HOST_METADATA_BYTES_MAX: usize = 4 << 10;

/// A message a guest holds.
#[derive(Debug, Default)]
#[expect(unreachable_pub, reason = "bindgen re-exports it as public")]
pub struct MessageRes {
    /// Where it came from, for the one that was delivered.
    pub(crate) delivered: Option<Delivery>,
    pub(crate) data: Bytes,
    pub(crate) content_type: Option<String>,
    /// What the guest set; none where it set nothing.
    pub(crate) metadata: Option<Metadata>,
    /// Parts that were too large, in the order data, content type, metadata. The constructor and
    /// the setters cannot fail, so `send` says it.
    faults: [Option<String>; 3],
    /// It belonged to an earlier delivery of a warm instance.
    tombstone: bool,
    /// What it was charged for.
    pub(crate) charged: usize,
}

/// A client: stands for nothing, but may be given up.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "bindgen re-exports it as public")]
pub struct ClientRes {
    pub(crate) connected: bool,
}

/// Options of a request.
#[derive(Debug)]
#[expect(unreachable_pub, reason = "bindgen re-exports it as public")]
pub struct RequestOptionsRes;

/// Data as it comes from a guest; of too much only the length is kept.
enum Data {
    Kept(Bytes),
    TooLarge(usize),
}

impl Data {
    fn from_guest(data: &[u8]) -> Self {
        if data.len() > DATA_BYTES_MAX {
            Self::TooLarge(data.len())
        } else {
            Self::Kept(Bytes::copy_from_slice(data))
        }
    }
}

fn fault(what: &'static str, found: usize, most: usize) -> Option<String> {
    (found > most).then(|| MessageError { what, found, most }.to_string())
}

impl MessageRes {
    pub(crate) fn delivered(delivery: &Delivery) -> Self {
        Self {
            delivered: Some(delivery.clone()),
            data: delivery.message.data.clone(),
            content_type: delivery.message.content_type.clone(),
            ..Self::default()
        }
    }

    /// Empties it for good: the delivery it belonged to is over, its handle is not.
    pub(crate) fn bury(&mut self) {
        *self = Self { tombstone: true, ..Self::default() };
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        self.tombstone
    }

    /// Why it cannot be sent.
    pub(crate) fn fault(&self) -> Option<String> {
        if self.tombstone {
            return Some("the message belongs to an earlier delivery".to_owned());
        }
        self.faults.iter().flatten().next().cloned()
    }

    fn set_data(&mut self, data: Data) {
        (self.data, self.faults[0]) = match data {
            Data::Kept(bytes) => (bytes, None),
            Data::TooLarge(found) => (Bytes::new(), fault("data", found, DATA_BYTES_MAX)),
        };
    }

    fn set_content_type(&mut self, content_type: String) {
        self.faults[1] = fault("content type", content_type.len(), FIELD_BYTES_MAX);
        self.content_type = self.faults[1].is_none().then_some(content_type);
    }

    pub(crate) fn all_metadata(&self) -> Option<Metadata> {
        match (&self.metadata, &self.delivered) {
            (Some(own), _) => Some(own.clone()),
            (None, Some(delivery)) => Some(delivery.metadata()),
            (None, None) => None,
        }
    }

    /// The metadata, made the guest's own.
    fn own_metadata(&mut self) -> &mut Metadata {
        let delivered = &self.delivered;
        self.metadata
            .get_or_insert_with(|| delivered.as_ref().map(Delivery::metadata).unwrap_or_default())
    }

    fn set_metadata(&mut self, metadata: Metadata) {
        self.faults[2] = None;
        self.metadata = Some(metadata);
        self.bound_metadata();
    }

    fn add_metadata(&mut self, key: String, value: String) {
        if self.faults[2].is_none() {
            self.own_metadata().push((key, value));
            self.bound_metadata();
        }
    }

    fn remove_metadata(&mut self, key: &str) {
        self.own_metadata().retain(|(name, _)| name != key);
    }

    /// Drops metadata of which there is too much, and remembers that.
    fn bound_metadata(&mut self) {
        let Some(metadata) = &self.metadata else { return };
        let size = |pairs: &mut dyn Iterator<Item = &(String, String)>| -> usize {
            pairs.map(|(key, value)| key.len() + value.len()).sum()
        };
        // What the host added is dropped again on sending: a copy of it is not the guest's fault,
        // but neither a place to put more.
        let all = size(&mut metadata.iter());
        let own = size(&mut metadata.iter().filter(|(key, _)| !is_host_key(key)));
        let bytes = own.max(all.saturating_sub(HOST_METADATA_BYTES_MAX));
        let pairs = metadata.len();
        self.faults[2] = fault("metadata", bytes, METADATA_BYTES_MAX).or_else(|| {
            (pairs > METADATA_PAIRS_MAX).then(|| {
                format!("the message's metadata has {pairs} pairs; {METADATA_PAIRS_MAX} at most")
            })
        });
        if self.faults[2].is_some() {
            self.metadata = Some(Metadata::new());
        }
    }

    /// What it keeps on the host that is the guest's doing. The data of a delivery is shared.
    fn weight(&self) -> usize {
        let shared = self
            .delivered
            .as_ref()
            .is_some_and(|delivery| delivery.message.data.as_ptr() == self.data.as_ptr());
        let pairs = self.metadata.iter().flatten();
        let metadata: usize =
            pairs.map(|(key, value)| key.len() + value.len() + size_of::<(String, String)>()).sum();
        let data = if shared { 0 } else { self.data.len() };
        data + metadata + self.content_type.as_ref().map_or(0, String::len)
    }
}

/// Whether `key` is one the host adds to every delivery.
pub(crate) fn is_host_key(key: &str) -> bool {
    key.starts_with(windlass_core::message::HOST_KEY_PREFIX)
        && crate::delivery::HOST_KEYS.contains(&key)
}

impl StoreData {
    pub(crate) fn hold_message(
        &mut self,
        message: MessageRes,
    ) -> wasmtime::Result<Resource<MessageRes>> {
        let handle = self.hold(message)?;
        self.messages += 1;
        Ok(handle)
    }

    /// Takes a message from the guest.
    pub(crate) fn take_message(
        &mut self,
        handle: Resource<MessageRes>,
    ) -> wasmtime::Result<MessageRes> {
        let message = self.table.delete(handle)?;
        self.messages -= 1;
        self.tombstones -= u32::from(message.is_tombstone());
        self.limiter.release(message.charged);
        Ok(message)
    }

    /// Changes a message and charges what it keeps then. A tombstone stays empty.
    fn change(
        &mut self,
        handle: &Resource<MessageRes>,
        change: impl FnOnce(&mut MessageRes),
    ) -> wasmtime::Result<()> {
        let message = self.table.get_mut(handle)?;
        if message.is_tombstone() {
            return Ok(());
        }
        change(message);
        let (before, after) = (message.charged, message.weight());
        message.charged = after;
        self.limiter.release(before);
        self.charge(after)
    }

    fn new_message(&mut self, data: Data) -> wasmtime::Result<Resource<MessageRes>> {
        let mut message = MessageRes::default();
        message.set_data(data);
        message.charged = message.data.len();
        self.charge(message.charged)?;
        self.hold_message(message)
    }
}

/// Links the two functions that take message data so that it is looked at where it lies: data
/// of any length is answered as the contract says, and none too large is ever copied.
pub(crate) fn link_uncopied(linker: &mut Linker<StoreData>, types: &str) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    let mut instance = linker.instance(types)?;
    instance.func_wrap("[constructor]message", |mut store, (list,): (WasmList<u8>,)| {
        let data = Data::from_guest(list.as_le_slice(&store));
        Ok((store.data_mut().new_message(data)?,))
    })?;
    instance.func_wrap(
        "[method]message.set-data",
        |mut store, (handle, list): (Resource<MessageRes>, WasmList<u8>)| {
            let data = Data::from_guest(list.as_le_slice(&store));
            store.data_mut().change(&handle, |message| message.set_data(data))
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

impl types_host::Host for StoreData {}

impl types_host::HostClient for StoreData {
    fn connect(
        &mut self,
        _name: String,
    ) -> wasmtime::Result<Result<Resource<ClientRes>, GuestError>> {
        Ok(Ok(self.hold(ClientRes { connected: true })?))
    }

    fn disconnect(
        &mut self,
        client: Resource<ClientRes>,
    ) -> wasmtime::Result<Result<(), GuestError>> {
        self.table.get_mut(&client)?.connected = false;
        Ok(Ok(()))
    }

    fn drop(&mut self, client: Resource<ClientRes>) -> wasmtime::Result<()> {
        self.table.delete(client)?;
        Ok(())
    }
}

impl types_host::HostMessage for StoreData {
    fn new(&mut self, data: Vec<u8>) -> wasmtime::Result<Resource<MessageRes>> {
        self.new_message(Data::from_guest(&data))
    }

    fn topic(&mut self, message: Resource<MessageRes>) -> wasmtime::Result<Option<String>> {
        let delivered = &self.table.get(&message)?.delivered;
        Ok(delivered.as_ref().map(|delivery| delivery.message.topic.to_string()))
    }

    fn content_type(&mut self, message: Resource<MessageRes>) -> wasmtime::Result<Option<String>> {
        Ok(self.table.get(&message)?.content_type.clone())
    }

    fn set_content_type(
        &mut self,
        message: Resource<MessageRes>,
        content_type: String,
    ) -> wasmtime::Result<()> {
        self.change(&message, |message| message.set_content_type(content_type))
    }

    fn data(&mut self, message: Resource<MessageRes>) -> wasmtime::Result<Vec<u8>> {
        Ok(self.table.get(&message)?.data.to_vec())
    }

    fn set_data(&mut self, message: Resource<MessageRes>, data: Vec<u8>) -> wasmtime::Result<()> {
        self.change(&message, |message| message.set_data(Data::from_guest(&data)))
    }

    fn metadata(&mut self, message: Resource<MessageRes>) -> wasmtime::Result<Option<Metadata>> {
        Ok(self.table.get(&message)?.all_metadata())
    }

    fn add_metadata(
        &mut self,
        message: Resource<MessageRes>,
        key: String,
        value: String,
    ) -> wasmtime::Result<()> {
        self.change(&message, |message| message.add_metadata(key, value))
    }

    fn set_metadata(
        &mut self,
        message: Resource<MessageRes>,
        metadata: Metadata,
    ) -> wasmtime::Result<()> {
        self.change(&message, |message| message.set_metadata(metadata))
    }

    fn remove_metadata(
        &mut self,
        message: Resource<MessageRes>,
        key: String,
    ) -> wasmtime::Result<()> {
        self.change(&message, |message| message.remove_metadata(&key))
    }

    fn drop(&mut self, message: Resource<MessageRes>) -> wasmtime::Result<()> {
        self.take_message(message).map(drop)
    }
}

impl request_reply_host::HostRequestOptions for StoreData {
    fn new(&mut self) -> wasmtime::Result<Resource<RequestOptionsRes>> {
        self.hold(RequestOptionsRes)
    }

    fn set_timeout_ms(&mut self, _: Resource<RequestOptionsRes>, _: u32) -> wasmtime::Result<()> {
        Ok(())
    }

    fn set_expected_replies(
        &mut self,
        _: Resource<RequestOptionsRes>,
        _: u32,
    ) -> wasmtime::Result<()> {
        Ok(())
    }

    fn drop(&mut self, options: Resource<RequestOptionsRes>) -> wasmtime::Result<()> {
        self.table.delete(options)?;
        Ok(())
    }
}

impl request_reply_host::Host for StoreData {
    fn request(
        &mut self,
        _client: Resource<ClientRes>,
        _topic: String,
        _message: Resource<MessageRes>,
        options: Option<Resource<RequestOptionsRes>>,
    ) -> wasmtime::Result<Result<Vec<Resource<MessageRes>>, GuestError>> {
        if let Some(options) = options {
            self.table.delete(options)?;
        }
        Ok(Err(GuestError::Other("request is not built yet".to_owned())))
    }

    fn reply(
        &mut self,
        _reply_to: Resource<MessageRes>,
        message: Resource<MessageRes>,
    ) -> wasmtime::Result<Result<(), GuestError>> {
        self.take_message(message)?;
        let why = "the message has no reply address: request and reply are not built yet";
        Ok(Err(GuestError::Other(why.to_owned())))
    }
}
