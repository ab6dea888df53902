//! Components: bytes that were compiled and checked whole, so that nothing about their shape can
//! surprise a delivery.
//!
//! Owns every sentence about a file that cannot be run.

use crate::bindings::GuestPre;
use crate::engine::Engine;
use crate::pool::{Needs, PoolSize};
use crate::report::{self, Import, Report};
use crate::shape;
use crate::store::StoreData;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wasmtime::Precompiled;

/// Largest file that is compiled. Compiling takes time that nothing else bounds.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

const LAYER_MODULE: &[u8] = b"\0asm\x01\0\0\0";

/// Why a file cannot be run as a consumer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckError {
    /// It could not be read.
    #[error("`{}` cannot be read: {why}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// It is larger than [`FILE_BYTES_MAX`].
    #[error("the file has {bytes} bytes; at most {FILE_BYTES_MAX} (64 MiB) are compiled")]
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// It is not WebAssembly.
    #[error("this is not WebAssembly: {why}")]
    NotWasm {
        /// What it looks like.
        why: String,
    },
    /// It is a core module.
    #[error("this is a core WebAssembly module, not a component")]
    CoreModule,
    /// It was compiled to machine code already.
    #[error("this is machine code compiled by wasmtime, which is never loaded from outside")]
    Precompiled,
    /// It is a component, but a broken one, or one that uses what the engine has not.
    #[error("the component does not compile: {why}")]
    Invalid {
        /// What the compiler says.
        why: String,
    },
    /// It was written for another contract.
    #[error("this component is {found}, which Windlass does not run yet")]
    OtherShape {
        /// Which.
        found: String,
    },
    /// It has no handler of any kind known.
    #[error(
        "the component does not export `wasi:messaging/incoming-handler@0.2.0-draft`; it exports {}",
        listed(exports)
    )]
    NoHandler {
        /// What it exports.
        exports: Vec<String>,
    },
    /// Its handler has the right name and the wrong type.
    #[error("`{export}` has another type than the draft's: {why}")]
    Handler {
        /// The export.
        export: String,
        /// What differs.
        why: String,
    },
    /// It imports what Windlass has not.
    #[error("the component imports what Windlass does not have: {}", listed(imports))]
    MissingImports {
        /// What is missing.
        imports: Vec<Import>,
    },
    /// An import has the right name and the wrong type.
    #[error("an import has another type than Windlass offers: {why}")]
    ImportType {
        /// What differs.
        why: String,
    },
    /// One instance takes more than a whole pool has.
    #[error(
        "an instance takes {} memories and {} tables; the pool has {} and {}",
        needs.memories, needs.tables, has.memories, has.tables
    )]
    Pool {
        /// What one takes.
        needs: Needs,
        /// What there is.
        has: PoolSize,
    },
    /// It starts with more memory than its limit.
    #[error("the component starts with {needed} bytes of memory; its limit is {limit}")]
    Memory {
        /// What it takes at least.
        needed: u64,
        /// The limit.
        limit: u64,
    },
}

/// A list for a sentence.
fn listed(items: &[impl ToString]) -> String {
    if items.is_empty() {
        return "nothing".to_owned();
    }
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl CheckError {
    /// What to do about it.
    #[must_use]
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path in `component`, and that the build made it",
            Self::TooLarge { .. } => "build it without debug information, or split it",
            Self::NotWasm { .. } => "give the `.wasm` file that the build makes",
            Self::CoreModule => {
                "build for the target `wasm32-wasip2`, or wrap it by `wasm-tools component new`"
            }
            Self::Precompiled => "give the component itself; Windlass compiles and caches it",
            Self::Invalid { .. } => "build it anew; `wasm-tools validate` says more",
            Self::OtherShape { .. } | Self::NoHandler { .. } | Self::Handler { .. } => {
                "build it against the world `windlass:messaging/consumer` of the folder `wit`"
            }
            Self::MissingImports { .. } | Self::ImportType { .. } => {
                "build it without what needs that import, or against the version offered"
            }
            Self::Pool { .. } => "build it of fewer modules",
            Self::Memory { .. } => "raise `memory` under `[consumer.limits]`",
        }
    }
}

/// Compiled code that was checked whole. Cheap to clone.
#[derive(Clone)]
pub struct Component(Arc<Inner>);

struct Inner {
    engine: Engine,
    pre: GuestPre<StoreData>,
    report: Report,
    was_cached: bool,
}

