//! Sends: their checks and their metadata. And what a guest is told about its delivery.

use crate::support::{config, consumer, deliver, message, poison};
use std::collections::HashMap;
use windlass_core::{Outcome, TopicPattern};
use windlass_runtime::ConsumerConfig;

#[tokio::test]
async fn a_delivery_is_described_whole() {
    let mut told = message("describe");
    told.content_type = Some("text/plain".into());
    told.metadata = vec![("tag".into(), "a".into()), ("tag".into(), "b".into())];
    told.hops = 3;
    let Outcome::Done { sends } = deliver(&consumer("poison", config()), told).await.outcome else {
        panic!("not done")
    };
    let text = String::from_utf8(sends[0].data.to_vec()).unwrap();
    let id = "1700000000000-0000000000000007";
    for line in [
        format!("id: {id}"),
        "attempt: 1".into(),
        "topic: in".into(),
        "content-type: text/plain".into(),
        "metadata tag: a\nmetadata tag: b".into(),
        format!("metadata windlass-id: {id}"),
        "metadata windlass-attempt: 1".into(),
        "metadata windlass-published-at: 2023-11-14T22:13:20.123Z".into(),
        "metadata windlass-topic: in".into(),
        "metadata windlass-hops: 3".into(),
    ] {
        assert!(text.contains(&line), "`{line}` is not in:\n{text}");
    }
    assert!(!text.contains("windlass-key"), "{text}");
    let left = text.lines().find_map(|line| line.strip_prefix("deadline-ms: ")).unwrap();
    assert!((20_000..=30_000).contains(&left.parse::<u64>().unwrap()), "{left}");
}

#[tokio::test]
async fn a_key_is_told_where_there_is_one() {
    let mut told = message("describe");
    told.key = Some("customer-1".into());
    let Outcome::Done { sends } = deliver(&consumer("poison", config()), told).await.outcome else {
        panic!("not done")
    };
    let text = String::from_utf8(sends[0].data.to_vec()).unwrap();
    assert!(text.contains("metadata windlass-key: customer-1"), "{text}");
}

#[tokio::test]
async fn what_the_host_added_is_dropped_and_the_rest_goes_through() {
    for name in [
        "windlass-id",
        "windlass-attempt",
        "windlass-published-at",
        "windlass-topic",
        "windlass-hops",
    ] {
        let Outcome::Done { sends } = poison(&format!("meta:{name}=forged")).await else {
            panic!("{name}")
        };
        let names: Vec<_> = sends[0].metadata.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["source-id"], "{name}");
    }
    let Outcome::Done { sends } = poison("meta:traceparent=00-x").await else { panic!("not done") };
    let metadata: HashMap<_, _> = sends[0].metadata.iter().cloned().collect();
    assert_eq!(metadata["traceparent"], "00-x");
}

/// Law 31.
#[tokio::test]
async fn what_a_guest_asks_of_a_send_is_obeyed_and_taken_off() {
    for name in ["windlass-key", "windlass-delay-ms", "windlass-dedup-id"] {
        let outcome = poison(&format!("meta:{name}=1")).await;
        let Outcome::Done { sends } = outcome else { panic!("{name}: {outcome:?}") };
        let send = &sends[0];
        let one = Some("1".to_owned());
        assert_eq!(send.key, one.clone().filter(|_| name == "windlass-key"));
        assert_eq!(send.dedup_id, one.filter(|_| name == "windlass-dedup-id"));
        assert_eq!(send.delay.is_some(), name == "windlass-delay-ms");
        assert!(send.metadata.iter().all(|(key, _)| !key.starts_with("windlass-")));
    }
    let text = poison("meta:windlass-delay-ms=soon").await.text();
    assert!(text.contains("milliseconds"), "{text}");
    let text = poison("meta:windlass-else=1").await.text();
    assert!(text.contains("`windlass-else`"), "{text}");
}

#[tokio::test]
async fn a_bad_name_is_an_error_and_no_grant_is_asked_for() {
    for topic in ["a*", "a//b", "windlass/x", ""] {
        let outcome = poison(&format!("send:{topic}")).await;
        assert_eq!(outcome.name(), "error-other", "{topic}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_disconnected_client_answers_connection() {
    assert_eq!(poison("disconnected").await.name(), "error-connection");
}

#[tokio::test]
async fn nothing_is_granted_unless_it_is() {
    let nothing = ConsumerConfig::default();
    let outcome = deliver(&consumer("echo", nothing), message("x")).await.outcome;
    let Outcome::GrantMissing { grant, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(grant, "publish \"echo/out\"");
}

#[tokio::test]
async fn webhooks_routes_by_the_event() {
    let mut config = config();
    config.grants.publish = vec![TopicPattern::new("github/*").unwrap()];
    let mut payload = message(r#"{"action":"opened","sender":{"login":"mona"}}"#);
    payload.content_type = Some("application/json".into());
    payload.metadata = vec![("x-github-event".into(), "issues".into())];
    let invocation = deliver(&consumer("webhooks", config), payload.clone()).await;
    let Outcome::Done { sends } = invocation.outcome else { panic!("{:?}", invocation.outcome) };
    assert_eq!(invocation.output.text, "issues opened by mona\n");
    assert_eq!(sends[0].topic.as_str(), "github/issues");
    assert_eq!(sends[0].data, payload.data);
    assert_eq!(sends[0].content_type, payload.content_type);
    assert!(sends[0].metadata.contains(&("source-id".into(), payload.id.to_string())));
}
