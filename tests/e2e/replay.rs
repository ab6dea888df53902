//! `windlass replay TOPIC ID`.

use crate::kit::{Dev, Ended, Project, guest, run, samples, windlass};
use serde_json::{Value, json};
use std::path::Path;

/// A project of `poison` with this in its table, run until all `texts` are done with; their ids.
fn poisoned(more: &str, texts: &[&str]) -> (Project, Vec<String>) {
    let project = Project::of("poison", more);
    project.make_log();
    let ids = texts.iter().map(|text| {
        let answers = project.json(&["publish", "poison", "--data", text]);
        answers[0]["id"].as_str().unwrap().to_owned()
    });
    let ids = ids.collect();
    project.until_idle(&[]);
    (project, ids)
}

fn replay(log: &Path, id: &str, more: &[&str]) -> Ended {
    let log = log.to_str().unwrap();
    let mut command = windlass(&[&["replay", "poison", id, "--log", log], more].concat());
    command.current_dir(std::env::temp_dir());
    run(command, b"")
}

fn component(name: &str) -> String {
    guest(name).to_str().unwrap().to_owned()
}

#[test]
fn a_dead_letter_is_replayed_on_a_copy_of_the_log_and_nothing_changes() {
    let (project, ids) =
        poisoned("max-attempts = 2\nbackoff = { initial = \"1ms\" }", &["panic:out of patience"]);
    let counts = project.topic("poison");
    assert_eq!(counts["dead"], json!(1));
    let copy = tempfile::tempdir().unwrap();
    let status =
        std::process::Command::new("cp").arg("-r").arg(project.log()).arg(copy.path()).status();
    assert!(status.unwrap().success());
    let copied = copy.path().join(".windlass");
    let ended = replay(&copied, &ids[0], &["--component", &component("poison"), "--json"]);
    ended.must(1, &[]);
    let trial = ended.last();
    assert_eq!((&trial["topic"], &trial["id"]), (&json!("poison"), &json!(ids[0])));
    assert_eq!((&trial["outcome"], &trial["disposition"]), (&json!("trapped"), &json!("retry")));
    assert!(trial["text"].as_str().unwrap().contains("out of patience"), "{trial}");
    assert!(trial["output"].as_str().unwrap().contains("out of patience"), "{trial}");
    assert_eq!((&trial["attempt"], &trial["max_attempts"]), (&json!(1), &json!(5)));
    assert_eq!((&trial["retry_ms"], &trial["pause"]), (&json!(1_000), &Value::Null));
    assert_eq!((&trial["sends"], &trial["sends_appear"]), (&json!([]), &json!(false)));
    for key in ["elapsed_ms", "cpu_ms", "memory_bytes"] {
        assert!(trial[key].as_f64().unwrap() > 0.0, "{key}: {trial}");
    }
    assert_eq!(trial["revision"].as_str().unwrap().len(), 8);
    let of_copy = ["topic", "show", "poison", "--json", "--log", copied.to_str().unwrap()];
    let after = run(windlass(&of_copy), b"").last();
    for key in ["ready", "retrying", "leased", "dead", "lag", "bytes", "retained"] {
        assert_eq!(after[key], counts[key], "{key}");
    }
    let letters = ["dlq", "show", "poison", "--json", "--log", copied.to_str().unwrap()];
    let letter = run(windlass(&letters), b"").last();
    assert_eq!(letter["history"].as_array().unwrap().len(), 2, "no attempt was added");
    let text = replay(&copied, &ids[0], &["--component", &component("poison")]);
    text.must(1, &[]);
    for part in ["trapped", "out of patience", "retry after 1.0 s", "attempt       1 of 5"] {
        assert!(text.out.contains(part), "{part}: {text:?}");
    }
}

#[test]
fn another_component_or_attempt_may_do_better() {
    let (project, ids) = poisoned("max-attempts = 1", &["ok-on:2"]);
    let log = project.log();
    let poison = component("poison");
    replay(&log, &ids[0], &["--component", &poison]).must(1, &[]);
    let ended = replay(&log, &ids[0], &["--component", &poison, "--attempt", "2", "--json"]);
    ended.must(0, &[]);
    let trial = ended.last();
    assert_eq!((&trial["outcome"], &trial["disposition"]), (&json!("ok"), &json!("ack")));
    let echo = component("echo");
    let ended = replay(&log, &ids[0], &["--component", &echo, "--json"]);
    ended.must(1, &["next: give --allow-publish echo/out"]);
    let trial = ended.last();
    assert_eq!((&trial["outcome"], &trial["pause"]), (&json!("grant-missing"), &json!("grant")));
    let allowed = ["--component", &echo, "--allow-publish", "echo/*"];
    let ended = replay(&log, &ids[0], &[&allowed[..], &["--json"]].concat());
    ended.must(0, &[]);
    let trial = ended.last();
    assert_eq!(trial["sends_appear"], json!(true));
    let sends = trial["sends"].as_array().unwrap();
    assert_eq!(sends.len(), 1);
    assert_eq!((&sends[0]["topic"], &sends[0]["data"]), (&json!("echo/out"), &json!("ok-on:2")));
    assert_eq!(sends[0]["content_type"], json!("text/plain; charset=utf-8"));
    assert!(sends[0]["size"].is_u64() && sends[0]["metadata"].is_array(), "{trial}");
    let text = replay(&log, &ids[0], &allowed);
    assert!(text.out.contains("send 1 of 1, to echo/out: would be published"), "{text:?}");
    project.run(&["topic", "show", "echo/out"]).must(1, &["there is no topic"]);
}

