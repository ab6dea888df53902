//! `windlass check`.

use crate::kit::{Ended, guest, run, windlass};
use serde_json::json;

fn check(file: &std::path::Path, more: &[&str]) -> Ended {
    run(windlass(&[&["check", file.to_str().unwrap()], more].concat()), b"")
}

/// Checks a file with these bytes.
fn check_bytes(bytes: &[u8], more: &[&str]) -> Ended {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("some.wasm");
    std::fs::write(&file, bytes).unwrap();
    check(&file, more)
}

#[test]
fn every_example_passes_and_its_imports_are_listed() {
    for name in ["bench", "echo", "poison", "slow", "webhooks"] {
        let ended = check(&guest(name), &["--json"]);
        ended.must(0, &[]);
        let object = ended.last();
        assert_eq!(object["ok"], json!(true), "{object}");
        for key in ["file", "digest", "bytes", "shape", "imports", "exports", "memory_bytes_min"] {
            assert!(!object[key].is_null(), "{key}: {object}");
        }
        let imports = object["imports"].as_array().unwrap();
        assert!(imports.iter().all(|import| import["name"].is_string()), "{object}");
        let text = check(&guest(name), &[]);
        text.must(0, &[]);
        assert!(text.out.contains("wasi:messaging"), "{text:?}");
    }
}

#[test]
fn what_is_no_consumer_is_refused_with_the_reason_and_what_to_do() {
    let module = b"\0asm\x01\0\0\0";
    let empty_component = b"\0asm\x0d\0\x01\0";
    for (bytes, reason) in [
        (&module[..], "core WebAssembly module"),
        (empty_component, "does not export `wasi:messaging/incoming-handler"),
        (b"#!/bin/sh\n", "not WebAssembly"),
        (b"", "not WebAssembly"),
        (b"\0asm", "does not compile"),
        (b"\0asm\x0d\0\x01\0garbage", "does not compile"),
    ] {
        check_bytes(bytes, &[]).must(1, &["error: ", reason, "next: "]);
        let object = check_bytes(bytes, &["--json"]).must(1, &[]).last();
        assert_eq!(object["ok"], json!(false));
        assert!(object["error"].as_str().unwrap().contains(reason), "{object}");
    }
}

#[test]
fn a_file_that_is_not_there_is_an_error_and_no_file_is_a_wrong_usage() {
    check(std::path::Path::new("/no/such.wasm"), &[]).must(1, &["/no/such.wasm"]);
    run(windlass(&["check"]), b"").must(2, &["Usage"]);
}
