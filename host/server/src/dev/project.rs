//! A project: its manifest, where its log is, which files it is made of.

use crate::cli::{self, FOLDER, Failure};
use crate::manifest::{ConsumerSpec, Manifest};
use std::path::{Path, PathBuf};

/// A manifest and where its log is.
#[derive(Debug)]
pub(super) struct Project {
    /// The manifest's file.
    pub file: PathBuf,
    /// What is wanted.
    pub manifest: Manifest,
    /// The log's folder.
    pub log: PathBuf,
}

impl Project {
    /// Reads the manifest that `path` means.
    pub(super) fn read(path: &Path, log: Option<PathBuf>) -> Result<Self, Failure> {
        let manifest = cli::read_manifest(path)?;
        let file = manifest.folder.join(cli::manifest_file(path).file_name().unwrap_or_default());
        let log = log.unwrap_or_else(|| manifest.folder.join(FOLDER));
        Ok(Self { file, manifest, log })
    }

    /// Where a run begins, for a person.
    pub(super) fn describe(&self, watch: bool) -> String {
        let watch = if watch { "; a saved file is built and swapped in" } else { "" };
        let text = format!("log {}{watch}; Ctrl-C ends", self.log.display());
        cli::clean(&text)
    }
}

/// What a consumer's code is made of.
pub(super) fn sources(consumer: &ConsumerSpec, folder: &Path) -> Vec<PathBuf> {
    match (&consumer.build, consumer.watch.is_empty()) {
        (None, _) => Vec::new(),
        (Some(_), true) => vec![folder.to_owned()],
        (Some(_), false) => consumer.watch.clone(),
    }
}

/// Everything that a change of calls for something.
pub(super) fn watched(file: &Path, manifest: &Manifest) -> Vec<PathBuf> {
    let consumers = manifest.consumers.iter();
    let mut paths: Vec<PathBuf> = consumers
        .flat_map(|consumer| {
            let mut paths = sources(consumer, &manifest.folder);
            paths.push(consumer.component.clone());
            paths
        })
        .collect();
    paths.push(file.to_owned());
    paths.sort();
    paths.dedup();
    paths
}

/// Which consumers `changed` calls to build: those one of whose sources is among it. The manifest
/// and what builds make are no sources.
pub(super) fn to_build<'m>(
    manifest: &'m Manifest,
    file: &Path,
    changed: &[PathBuf],
) -> Vec<&'m ConsumerSpec> {
    let is_made = |path: &Path| manifest.consumers.iter().any(|c| c.component == path);
    let changed: Vec<&PathBuf> =
        changed.iter().filter(|path| *path != file && !is_made(path)).collect();
    let is_touched = |consumer: &&ConsumerSpec| {
        let sources = sources(consumer, &manifest.folder);
        changed.iter().any(|path| sources.iter().any(|source| path.starts_with(source)))
    };
    manifest.consumers.iter().filter(is_touched).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_builds_what_it_touches_and_no_more() {
        let file = Path::new("/p/windlass.toml");
        let consumer = |name: &str, more: &str| {
            format!(
                "[[consumer]]\nname = \"{name}\"\ncomponent = \"{name}.wasm\"\ntopics = [\"{name}\"]\n{more}\n"
            )
        };
        let text = [
            consumer("a", "build = \"make a\"\nwatch = [\"a\", \"shared\"]"),
            consumer("b", "build = \"make b\"\nwatch = [\"b\", \"shared\"]"),
            consumer("all", "build = \"make\""),
            consumer("bought", ""),
        ]
        .concat();
        let manifest = Manifest::parse(file, &text).unwrap();
        for (changed, expected) in [
            ("/p/a/lib.rs", "a all"),
            ("/p/shared/x", "a b all"),
            ("/p/ab/lib.rs", "all"),
            ("/p/windlass.toml", ""),
            ("/p/a.wasm", ""),
            ("/q/a/lib.rs", ""),
        ] {
            let built = to_build(&manifest, file, &[changed.into()]);
            let names: Vec<_> = built.iter().map(|consumer| consumer.name.as_str()).collect();
            assert_eq!(names.join(" "), expected, "{changed}");
        }
        let watched = watched(file, &manifest);
        for path in ["/p", "/p/a", "/p/bought.wasm", "/p/windlass.toml"] {
            assert!(watched.contains(&path.into()), "{path}");
        }
    }
}
