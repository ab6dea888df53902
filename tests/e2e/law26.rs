//! Law 26: what becomes of a message, for every way in which a component can end.

use crate::kit::{Project, samples};
use crate::log;
use serde_json::Value;
use std::collections::HashMap;

/// A way to end: the message's text, the outcome's name, what becomes of it, what its text says.
struct Row(&'static str, &'static str, Fate, &'static str);

enum Fate {
    /// Acked; so many messages were sent.
    Ack(usize),
    /// Dead at once.
    Dead,
    /// Tried again until attempts are used up, then dead.
    Retry,
}
use Fate::{Ack, Dead, Retry};

const ATTEMPTS: usize = 3;

const MANIFEST: &str = r#"
max-attempts = 3
backoff = { initial = "20ms", max = "100ms" }
limits = { memory = "16 MiB", wall = "5s", cpu = "300ms", sends = 10, sent-bytes = "1 MiB", resources = 100, output = "4 KiB" }
allow = { publish = ["poison/*"] }
"#;

#[rustfmt::skip]
const TABLE: &[Row] = &[
    Row("ok", "ok", Ack(0), ""),
    Row("send:poison/out", "ok", Ack(1), ""),
    Row("sends:10", "ok", Ack(10), ""),
    Row("send-denied-ok", "ok", Ack(0), ""),
    Row("meta:windlass-id=forged", "ok", Ack(1), ""),
    Row("err-timeout", "error-timeout", Retry, ""),
    Row("err-connection:the line is down", "error-connection", Retry, "the line is down"),
    Row("err-other:who knows", "error-other", Retry, "who knows"),
    Row("no such way", "error-other", Retry, "poison knows no"),
    Row("err-permission:closed", "permission-denied", Dead, "closed"),
    Row("panic:out of patience", "trapped", Retry, "out of patience"),
    Row("trap-unreachable", "trapped", Retry, "unreachable"),
    Row("trap-stack", "trapped", Retry, ""),
    Row("exit0", "trapped", Retry, "exit"),
    Row("exit1", "trapped", Retry, "exit"),
    Row("loop", "out-of-cpu", Retry, "300ms"),
    Row("sleep:600000", "timed-out", Retry, "5s"),
    Row("memory", "out-of-memory", Retry, ""),
    Row("resources", "too-much", Retry, "100"),
    Row("too-many-sends", "too-much", Retry, "10"),
    Row("big-send", "too-much", Retry, ""),
    Row("sends:11", "too-much", Retry, "10"),
    Row("oversize", "error-other", Retry, ""),
    Row("key", "ok", Ack(1), ""),
    Row("meta:windlass-delay-ms=5", "ok", Ack(1), ""),
    Row("meta:windlass-delay-ms=soon", "error-other", Retry, "milliseconds"),
    Row("meta:windlass-mine=5", "error-other", Retry, "windlass-mine"),
    Row("disconnected", "error-connection", Retry, ""),
    Row("send:a//b", "error-other", Retry, "a//b"),
    Row("send-then-fail", "error-other", Retry, "failed after sending"),
    Row("send-then-panic", "trapped", Retry, "panicked after"),
    Row("reject:not an order", "rejected", Dead, "not an order"),
    Row("reject-ok:not this one", "rejected", Dead, "not this one"),
    Row("retry-after:30", "retry-asked", Retry, ""),
    Row("retry-after-ok:30", "retry-asked", Retry, ""),
    Row("reject-then-retry-after:30", "retry-asked", Retry, ""),
    Row("retry-after-then-reject:after all", "rejected", Dead, "after all"),
];

/// Goal: each row of the table, told alike in the event, the dead letter and its history; only an
/// ack commits what was sent. Method: runs over rows as samples, whose ids rise in order; twenty
/// failures in a row would pause the consumer.
#[test]
fn each_way_to_end_has_its_disposition_its_name_and_its_text() {
    TABLE.chunks(15).for_each(each_of);
}

fn each_of(table: &[Row]) {
    let texts: Vec<&str> = table.iter().map(|row| row.0).collect();
    let project = Project::of("poison", &format!("{MANIFEST}{}", samples("poison", &texts)));
    let ended = project.until_idle(&[]);
    ended.must(3, &[]);
    let mut by_id: HashMap<String, Vec<Value>> = HashMap::new();
    for delivery in ended.deliveries() {
        by_id.entry(text_of(&delivery, "id")).or_default().push(delivery);
    }
    let mut ids: Vec<_> = by_id.keys().cloned().collect();
    ids.sort();
    assert_eq!(ids.len(), table.len(), "each text was delivered");
    let letters = project.json(&["dlq", "show", "poison", "--limit", "100"]);
    let letters: HashMap<_, _> =
        letters.iter().map(|letter| (text_of(letter, "data"), letter)).collect();
    let sent = log::read_all(&project.log(), ["poison/out"]);
    for (row, id) in table.iter().zip(&ids) {
        let sent = sent.iter().filter(|m| log::metadata(m, "source-id") == Some(id)).count();
        check(row, &by_id[id], letters.get(row.0).copied(), sent);
    }
    let dead = table.iter().filter(|row| !matches!(row.2, Ack(_))).count();
    assert_eq!(letters.len(), dead);
    assert_eq!(project.topic("poison")["lag"], 0);
}

fn check(row: &Row, deliveries: &[Value], letter: Option<&Value>, sent: usize) {
    let Row(text, outcome, fate, says) = row;
    let (attempts, last, expected_sends) = match fate {
        Ack(sends) => (1, "ack", *sends),
        Dead => (1, "dead-letter", 0),
        Retry => (ATTEMPTS, "dead-letter", 0),
    };
    assert_eq!(deliveries.len(), attempts, "{text}: {deliveries:#?}");
    for (at, delivery) in deliveries.iter().enumerate() {
        assert_eq!(delivery["attempt"], at + 1, "{text}: {delivery}");
        assert_eq!(delivery["outcome"], *outcome, "{text}: {delivery}");
        let disposition = if at + 1 == attempts { last } else { "retry" };
        assert_eq!(delivery["disposition"], disposition, "{text}: {delivery}");
        let said = delivery["text"].as_str().unwrap_or_default();
        assert!(said.contains(says), "{text}: `{says}` is not in {delivery}");
        if let Some(asked) = text.strip_prefix("retry-after:").filter(|_| disposition == "retry") {
            assert_eq!(delivery["retry_ms"].to_string(), asked, "{text}");
        }
    }
    assert_eq!(sent, expected_sends, "{text}: what it sent");
    let Some(letter) = letter else {
        assert!(matches!(fate, Ack(_)), "{text}: no dead letter");
        return;
    };
    assert_eq!(letter["reason"], *outcome, "{text}");
    assert_eq!(letter["attempts"], attempts, "{text}");
    let history = letter["history"].as_array().unwrap();
    assert_eq!(history.len(), attempts, "{text}: {letter:#}");
    for (at, entry) in history.iter().enumerate() {
        assert_eq!((&entry["attempt"], &entry["outcome"]), (&(at + 1).into(), &(*outcome).into()));
        assert!(entry["text"].as_str().unwrap().contains(says), "{text}: {entry}");
    }
}

fn text_of(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap().to_owned()
}

/// Whatever is sent at once stays sent, however the handler ends.
#[test]
fn immediate_sends_are_there_whatever_becomes_of_the_message() {
    let texts = ["send:poison/out", "send-then-fail", "send-then-panic", "reject-ok:no"];
    let manifest = format!("sends = \"immediate\"{MANIFEST}{}", samples("poison", &texts));
    let project = Project::of("poison", &manifest);
    let ended = project.until_idle(&[]);
    ended.must(3, &[]);
    let sent = 1 + 2 * ATTEMPTS + 1;
    assert_eq!(log::read_all(&project.log(), ["poison/out"]).len(), sent);
    assert_eq!(ended.last()["published"], texts.len() + sent);
}
