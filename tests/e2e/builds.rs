//! What `windlass dev` builds while files change, and what it does not.

use crate::kit::Dev;
use crate::kit::Project;
use crate::watch::{is, manifest, project, publish, serving, variant, write};
use serde_json::json;
use std::time::Duration;

#[test]
fn a_build_that_fails_leaves_the_old_code_until_it_is_mended() {
    let build = "build = \"sh build.sh\"\nwatch = [\"build.sh\"]";
    let project = project("echo", build);
    write(&project, "build.sh", "exit 0");
    let mut dev = Dev::start(&project, &[]);
    let old = serving(&mut dev);
    write(&project, "build.sh", "echo working; echo 'error: no such thing' >&2; exit 7");
    let problem = dev.until(|event| is(event, "problem"));
    assert!(problem["what"].as_str().unwrap().contains("exit status: 7"), "{problem}");
    assert_eq!(problem["why"][0], "error: no such thing");
    assert!(problem["meanwhile"].as_str().unwrap().contains(&old), "{problem}");
    publish(&project, "echo", "x");
    assert_eq!(dev.until(|event| is(event, "delivery"))["revision"], old.as_str());
    std::fs::write(project.path().join("next.wasm"), variant("echo", 1)).unwrap();
    write(&project, "build.sh", "cp next.wasm app.wasm");
    dev.until(|event| is(event, "mended"));
    let new = serving(&mut dev);
    assert_ne!(old, new);
    publish(&project, "echo", "x");
    assert_eq!(dev.until(|event| is(event, "delivery"))["revision"], new.as_str());
    dev.signal("INT");
    let ended = dev.end();
    let problems = ended.objects().into_iter().filter(|event| is(event, "problem")).count();
    assert_eq!(problems, 1, "said once");
}

#[test]
fn a_build_that_the_manifest_comes_back_to_runs_again() {
    let build = |name: &str| format!("build = \"echo {name} >> built.txt\"\nwatch = [\"src\"]");
    let project = project("echo", &build("a"));
    let mut dev = Dev::start(&project, &[]);
    serving(&mut dev);
    for name in ["b", "a"] {
        project.rewrite(&manifest("echo", &build(name)));
        dev.until(|event| is(event, "built"));
    }
    dev.signal("INT");
    dev.end().must(0, &[]);
    let ran = std::fs::read_to_string(project.path().join("built.txt")).unwrap();
    assert_eq!(ran.split_whitespace().collect::<String>(), "aba");
}

/// What mended it is in no file that is watched: a save without a change tries again.
#[test]
fn a_broken_build_is_tried_again_by_a_save_without_a_change() {
    let project = project("echo", "build = \"test -e mended\"\nwatch = [\"src\"]");
    write(&project, "src/lib.rs", "x");
    let mut dev = Dev::start(&project, &[]);
    dev.until(|event| is(event, "problem"));
    write(&project, "mended", "");
    write(&project, "src/lib.rs", "x");
    dev.until(|event| is(event, "mended"));
    serving(&mut dev);
    dev.signal("INT");
    dev.end().must(0, &[]);
}

/// What it writes is new each time, into the very folder that is watched.
#[test]
fn a_build_that_writes_where_it_is_watched_does_not_loop() {
    let build = "build = \"date +%s%N > made.txt; cp app.wasm copy.tmp\"";
    let project = project("echo", build);
    let mut dev = Dev::start(&project, &[]);
    write(&project, "lib.rs", "one");
    let own = dev.until(|event| is(event, "own-files"));
    assert_eq!(own["files"], json!(["made.txt"]));
    write(&project, "lib.rs", "two");
    dev.until(|event| is(event, "built"));
    // Time for another round, if there were one.
    std::thread::sleep(Duration::from_millis(1_500));
    dev.signal("INT");
    let builds: Vec<_> =
        dev.end().objects().into_iter().filter(|event| is(event, "building")).collect();
    assert!(builds.len() <= 4, "{builds:#?}");
    assert_eq!(builds.last().unwrap()["changed"], json!(["lib.rs"]));
}

#[test]
fn a_change_builds_what_it_touches_and_no_more() {
    let consumer = |name: &str| {
        format!(
            "[[consumer]]\nname = \"{name}\"\ncomponent = \"app.wasm\"\ntopics = [\"{name}\"]\n\
             build = \"echo {name} >> built.txt\"\nwatch = [\"{name}\", \"shared\"]\n"
        )
    };
    let project = Project::new(&[consumer("a"), consumer("b")].concat());
    std::fs::write(project.path().join("app.wasm"), variant("echo", 0)).unwrap();
    for file in ["a/x", "b/x", "shared/x"] {
        write(&project, file, "1");
    }
    let mut dev = Dev::start(&project, &[]);
    // Neither a touch nor a file that nobody watches.
    serving(&mut dev);
    serving(&mut dev);
    write(&project, "b/x", "1");
    write(&project, "other", "x");
    for (file, expected) in
        [("a/x", json!(["a"])), ("b/x", json!(["b"])), ("shared/x", json!(["a", "b"]))]
    {
        write(&project, file, "2");
        let building = dev.until(|event| is(event, "building"));
        assert_eq!((&building["consumers"], &building["changed"]), (&expected, &json!([file])));
        dev.until(|event| is(event, "built"));
    }
    dev.signal("INT");
    dev.end().must(0, &[]);
    let built = std::fs::read_to_string(project.path().join("built.txt")).unwrap();
    assert_eq!(built.split_whitespace().collect::<String>(), "ab".to_owned() + "a" + "b" + "ab");
}

/// A start is not given up as long as somebody may mend it; without watching it is.
#[test]
fn a_start_that_fails_waits_for_whoever_mends_it() {
    let build = "build = \"sh build.sh\"\nwatch = [\"build.sh\"]";
    let project = project("echo", build);
    write(&project, "build.sh", "exit 1");
    project.until_idle(&[]).must(1, &["the build of `c` failed"]);
    let mut dev = Dev::start(&project, &[]);
    let problem = dev.until(|event| is(event, "problem"));
    assert!(problem["meanwhile"].as_str().unwrap().contains("nothing of it runs"), "{problem}");
    let id = publish(&project, "echo", "early");
    write(&project, "build.sh", "exit 0");
    assert_eq!(dev.until(|event| is(event, "delivery"))["id"], id.as_str());
    write(&project, "build.sh", "exit 3");
    dev.until(|event| is(event, "problem"));
    dev.signal("INT");
    dev.end().must(0, &[]);
    // Nothing ever ran: that is an error, though somebody asked it to end.
    let mut dev = Dev::start(&project, &[]);
    dev.until(|event| is(event, "problem"));
    dev.signal("INT");
    dev.end().must(1, &[]);
}
