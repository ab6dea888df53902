//! What a new project holds, against the folders that it is made of.

use super::{File, Lang, ProjectName, lockfile, make};
use crate::cli::Exit;
use crate::manifest::{FILE_NAME, Manifest};
use std::path::{Path, PathBuf};

fn name(name: &str) -> ProjectName {
    ProjectName::new(name).unwrap()
}

fn project(of: &str) -> Vec<File> {
    Lang::Rust.template().unwrap().project(&name(of)).unwrap()
}

fn text(files: &[File], path: &str) -> String {
    files.iter().find(|file| file.path == path).unwrap().text.clone()
}

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// All files below `folder`, by their path in it.
fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let entry_name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(below(&entry.path()).iter().map(|path| format!("{entry_name}/{path}")));
        } else {
            found.push(entry_name);
        }
    }
    found
}

#[test]
fn every_file_of_wit_is_in_a_project_as_it_is() {
    let files = project("hello");
    let wit = here("../../wit");
    let found = below(&wit);
    assert!(found.len() >= 6, "{found:?}");
    for path in &found {
        let original = std::fs::read_to_string(wit.join(path)).unwrap();
        assert_eq!(text(&files, &format!("wit/{path}")), original);
    }
    assert_eq!(files.iter().filter(|file| file.path.starts_with("wit/")).count(), found.len());
}

#[test]
fn every_file_of_the_template_is_in_a_project_and_no_placeholder_is_left() {
    for of in ["hello", "a-b_c"] {
        let files = project(of);
        for path in below(&here("templates/rust")) {
            let path = path.trim_end_matches(".in").replace("gitignore", ".gitignore");
            assert!(files.iter().any(|file| file.path == path), "{path}");
        }
        for File { path, text } in &files {
            assert!(!text.contains("@NAME@") && !text.contains("@CRATE@"), "{path}");
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{path}");
        }
    }
    let files = project("a-b_c");
    assert!(text(&files, "Cargo.toml").contains("\nname = \"a-b_c\"\n"));
    assert!(text(&files, FILE_NAME).contains("/release/a_b_c.wasm\"\n"));
}

/// What the examples were built and tested with; fetched with them, too.
#[test]
fn the_dependencies_are_those_of_the_examples() {
    let packages = |lock: &str| {
        let packages = lock.split("\n[[package]]\n").skip(1).map(str::trim_end);
        let packages = packages.filter(|package| package.contains("\nsource = "));
        packages.map(str::to_owned).collect::<Vec<_>>()
    };
    let lock = text(&project("hello"), "Cargo.lock");
    let examples = std::fs::read_to_string(here("../../guest-examples/Cargo.lock")).unwrap();
    assert_eq!(packages(&lock), packages(&examples), "copy what changed into the template");
    assert!(lockfile::names(&lock).any(|package| package == "hello"));
}

/// Also with all that stands there as a comment: what is shown must be true.
#[test]
fn the_manifest_is_valid_with_and_without_its_comments() {
    for of in ["hello", "a-b_c"] {
        let files = project(of);
        let root = tempfile::tempdir().unwrap();
        make(root.path(), &files).unwrap();
        let plain = text(&files, FILE_NAME);
        let shown = |line: &str| line.contains(" = ") || line.starts_with('[');
        let uncommented: Vec<&str> = plain
            .lines()
            .map(|line| line.strip_prefix("# ").filter(|rest| shown(rest)).unwrap_or(line))
            .collect();
        let parse = |text: &str| Manifest::parse(&root.path().join(FILE_NAME), text).unwrap();
        let manifest = parse(&plain);
        assert_eq!(manifest.consumers[0].name, of);
        assert_eq!(manifest.samples[0].topic.as_str(), of);
        let whole = parse(&uncommented.join("\n"));
        assert_eq!(whole.consumers[0].group.as_str(), "audit");
        assert_eq!(whole.consumers[0].grants.publish.len(), 1);
        assert_eq!(whole.consumers[0].grants.env.len(), 1);
        // Those said to be defaults are.
        assert_eq!(whole.consumers[0].policy, manifest.consumers[0].policy);
        assert_eq!(whole.consumers[0].limits, manifest.consumers[0].limits);
        assert_eq!(whole.consumers[0].concurrency, manifest.consumers[0].concurrency);
    }
}

#[test]
fn a_name_that_rust_or_a_dependency_has_is_refused() {
    for taken in ["fn", "test", "proc-macro", "build", "syn", "wit-bindgen", "wit_bindgen"] {
        let failure = Lang::Rust.template().unwrap().project(&name(taken)).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage, "{taken}");
        assert_eq!(failure.next, Some(format!("windlass new {taken}-consumer")));
        project(&format!("{taken}-consumer"));
    }
}

#[test]
fn a_language_without_a_template_names_the_one_that_has() {
    for lang in [Lang::JavaScript, Lang::Python] {
        let failure = lang.template().unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.what.contains("yet") && failure.why[0].contains("Rust"), "{failure:?}");
    }
}
