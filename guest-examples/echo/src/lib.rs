//! Sends what it is given on to another topic: the smallest consumer that does
//! something.

wit_bindgen::generate!({ path: "../../wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use wasi::messaging::producer::send;
use wasi::messaging::types::Client;

struct Echo;

impl Guest for Echo {
    fn handle(message: Message) -> Result<(), Error> {
        // A message of our own: the one we were given carries what the host
        // says about its delivery.
        let copy = Message::new(&message.data());
        if let Some(content_type) = message.content_type() {
            copy.set_content_type(&content_type);
        }
        send(&Client::connect("default")?, "echo/out", copy)
    }
}

export!(Echo);
