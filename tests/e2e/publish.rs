//! `windlass publish`, and finding the log.

use crate::kit::{Dev, Project, run, windlass};
use crate::log;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A project with a log and nobody who reads the topic `in`.
fn project() -> Project {
    let project = Project::of("echo", "");
    project.make_log();
    project
}

#[test]
fn data_comes_from_a_flag_a_file_or_stdin_with_its_usual_type() {
    let project = project();
    let file = project.path().join("body");
    std::fs::write(&file, [0, 159, 146, 150]).unwrap();
    let file = file.to_str().unwrap();
    for (args, stdin) in [
        (&["--data", "größe"][..], &b""[..]),
        (&["--file", file], b""),
        (&[], b"from stdin\n"),
        (&["--data", "{}", "--content-type", "application/json"], b""),
        (&["--data", "-x", "--metadata", "b=2", "-m", "a=1=1", "-m", "b=3"], b""),
    ] {
        let ended = project.run_with(&[&["publish", "in", "--json"], args].concat(), stdin);
        ended.must(0, &[]);
        let object = ended.last();
        assert_eq!(object["duplicate"], json!(false));
        assert_eq!(object["id"].as_str().unwrap().len(), 30, "{object}");
    }
    let stored = log::read_all(&project.log(), ["in"]);
    let found: Vec<_> =
        stored.iter().map(|m| (&m.data[..], m.content_type.as_deref().unwrap())).collect();
    assert_eq!(
        found,
        [
            ("größe".as_bytes(), "text/plain; charset=utf-8"),
            (&[0, 159, 146, 150][..], "application/octet-stream"),
            (b"from stdin\n", "application/octet-stream"),
            (b"{}", "application/json"),
            (b"-x", "text/plain; charset=utf-8"),
        ]
    );
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(stored[4].metadata, pairs(&[("b", "2"), ("a", "1=1"), ("b", "3")]));
}

#[test]
fn lines_keep_the_exact_text_of_json_and_the_order_of_metadata() {
    let project = project();
    let file = project.path().join("lines.ndjson");
    let lines = concat!(
        r#"{"data": {"b": 1.50,  "a": [1e2]}, "metadata": {"z": "1", "a": "2"}}"#,
        "\n",
        r#"{"data": "text", "metadata": [["k", "1"], ["k", "2"]]}"#,
        "\n\n",
        r#"{"data": null}"#,
        "\r\n",
        r#"{"data_base64": "AP8=", "content_type": "image/x"}"#,
    );
    std::fs::write(&file, lines).unwrap();
    let ended = project.run(&["publish", "in", "--ndjson", file.to_str().unwrap(), "--json"]);
    ended.must(0, &[]);
    assert_eq!(ended.objects().len(), 4);
    let stored = log::read_all(&project.log(), ["in"]);
    let found: Vec<_> =
        stored.iter().map(|m| (&m.data[..], m.content_type.as_deref().unwrap())).collect();
    assert_eq!(
        found,
        [
            (&br#"{"b": 1.50,  "a": [1e2]}"#[..], "application/json"),
            (b"text", "text/plain; charset=utf-8"),
            (b"null", "application/json"),
            (&[0, 255], "image/x"),
        ]
    );
    let keys =
        |at: usize| stored[at].metadata.iter().map(|(k, v)| format!("{k}{v}")).collect::<Vec<_>>();
    assert_eq!([keys(0), keys(1)], [vec!["z1", "a2"], vec!["k1", "k2"]]);
}

/// A file is checked whole before its first message is stored.
#[test]
fn one_bad_line_stores_nothing_and_is_named() {
    let project = project();
    let file = project.path().join("lines.ndjson");
    let big = format!("{{\"data\": \"{}\"}}", "x".repeat(2 << 20));
    for (bad, part) in [
        ("{\"data\": 1", ""),
        ("[]", ""),
        ("{}", "data"),
        ("{\"data\": 1, \"data_base64\": \"\"}", "data_base64"),
        ("{\"data_base64\": \"?\"}", "data_base64"),
        ("{\"date\": 1}", "`date`"),
        ("{\"data\": 1, \"metadata\": {\"windlass-id\": \"x\"}}", "windlass-id"),
        ("{\"data\": 1, \"key\": \"\"}", "`key` is empty"),
        ("{\"data\": 1, \"dedup_id\": \"\"}", "`dedup_id` is empty"),
        ("{\"data\": 1, \"delay\": \"soon\"}", "not a duration"),
        (&big, "at most 1048576 are allowed"),
    ] {
        std::fs::write(&file, format!("{{\"data\": 1}}\n{{\"data\": 2}}\n{bad}\n")).unwrap();
        let ended = project.run(&["publish", "new", "--ndjson", file.to_str().unwrap()]);
        ended.must(1, &["nothing was stored", "lines.ndjson:3: ", part]);
        assert_eq!(ended.out, "");
    }
    project.run(&["topic", "show", "new"]).must(1, &["there is no topic `new`"]);
}

#[test]
fn what_cannot_be_published_is_a_distinct_error_and_stores_nothing() {
    let project = project();
    let big = vec![0; (1 << 20) + 1];
    project.run_with(&["publish", "new"], &big).must(1, &["too large", "1048576"]);
    for (args, code, part) in [
        (&["publish", "a//b", "--data", "x"][..], 2, "a//b"),
        (&["publish", "new", "--data", "x", "--file", "y"], 2, "cannot be used with"),
        (&["publish", "new", "--data", "x", "-m", "windlass-id=1"], 2, "windlass-"),
        (&["publish", "new", "--data", "x", "-m", "novalue"], 2, "KEY=VALUE"),
        (&["publish", "new", "--file", "/no/such"], 1, "/no/such"),
        (&["publish", "new", "--data", "x", "--key", ""], 2, "it is empty"),
        (&["publish", "new", "--data", "x", "--delay", "soon"], 2, "not a duration"),
        (
            &["publish", "new", "--data", "x", "--delay", "1s", "--at", "2000-01-01T00:00:00Z"],
            2,
            "cannot be used with",
        ),
        (&["publish"], 2, "TOPIC"),
    ] {
        project.run(args).must(code, &[part]);
    }
    project.run(&["topic", "show", "new"]).must(1, &["there is no topic `new`"]);
}

#[test]
fn without_a_log_a_command_says_where_it_looked_and_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().canonicalize().unwrap();
    for args in [
        &["publish", "t", "--data", "x"][..],
        &["topic", "ls"],
        &["topic", "show", "t"],
        &["dlq", "ls", "t"],
        &["dlq", "redrive", "t"],
        &["dlq", "purge", "t", "--yes"],
    ] {
        let mut command = windlass(args);
        command.current_dir(&at);
        run(command, b"").must(1, &[".windlass", at.to_str().unwrap(), "next: "]);
        let named = at.join("elsewhere");
        let more = ["--log", named.to_str().unwrap()];
        run(windlass(&[args, &more].concat()), b"").must(1, &["elsewhere", "next: "]);
    }
    assert_eq!(std::fs::read_dir(&at).unwrap().count(), 0, "something was made");
}

