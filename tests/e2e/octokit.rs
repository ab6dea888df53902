//! Real input: 329 webhook payloads of GitHub, from an npm package that `tests/run` brings.

use crate::examples::example;
use crate::kit::{Dev, root};
use crate::log;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;

/// The package's payloads, by event.
fn payloads() -> Vec<(String, Value)> {
    let file = root().join("target/webhook-payloads.json");
    let text = std::fs::read(&file)
        .unwrap_or_else(|_| panic!("there is no {}: run `tests/bring payloads`", file.display()));
    let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let of_event = |event: &Value| -> Vec<(String, Value)> {
        let name = event["name"].as_str().unwrap();
        event["examples"].as_array().unwrap().iter().map(|e| (name.to_owned(), e.clone())).collect()
    };
    events.iter().flat_map(of_event).collect()
}

/// Goal: what people will really publish arrives once, whole, where it belongs. Method: `dev`
/// runs the example; another process publishes all payloads; what was routed is read back.
#[test]
fn every_real_webhook_is_routed_once_and_whole() {
    let payloads = payloads();
    assert_eq!(payloads.len(), 329);
    let project = example("webhooks");
    let mut lines = String::new();
    for (at, (event, payload)) in payloads.iter().enumerate() {
        let metadata = json!({ "x-github-event": event, "x-github-delivery": at.to_string() });
        let line = json!({ "data": payload, "metadata": metadata });
        writeln!(lines, "{line}").unwrap();
    }
    let file = project.path().join("payloads.ndjson");
    std::fs::write(&file, lines).unwrap();

    let mut dev = Dev::ready(&project, &["--no-samples"]);
    let answers = project.json(&["publish", "github", "--ndjson", file.to_str().unwrap()]);
    assert_eq!(answers.len(), 329);
    for _ in 0..329 {
        let delivery = dev.until(|event| event["event"] == "delivery");
        assert_eq!((&delivery["outcome"], &delivery["sent"]), (&json!("ok"), &json!(1)));
    }
    dev.signal("INT");
    let ended = dev.end();
    ended.must(0, &[]);
    let last = ended.last();
    assert_eq!(
        (&last["handled"], &last["dead"], &last["retried"]),
        (&json!(329), &json!(0), &json!(0))
    );

    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for (event, _) in &payloads {
        *expected.entry(format!("github/{event}")).or_default() += 1;
    }
    let topics = project.json(&["topic", "ls"]);
    let routed: BTreeMap<String, u64> = topics
        .iter()
        .filter(|topic| topic["topic"] != "github")
        .map(|topic| {
            (topic["topic"].as_str().unwrap().to_owned(), topic["ready"].as_u64().unwrap())
        })
        .collect();
    assert_eq!(routed, expected);
    assert_eq!(routed.len(), 58);

    let mut seen = HashSet::new();
    let ids: HashSet<_> = answers.iter().map(|answer| answer["id"].as_str().unwrap()).collect();
    let mut sources = HashSet::new();
    for message in log::read_all(&project.log(), expected.keys().map(String::as_str)) {
        let at: usize = log::metadata(&message, "x-github-delivery").unwrap().parse().unwrap();
        let (event, payload) = &payloads[at];
        assert_eq!(message.topic.as_str(), format!("github/{event}"));
        assert_eq!(&message.data[..], payload.to_string().as_bytes(), "payload {at}");
        assert!(seen.insert(at), "payload {at} was routed twice");
        let source = log::metadata(&message, "source-id").unwrap();
        assert!(ids.contains(source) && sources.insert(source.to_owned()), "{source}");
    }
    assert_eq!(seen.len(), 329);
}
