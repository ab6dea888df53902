//! The component that Windlass measures with: reads the message's data and
//! sends nothing, so that what is measured is the host.

wit_bindgen::generate!({ path: "../../wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes seen by this instance.
static SEEN: AtomicUsize = AtomicUsize::new(0);

struct Bench;

impl Guest for Bench {
    fn handle(message: Message) -> Result<(), Error> {
        SEEN.fetch_add(message.data().len(), Ordering::Relaxed);
        Ok(())
    }
}

export!(Bench);
