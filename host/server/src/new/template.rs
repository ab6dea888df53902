//! What a new project holds, by language.
//!
//! The files lie in `host/server/templates`, a folder a language; the interfaces come from `wit/`,
//! where the host and the examples have them from, too.

use super::lockfile;
use super::name::ProjectName;
use crate::cli::Failure;

/// In templates, where the project's name goes.
const NAME: &str = "@NAME@";
/// The same where compilers put `_` for `-`.
const CRATE: &str = "@CRATE@";

/// What a consumer is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Lang {
    /// Rust.
    Rust,
    /// No template yet.
    #[value(name = "javascript", alias = "js", hide = true)]
    JavaScript,
    /// No template yet.
    #[value(hide = true)]
    Python,
}

/// A language's template.
#[derive(Debug)]
pub(crate) struct Template {
    /// For a person.
    pub language: &'static str,
    /// As written in `--lang`.
    pub lang: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Names that the language and its tools keep for themselves.
    reserved: &'static str,
}

/// A file of a project.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Within the project's folder.
    pub path: &'static str,
    /// All of it.
    pub text: String,
}

const RUST: Template = Template {
    language: "Rust",
    lang: "rust",
    files: &[
        ("src/lib.rs", include_str!("../../templates/rust/src/lib.rs")),
        ("windlass.toml", include_str!("../../templates/rust/windlass.toml.in")),
        ("samples/hello.json", include_str!("../../templates/rust/samples/hello.json")),
        ("README.md", include_str!("../../templates/rust/README.md.in")),
        ("Cargo.toml", include_str!("../../templates/rust/Cargo.toml.in")),
        (LOCKFILE, include_str!("../../templates/rust/Cargo.lock.in")),
        (".gitignore", include_str!("../../templates/rust/gitignore.in")),
    ],
    reserved: "abstract alloc as async await become box break build const continue core crate deps \
               do dyn else enum examples extern false final fn for gen if impl in incremental let \
               loop macro match mod move mut override priv proc_macro pub ref return self static \
               std struct super test trait true try type typeof unsafe unsized use virtual where \
               while yield",
};

const LOCKFILE: &str = "Cargo.lock";

const WIT: &[(&str, &str)] = &[
    ("wit/world.wit", include_str!("../../../../wit/world.wit")),
    (
        "wit/deps/wasi-messaging-0.2.0-draft/incoming-handler.wit",
        include_str!("../../../../wit/deps/wasi-messaging-0.2.0-draft/incoming-handler.wit"),
    ),
    (
        "wit/deps/wasi-messaging-0.2.0-draft/producer.wit",
        include_str!("../../../../wit/deps/wasi-messaging-0.2.0-draft/producer.wit"),
    ),
    (
        "wit/deps/wasi-messaging-0.2.0-draft/request-reply.wit",
        include_str!("../../../../wit/deps/wasi-messaging-0.2.0-draft/request-reply.wit"),
    ),
    (
        "wit/deps/wasi-messaging-0.2.0-draft/types.wit",
        include_str!("../../../../wit/deps/wasi-messaging-0.2.0-draft/types.wit"),
    ),
    (
        "wit/deps/wasi-messaging-0.2.0-draft/worlds.wit",
        include_str!("../../../../wit/deps/wasi-messaging-0.2.0-draft/worlds.wit"),
    ),
];

impl Lang {
    /// The language's template, if there is one.
    pub(crate) fn template(self) -> Result<&'static Template, Failure> {
        let language = match self {
            Self::Rust => return Ok(&RUST),
            Self::JavaScript => "JavaScript",
            Self::Python => "Python",
        };
        Err(Failure::usage(format!("there is no template for {language} yet"))
            .because(format!("there is one for {}", RUST.language)))
    }
}

impl Template {
    /// All files of a project called `name`.
    pub(crate) fn project(&self, name: &ProjectName) -> Result<Vec<File>, Failure> {
        self.check(name)?;
        let file = |&(path, text): &(&'static str, &str)| {
            // A name has no `@`: nothing that is put in is replaced again.
            let text = text.replace(NAME, name.as_str()).replace(CRATE, &name.snake_case());
            let text = if path == LOCKFILE { lockfile::in_order(&text) } else { text };
            File { path, text }
        };
        Ok(self.files.iter().chain(WIT).map(file).collect())
    }

    /// Whether the language has another use for the name.
    fn check(&self, name: &ProjectName) -> Result<(), Failure> {
        let crate_name = name.snake_case();
        if self.reserved.split_whitespace().any(|reserved| reserved == crate_name) {
            return Err(name.refused(format!("{} keeps the name for itself", self.language)));
        }
        let lockfile = self.files.iter().find(|(path, _)| *path == LOCKFILE);
        let mut packages = lockfile.into_iter().flat_map(|(_, text)| lockfile::names(text));
        if packages.any(|package| package.replace('-', "_") == crate_name) {
            return Err(name.refused("it is built with a package of that name"));
        }
        Ok(())
    }
}
