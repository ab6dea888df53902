//! Components are checked whole when loaded: each way to be wrong has a sentence of its own.

use crate::binary::{exporting, renamed};
use crate::support::{ENGINE, bytes, config, deliver, guest, message, path};
use windlass_runtime::{CheckError, Component, Consumer, Engine, EngineConfig};

fn refused(bytes: &[u8]) -> CheckError {
    match Component::load(&ENGINE, bytes) {
        Ok(_) => panic!("it was loaded"),
        Err(error) => error,
    }
}

#[test]
fn what_is_no_component_is_told_apart() {
    assert!(matches!(refused(b""), CheckError::NotWasm { .. }));
    assert!(refused(b"").to_string().contains("empty"));
    assert!(refused(b"(component)").to_string().contains("text form"));
    assert!(refused(b"\x7fELF").to_string().contains("not WebAssembly"));
    assert_eq!(refused(b"\0asm\x01\0\0\0"), CheckError::CoreModule);
    assert!(matches!(refused(b"\0asm\x0d\0\x01\0\xff"), CheckError::Invalid { .. }));
    let mut cut = bytes("echo");
    cut.truncate(cut.len() / 2);
    assert!(matches!(refused(&cut), CheckError::Invalid { .. }));
    let huge = vec![0; (64 << 20) + 1];
    assert!(refused(&huge).to_string().contains("64 MiB"));
}

#[test]
fn other_contracts_are_named() {
    let other = |export: &str, function: &str, is_async: bool| {
        let error = refused(&exporting(export, function, is_async));
        assert!(matches!(error, CheckError::OtherShape { .. }), "{export}: {error}");
        error.to_string()
    };
    let draft = "@0.2.0-draft";
    let older = other(&format!("wasi:messaging/messaging-guest{draft}"), "handler", false);
    assert!(older.contains("October 2024"), "{older}");
    let omnia = other(&format!("wasi:messaging/incoming-handler{draft}"), "handle", true);
    assert!(omnia.contains("async func"), "{omnia}");
    assert!(
        other("wasmcloud:messaging/handler@0.2.0", "handle-message", false).contains("wasmcloud")
    );
    assert!(
        other("wasmcloud:messaging/handler@0.3.0", "handle-message", true).contains("wasmcloud")
    );
    assert!(other("fermyon:spin/inbound-redis", "handle-message", false).contains("Spin"));
    assert!(other("spin:redis/inbound-redis@3.0.0", "handle-message", true).contains("Spin"));
    assert!(
        other("wasi:messaging/incoming-handler@0.3.0", "handle", false).contains("another version")
    );
}

#[test]
fn the_name_alone_is_not_the_shape() {
    let export = "wasi:messaging/incoming-handler@0.2.0-draft";
    let error = refused(&exporting(export, "handle", false));
    assert!(
        matches!(&error, CheckError::Handler { why, .. } if why.contains("one message")),
        "{error}"
    );
    let error = refused(&exporting(export, "configure", false));
    assert!(
        matches!(&error, CheckError::Handler { why, .. } if why.contains("no function")),
        "{error}"
    );
    let error = refused(&exporting("test:test/b", "f", false));
    assert_eq!(error, CheckError::NoHandler { exports: vec!["test:test/b".into()] });
}

#[test]
fn missing_imports_are_named_with_both_versions() {
    let poison = bytes("poison");
    let missing = refused(&renamed(&poison, "wasi:cli/exit@", "wasi:cli/exot@"));
    let CheckError::MissingImports { imports } = &missing else { panic!("{missing}") };
    assert_eq!((imports.len(), imports[0].name.as_str()), (1, "wasi:cli/exot"));
    assert_eq!(imports[0].offered, None);

    let older = refused(&renamed(
        &poison,
        "windlass:messaging/delivery@0.1.",
        "windlass:messaging/delivery@0.7.",
    ));
    let text = older.to_string();
    assert!(text.contains("`windlass:messaging/delivery` 0.7.0 (offered: 0.1.0)"), "{text}");

    // Another release of the same track is the same.
    let patch =
        renamed(&poison, "windlass:messaging/delivery@0.1.0", "windlass:messaging/delivery@0.1.9");
    assert!(Component::load(&ENGINE, &patch).is_ok());
}

#[test]
fn a_missing_function_is_named() {
    let error = refused(&renamed(&bytes("poison"), "retry-after", "retry-aftor"));
    assert!(
        matches!(&error, CheckError::ImportType { why } if why.contains("retry-aftor")),
        "{error}"
    );
}

#[test]
fn the_report_tells_what_a_component_takes() {
    let component = guest("poison");
    let report = component.report();
    assert_eq!(component.digest().len(), 64);
    assert_eq!(component.short_digest(), &component.digest()[..8]);
    assert_eq!(report.file_bytes, bytes("poison").len() as u64);
    assert_eq!(report.exports, ["wasi:messaging/incoming-handler@0.2.0-draft"]);
    assert!(report.memory_bytes_min >= 64 << 10 && report.needs.memories == 1, "{report:?}");
    assert!(report.imports.iter().all(|import| import.satisfied));
    assert!(report.imports.iter().any(|import| import.name == "windlass:messaging/delivery"));
}

#[test]
fn too_little_memory_to_start_is_said_before_the_first_message() {
    let mut config = config();
    config.limits.memory_bytes = 64 << 10;
    let refused = Consumer::new(&guest("poison"), config).err().unwrap();
    assert!(matches!(refused, CheckError::Memory { .. }), "{refused}");
}

#[tokio::test]
async fn a_file_is_loaded_off_the_async_threads() {
    assert!(Component::load_file(&ENGINE, &path("echo")).await.is_ok());
    let missing = Component::load_file(&ENGINE, "no/such/file.wasm".as_ref()).await.err().unwrap();
    assert!(missing.to_string().contains("no/such/file.wasm"), "{missing}");
}

#[tokio::test]
async fn a_component_that_was_compiled_before_runs_as_well_and_starts_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Some(folder.path().join("cache"));
    let code = bytes("poison");
    let load = || {
        let config = EngineConfig { instances_max: 4, cache: cache.clone(), ..<_>::default() };
        let engine = Engine::new(&config).unwrap();
        let component = Component::load(&engine, &code).unwrap();
        (engine, component)
    };
    let (_, first) = load();
    let (_, again) = load();
    assert_eq!((first.was_cached(), again.was_cached()), (false, true));
    assert_eq!(first.report().imports.len(), again.report().imports.len());
    let consumer = Consumer::new(&again, config()).unwrap();
    for (way, expected) in [("ok", "ok"), ("panic", "trapped"), ("sends:3", "ok")] {
        assert_eq!(deliver(&consumer, message(way)).await.outcome.name(), expected);
    }
}
