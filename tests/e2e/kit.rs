//! Running the binary: projects in folders of their own, commands to their end, `dev` with its
//! events.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long anything that must come may take: machines of two cores run two tests at once.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The binary, built beside this test by `cargo build --release`.
pub(crate) fn binary() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let binary = exe.ancestors().nth(2).unwrap().join("windlass");
    assert!(binary.is_file(), "there is no {}: run `tests/run`", binary.display());
    binary
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A component of `guest-examples`.
pub(crate) fn guest(name: &str) -> PathBuf {
    let folder = root().join("guest-examples/target/wasm32-wasip2/release");
    let file = folder.join(format!("{name}.wasm"));
    assert!(file.is_file(), "there is no {}: run `guest-examples/build`", file.display());
    file
}

/// `windlass` with nothing of the caller's environment that it reads.
pub(crate) fn windlass(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    for name in ["WINDLASS_LOG", "WINDLASS_TRACE", "WINDLASS_SERVER", "NO_COLOR"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null());
    command
}

/// A manifest in a folder of its own.
pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(manifest: &str) -> Self {
        // People's folders have such names.
        let folder = tempfile::Builder::new().prefix("wind läss ").tempdir().unwrap();
        let project = Self { folder };
        project.rewrite(manifest);
        project
    }

    /// One consumer `c` of a guest, on a topic of the guest's name, with `more` in its table.
    pub(crate) fn of(name: &str, more: &str) -> Self {
        Self::new(&consumer(name, more))
    }

    /// Another manifest over the same log.
    pub(crate) fn rewrite(&self, manifest: &str) {
        std::fs::write(self.path().join("windlass.toml"), manifest).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path().join(".windlass")
    }

    /// Runs a client command on this project's log, from its folder.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.run_with(args, b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], stdin: &[u8]) -> Ended {
        let mut command = windlass(args);
        command.current_dir(self.path());
        run(command, stdin)
    }

    /// The objects that a command prints; it must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Vec<Value> {
        let ended = self.run(&[args, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        ended.objects()
    }

    /// A topic as `topic show` tells it.
    pub(crate) fn topic(&self, name: &str) -> Value {
        self.json(&["topic", "show", name]).remove(0)
    }

    /// Makes the log (`dev` does), and ends.
    pub(crate) fn make_log(&self) {
        let ended = Dev::start(self, &["--no-samples", "--until-idle"]).end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }

    /// Runs `dev --until-idle` to its end.
    pub(crate) fn until_idle(&self, more: &[&str]) -> Ended {
        Dev::start(self, &[&["--until-idle"], more].concat()).end()
    }
}

/// A manifest of one consumer `c` over a guest, with `more` in its table.
pub(crate) fn consumer(name: &str, more: &str) -> String {
    let component = guest(name);
    let component = component.display();
    let topics =
        if more.contains("topics =") { String::new() } else { format!("topics = [\"{name}\"]") };
    format!("[[consumer]]\nname = \"c\"\ncomponent = \"{component}\"\n{topics}\n{more}\n")
}

