//! Storage that takes no more for a while, and several runs on one log.

use crate::kit::{Dev, Project, consumer, until};
use crate::log;
use serde_json::{Value, json};
use std::collections::HashSet;

const MANIFEST: &str = "limits = { wall = \"2m\" }\nallow = { publish = [\"poison/out\"] }";

/// Goal: while storage refuses, nothing is lost or given twice, and what could not be settled is
/// settled first when storage returns. Method: `dev` runs under a limit on the size of files;
/// another process without one makes the log's file longer than that while a handler runs; then
/// a checkpoint makes it short again.
#[test]
fn what_cannot_be_settled_is_kept_and_settled_when_storage_returns() {
    let project = Project::of("poison", MANIFEST);
    project.make_log();
    // A shell counts in blocks of 512 or 1024 bytes.
    let before = "trap '' XFSZ; ulimit -f 2048;";
    let mut dev = Dev::start_after(before, &project, &["--no-samples"]);
    dev.until(|event| event["event"] == "ready");
    let sleeper = project.json(&["publish", "poison", "--data", "sleep:2500"])[0]["id"].clone();
    until("a lease", || (project.topic("poison")["leased"] == 1).then_some(()));
    let much = format!("ok{}", " ".repeat(900 << 10));
    for _ in 0..5 {
        project.run_with(&["publish", "poison"], much.as_bytes()).must(0, &[]);
    }
    let lost = dev.until(|event| event["event"] == "storage-lost");
    assert!(!lost["text"].as_str().unwrap().is_empty());
    log::checkpoint(&project.log());
    dev.until(|event| event["event"] == "storage-back");
    until("an idle topic", || (project.topic("poison")["lag"] == 0).then_some(()));
    dev.signal("INT");
    let ended = dev.end();
    ended.must(0, &[]);
    assert!(!ended.err.contains('\u{1b}'), "colours without a terminal: {ended:?}");
    let deliveries = ended.deliveries();
    let acked = deliveries.iter().filter(|delivery| delivery["disposition"] == "ack");
    let acked: Vec<String> = acked.map(|delivery| delivery["id"].to_string()).collect();
    assert_eq!(acked.len(), 6, "{deliveries:#?}");
    assert_eq!(acked.iter().collect::<HashSet<_>>().len(), 6, "none twice");
    let of_sleeper: Vec<&Value> = deliveries.iter().filter(|d| d["id"] == sleeper).collect();
    assert_eq!(of_sleeper.len(), 1, "the sleeper was handled once: {deliveries:#?}");
    assert_eq!(of_sleeper[0]["attempt"], json!(1));
    let topic = project.topic("poison");
    assert_eq!((&topic["lag"], &topic["dead"]), (&json!(0), &json!(0)), "{topic}");
}

/// Goal: two `dev` on one log share its work. Method: both run, a third process publishes.
#[test]
fn two_runs_on_one_log_share_the_work_and_handle_nothing_twice() {
    let project = Project::new(&consumer("poison", MANIFEST));
    let mut devs = [(); 2].map(|()| Dev::ready(&project, &["--no-samples"]));
    let lines = "{\"data\": \"send:poison/out\"}\n".repeat(400);
    let file = project.path().join("lines.ndjson");
    std::fs::write(&file, lines).unwrap();
    project.run(&["publish", "poison", "--ndjson", file.to_str().unwrap()]).must(0, &[]);
    until("an idle topic", || (project.topic("poison")["lag"] == 0).then_some(()));
    for dev in &mut devs {
        dev.signal("INT");
    }
    let mut handled = HashSet::new();
    let mut shares = Vec::new();
    for dev in devs {
        let ended = dev.end();
        ended.must(0, &[]);
        let acks: Vec<Value> = ended.deliveries();
        shares.push(acks.len());
        for ack in acks {
            assert_eq!(ack["disposition"], json!("ack"), "{ack}");
            assert!(handled.insert(ack["id"].to_string()), "handled twice: {ack}");
        }
    }
    println!("shares: {shares:?}");
    assert_eq!(handled.len(), 400);
    assert_eq!(log::read_all(&project.log(), ["poison/out"]).len(), 400);
}
