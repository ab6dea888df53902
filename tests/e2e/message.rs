//! `windlass message show|cancel|now ID`.

use crate::kit::{Dev, Project, samples};
use serde_json::{Value, json};

/// A project where one message waits an hour for its second attempt.
fn with_a_waiting_message() -> (Project, String) {
    let more = format!(
        "backoff = {{ initial = \"1h\", max = \"2h\" }}\n{}",
        samples("poison", &["ok-on:2"])
    );
    let project = Project::of("poison", &more);
    let mut dev = Dev::ready(&project, &[]);
    let id = dev.until_disposition("retry")["id"].as_str().unwrap().to_owned();
    dev.signal("INT");
    dev.end().must(0, &[]);
    (project, id)
}

fn show(project: &Project, id: &str) -> Value {
    project.json(&["message", "show", id]).remove(0)
}

#[test]
fn a_message_is_shown_with_where_it_stands_in_each_group() {
    let (project, id) = with_a_waiting_message();
    project.json(&["group", "add", "poison", "g"]);
    project.json(&["group", "add", "poison", "late", "--start", "latest"]);
    let shown = show(&project, &id);
    assert_eq!((&shown["topic"], &shown["id"]), (&json!("poison"), &json!(id)));
    assert_eq!((&shown["data"], &shown["due"]), (&json!("ok-on:2"), &Value::Null));
    for key in ["published_at", "content_type", "metadata", "size"] {
        assert!(!shown[key].is_null(), "{key}: {shown}");
    }
    let groups = shown["groups"].as_array().unwrap();
    let stands: Vec<_> = groups
        .iter()
        .map(|g| (g["group"].as_str().unwrap(), g["place"].as_str().unwrap()))
        .collect();
    assert_eq!(stands, [("", "retrying"), ("g", "ready"), ("late", "settled")]);
    let keys = ["attempts", "worker", "idle_ms", "first_at", "last_at", "due", "reason", "died_at"];
    for group in groups {
        for key in keys {
            assert!(group.get(key).is_some(), "{key}: {group}");
        }
    }
    assert_eq!(groups[0]["attempts"], json!(1));
    assert_eq!(groups[0]["history"][0]["outcome"], json!("error-other"));
    assert!(groups[0]["due"].is_string());
    let one = project.json(&["message", "show", &id, "--group", "g"]).remove(0);
    assert_eq!(one["groups"], json!([groups[1]]));
    let text = project.run(&["message", "show", &id]);
    text.must(0, &[]);
    assert!(
        text.out.contains("(work queue): retrying") && text.out.contains("ok-on:2"),
        "{text:?}"
    );
    project.run(&["message", "show", &id, "--group", "x"]).must(1, &["NOGROUP", "next: "]);
}

#[test]
fn a_waiting_message_is_made_due_at_once() {
    let (project, id) = with_a_waiting_message();
    assert_eq!(project.topic("poison")["retrying"], json!(1));
    let answer = project.json(&["message", "now", &id]);
    assert_eq!(answer, [json!({ "id": id, "group": null, "changed": 1 })]);
    let again = project.json(&["message", "now", &id, "--group", ""]);
    assert_eq!(again, [json!({ "id": id, "group": "", "changed": 0 })]);
    let text = project.run(&["message", "now", &id]);
    text.must(0, &["waits for no time", "windlass message show"]);
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(0, &[]);
    assert_eq!(ended.deliveries()[0]["attempt"], json!(2));
    assert_eq!(show(&project, &id)["groups"][0]["place"], json!("settled"));
}

#[test]
fn a_cancelled_message_is_never_given_again() {
    let (project, id) = with_a_waiting_message();
    project.json(&["group", "add", "poison", "g"]);
    let cancel = ["message", "cancel", &id];
    let answer = project.json(&[&cancel[..], &["--group", ""]].concat());
    assert_eq!(answer, [json!({ "id": id, "group": "", "changed": 1 })]);
    let shown = show(&project, &id);
    assert_eq!(shown["groups"][0]["place"], json!("settled"));
    assert_eq!(shown["groups"][1]["place"], json!("ready"), "the other group keeps it");
    let text = project.run(&cancel);
    text.must(0, &[]);
    assert_eq!(text.out, "cancelled in 1 group\n");
    project.run(&cancel).must(0, &["settled or dead"]);
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(0, &[]);
    assert!(ended.deliveries().is_empty(), "{ended:?}");
    project.run(&[&cancel[..], &["--group", "x"]].concat()).must(1, &["NOGROUP"]);
}

#[test]
fn a_message_that_is_not_stored_is_an_error_that_says_where_to_look() {
    let (project, _) = with_a_waiting_message();
    let unknown = "0000000000001-0000000000000fff";
    for what in ["show", "cancel", "now"] {
        let ended = project.run(&["message", what, unknown]);
        ended.must(1, &[unknown, "next: windlass tail TOPIC --no-follow"]);
        project.run(&["message", what, "17"]).must(2, &["is not a message id"]);
    }
}
