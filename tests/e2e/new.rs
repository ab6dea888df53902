//! `windlass new`, and the README's tutorial as a new user types it.
//!
//! What differs from a user's machine: nothing is fetched, and projects share the target folder of
//! `guest-examples`, which has their dependencies built.

use crate::kit::{Ended, binary, root, run, signal, until, wait, windlass};
use serde_json::json;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Instant;

const HEADING: &str = "## A new consumer in a minute";

/// The lines between ```` ```language ```` and ```` ``` ```` in the tutorial.
fn tutorial(language: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let section = readme.split_once(HEADING).unwrap_or_else(|| panic!("no `{HEADING}`")).1;
    let section = section.split("\n## ").next().unwrap();
    let mut within = false;
    let mut lines = Vec::new();
    for line in section.lines() {
        match line.strip_prefix("```") {
            Some(fence) => within = fence == language,
            None if within => lines.push(line.to_owned()),
            None => {}
        }
    }
    lines
}

/// Somebody's shell, in a folder.
struct Terminal {
    folder: PathBuf,
    /// What it needs to build components.
    exports: String,
    path: String,
}

impl Terminal {
    fn open(folder: &Path) -> Self {
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}", binary().parent().unwrap().display());
        let folder = folder.to_owned();
        let mut terminal = Self { folder, exports: String::new(), path };
        let build = root().join("guest-examples/build");
        terminal.exports = terminal.run(&format!("'{}' --env", build.display())).out;
        terminal
    }

    /// `line` in a shell; it gets the signals.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        // What cargo set for this test is not for what it runs.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy().into_owned();
            let starts = |with: &[&str]| with.iter().any(|start| name.starts_with(start));
            let kept = starts(&["CARGO_HOME", "CARGO_HTTP_", "CARGO_REGISTR", "CARGO_SOURCE_"]);
            if starts(&["WINDLASS_", "CARGO", "RUSTC", "RUSTFLAGS", "LD_LIBRARY_PATH"]) && !kept {
                command.env_remove(&name);
            }
        }
        command.args(["-c", &format!("{}\nexec {line}", self.exports)]);
        command.env("PATH", &self.path).env("CARGO_NET_OFFLINE", "true");
        command.current_dir(&self.folder).stdin(std::process::Stdio::null());
        command
    }

    fn run(&self, line: &str) -> Ended {
        let ended = run(self.command(line), b"");
        assert_eq!(ended.code, Some(0), "{line}: {ended:#?}");
        ended
    }

    /// `cd`; to a project of ours, whose dependencies are built already.
    fn enter(&mut self, folder: &str) {
        self.folder.push(folder);
        let target = root().join("guest-examples/target");
        std::os::unix::fs::symlink(target, self.folder.join("target")).unwrap();
    }

    /// Nothing of this project stays among what others share.
    fn clean(&self, package: &str) {
        for target in ["", "--target wasm32-wasip2"] {
            self.run(&format!("cargo clean --quiet --release --package {package} {target}"));
        }
    }
}

/// A run of `windlass dev` that shows what a person sees.
struct Shown {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Shown {
    fn start(terminal: &Terminal, line: &str) -> Self {
        let (out, err) = (terminal.folder.join("../dev.out"), terminal.folder.join("../dev.err"));
        let mut command = terminal.command(line);
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        Self { child: command.spawn().unwrap(), out, err }
    }

