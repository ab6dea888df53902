//! `windlass publish TOPIC`: one message, or a file of them.
//!
//! Owns where a message's parts come from. Lines of many are `ndjson`'s.

mod ndjson;

use super::failure::Failure;
use super::open::{self, LogArgs};
use super::ui::Ui;
use crate::manifest::{BINARY, TEXT, check_content_type, check_key};
use crate::wire::PublishedBody;
use bytes::Bytes;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use windlass_core::message::DATA_BYTES_MAX;
use windlass_core::{Metadata, NewMessage, Topic};
use windlass_log::{LogError, Published};

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("body").args(["data", "file", "ndjson"])))]
pub(super) struct Args {
    /// Where to.
    topic: Topic,
    /// The message's data, as text [default: what comes on stdin].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    data: Option<String>,
    /// A file that is the message's data.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// A file with one message a line, as JSON; `-` is stdin.
    ///
    /// Each line is an object of `data` (text, or any JSON) or `data_base64`, `content_type` and
    /// `metadata` (an object, or pairs). The whole file is checked before anything is stored.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["content_type", "metadata"])]
    ndjson: Option<PathBuf>,
    /// The data's media type.
    #[arg(long, value_name = "TYPE", value_parser = content_type)]
    content_type: Option<String>,
    /// A pair of metadata; may be given more than once.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Print one JSON object a message.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    later: Later,
    #[command(flatten)]
    log: LogArgs,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write it as KEY=VALUE")?;
    check_key(key)?;
    Ok((key.to_owned(), value.to_owned()))
}

fn content_type(text: &str) -> Result<String, &'static str> {
    check_content_type(text).map(|()| text.to_owned())
}

/// Parts of the contract that later issues build: refused by name, not as something unknown.
#[derive(Debug, clap::Args)]
struct Later {
    #[arg(long, hide = true, allow_hyphen_values = true)]
    key: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    delay: Option<String>,
    #[arg(long, hide = true, allow_hyphen_values = true)]
    dedup_id: Option<String>,
}

impl Later {
    fn refuse(&self) -> Result<(), Failure> {
        let Self { key, delay, dedup_id } = self;
        for (name, given) in [("--key", key), ("--delay", delay), ("--dedup-id", dedup_id)] {
            if given.is_some() {
                return Err(
                    Failure::usage(format!("`{name}` is not built yet")).next("publish without it")
                );
            }
        }
        Ok(())
    }
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    args.later.refuse()?;
    if let Some(file) = &args.ndjson {
        let lines = ndjson::Lines::check(file, &args.topic)?;
        let log = open::existing(&args.log).await?;
        let stored = ndjson::publish(&log, &lines, ui).await;
        log.close().await;
        return stored;
    }
    let message = message(args.topic, args.data, args.file, args.content_type, args.metadata)?;
    let log = open::existing(&args.log).await?;
    let answers = log.publish(vec![message]).await;
    log.close().await;
    tell(ui, &answers?);
    Ok(())
}

fn message(
    topic: Topic,
    text: Option<String>,
    file: Option<PathBuf>,
    content_type: Option<String>,
    metadata: Metadata,
) -> Result<NewMessage, Failure> {
    let (data, usual_type) = match (text, file) {
        (Some(text), _) => (text.into_bytes(), TEXT),
        (None, Some(file)) => {
            let name = format!("`{}`", file.display());
            (read_bounded(std::fs::File::open(&file), &name)?, BINARY)
        }
        (None, None) if std::io::stdin().is_terminal() => {
            return Err(Failure::usage("there is no message")
                .next("give --data TEXT, --file FILE or --ndjson FILE, or pipe one in"));
        }
        (None, None) => (read_bounded(Ok(std::io::stdin().lock()), "stdin")?, BINARY),
    };
    let mut message = NewMessage::new(topic, Bytes::from(data));
    message.content_type = Some(content_type.unwrap_or_else(|| usual_type.to_owned()));
    message.metadata = metadata;
    match message.check_sizes() {
        Ok(()) => Ok(message),
        Err(source) => Err(LogError::TooLarge { topic: message.topic, source }.into()),
    }
}

/// All of `input`, never more than a message may have.
fn read_bounded(input: std::io::Result<impl Read>, name: &str) -> Result<Vec<u8>, Failure> {
    let mut data = Vec::new();
    input
        .and_then(|input| input.take(DATA_BYTES_MAX as u64 + 1).read_to_end(&mut data))
        .map_err(|error| Failure::system(format!("cannot read {name}"), &error))?;
    if data.len() > DATA_BYTES_MAX {
        return Err(Failure::new(format!("{name} is too large for a message"))
            .because(format!("a message may have {DATA_BYTES_MAX} bytes of data"))
            .next("publish less data, or a reference to where it lies"));
    }
    Ok(data)
}

/// Prints the answers of a publish.
fn tell(ui: &Ui, answers: &[Published]) {
    for Published { id, duplicate } in answers {
        if ui.json {
            ui.object(&PublishedBody { id: id.to_string(), duplicate: *duplicate });
        } else {
            ui.data(&id.to_string());
        }
    }
}
