//! `windlass logs CONSUMER`: what its guests printed.

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::ui::{Ui, clean};
use crate::report::output;
use serde_json::json;
use std::fs::File;
use std::io::{Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of a file's end is read for the last lines, at most.
const TAIL_BYTES: u64 = 4 << 20;
/// Bytes read at a time while following.
const PIECE: usize = 64 << 10;
const LOOK: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The consumer's name.
    consumer: String,
    /// So many of the last lines.
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Go on with what is printed from now on.
    #[arg(long, short)]
    follow: bool,
    /// Print one JSON object a line.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    log: LogArgs,
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let folder = open::folder(&args.log)?;
    let path = file(&folder, &args.consumer)?;
    if !path.is_file() && !args.follow {
        let log = open::read_only(&args.log).await?;
        let known = log.deployed().await?.find(&args.consumer).is_some();
        log.close().await;
        if known {
            ui.note("it has printed nothing yet");
            return Ok(());
        }
        let name = clean(&args.consumer);
        return Err(Failure::new(format!("there is no output of a consumer `{name}`"))
            .next(format!("windlass ps{}", args.log.flag())));
    }
    let mut reader = Reader { path, file: None, rest: Vec::new() };
    for line in reader.last(args.lines).map_err(|error| fault(&reader.path, &error))? {
        show(&line, ui);
    }
    let ended = tokio::signal::ctrl_c();
    tokio::pin!(ended);
    while args.follow && !ui.is_out_gone() {
        for line in reader.more().map_err(|error| fault(&reader.path, &error))? {
            show(&line, ui);
        }
        ui.look_for_reader();
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = &mut ended => break,
        }
    }
    Ok(())
}

/// A consumer's output. Its name is a file's name and nothing else.
fn file(folder: &Path, consumer: &str) -> Result<PathBuf, Failure> {
    if consumer.is_empty() || consumer.contains(['/', '\\', '\0']) || consumer.starts_with('.') {
        return Err(Failure::usage(format!("`{}` is no consumer's name", clean(consumer))));
    }
    Ok(folder.join(output::FOLDER).join(format!("{consumer}.log")))
}

fn fault(path: &Path, error: &std::io::Error) -> Failure {
    Failure::system(format!("cannot read `{}`", path.display()), error)
}

/// `TIME CONSUMER ID TEXT`, as it is written.
fn show(line: &str, ui: &Ui) {
    if !ui.json {
        return ui.data(&clean(line));
    }
    let mut parts = line.splitn(4, ' ');
    let mut part = || parts.next().unwrap_or_default();
    let (at, consumer, id, text) = (part(), part(), part(), part());
    ui.object(&json!({ "at": at, "consumer": consumer, "id": id, "text": text }));
}

/// Reads a file that grows, and is turned over now and then.
struct Reader {
    path: PathBuf,
    file: Option<(File, u64)>,
    rest: Vec<u8>,
}

impl Reader {
    /// The last lines that there are.
    fn last(&mut self, lines: usize) -> std::io::Result<Vec<String>> {
        let Some((mut file, number)) = self.open()? else { return Ok(Vec::new()) };
        let length = file.metadata()?.len();
        let from = length.saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut text = Vec::new();
        Read::by_ref(&mut file).take(length - from).read_to_end(&mut text)?;
        self.file = Some((file, number));
        let mut found = self.split(&text);
        if from > 0 && !found.is_empty() {
            // It began somewhere before.
            found.remove(0);
        }
        Ok(found.split_off(found.len().saturating_sub(lines)))
    }

    /// What was written since.
    fn more(&mut self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        if self.file.is_none() {
            self.file = self.open()?;
        }
        let Some((file, number)) = &mut self.file else { return Ok(lines) };
        let number = *number;
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece)?;
        if read == 0 {
            // All of it was read: what comes next is in another file, if there is one.
            if self.open()?.is_some_and(|(_, now)| now != number) {
                self.file = None;
            }
            return Ok(lines);
        }
        lines.extend(self.split(&piece[..read]));
        Ok(lines)
    }

    fn open(&self) -> std::io::Result<Option<(File, u64)>> {
        use std::os::unix::fs::MetadataExt as _;
        match File::open(&self.path) {
            Ok(file) => {
                let number = file.metadata()?.ino();
                Ok(Some((file, number)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whole lines of what came; what is not whole yet waits.
    fn split(&mut self, text: &[u8]) -> Vec<String> {
        self.rest.extend_from_slice(text);
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            return Vec::new();
        };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        String::from_utf8_lossy(&whole).lines().map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn output_is_followed_over_the_turn_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.log");
        let mut reader = Reader { path: path.clone(), file: None, rest: Vec::new() };
        assert!(reader.last(9).unwrap().is_empty() && reader.more().unwrap().is_empty());
        std::fs::write(&path, "1\n2\n3\nhal").unwrap();
        assert_eq!(reader.last(2).unwrap(), ["2", "3"]);
        let mut file = File::options().append(true).open(&path).unwrap();
        writeln!(file, "f").unwrap();
        assert_eq!(reader.more().unwrap(), ["half"]);
        std::fs::rename(&path, folder.path().join("c.log.1")).unwrap();
        writeln!(file, "last").unwrap();
        std::fs::write(&path, "new\n").unwrap();
        assert_eq!(reader.more().unwrap(), ["last"]);
        assert!(reader.more().unwrap().is_empty());
        assert_eq!(reader.more().unwrap(), ["new"]);
    }

    #[test]
    fn a_name_leads_nowhere_else() {
        let folder = Path::new("/log");
        assert_eq!(file(folder, "c").unwrap(), Path::new("/log/output/c.log"));
        for name in ["", "../x", "a/b", ".c"] {
            assert!(file(folder, name).is_err(), "{name}");
        }
    }
}
