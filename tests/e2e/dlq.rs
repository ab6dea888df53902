//! `windlass dlq ls|show|redrive|purge`.

use crate::kit::{Project, samples};
use serde_json::json;

const REJECTED: [&str; 3] = ["reject:one", "reject:two", "reject:three"];

/// A project with three dead letters, and what `dlq ls` tells of them.
fn with_dead_letters() -> (Project, Vec<serde_json::Value>) {
    let more = format!("max-attempts = 2\n{}", samples("poison", &REJECTED));
    let project = Project::of("poison", &more);
    project.until_idle(&[]).must(3, &[]);
    let listed = project.json(&["dlq", "ls", "poison"]);
    (project, listed)
}

#[test]
fn dead_letters_are_listed_and_shown_with_what_they_were_and_why_they_died() {
    let (project, listed) = with_dead_letters();
    assert_eq!(listed.len(), 3);
    for letter in &listed {
        assert_eq!(letter["reason"], json!("rejected"));
        assert_eq!((&letter["attempts"], &letter["group"]), (&json!(1), &json!("")));
        assert!(letter["data"].is_null(), "`ls` is brief");
        for key in ["topic", "id", "at", "published_at", "content_type", "metadata", "size"] {
            assert!(!letter[key].is_null(), "{key}: {letter}");
        }
    }
    let id = listed[1]["id"].as_str().unwrap();
    let shown = project.json(&["dlq", "show", "poison", id]);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["data"], json!("reject:two"));
    let history = shown[0]["history"].as_array().unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0]["outcome"], json!("rejected"));
    assert_eq!(history[0]["text"], json!("two"));
    for key in ["attempt", "at", "worker", "revision"] {
        assert!(!history[0][key].is_null(), "{key}");
    }
    assert_eq!(project.json(&["dlq", "show", "poison"]).len(), 3);
    let text = project.run(&["dlq", "show", "poison", id]);
    assert!(text.out.contains("reject:two") && text.out.contains("rejected"), "{text:?}");
    assert_eq!(project.json(&["dlq", "ls", "poison", "--limit", "2"]).len(), 2);
    project.run(&["dlq", "ls", "poison", "--group", "x"]).must(1, &["NOGROUP", "no group `x`"]);
    let unknown = "0000000000001-0000000000000001";
    project.run(&["dlq", "show", "poison", unknown]).must(1, &[unknown, "next: "]);
    project.run(&["dlq", "ls", "gone"]).must(1, &["there is no topic `gone`"]);
}

#[test]
fn redriven_ones_run_again_with_fresh_attempts_and_the_same_id() {
    let (project, listed) = with_dead_letters();
    assert_eq!(
        project.json(&["dlq", "redrive", "poison"]),
        [json!({ "topic": "poison", "group": null, "moved": 3, "of": 3 })]
    );
    let topic = project.topic("poison");
    assert_eq!((&topic["dead"], &topic["ready"]), (&json!(0), &json!(3)));
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(3, &[]);
    let deliveries = ended.deliveries();
    assert_eq!(deliveries.len(), 3);
    assert!(deliveries.iter().all(|delivery| delivery["attempt"] == 1));
    let again = project.json(&["dlq", "ls", "poison"]);
    let ids = |letters: &[serde_json::Value]| -> Vec<_> {
        letters.iter().map(|letter| letter["id"].clone()).collect()
    };
    assert_eq!(ids(&again), ids(&listed));
    let shown = project.json(&["dlq", "show", "poison", listed[0]["id"].as_str().unwrap()]);
    assert_eq!(shown[0]["history"].as_array().unwrap().len(), 2, "history is kept");
}

#[test]
fn purging_removes_for_good_and_only_when_it_is_meant() {
    let (project, _) = with_dead_letters();
    project.run(&["dlq", "purge", "poison"]).must(2, &["--yes"]);
    assert_eq!(project.topic("poison")["dead"], json!(3));
    project.run(&["dlq", "purge", "poison", "--yes", "--group", "x"]).must(1, &["no group `x`"]);
    let purged = project.json(&["dlq", "purge", "poison", "--yes"]);
    assert_eq!(purged, [json!({ "topic": "poison", "group": null, "purged": 3 })]);
    let topic = project.topic("poison");
    assert_eq!((&topic["dead"], &topic["lag"], &topic["bytes"]), (&json!(0), &json!(0), &json!(0)));
    assert_eq!(project.json(&["dlq", "redrive", "poison"])[0]["moved"], json!(0));
}

#[test]
fn dead_letters_are_chosen_by_id_time_and_reason() {
    let texts = ["reject:one", "err-permission:two", "reject:three"];
    let project = Project::of("poison", &samples("poison", &texts));
    project.until_idle(&[]).must(3, &[]);
    let ls = |more: &[&str]| project.json(&[&["dlq", "ls", "poison"], more].concat());
    let all = ls(&[]);
    assert_eq!(all.len(), 3);
    let id = all[0]["id"].as_str().unwrap();
    assert_eq!(ls(&["--id", id]), &all[..1]);
    assert_eq!(ls(&["--reason", "permission-denied"]), &all[1..2]);
    assert_eq!(ls(&["--since", "1h", "--reason", "rejected"]).len(), 2);
    assert_eq!(ls(&["--since", "9999-12-31T23:59:59Z"]).len(), 0);
    assert_eq!(ls(&["--reason", "rejected", "--limit", "1"]), &all[..1]);
    let shown = project.json(&["dlq", "show", "poison", "--reason", "permission-denied"]);
    assert_eq!(shown.len(), 1);
    assert_eq!(shown[0]["data"], json!("err-permission:two"));
    project.run(&["dlq", "show", "poison", id, "--id", id]).must(2, &["cannot be used with"]);
    project.run(&["dlq", "ls", "poison", "--since", "soon"]).must(2, &["an age such as"]);
    let redrive = |more: &[&str]| {
        let answer = project.json(&[&["dlq", "redrive", "poison"], more].concat()).remove(0);
        (answer["moved"].as_u64().unwrap(), answer["of"].as_u64().unwrap())
    };
    assert_eq!(redrive(&["--reason", "trapped"]), (0, 0));
    assert_eq!(redrive(&["--since", "9999-12-31T23:59:59Z"]), (0, 0));
    assert_eq!(redrive(&["--id", id]), (1, 1));
    let unknown = ["dlq", "redrive", "poison", "--id", id];
    project.run(&unknown).must(1, &[id, "next: windlass dlq ls poison"]);
    assert_eq!(ls(&[]), &all[1..]);
    let text = project.run(&["dlq", "redrive", "poison", "--reason", "rejected"]);
    assert_eq!(text.out, "redrove 1 of 1 that fit in poison\n");
    assert_eq!(ls(&[]), &all[1..2]);
    assert_eq!(redrive(&[]), (1, 1));
}