/// Samples for a manifest: one a text.
pub(crate) fn samples<T: AsRef<str>>(topic: &str, texts: &[T]) -> String {
    let sample =
        |text: &T| format!("[[dev.samples]]\ntopic = \"{topic}\"\ndata = '{}'\n", text.as_ref());
    texts.iter().map(sample).collect()
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    /// Its stdout: one JSON object a line.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}: {self:?}"));
        self.out.lines().map(parse).collect()
    }

    /// The last line of stdout.
    pub(crate) fn last(&self) -> Value {
        self.objects().pop().unwrap_or_else(|| panic!("nothing on stdout: {self:?}"))
    }

    /// The deliveries that `dev` told.
    pub(crate) fn deliveries(&self) -> Vec<Value> {
        self.objects().into_iter().filter(|object| object["event"] == "delivery").collect()
    }

    /// Fails unless it ended so and said all of `parts` on stderr, and no panic.
    pub(crate) fn must(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        for part in parts {
            assert!(self.err.contains(part), "`{part}` is not said: {self:#?}");
        }
        assert!(!self.err.contains("panicked"), "{self:#?}");
        self
    }
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command, stdin: &[u8]) -> Ended {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    if !stdin.is_empty() {
        command.stdin(Stdio::piped());
    }
    let mut child = command.spawn().unwrap();
    if let Some(mut pipe) = child.stdin.take() {
        // A command that does not read it to the end may be right.
        drop(pipe.write_all(stdin));
    }
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let code = wait(&mut child);
    Ended { code, out: out.join().unwrap(), err: err.join().unwrap() }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    let mut pipe = pipe.unwrap();
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Waits for a child's end; its exit code, none after a signal.
pub(crate) fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if start.elapsed() > PATIENCE {
            let _gone = child.kill();
            panic!("a command did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Looks until `found` answers something.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "this did not come: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Sends a signal by its name.
pub(crate) fn signal(name: &str, pid: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(status.unwrap().success(), "signal {name}");
}

/// A running `windlass dev --json`, or another command that tells as it goes.
pub(crate) struct Dev {
    child: Child,
    events: Receiver<String>,
    told: Vec<String>,
    err: Arc<Mutex<String>>,
}

impl Dev {
    /// Starts `dev` on a project, from another folder than the project's.
    pub(crate) fn start(project: &Project, args: &[&str]) -> Self {
        let path = project.path().to_str().unwrap();
        Self::spawn(windlass(&[&["dev", path, "--json"], args].concat()))
    }

    /// The same, by a shell that does something before.
    pub(crate) fn start_after(before: &str, project: &Project, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} exec \"$0\" \"$@\"")]).arg(binary());
        command.arg("dev").arg(project.path()).arg("--json").args(args);
        command.env_remove("WINDLASS_LOG").stdin(Stdio::null());
        Self::spawn(command)
    }

    /// Starts whatever prints JSON for as long as it runs.
    pub(crate) fn spawn(mut command: Command) -> Self {
        command.current_dir(std::env::temp_dir());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, events) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                // Nobody listens to a child that was killed.
                drop(sender.send(line));
            }
        });
        let err = Arc::new(Mutex::new(String::new()));
        let (said, pipe) = (Arc::clone(&err), BufReader::new(child.stderr.take().unwrap()));
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                let mut said = said.lock().unwrap();
                said.push_str(&line);
                said.push('\n');
            }
        });
        Self { child, events, told: Vec::new(), err }
    }

    /// Starts it and waits until its consumers run.
    pub(crate) fn ready(project: &Project, args: &[&str]) -> Self {
        let mut dev = Self::start(project, args);
        dev.until(|event| event["event"] == "ready");
        dev
    }

    /// The next event like this.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            match self.events.recv_timeout(PATIENCE.saturating_sub(start.elapsed())) {
                Ok(line) => {
                    self.told.push(line);
                    let event = serde_json::from_str(self.told.last().unwrap()).unwrap();
                    if wanted(&event) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let err = self.err.lock().unwrap().clone();
                    panic!("no such event; told: {:#?}\n{err}", self.told);
                }
            }
        }
    }

    /// The next event, if one comes soon.
    pub(crate) fn next_within_a_second(&mut self) -> Option<Value> {
        let line = self.events.recv_timeout(Duration::from_secs(1)).ok()?;
        self.told.push(line);
        serde_json::from_str(self.told.last().unwrap()).unwrap()
    }

    /// The next delivery that ended in this disposition.
    pub(crate) fn until_disposition(&mut self, disposition: &str) -> Value {
        self.until(|event| event["event"] == "delivery" && event["disposition"] == disposition)
    }

    /// What it has said on stderr until now.
    pub(crate) fn said(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// SIGKILL; what it had told.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let code = wait(&mut self.child);
        let mut told = std::mem::take(&mut self.told);
        // Ends when the pipe does. A build's grandchild may hold it a moment longer.
        while let Ok(line) = self.events.recv_timeout(Duration::from_secs(5)) {
            told.push(line);
        }
        if code.is_none() && told.last().is_some_and(|line| !line.ends_with('}')) {
            // Killed in the middle of a line.
            told.pop();
        }
        let err = self.said();
        Ended { code, out: told.join("\n"), err }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}
