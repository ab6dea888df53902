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
use std::time::{Duration, UNIX_EPOCH};
use windlass_core::message::DATA_BYTES_MAX;
use windlass_core::policy::DELAY_MAX;
use windlass_core::{Metadata, NewMessage, Topic, time};
use windlass_log::clock::{Clock as _, SystemClock};
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
    /// Each line is an object of `data` (text, or any JSON) or `data_base64`, `content_type`,
    /// `metadata` (an object, or pairs), `key`, `delay` ("5m", or milliseconds) and `dedup_id`. The
    /// whole file is checked before anything is stored.
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["content_type", "metadata", "key", "delay", "at", "dedup_id"])]
    ndjson: Option<PathBuf>,
    /// The data's media type.
    #[arg(long, value_name = "TYPE", value_parser = content_type)]
    content_type: Option<String>,
    /// A pair of metadata; may be given more than once.
    #[arg(long, short, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Messages of one key are handled one at a time and in order, within each group.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, value_parser = field)]
    key: Option<String>,
    /// Not to be handled before so long from now, such as `30s` or `2h`; at most 365 days.
    #[arg(long, value_name = "DURATION", value_parser = parse_delay)]
    delay: Option<Duration>,
    /// Not to be handled before this time, such as `2026-01-31T12:00:00Z`.
    #[arg(long, value_name = "TIME", conflicts_with = "delay", value_parser = due)]
    at: Option<Duration>,
    /// Seen again on the topic within its window (5 minutes unless it says otherwise), the message
    /// is not stored again, and the first one's id is answered.
    #[arg(long, value_name = "ID", allow_hyphen_values = true, value_parser = field)]
    dedup_id: Option<String>,
    /// Print one JSON object a message.
    #[arg(long)]
    pub(super) json: bool,
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

/// A key or dedup id.
fn field(text: &str) -> Result<String, &'static str> {
    if text.is_empty() { Err("it is empty") } else { Ok(text.to_owned()) }
}

/// A span as people type it, or milliseconds.
fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = match text.trim().parse() {
        Ok(ms) => Duration::from_millis(ms),
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| format!("`{text}` is not a duration such as `30s` or `5m`"))?,
    };
    if delay > DELAY_MAX {
        return Err(format!("`{text}` is longer than 365 days"));
    }
    Ok(delay)
}

/// How long it is until a time. One that has passed is now.
fn due(text: &str) -> Result<Duration, String> {
    let at = humantime::parse_rfc3339_weak(text)
        .map_err(|_| format!("`{text}` is not a time such as `2026-01-31T12:00:00Z` (UTC)"))?;
    let at = at.duration_since(UNIX_EPOCH).map(time::millis).unwrap_or_default();
    let delay = Duration::from_millis(at.saturating_sub(SystemClock.wall_ms()));
    if delay > DELAY_MAX {
        return Err(format!("`{text}` is more than 365 days away"));
    }
    Ok(delay)
}

pub(super) async fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if let Some(file) = &args.ndjson {
        let lines = ndjson::Lines::check(file, &args.topic)?;
        let log = open::existing(&args.log).await?;
        let stored = ndjson::publish(&log, &lines, ui).await;
        log.close().await;
        return stored;
    }
    let mut message = message(args.topic, args.data, args.file, args.content_type, args.metadata)?;
    (message.key, message.dedup_id) = (args.key, args.dedup_id);
    message.delay = args.delay.or(args.at);
    let message = checked(message)?;
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
    Ok(message)
}

fn checked(message: NewMessage) -> Result<NewMessage, Failure> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_spans_or_milliseconds_and_times_that_passed_are_now() {
        assert_eq!(parse_delay("5m"), Ok(Duration::from_mins(5)));
        assert_eq!(parse_delay("1500"), Ok(Duration::from_millis(1_500)));
        assert!(parse_delay("366 days").unwrap_err().contains("365 days"));
        assert!(parse_delay("soon").unwrap_err().contains("not a duration"));
        assert_eq!(due("2000-01-01T00:00:00Z"), Ok(Duration::ZERO));
        assert!(due("9000-01-01T00:00:00Z").unwrap_err().contains("365 days"));
        assert!(due("noon").unwrap_err().contains("not a time"));
    }
}
