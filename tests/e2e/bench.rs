//! `windlass bench`.

use crate::kit::{run, windlass};

/// Goal: it runs anywhere, with nothing beside it, leaves nothing, and answers by the names that
/// are promised. How fast a machine that also runs tests is, is not asked.
#[test]
fn it_measures_in_any_folder_leaves_nothing_and_answers_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = windlass(&["bench", "--json", "--messages", "256"]);
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
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something is left");
}
