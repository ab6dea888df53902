//! `windlass bench`.

use crate::kit::{run, signal, wait, windlass};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Goal: it runs anywhere, with nothing beside it, leaves nothing, and answers by the names that
/// are promised. How fast a machine that also runs tests is, is not asked.
#[test]
fn it_measures_in_any_folder_leaves_nothing_and_answers_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["--messages", "256", "--groups", "2", "--keys", "8", "--backlog", "6000"];
    let mut command = windlass(&["bench", "--json"]);
    command.args(options);
    command.current_dir(folder.path());
    let ended = run(command, b"");
    ended.must(0, &[]);
    let objects = ended.objects();
    assert_eq!(objects.len(), 1, "{ended:?}");
    let object = objects[0].as_object().unwrap();
    for key in [
        "fsync_ms",
        "publish_per_s",
        "publish_claim_ack_per_s",
        "end_to_end_per_s",
        "fresh_per_s",
        "publish_ms",
        "ten_groups_cost",
        "lone_publish_ms",
        "idle_latency_ms",
        "claim_ms",
        "bare",
        "ratio",
    ] {
        assert!(object.contains_key(key), "{key} in {ended:?}");
    }
    for (of, keys) in [
        ("fsync_ms", &["p50", "p99"][..]),
        ("bare", &["insert_64", "row_queue_pipeline", "fresh"]),
        ("ratio", &["publish", "publish_claim_ack", "end_to_end", "fresh"]),
    ] {
        for key in keys {
            assert!(object[of].as_object().unwrap().contains_key(*key), "{of}.{key}");
        }
    }
    assert!(object["publish_per_s"].as_f64().unwrap() > 0.0, "{ended:?}");
    assert!(object["lone_publish_ms"]["p99"].as_f64().unwrap() > 0.0, "{ended:?}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
}

/// Goal: whoever ends it, with Ctrl-C or as a service manager does, finds nothing of it left.
#[test]
fn an_ended_run_leaves_nothing() {
    for name in ["INT", "TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = windlass(&["bench", "--json"]);
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // It says what it measures once its folder is there.
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("measuring") {}
        signal(name, child.id());
        assert_eq!(wait(&mut child), Some(1));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
}
