//! Routes GitHub's webhooks: a payload published to `github` goes on, as it is,
//! to `github/<event>`. The event's name is in the metadata, where Windlass puts
//! the header `x-github-event` of a request.
//!
//! What is sent here appears together with the ack, so each payload is routed
//! once, whatever happens in between.

wit_bindgen::generate!({ path: "../../wit", world: "windlass:messaging/consumer", generate_all });

use exports::wasi::messaging::incoming_handler::{Error, Guest, Message};
use serde_json::Value;
use wasi::messaging::producer::send;
use wasi::messaging::types::Client;

struct Webhooks;

impl Guest for Webhooks {
    fn handle(message: Message) -> Result<(), Error> {
        let metadata = message.metadata().unwrap_or_default();
        let event = find(&metadata, "x-github-event").ok_or_else(|| {
            Error::Other("no metadata `x-github-event`: is this from GitHub?".into())
        })?;
        // Anybody may have sent this: a name like `a/b` would lead to a topic
        // that we hold no grant for.
        if !is_event_name(event) {
            return Err(Error::Other(format!("`{event}` is no name of an event")));
        }

        let data = message.data();
        let payload = serde_json::from_slice(&data)
            .map_err(|error| Error::Other(format!("the payload is not JSON: {error}")))?;
        println!("{}", summary(event, &payload));

        let routed = Message::new(&data);
        if let Some(content_type) = message.content_type() {
            routed.set_content_type(&content_type);
        }
        routed.set_metadata(&carried_on(&metadata));
        send(&Client::connect("default")?, &format!("github/{event}"), routed)
    }
}

/// The first value of that name.
fn find<'a>(metadata: &'a [(String, String)], name: &str) -> Option<&'a str> {
    metadata.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn is_event_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !name.is_empty() && name.bytes().all(allowed)
}

/// The metadata of the message that goes on: what the sender wrote, and the id
/// of the message it came from. Whatever begins with `windlass-` is about this
/// delivery, not about the payload. The new message has an id of its own, so the
/// old one travels as `source-id`.
fn carried_on(metadata: &[(String, String)]) -> Vec<(String, String)> {
    let own = |(key, _): &&(String, String)| !key.starts_with("windlass-") && key != "source-id";
    let mut carried: Vec<_> = metadata.iter().filter(own).cloned().collect();
    if let Some(id) = find(metadata, "windlass-id") {
        carried.push(("source-id".into(), id.into()));
    }
    carried
}

/// One line for a person: `issues opened in octo/hello by mona`. GitHub's events
/// have these fields or not.
fn summary(event: &str, payload: &Value) -> String {
    let text = |path: &str| payload.pointer(path).and_then(Value::as_str);
    let mut line = event.to_string();
    for (between, path) in
        [(" ", "/action"), (" in ", "/repository/full_name"), (" by ", "/sender/login")]
    {
        if let Some(found) = text(path) {
            line.push_str(between);
            line.push_str(found);
        }
    }
    line
}

export!(Webhooks);

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn only_the_senders_metadata_and_the_id_are_carried_on() {
        let metadata = pairs(&[
            ("windlass-id", "0001-01"),
            ("x-github-event", "push"),
            ("windlass-key", "k"),
            ("tag", "a"),
            ("tag", "b"),
            ("source-id", "forged"),
        ]);
        let carried = pairs(&[
            ("x-github-event", "push"),
            ("tag", "a"),
            ("tag", "b"),
            ("source-id", "0001-01"),
        ]);
        assert_eq!(carried_on(&metadata), carried);
    }

    #[test]
    fn an_event_name_never_leads_out_of_github() {
        for name in ["push", "pull_request_review", "projects_v2_item"] {
            assert!(is_event_name(name), "{name:?}");
        }
        for name in ["", "a/b", "*", ">", "Push", "push "] {
            assert!(!is_event_name(name), "{name:?}");
        }
    }

    #[test]
    fn a_summary_leaves_out_what_the_payload_has_not() {
        let payload =
            serde_json::json!({"action": "opened", "sender": {"login": "mona"}, "repository": 7});
        assert_eq!(summary("issues", &payload), "issues opened by mona");
        assert_eq!(summary("push", &Value::Null), "push");
    }
}
