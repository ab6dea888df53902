//! What is to be deployed: a manifest's consumers, or one component.
//!
//! Components are read and checked here, before anything is changed: one that does not pass is never
//! deployed.

use super::super::failure::Failure;
use super::super::manifest::read_text;
use super::super::ui::{Ui, clean};
use crate::deploy::{Wanted, components};
use crate::manifest::{Config, Manifest, ManifestError, consumers};
use crate::stage::{CACHE, told_while};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use windlass_core::{Group, Topic};
use windlass_log::{Deployed, DynLog, LogError};
use windlass_runtime::{
    CheckError, Component, Consumer, ConsumerConfig, Engine, EngineConfig, FILE_BYTES_MAX, digest,
};

/// What is to be deployed.
pub(super) struct Source {
    /// The manifest; none where one component is deployed.
    manifest: Option<Manifest>,
    /// Consumers with the files of their components.
    consumers: Vec<(Config, PathBuf)>,
    /// What is in those files.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Source {
    /// Reads a manifest, or one component as consumer `name`.
    pub(super) fn read(path: &Path, name: Option<&str>) -> Result<Self, Failure> {
        let is_component = path.extension().is_some_and(|ending| ending == "wasm");
        let (manifest, consumers) = if is_component {
            let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let name = name.map(str::to_owned).or(stem).unwrap_or_default();
            (None, vec![(Config::named(&name), path.to_owned())])
        } else if name.is_some() {
            return Err(Failure::usage("--name is of a component, and this is a manifest")
                .next("the manifest names its consumers by `name`"));
        } else {
            let (file, text) = read_text(path)?;
            let manifest = Manifest::parse(&file, &text)?;
            let configs = Config::all(&text).map_err(|error| Failure::of(&error))?;
            let consumers = manifest.consumers.iter().map(|spec| spec.component.clone());
            let consumers = configs.into_iter().zip(consumers).collect();
            (Some(manifest), consumers)
        };
        let mut files = BTreeMap::new();
        for (config, path) in &consumers {
            if !files.contains_key(path) {
                files.insert(path.clone(), read(path, config, manifest.as_ref())?);
            }
        }
        Ok(Self { manifest, consumers, files })
    }

    /// Whether one component is deployed, which says nothing about other consumers.
    pub(super) fn is_one(&self) -> bool {
        self.manifest.is_none()
    }

    /// What is wanted. One component keeps what is deployed of its configuration.
    pub(super) fn wanted(
        &self,
        deployed: &Deployed,
        topics: &[Topic],
        group: Option<&Group>,
    ) -> Result<Vec<Wanted>, Failure> {
        if !self.is_one() && (!topics.is_empty() || group.is_some()) {
            return Err(Failure::usage("--topic and --group are of a component")
                .next("write them into the manifest"));
        }
        let mut wanted = Vec::new();
        for (config, path) in &self.consumers {
            let mut config = config.clone();
            if self.is_one() {
                if let Some(known) = deployed.find(config.name()) {
                    config = Config::read(&known.revision.config)
                        .map_err(|error| Failure::of(&error))?;
                }
                if !topics.is_empty() {
                    config.set_list("topics", topics.iter().map(ToString::to_string));
                }
                if let Some(group) = group {
                    config.set_text("group", group.as_str());
                }
                if !config.says("topics") {
                    let name = config.name();
                    return Err(Failure::usage(format!("nothing is said of what `{name}` reads"))
                        .next("give --topic TOPIC, or deploy a windlass.toml"));
                }
            }
            let digest = self.files.get(path).map(|bytes| digest(bytes)).unwrap_or_default();
            wanted.push(Wanted { config, digest });
        }
        Ok(wanted)
    }

    /// Compiles and checks every component, under its consumer's limits.
    pub(super) async fn check(
        &self,
        wanted: &[Wanted],
        log: &Path,
        ui: &Ui,
    ) -> Result<(), Failure> {
        let tell = |text: String| ui.note(&clean(&text));
        // As a server has it, which then finds compiled what was compiled here.
        let config = EngineConfig { cache: Some(log.join(CACHE)), ..EngineConfig::default() };
        let engine = Engine::new(&config).map_err(|error| Failure::of(&error))?;
        let mut compiled: BTreeMap<&Path, Component> = BTreeMap::new();
        let configs = wanted.iter().map(|one| (one.config.clone(), components::name(&one.digest)));
        let specs =
            consumers(&log.join(components::FOLDER), configs).map_err(|error| unfit(&error))?;
        for ((_, path), spec) in self.consumers.iter().zip(specs) {
            let failed = |error: CheckError| {
                Failure::from(error)
                    .because(format!("consumer `{}`: {}", spec.name, path.display()))
                    .because("nothing was deployed")
            };
            if !compiled.contains_key(path.as_path()) {
                let bytes = self.files.get(path).map_or(&[][..], Vec::as_slice);
                let load = Component::load_bytes(&engine, bytes.into());
                let component = told_while(load, path, &tell).await.map_err(failed)?;
                compiled.insert(path, component);
            }
            if let Some(component) = compiled.get(path.as_path()) {
                let config = ConsumerConfig { limits: spec.limits.clone(), ..Default::default() };
                Consumer::new(component, config).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Keeps the components beside the log.
    pub(super) fn keep(&self, log: &Path) -> Result<(), Failure> {
        for bytes in self.files.values() {
            components::keep(log, &digest(bytes), bytes).map_err(|error| {
                let folder = log.join(components::FOLDER);
                Failure::system(
                    format!("a component cannot be kept in `{}`", folder.display()),
                    &error,
                )
            })?;
        }
        Ok(())
    }

    /// Declares the manifest's topics with what they may hold.
    pub(super) async fn declare(&self, log: &DynLog) -> Result<(), Failure> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        log.declare_topics(manifest.topics_mode, manifest.declared_topics()).await?;
        for (topic, limits) in &manifest.topics {
            log.set_limits(topic, *limits, false).await.map_err(|error| {
                let too_low = matches!(error, LogError::HoldsMore { .. });
                let failure = Failure::from(error).because("nothing was deployed");
                if too_low {
                    failure.next("raise the limits, or settle some first")
                } else {
                    failure
                }
            })?;
        }
        Ok(())
    }
}

fn read(path: &Path, config: &Config, manifest: Option<&Manifest>) -> Result<Vec<u8>, Failure> {
    let unreadable = |error: std::io::Error| {
        let failure = Failure::system(format!("cannot read `{}`", path.display()), &error);
        let spec = manifest.and_then(|m| m.consumers.iter().find(|s| s.name == config.name()));
        match spec.and_then(|spec| spec.build.as_deref()) {
            Some(build) => failure.next(format!("build it: {build}")),
            None => failure.next("check the path, and that the build made the file"),
        }
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(CheckError::TooLarge { bytes }.into());
    }
    std::fs::read(path).map_err(unreadable)
}

/// What is wrong with consumers together, without the place in a text that nobody wrote.
pub(super) fn unfit(error: &ManifestError) -> Failure {
    let lines = error.text.lines().map(|line| match line.split_once(": ") {
        Some((_, what)) => what.to_owned(),
        None => line.to_owned(),
    });
    Failure {
        why: lines.collect(),
        ..Failure::new("this cannot be deployed").next("see what is: windlass ps")
    }
}
