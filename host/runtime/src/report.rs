//! What there is to say about a component without running it.
//!
//! Plain values for `windlass check`; how they are shown is the server's business.

use crate::bindings::OFFERED;
use crate::pool::Needs;
use wasmtime::component::types::{self, ComponentItem};

/// Bytes of a page of linear memory, unless a memory says otherwise.
const PAGE_BYTES: u64 = 64 << 10;

/// An interface or function a component imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Without the version, such as `wasi:cli/stdout`.
    pub name: String,
    /// The version wanted.
    pub version: Option<String>,
    /// The version Windlass has; none where it has nothing of that name.
    pub offered: Option<String>,
    /// Whether what is offered fits. Of an import that has nothing but types nothing is needed.
    pub satisfied: bool,
}

/// What a component is, imports and takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// SHA-256 of the file, hexadecimal.
    pub digest: String,
    /// Size of the file.
    pub file_bytes: u64,
    /// Which contract it was written for.
    pub shape: String,
    /// Everything it imports, in its own order.
    pub imports: Vec<Import>,
    /// Names of everything it exports.
    pub exports: Vec<String>,
    /// What one instance takes of a pool.
    pub needs: Needs,
    /// The least memory an instance starts with, in bytes.
    pub memory_bytes_min: u64,
}

impl std::fmt::Display for Import {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`", self.name)?;
        if let Some(version) = &self.version {
            write!(f, " {version}")?;
        }
        match &self.offered {
            Some(offered) if !self.satisfied => write!(f, " (offered: {offered})"),
            Some(_) | None => Ok(()),
        }
    }
}

/// Name and version of `wasi:cli/stdout@0.2.6`.
fn split(name: &str) -> (&str, Option<&str>) {
    name.split_once('@').map_or((name, None), |(name, version)| (name, Some(version)))
}

/// Whether something of version `offered` serves for `wanted`, as wasmtime sees it: releases of
/// one major version do (of one minor version below 1), others only exactly.
fn serves(offered: &str, wanted: &str) -> bool {
    let track = |version: &str| {
        if version.contains(['-', '+']) {
            return None;
        }
        let mut parts = version.split('.');
        match (parts.next()?, parts.next()?) {
            ("0", "0") => None,
            ("0", minor) => Some(format!("0.{minor}")),
            (major, _) => Some(major.to_owned()),
        }
    };
    offered == wanted || track(offered).is_some_and(|offered| track(wanted) == Some(offered))
}

/// Whether an import needs anything of the host: types alone do not.
fn needs_host(engine: &wasmtime::Engine, item: &ComponentItem) -> bool {
    match item {
        ComponentItem::ComponentInstance(instance) => {
            instance.exports(engine).any(|(_, item)| needs_host(engine, &item.ty))
        }
        ComponentItem::Type(_) => false,
        ComponentItem::ComponentFunc(_)
        | ComponentItem::CoreFunc(_)
        | ComponentItem::Module(_)
        | ComponentItem::Component(_)
        | ComponentItem::Resource(_) => true,
    }
}

pub(crate) fn imports(engine: &wasmtime::Engine, component: &types::Component) -> Vec<Import> {
    let import = |name: &str, item: &ComponentItem| {
        let (bare, wanted) = split(name);
        let offered = OFFERED.iter().find(|(name, _)| *name == bare).map(|(_, version)| *version);
        let fits =
            matches!((offered, wanted), (Some(offered), Some(wanted)) if serves(offered, wanted));
        Import {
            name: bare.to_owned(),
            version: wanted.map(str::to_owned),
            offered: offered.map(str::to_owned),
            satisfied: fits || !needs_host(engine, item),
        }
    };
    component.imports(engine).map(|(name, item)| import(name, &item.ty)).collect()
}

pub(crate) fn report(
    component: &wasmtime::component::Component,
    digest: String,
    file_bytes: u64,
    shape: &str,
) -> Report {
    let engine = component.engine();
    let ty = component.component_type();
    let resources = component.resources_required();
    let pages = resources.as_ref().and_then(|resources| resources.max_initial_memory_size);
    Report {
        digest,
        file_bytes,
        shape: shape.to_owned(),
        imports: imports(engine, &ty),
        exports: ty.exports(engine).map(|(name, _)| name.to_owned()).collect(),
        needs: Needs::of(resources.as_ref()),
        memory_bytes_min: pages.unwrap_or(0).saturating_mul(PAGE_BYTES),
    }
}
