//! Greets whoever a message names: `{"name": "Ada"}`, or just `Ada`.

wit_bindgen::generate!({ path: "wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use serde_json::Value;
use windlass::messaging::delivery;

struct Consumer;

impl Guest for Consumer {
    /// Called once for each message, and again for one that failed.
    fn handle(message: Message) -> Result<(), Error> {
        match read_name(&message.data()) {
            Ok(name) => println!("hello, {name}"),
            // No later attempt could read it: a dead letter at once.
            Err(why) => delivery::reject(&why),
        }
        // `Ok` means done: unless rejected, the message does not come again. What
        // may go well later is given back instead, until `max-attempts` is reached:
        //
        //     return Err(Error::Other("the shop is closed".into())); // after the backoff
        //     delivery::retry_after(60_000); // or when you say, in milliseconds
        //
        // A panic and a time-out are tried again too.
        Ok(())
    }
}

export!(Consumer);

/// What needs no host is tested without one: `cargo test`.
fn read_name(data: &[u8]) -> Result<String, String> {
    let text = std::str::from_utf8(data).map_err(|error| error.to_string())?;
    if !text.trim_start().starts_with('{') {
        return Ok(text.trim().to_owned());
    }
    let json: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    match json["name"].as_str() {
        Some(name) => Ok(name.to_owned()),
        None => Err("there is no text in `name`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::read_name;

    #[test]
    fn a_name_is_read_from_json_and_from_text() {
        assert_eq!(read_name(br#"{"name": "Ada"}"#).as_deref(), Ok("Ada"));
        assert_eq!(read_name(b"Ada\n").as_deref(), Ok("Ada"));
        assert!(read_name(br#"{"name": 7}"#).is_err());
        assert!(read_name(b"\xff").is_err());
    }
}
