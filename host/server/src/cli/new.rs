//! `windlass new NAME`.

use super::failure::Failure;
use super::ui::{Tone, Ui, clean, shell};
use crate::new::{self, File, Lang, ProjectName, Template};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Its folder, package, consumer and topic are called so.
    name: String,
    /// What it is written in.
    #[arg(long, value_enum, default_value = "rust")]
    lang: Lang,
    /// The folder to make [default: NAME in the working folder].
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let name = ProjectName::new(&args.name)?;
    let template = args
        .lang
        .template()
        .map_err(|failure| failure.next(format!("windlass new {} --lang rust", name.as_str())))?;
    let files = template.project(&name)?;
    let folder = args.path.unwrap_or_else(|| name.as_str().into());
    new::make(&folder, &files)?;
    let next = next(&folder, new::missing_steps(&folder).await);
    if ui.json {
        ui.object(&json!({
            "name": name.as_str(),
            "lang": template.lang,
            "folder": folder.display().to_string(),
            "files": files.iter().map(|file| file.path).collect::<Vec<_>>(),
            "next": next,
        }));
    } else {
        ui.data(&describe(&folder, template, &files, &next, ui));
    }
    Ok(())
}

/// The commands to type now.
fn next(folder: &Path, first: &[&str]) -> Vec<String> {
    let enter =
        (folder != Path::new(".")).then(|| format!("cd {}", shell(&folder.display().to_string())));
    let first = first.iter().map(|step| (*step).to_owned());
    first.chain(enter).chain(["windlass dev".to_owned()]).collect()
}

/// What the files are that a person opens first.
fn purpose(path: &str) -> Option<&'static str> {
    match path {
        "windlass.toml" => Some("what it reads, its limits, what it may do"),
        "README.md" => Some("how to run, publish, test, look at dead letters"),
        _ if path.starts_with("src/") => Some("the handler"),
        _ if path.starts_with("samples/") => Some("a message that `windlass dev` publishes"),
        _ => None,
    }
}

fn describe(
    folder: &Path,
    template: &Template,
    files: &[File],
    next: &[String],
    ui: &Ui,
) -> String {
    let made = ui.tone(Tone::Good, "made");
    let mut text = format!(
        "{made} {}, a consumer in {}\n",
        clean(&folder.display().to_string()),
        template.language
    );
    for file in files {
        if let Some(purpose) = purpose(file.path) {
            let _infallible = writeln!(text, "  {:<19} {purpose}", file.path);
        }
    }
    text.push_str("next:");
    for command in next {
        let _infallible = write!(text, "\n  {}", clean(command));
    }
    text
}