impl Component {
    /// Compiles and checks. Takes long (80 ms for a small Rust guest, seconds for Python) and
    /// uses all cores, unless the engine's cache has it: not for an async thread, see
    /// [`Component::load_file`].
    pub fn load(engine: &Engine, bytes: &[u8]) -> Result<Self, CheckError> {
        check_kind(bytes)?;
        let since = Instant::now();
        let digest = Sha256::digest(bytes).into();
        let cached = engine.cache().and_then(|cache| cache.get(engine.wasm(), &digest));
        let was_cached = cached.is_some();
        let code = match cached {
            Some(code) => code,
            None => compile(engine, bytes)?,
        };
        shape::check(engine.wasm(), &code.component_type())?;
        let report = report::report(&code, hex(&digest), bytes.len() as u64, shape::STANDARD);
        let missing: Vec<_> = report.imports.iter().filter(|i| !i.satisfied).cloned().collect();
        if !missing.is_empty() {
            return Err(CheckError::MissingImports { imports: missing });
        }
        let import_type = |error: wasmtime::Error| CheckError::ImportType { why: chain(&error) };
        let pre = engine.linker().instantiate_pre(&code).map_err(import_type)?;
        let pre = GuestPre::new(pre).map_err(|error| CheckError::Handler {
            export: shape::STANDARD.to_owned(),
            why: chain(&error),
        })?;
        // Now, so that the first delivery does not pay for it.
        code.initialize_copy_on_write_image()
            .map_err(|error| CheckError::Invalid { why: chain(&error) })?;
        // Only what runs: nobody looks for the rest again.
        if let (Some(cache), false) = (engine.cache(), was_cached) {
            cache.put(&digest, &code);
        }
        tracing::debug!(bytes = bytes.len(), was_cached, elapsed = ?since.elapsed(), "loaded");
        Ok(Self(Arc::new(Inner { engine: engine.clone(), pre, report, was_cached })))
    }

    /// Reads, compiles and checks on a thread of its own. When this is dropped the thread goes
    /// on, but nothing waits for it: not a stop of the runtime either.
    pub async fn load_file(engine: &Engine, path: &Path) -> Result<Self, CheckError> {
        Self::reload_file(engine, path, None).await
    }

    /// As [`Component::load_file`]; a file that has what `known` was made of is `known`, at once.
    pub async fn reload_file(
        engine: &Engine,
        path: &Path,
        known: Option<&Self>,
    ) -> Result<Self, CheckError> {
        let (engine, path, known) = (engine.clone(), path.to_owned(), known.cloned());
        let load = move |bytes: Vec<u8>| match known {
            Some(known) if digest(&bytes) == known.digest() => Ok(known),
            Some(_) | None => Self::load(&engine, &bytes),
        };
        on_a_thread(move || read(&path).and_then(load)).await
    }

    /// As [`Component::load_file`] of what was read already.
    pub async fn load_bytes(engine: &Engine, bytes: Arc<[u8]>) -> Result<Self, CheckError> {
        let engine = engine.clone();
        on_a_thread(move || Self::load(&engine, &bytes)).await
    }

    /// SHA-256 of the file, hexadecimal.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.0.report.digest
    }

    /// The digest's first 8 characters.
    #[must_use]
    pub fn short_digest(&self) -> &str {
        &self.0.report.digest[..8]
    }

    /// Whether it was compiled before.
    #[must_use]
    pub fn was_cached(&self) -> bool {
        self.0.was_cached
    }

    /// What there is to say about it.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    /// Where it was compiled, and runs.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    pub(crate) fn pre(&self) -> &GuestPre<StoreData> {
        &self.0.pre
    }
}

/// Does `load` on a thread of its own, for which nothing waits when this is dropped.
async fn on_a_thread(
    load: impl FnOnce() -> Result<Component, CheckError> + Send + 'static,
) -> Result<Component, CheckError> {
    let lost = |why: String| CheckError::Invalid { why };
    let (answer, answered) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("windlass-compile".to_owned())
        .spawn(move || {
            // Nobody may be waiting any more.
            let _ = answer.send(load());
        })
        .map_err(|error| lost(error.to_string()))?;
    answered.await.unwrap_or_else(|_| Err(lost("the compiler failed".to_owned())))
}

fn read(path: &Path) -> Result<Vec<u8>, CheckError> {
    let unreadable = |error: std::io::Error| CheckError::Unreadable {
        path: path.to_owned(),
        why: error.to_string(),
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(CheckError::TooLarge { bytes });
    }
    std::fs::read(path).map_err(unreadable)
}

/// Tells apart what is no component at all.
fn check_kind(bytes: &[u8]) -> Result<(), CheckError> {
    let size = bytes.len() as u64;
    if size > FILE_BYTES_MAX {
        return Err(CheckError::TooLarge { bytes: size });
    }
    match wasmtime::Engine::detect_precompiled(bytes) {
        Some(Precompiled::Module | Precompiled::Component) => return Err(CheckError::Precompiled),
        None => {}
    }
    if bytes.starts_with(LAYER_MODULE) {
        return Err(CheckError::CoreModule);
    }
    if bytes.starts_with(b"\0asm") {
        return Ok(());
    }
    let why = if bytes.is_empty() {
        "the file is empty"
    } else if bytes.trim_ascii_start().starts_with(b"(") {
        "it is WebAssembly's text form"
    } else {
        "it does not start with the bytes `\\0asm`"
    };
    Err(CheckError::NotWasm { why: why.to_owned() })
}

fn compile(engine: &Engine, bytes: &[u8]) -> Result<wasmtime::component::Component, CheckError> {
    wasmtime::component::Component::from_binary(engine.wasm(), bytes).map_err(|error| {
        let why = chain(&error);
        if why.contains("component model async") || why.contains("cm-async") {
            return shape::of_async(bytes);
        }
        CheckError::Invalid { why }
    })
}

/// The whole of an error in one line.
fn chain(error: &wasmtime::Error) -> String {
    format!("{error:#}").replace('\n', " ")
}

/// SHA-256, hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut hex, byte| {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
