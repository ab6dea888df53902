//! `windlass doctor`.

use crate::kit::{Dev, Ended, Project, run, windlass};
use crate::log;
use serde_json::{Value, json};

/// A log with two messages on `poison` that only the group `g` has to settle.
fn with_group() -> Project {
    let project = Project::of("poison", "group = \"g\"");
    project.make_log();
    for _ in 0..2 {
        project.run(&["publish", "poison", "--data", "ok"]).must(0, &[]);
    }
    project
}

fn doctor(project: &Project, code: i32) -> Value {
    let ended = project.run(&["doctor", "--json"]);
    ended.must(code, &[]);
    let mut objects = ended.objects();
    assert_eq!(objects.len(), 1, "one object: {ended:?}");
    objects.remove(0)
}

/// What is told, but for where the log happens to lie.
fn abouts(told: &Value) -> Vec<&str> {
    let findings = told["findings"].as_array().unwrap();
    for finding in findings {
        for key in ["level", "about", "what", "next"] {
            assert!(finding[key].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
    }
    let of_machine = ["in-memory", "not-local", "space-small"];
    let abouts = findings.iter().map(|finding| finding["about"].as_str().unwrap());
    abouts.filter(|about| !of_machine.contains(about)).collect()
}

#[test]
fn a_log_that_is_well_is_told_with_its_settings() {
    let project = with_group();
    let told = doctor(&project, 0);
    assert_eq!((&told["ok"], abouts(&told)), (&json!(true), vec![]), "{told:#}");
    let file = &told["file"];
    assert_eq!((&file["schema"], &file["journal_mode"]), (&json!(7), &Value::Null), "{file}");
    assert_eq!((&file["synchronous"], &file["auto_vacuum"]), (&json!("full"), &json!(true)));
    assert_eq!((&file["page_bytes"], &file["wal_cap_bytes"]), (&json!(4_096), &json!(64 << 20)));
    assert!(file["sqlite"].as_str().unwrap() >= "3.51.3", "{file}");
    assert!(file["compile_options"].as_array().unwrap().iter().any(|one| one == "THREADSAFE=1"));
    assert_eq!(file["listeners"], json!(0));
    let recount = &told["recount"];
    assert_eq!((&recount["topics"], &recount["groups"]), (&json!(1), &json!(1)));
    assert!(recount["rows"].as_u64().unwrap() >= 2, "{recount}");
    assert_eq!((&recount["drift"], &recount["disturbed"]), (&json!([]), &json!(0)));
    assert!(told["disk"]["fsync_ms"]["p50"].as_f64().unwrap() > 0.0, "{told:#}");
    assert!(told["disk"]["fsync_ms"]["p99"].as_f64() >= told["disk"]["fsync_ms"]["p50"].as_f64());
    assert!(told["disk"]["free_bytes"].is_u64() && told["disk"]["folder_writable"] == true);
    assert_eq!(told["capabilities"]["fence"], json!("strict"));
    assert!(told["clock"]["ahead_ms"].as_i64().unwrap().abs() < 60_000, "{told:#}");
    assert_eq!(told["clock"]["this_boot"], json!(true));
    let names: Vec<_> = std::fs::read_dir(project.log()).unwrap().flatten().collect();
    assert!(names.iter().all(|name| !name.file_name().to_str().unwrap().starts_with("doctor")));
    let ended = project.run(&["doctor"]);
    ended.must(0, &[]);
    for part in ["SQLite", "fsync", "write-ahead", "recounted", "log time", "fence strict"] {
        assert!(ended.out.contains(part), "{part}: {ended:?}");
    }
}

/// Beside a run, which it neither disturbs nor stops.
#[test]
fn a_running_log_is_looked_at() {
    let project = with_group();
    let dev = Dev::ready(&project, &["--no-samples"]);
    let told = doctor(&project, 0);
    assert_eq!((abouts(&told), &told["file"]["listeners"]), (vec![], &json!(1)), "{told:#}");
    assert_eq!(told["file"]["journal_mode"], json!("wal"));
    dev.signal("INT");
    dev.end().must(0, &[]);
}

#[test]
fn drift_is_an_error_with_both_figures() {
    let project = with_group();
    log::execute(&project.log(), "update grp set dead = 3");
    let told = doctor(&project, 1);
    assert_eq!((&told["ok"], abouts(&told)), (&json!(false), vec!["drift"]), "{told:#}");
    let expected = json!([{
        "topic": "poison", "group": "g", "figure": "dead letters", "kept": 3, "found": 0,
    }]);
    assert_eq!(told["recount"]["drift"], expected);
    let ended = project.run(&["doctor"]);
    ended.must(1, &[]);
    let line = "error: dead letters of `poison`, group `g`: 3 are kept, and there are 0";
    assert!(ended.out.contains(line) && ended.out.contains("errors: 1"), "{ended:?}");
}

/// Log time is ahead after an hour in which the wall clock was wrong; two days ahead, the messages
/// from before have waited for as long.
#[test]
fn what_waits_for_days_is_told_with_who_pins_it_and_a_clock_ahead() {
    let project = with_group();
    project.run(&["group", "add", "poison", "young", "--start", "latest"]).must(0, &[]);
    log::execute(&project.log(), "update state set offset_ms = offset_ms + 2 * 86400000");
    let told = doctor(&project, 0);
    assert_eq!(abouts(&told), ["clock-ahead", "unread-long"], "{told:#}");
    assert!(told["clock"]["ahead_ms"].as_i64().unwrap() > 2 * 86_000_000);
    let unread = told["findings"].as_array().unwrap().iter();
    let unread = unread.clone().find(|one| one["about"] == "unread-long").unwrap();
    assert_eq!(unread["next"], json!("windlass group show poison g"));
    let topic = project.topic("poison");
    assert_eq!(topic["pinned_by"], json!("g"));
    let ended = project.run(&["topic", "show", "poison"]);
    ended.must(0, &["warning: group `g` of `poison`", "next: windlass group show poison g"]);
    assert!(ended.out.contains("2days") && ended.out.contains("for g"), "{ended:?}");
    let ended = project.run(&["doctor"]);
    ended.must(0, &[]);
    assert!(ended.out.contains("warnings: 2") || ended.out.contains("warnings: 3"), "{ended:?}");
}

fn in_folder(folder: &std::path::Path, args: &[&str]) -> Ended {
    let mut command = windlass(&[args, &["--log", folder.to_str().unwrap()]].concat());
    command.current_dir(std::env::temp_dir());
    run(command, b"")
}

/// Files that are no log, or damaged, are told by the commands that open them and by `doctor`.
#[test]
fn what_cannot_be_read_is_an_error_with_what_to_do() {
    let project = with_group();
    let file = project.log().join("windlass.db");
    let whole = std::fs::read(&file).unwrap();
    let both = |parts: &[&str]| {
        for args in [&["doctor"][..], &["publish", "poison", "--data", "x"]] {
            in_folder(&project.log(), args).must(1, parts);
        }
    };
    let mut header = whole.clone();
    header[..100].fill(b'x');
    std::fs::write(&file, &header).unwrap();
    both(&["is not a Windlass log", "next: "]);
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    let ended = in_folder(&project.log(), &["doctor"]);
    ended.must(1, &[]);
    assert!(format!("{}{}", ended.out, ended.err).contains("next: "), "{ended:?}");
    for (version, parts) in [
        (99_u32, ["schema 99", "next: install a newer Windlass"]),
        (1, ["schema 1,", "next: start a new log"]),
    ] {
        let mut other = whole.clone();
        other[60..64].copy_from_slice(&version.to_be_bytes());
        std::fs::write(&file, &other).unwrap();
        both(&parts);
    }
    std::fs::write(&file, &whole).unwrap();
    doctor(&project, 0);
    in_folder(&project.path().join("gone"), &["doctor"]).must(1, &["there is no log", "next: "]);
}
