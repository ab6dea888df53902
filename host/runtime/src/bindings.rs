//! What bindgen makes of `wit/`, and the linker built from it.
//!
//! Generated names stay in here, but for those re-exported below under names of our own.

use crate::messaging;
use crate::store::StoreData;
use wasmtime::component::{HasSelf, Linker};

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
        // Only what may wait is async: a call that is not costs less.
        imports: {
            "wasi:messaging/producer.send": async | trappable,
            default: trappable,
        },
        exports: { default: async },
        with: {
            "wasi:messaging/types.message": crate::messaging::MessageRes,
            "wasi:messaging/types.client": crate::messaging::ClientRes,
            "wasi:messaging/request-reply.request-options": crate::messaging::RequestOptionsRes,
        },
    });
}

pub(crate) use generated::wasi::messaging::types::Error as GuestError;
pub(crate) use generated::wasi::messaging::{
    producer as producer_host, request_reply as request_reply_host, types as types_host,
};
pub(crate) use generated::windlass::messaging::delivery as delivery_host;
pub(crate) use generated::{Consumer as Guest, ConsumerPre as GuestPre};

/// The draft's version, which matches only exactly.
pub(crate) const DRAFT: &str = "0.2.0-draft";

/// Every interface that [`linker`] offers, with its version, for `report`: a linker cannot be
/// asked. Keep the two together; what is in here and not there fails as `ImportType` at loading.
pub(crate) const OFFERED: &[(&str, &str)] = &[
    ("wasi:messaging/types", DRAFT),
    ("wasi:messaging/producer", DRAFT),
    ("wasi:messaging/request-reply", DRAFT),
    ("windlass:messaging/delivery", "0.1.0"),
    ("wasi:io/error", WASI),
    ("wasi:io/poll", WASI),
    ("wasi:io/streams", WASI),
    ("wasi:clocks/wall-clock", WASI),
    ("wasi:clocks/monotonic-clock", WASI),
    ("wasi:random/random", WASI),
    ("wasi:random/insecure", WASI),
    ("wasi:random/insecure-seed", WASI),
    ("wasi:cli/exit", WASI),
    ("wasi:cli/environment", WASI),
    ("wasi:cli/stdin", WASI),
    ("wasi:cli/stdout", WASI),
    ("wasi:cli/stderr", WASI),
    ("wasi:cli/terminal-input", WASI),
    ("wasi:cli/terminal-output", WASI),
    ("wasi:cli/terminal-stdin", WASI),
    ("wasi:cli/terminal-stdout", WASI),
    ("wasi:cli/terminal-stderr", WASI),
    ("wasi:filesystem/types", WASI),
    ("wasi:filesystem/preopens", WASI),
    ("wasi:sockets/network", WASI),
    ("wasi:sockets/instance-network", WASI),
    ("wasi:sockets/ip-name-lookup", WASI),
    ("wasi:sockets/tcp", WASI),
    ("wasi:sockets/tcp-create-socket", WASI),
    ("wasi:sockets/udp", WASI),
    ("wasi:sockets/udp-create-socket", WASI),
];

const WASI: &str = "0.2.12";

/// A linker with everything a guest may import. What needs a grant is there as well, and says
/// no when called.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<StoreData>> {
    let mut linker: Linker<StoreData> = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    types_host::add_to_linker::<_, HasSelf<_>>(&mut linker, |data| data)?;
    producer_host::add_to_linker::<_, HasSelf<_>>(&mut linker, |data| data)?;
    request_reply_host::add_to_linker::<_, HasSelf<_>>(&mut linker, |data| data)?;
    delivery_host::add_to_linker::<_, HasSelf<_>>(&mut linker, |data| data)?;
    messaging::link_uncopied(&mut linker, &format!("wasi:messaging/types@{DRAFT}"))?;
    Ok(linker)
}