    /// Waits for a line with all of `parts`, and gives it and the one after it.
    fn until(&mut self, parts: &[&str]) -> (String, String) {
        until(&format!("{parts:?}"), || {
            let text = std::fs::read_to_string(&self.out).unwrap();
            if let Some(status) = self.child.try_wait().unwrap() {
                let err = std::fs::read_to_string(&self.err).unwrap();
                panic!("`windlass dev` ended, {status}:\n{err}{text}");
            }
            let mut lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let found = lines.find(|line| parts.iter().all(|part| line.contains(part)))?;
            Some((found.to_owned(), lines.next()?.to_owned()))
        })
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// Goal: whoever types what the README says sees what the README says.
#[test]
fn the_tutorial_of_the_readme_does_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    let mut terminal = Terminal::open(home.path());
    let (mut dev, mut handled, mut start) = (None::<Shown>, 0, None);
    for line in tutorial("sh") {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["cd", folder] => terminal.enter(folder),
            ["windlass", "dev", ..] => {
                let mut run = Shown::start(&terminal, &line);
                let (_, printed) = run.until(&["ok     hello"]);
                let took =
                    start.map_or_else(|| panic!("nothing was made"), |s: Instant| s.elapsed());
                // Past the test's own output, which is shown for failures only.
                let mut err = std::io::stderr();
                let text = "from `windlass new` to the first message handled";
                writeln!(err, "=== {text}: {took:.1?}").unwrap();
                assert_eq!(printed.trim(), "| hello, world");
                dev = Some(run);
            }
            ["windlass", "publish", ..] => {
                let id = terminal.run(&line).out.trim().to_owned();
                let dev = dev.as_mut().expect("`windlass dev` comes before `windlass publish`");
                if line.contains("Ada") {
                    let (_, printed) = dev.until(&["ok     hello", &id]);
                    assert_eq!(printed.trim(), "| hello, Ada");
                    handled += 1;
                } else {
                    let (_, said) = dev.until(&["dead   hello", &id]);
                    assert_eq!(said.trim(), "rejected, attempt 1 of 5");
                }
            }
            ["windlass", "new", ..] => {
                start = Some(Instant::now());
                terminal.run(&line);
            }
            _ => drop(terminal.run(&line)),
        }
    }
    assert_eq!(handled, 1, "a second message is published");
    let mut dev = dev.expect("`windlass dev` is in the tutorial");
    signal("INT", dev.child.id());
    assert_eq!(wait(&mut dev.child), Some(3), "there is a dead letter");
    let said = std::fs::read_to_string(&dev.err).unwrap();
    assert!(said.contains("published 1, handled 2, retried 0, dead 2"), "{said}");
    terminal.clean("hello");
}

#[test]
fn the_handler_in_the_readme_is_the_one_that_is_made() {
    let home = tempfile::tempdir().unwrap();
    let terminal = Terminal::open(home.path());
    terminal.run("windlass new hello");
    let made = std::fs::read_to_string(home.path().join("hello/src/lib.rs")).unwrap();
    let shown = tutorial("rust");
    assert!(!shown.is_empty());
    for line in shown {
        assert!(made.lines().any(|made| made == line), "{line}");
    }
    let manifest = home.path().join("hello/windlass.toml");
    std::fs::write(
        &manifest,
        tutorial("toml").join("\n").replace("build = ", "build = \"true\" # "),
    )
    .unwrap();
    // Valid: what is missing is the component.
    let ended = run(terminal.command("windlass dev hello --until-idle"), b"");
    ended.must(1, &["hello.wasm", "consumer `hello`"]);
}

/// Also inside another workspace, under a path that people have, with a dash in its name.
#[test]
fn a_new_project_builds_as_locked_and_passes_its_own_test() {
    let home = tempfile::Builder::new().prefix("wind läss ").tempdir().unwrap();
    std::fs::write(home.path().join("Cargo.toml"), "[workspace]\nmembers = []\n").unwrap();
    let mut terminal = Terminal::open(home.path());
    let made = terminal.run("windlass new my-orders --path 'a b/orders' --json");
    let made = made.last();
    assert_eq!((&made["name"], &made["lang"]), (&json!("my-orders"), &json!("rust")));
    assert_eq!(made["folder"], json!("a b/orders"));
    let next: Vec<&str> =
        made["next"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    assert_eq!(next[next.len() - 2..], ["cd 'a b/orders'", "windlass dev"]);
    let files: Vec<&str> =
        made["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    for file in &files {
        assert!(terminal.folder.join("a b/orders").join(file).is_file(), "{file}");
    }
    assert!(files.contains(&"wit/world.wit"), "{files:?}");

    terminal.enter("a b/orders");
    let lock = || std::fs::read_to_string(home.path().join("a b/orders/Cargo.lock")).unwrap();
    let before = lock();
    terminal.run("cargo build --locked --release --target wasm32-wasip2");
    terminal.run("windlass check target/wasm32-wasip2/release/my_orders.wasm");
    let exports = std::mem::take(&mut terminal.exports);
    // In release as the examples' tests were built; a user's has a target folder of its own.
    let tested = terminal.run("cargo test --locked --release");
    assert!(tested.out.contains("1 passed; 0 failed"), "{tested:#?}");
    // As people format it, who have no configuration.
    terminal.run("cargo fmt --check");
    assert_eq!(lock(), before);
    terminal.exports = exports;
    terminal.clean("my-orders");
}

#[test]
fn what_cannot_be_made_is_refused_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let refused = |args: &[&str], code: i32, parts: &[&str]| {
        let mut command = windlass(&[&["new"], args].concat());
        command.current_dir(home.path());
        run(command, b"").must(code, parts);
    };
    refused(&["My Orders"], 2, &["`My Orders`", "lowercase", "next: windlass new my-orders"]);
    refused(&["../up"], 2, &["next: windlass new up"]);
    refused(&["windlass"], 2, &["are the host's", "next: windlass new windlass-consumer"]);
    refused(&["match"], 2, &["Rust keeps", "next: windlass new match-consumer"]);
    refused(&["serde-json"], 2, &["a package of that name"]);
    refused(&["hello", "--lang", "python"], 2, &["Python yet", "--lang rust"]);
    refused(&["hello", "--lang", "js"], 2, &["JavaScript yet", "there is one for Rust"]);
    refused(&["hello", "--lang", "cobol"], 2, &["possible values: rust"]);
    refused(&[], 2, &["<NAME>"]);
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);

    let mine = home.path().join("hello/mine");
    std::fs::create_dir(home.path().join("hello")).unwrap();
    std::fs::write(&mine, "mine").unwrap();
    refused(&["hello"], 1, &["`hello` is there already", "not empty", "--path"]);
    assert_eq!(std::fs::read_dir(home.path().join("hello")).unwrap().count(), 1);
    refused(&["other", "--path", "hello/mine"], 1, &["not a folder"]);
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
}