#[test]
fn a_manifests_consumer_brings_its_limits_grants_and_policy() {
    let more = "max-attempts = 1\nlimits = { sends = 3, wall = \"5s\" }\n\
                allow = { publish = [\"poison/out\"] }\nsends = \"immediate\"";
    let (project, ids) = poisoned(more, &["sends:5", "send-then-fail", "sleep:30000"]);
    let (log, path) = (project.log(), project.path().to_str().unwrap().to_owned());
    let config = ["--config", &path, "--json"];
    let published = project.topic("poison/out")["ready"].clone();
    let ended = replay(&log, &ids[0], &config);
    ended.must(1, &[]);
    let trial = ended.last();
    assert_eq!(
        (&trial["outcome"], &trial["disposition"]),
        (&json!("too-much"), &json!("dead-letter"))
    );
    assert_eq!((&trial["sends_appear"], &trial["max_attempts"]), (&json!(true), &json!(1)));
    assert_eq!(trial["sends"].as_array().unwrap().len(), 3, "{trial}");
    let trial = replay(&log, &ids[1], &[&config[..], &["--consumer", "c"]].concat()).last();
    assert_eq!((&trial["outcome"], &trial["sends_appear"]), (&json!("error-other"), &json!(true)));
    let trial = replay(&log, &ids[2], &[&config[..], &["--wall", "100ms"]].concat()).last();
    assert_eq!(trial["outcome"], json!("timed-out"));
    assert_eq!(project.topic("poison/out")["ready"], published, "nothing was sent for real");
    replay(&log, &ids[0], &[&config[..], &["--consumer", "x"]].concat())
        .must(2, &["`x`", "one of: c"]);
    project.rewrite(
        &std::fs::read_to_string(project.path().join("windlass.toml"))
            .unwrap()
            .replace("immediate", "with-ack"),
    );
    let trial = replay(&log, &ids[1], &config).last();
    assert_eq!((&trial["outcome"], &trial["sends_appear"]), (&json!("error-other"), &json!(false)));
    assert_eq!(trial["sends"].as_array().unwrap().len(), 1, "what it tried to send is shown");
}

#[test]
fn limits_of_the_command_line_hold() {
    let (project, ids) =
        poisoned("max-attempts = 1\nlimits = { wall = \"1s\" }", &["loop", "memory"]);
    let poison = component("poison");
    let trial = |id: &str, more: &[&str]| {
        replay(&project.log(), id, &[&["--component", &poison, "--json"], more].concat()).last()
    };
    assert_eq!(trial(&ids[0], &["--cpu", "50ms"])["outcome"], json!("out-of-cpu"));
    let trial = trial(&ids[1], &["--memory", "8 MiB"]);
    assert_eq!(trial["outcome"], json!("out-of-memory"));
    assert!(trial["memory_bytes"].as_u64().unwrap() <= 8 << 20, "{trial}");
}

#[test]
fn a_replay_runs_beside_dev_on_the_same_log() {
    let more = format!("max-attempts = 1\n{}", samples("poison", &["reject:no"]));
    let project = Project::of("poison", &more);
    let mut dev = Dev::ready(&project, &[]);
    let id = dev.until_disposition("dead-letter")["id"].as_str().unwrap().to_owned();
    let ended = replay(&project.log(), &id, &["--component", &component("poison"), "--json"]);
    ended.must(1, &[]);
    assert_eq!(ended.last()["outcome"], json!("rejected"));
    assert_eq!(project.topic("poison")["dead"], json!(1));
    project.run(&["publish", "poison", "--data", "ok"]).must(0, &[]);
    dev.until_disposition("ack");
    dev.signal("INT");
    dev.end().must(3, &[]);
}

#[test]
fn what_cannot_be_replayed_is_refused_with_what_to_do() {
    let (project, ids) = poisoned("", &["ok"]);
    let (log, poison) = (project.log(), component("poison"));
    let with = ["--component", &poison];
    let unknown = "0000000000001-0000000000000fff";
    replay(&log, unknown, &with)
        .must(1, &[unknown, "next: windlass tail poison --no-follow --log '"]);
    replay(&log, &ids[0], &[]).must(2, &["--component"]);
    replay(&log, &ids[0], &["--component", "gone.wasm"])
        .must(1, &["`gone.wasm`", "check the path"]);
    replay(&log, &ids[0], &["--component", &poison, "--memory", "64 KiB"]).must(1, &["--memory '"]);
    replay(&log, &ids[0], &["--component", &poison, "--consumer", "c"]).must(2, &["--config"]);
    replay(&log, &ids[0], &["--component", &poison, "--attempt", "0"]).must(2, &["--attempt"]);
    let mut other = windlass(&["replay", "other", &ids[0], "--component", &poison]);
    other.current_dir(project.path());
    run(other, b"")
        .must(1, &["was published to `poison`, not to `other`", "windlass replay poison"]);
    let manifest = std::fs::read_to_string(project.path().join("windlass.toml")).unwrap();
    project.rewrite(&manifest.replace("\"poison\"]", "\"elsewhere\"]"));
    let config = project.path().to_str().unwrap();
    replay(&log, &ids[0], &["--config", config])
        .must(2, &["no consumer of the manifest reads", "one of: c"]);
}
