//! `windlass check FILE.wasm`.

use super::failure::Failure;
use super::ui::{Tone, Ui, clean};
use crate::stage::told_while;
use bytesize::ByteSize;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use windlass_core::Limits;
use windlass_runtime::{CheckError, Component, Engine, EngineConfig, Needs, Report};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The component.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let config = EngineConfig { pooling: false, ..EngineConfig::default() };
    let engine = Engine::new(&config).map_err(|error| Failure::of(&error))?;
    let file = args.file.display().to_string();
    let load = Component::load_file(&engine, &args.file);
    let tell = |text: String| ui.note(&clean(&text));
    let loaded = tokio::select! {
        loaded = told_while(load, &args.file, &tell) => loaded,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new("interrupted")),
    };
    match loaded {
        Ok(component) if ui.json => ui.object(&body(&file, component.report())),
        Ok(component) => ui.data(&describe(&file, component.report(), ui)),
        Err(error) if ui.json => {
            let (text, next) = (error.to_string(), next_step(&error));
            ui.object(&json!({ "file": file, "ok": false, "error": text, "next": next }));
            return Err(failure(error, &file));
        }
        Err(error) => return Err(failure(error, &file)),
    }
    Ok(())
}

/// What to do about it; here no manifest names the file.
fn next_step(error: &CheckError) -> &'static str {
    if matches!(error, CheckError::Unreadable { .. }) {
        return "check the path, and that the build made the file";
    }
    error.next_step()
}

fn failure(error: CheckError, file: &str) -> Failure {
    let next = next_step(&error);
    // That one names the file by itself.
    let is_named = matches!(error, CheckError::Unreadable { .. });
    let failure = Failure::from(error).next(next);
    if is_named { failure } else { failure.because(format!("in `{file}`")) }
}

fn body(file: &str, report: &Report) -> serde_json::Value {
    let imports: Vec<_> = report
        .imports
        .iter()
        .map(|import| {
            json!({
                "name": import.name,
                "version": import.version,
                "offered": import.offered,
                "satisfied": import.satisfied,
            })
        })
        .collect();
    json!({
        "file": file,
        "ok": true,
        "digest": report.digest,
        "bytes": report.file_bytes,
        "shape": report.shape,
        "imports": imports,
        "exports": report.exports,
        "memories": report.needs.memories,
        "memory_bytes_min": report.memory_bytes_min,
        "tables": report.needs.tables,
    })
}

fn describe(file: &str, report: &Report, ui: &Ui) -> String {
    let mut text = format!("{} {}\n", ui.tone(Tone::Good, "ok"), clean(file));
    let mut line = |name: &str, value: &str| {
        let _infallible = writeln!(text, "  {name:<9} {}", clean(value));
    };
    line("shape", &report.shape);
    line("size", &ByteSize(report.file_bytes).to_string());
    line("digest", &report.digest);
    let least = report.memory_bytes_min;
    let limit = Limits::default().memory_bytes;
    line("memory", &format!("starts with {}", ByteSize(least)));
    if least > limit {
        line("", &format!("more than the default limit: set memory = \"{}\"", ByteSize(least)));
    }
    let Needs { memories, tables } = report.needs;
    line("pool", &format!("an instance takes {memories} of its memories, {tables} of its tables"));
    for import in &report.imports {
        line("imports", &import.to_string());
    }
    for export in &report.exports {
        line("exports", export);
    }
    text.truncate(text.trim_end().len());
    text
}