#[test]
fn the_log_is_found_from_a_folder_below_by_flag_and_by_environment() {
    let project = project();
    let below = project.path().join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let log = project.log();
    let publish = ["publish", "in", "--data", "x"];
    let mut found_upwards = windlass(&publish);
    found_upwards.current_dir(&below);
    let by_flag = windlass(&[&publish[..], &["--log", log.to_str().unwrap()]].concat());
    let mut by_environment = windlass(&publish);
    by_environment.env("WINDLASS_LOG", &log);
    for command in [found_upwards, by_flag, by_environment] {
        run(command, b"").must(0, &[]);
    }
    assert_eq!(project.topic("in")["ready"], json!(3));
}

/// Goal: who publishes from another process finds the running consumer awake. The time from the
/// publisher's end to the delivery's line is printed.
#[test]
fn a_publish_from_another_process_is_handled_within_moments() {
    let project = Project::of("echo", "[consumer.allow]\npublish = [\"echo/out\"]");
    let mut dev = Dev::ready(&project, &["--no-samples"]);
    let mut spans = Vec::new();
    for _ in 0..10 {
        let id = project.json(&["publish", "echo", "--data", "x"])[0]["id"].clone();
        let start = Instant::now();
        dev.until(|event: &Value| event["id"] == id && event["disposition"] == "ack");
        spans.push(start.elapsed());
    }
    dev.signal("INT");
    dev.end().must(0, &[]);
    spans.sort_unstable();
    println!("median {:.1?}, worst {:.1?}", spans[5], spans[9]);
    assert!(spans[5] < Duration::from_millis(500), "{spans:?}");
    assert_eq!(project.topic("echo/out")["ready"], json!(10));
}

/// Laws 3 and 5, from the command line.
#[test]
fn a_known_dedup_id_answers_the_first_id_and_a_delayed_message_waits() {
    let project = project();
    let once = ["publish", "orders", "--data", "x", "--dedup-id", "order-7"];
    let first = project.json(&once).remove(0);
    let again = project.json(&once).remove(0);
    assert_eq!((&first["duplicate"], &again["duplicate"]), (&json!(false), &json!(true)));
    assert_eq!(first["id"], again["id"]);
    let id = project.json(&["publish", "orders", "--data", "later", "--delay", "1h", "--key", "k"]);
    let topic = project.topic("orders");
    assert_eq!((&topic["ready"], &topic["delayed"]), (&json!(1), &json!(1)), "{topic}");
    let id = id[0]["id"].as_str().unwrap();
    let shown = project.json(&["message", "show", id]).remove(0);
    assert_eq!(shown["key"], "k");
    assert!(!shown["due"].is_null(), "{shown}");
}

/// Law 10: one at a time and in order within a key, though ten may run.
#[test]
fn messages_of_one_key_are_handled_one_at_a_time_and_in_order() {
    let project = Project::of("poison", "concurrency = 10\n");
    project.make_log();
    let line = |at: usize| format!("{{\"data\":\"sleep:5\",\"key\":\"k{}\"}}\n", at % 3);
    let lines: String = (0..60).map(line).collect();
    let published =
        project.run_with(&["publish", "poison", "--ndjson", "-", "--json"], lines.as_bytes());
    let ids: Vec<_> =
        published.objects().iter().map(|o| o["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), 60);
    let ended = project.until_idle(&["--no-samples"]);
    ended.must(0, &[]);
    let handled: Vec<_> =
        ended.deliveries().iter().map(|d| d["id"].as_str().unwrap().to_owned()).collect();
    for key in 0..3 {
        let of_key: Vec<_> = ids.iter().skip(key).step_by(3).collect();
        let order: Vec<_> = handled.iter().filter(|id| of_key.contains(id)).collect();
        assert_eq!(order, of_key, "key {key}");
    }
}
