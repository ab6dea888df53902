//! The table of seed behaviours and faults is true: each row is there, and each test that it names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const TABLE: &str = include_str!("../../src/conformance/rows.rs");
const CASES: &str = include_str!("../../src/conformance/cases.rs");

/// The rows of the table: a row's name, and the tests it names.
fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("//! | "));
    let rows = rows.filter_map(|row| row.strip_suffix(" |")?.split_once(" | "));
    let named = |tests: &'static str| tests.split('`').skip(1).step_by(2).collect();
    let rows = rows.filter(|(row, _)| *row != "row");
    rows.map(|(row, tests)| (row, named(tests))).collect()
}

/// All rows there are.
fn wanted() -> BTreeSet<String> {
    let all = |name: &'static str, last: usize| (1..=last).map(move |n| (name, n));
    let padded = all("A-", 22).chain(all("B-", 8)).map(|(name, n)| format!("{name}{n:02}"));
    let plain = all("W", 24).chain(all("B-w", 10)).map(|(name, n)| format!("{name}{n}"));
    padded.chain(plain).collect()
}

/// Files of Rust below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a test of this name stands in such a text: a function below `#[test]` or the like.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines.iter().enumerate().any(|(at, line)| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let is_named = line
            .strip_prefix("fn ")
            .is_some_and(|rest| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')));
        let above = lines[..at].iter().rev().take_while(|above| above.starts_with("#["));
        is_named && above.into_iter().any(|above| above.contains("test"))
    })
}

#[test]
fn every_row_of_the_list_is_there_once_with_its_tests() {
    let rows = rows();
    let names: BTreeSet<String> = rows.iter().map(|(row, _)| (*row).to_owned()).collect();
    assert_eq!(names, wanted());
    assert_eq!(rows.len(), names.len(), "a row stands twice");
    for (row, tests) in &rows {
        assert!(!tests.is_empty(), "{row} names no test");
    }
}

#[test]
fn every_test_that_the_table_names_is_there() {
    let cases: BTreeSet<&str> = CASES.lines().map(str::trim).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    for folder in ["host", "tests"] {
        sources(&root.join(folder), &mut files);
    }
    for (row, tests) in rows() {
        for name in tests {
            let Some((file, test)) = name.split_once("::") else {
                assert!(cases.contains(name), "{row}: there is no case `{name}`");
                continue;
            };
            let named = files.iter().filter(|path| path.file_stem().is_some_and(|s| s == file));
            let found = named.filter_map(|path| std::fs::read_to_string(path).ok());
            assert!(
                found.into_iter().any(|text| has_test(&text, test)),
                "{row}: there is no test `{name}`"
            );
        }
    }
}

/// Meta: what is not there is found out.
#[test]
fn a_name_that_is_no_test_is_told_from_one_that_is() {
    let text =
        "#[test]\n#[ignore]\nfn a_test() {}\n\nfn helper() {}\n#[tokio::test]\nasync fn b() {}";
    let found = ["a_test", "helper", "b", "a"].map(|name| has_test(text, name));
    assert_eq!(found, [true, false, true, false]);
}
