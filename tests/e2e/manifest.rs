//! Mistakes in `windlass.toml`, as a user meets them.

use crate::kit::{Dev, Project, consumer};

fn refused(manifest: &str, parts: &[&str]) {
    let project = Project::new(manifest);
    let ended = Dev::start(&project, &["--until-idle"]).end();
    ended.must(1, parts);
    assert!(!project.log().exists(), "a log was made for {manifest}");
}

#[test]
fn an_unknown_key_names_the_nearest_known_one() {
    let manifest = consumer("echo", "max-atempts = 3");
    refused(&manifest, &["windlass.toml:5: ", "`max-atempts`", "`max-attempts`"]);
}

#[test]
fn a_known_key_that_is_not_built_yet_is_refused_as_such() {
    let folders = "[consumer.allow]\nfolders = [\"data\"]";
    refused(&consumer("echo", folders), &["`folders`", "not built yet"]);
    let http = "[consumer.allow]\nhttp = [\"example.com\"]";
    refused(&consumer("echo", http), &["`http`", "not built yet"]);
}

#[test]
fn two_mistakes_are_told_at_once() {
    let manifest = consumer("echo", "lease = \"soon\"\n[consumer.limits]\nmemory = \"much\"");
    refused(&manifest, &["2 problems", ":5: ", "`lease`", ":7: ", "`memory`"]);
}

#[test]
fn no_manifest_and_no_component_are_told_with_the_place() {
    let project = Project::of("echo", "");
    std::fs::remove_file(project.path().join("windlass.toml")).unwrap();
    Dev::start(&project, &[]).end().must(1, &["windlass.toml", "next: "]);
    project.rewrite("[[consumer]]\nname = \"c\"\ncomponent = \"gone.wasm\"\ntopics = [\"t\"]\n");
    project.until_idle(&[]).must(1, &["gone.wasm", "consumer `c`"]);
    assert!(!project.log().exists());
}

#[test]
fn a_build_that_fails_ends_the_run_before_anything_is_stored() {
    let project = Project::of("echo", "build = \"echo compiling; exit 7\"");
    let ended = Dev::start(&project, &["--no-watch"]).end();
    ended.must(1, &["compiling", "the build of `c` failed", "exit 7"]);
    assert!(!project.log().exists());
}
