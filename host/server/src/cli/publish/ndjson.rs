//! Many messages from lines of JSON: all checked first, then stored in chunks.
//!
//! Owns what a line may say. The file is read twice, so that its size does not matter; what comes
//! on stdin is put into a temporary file first.

use crate::cli::failure::Failure;
use crate::cli::ui::{Ui, clean};
use crate::manifest::{BINARY, TEXT, check_content_type, check_key};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;
use windlass_core::{Metadata, NewMessage, Topic};
use windlass_log::DynLog;

/// Most messages stored at a time.
const CHUNK_MESSAGES: usize = 256;
/// Most bytes stored at a time.
const CHUNK_BYTES: u64 = 8 << 20;
/// Longest line: data and metadata at their limits, every byte escaped.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// How many problems are told.
const PROBLEMS_MAX: usize = 20;

/// Content type of a JSON value.
const JSON: &str = "application/json";

/// One line. `serde` refuses unknown and doubled fields by name.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct Line<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    data: Option<&'a RawValue>,
    data_base64: Option<String>,
    content_type: Option<String>,
    #[serde(default)]
    metadata: Pairs,
    key: Option<String>,
    dedup_id: Option<String>,
    delay: Option<Delay>,
}

/// A span as people type it, or milliseconds.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged, expecting = "`delay` must be a text such as \"5m\", or milliseconds")]
enum Delay {
    Ms(u64),
    Text(String),
}

/// `null` is a value too.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&'a RawValue>::deserialize(from).map(Some)
}

/// Metadata as an object or a list of pairs, in the order written, doubled keys kept.
#[derive(Debug, Default)]
struct Pairs(Metadata);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Pairs;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of strings or a list of [key, value]")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Pairs, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = list.next_element()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// The message that a line says.
fn message(topic: &Topic, text: &str) -> Result<NewMessage, String> {
    let line: Line<'_> = serde_json::from_str(text).map_err(|error| without_place(&error))?;
    for (name, given) in [("key", &line.key), ("dedup_id", &line.dedup_id)] {
        if given.as_ref().is_some_and(String::is_empty) {
            return Err(format!("`{name}` is empty"));
        }
    }
    let delay = line.delay.map(|delay| match delay {
        Delay::Ms(ms) => super::parse_delay(&ms.to_string()),
        Delay::Text(text) => super::parse_delay(&text),
    });
    let (data, usual_type) = match (line.data, line.data_base64) {
        (Some(_), Some(_)) => return Err("`data` and `data_base64` exclude each other".into()),
        (None, None) => return Err("needs `data` or `data_base64`".into()),
        (None, Some(text)) => {
            let data = STANDARD.decode(text).map_err(|error| format!("`data_base64`: {error}"))?;
            (data, BINARY)
        }
        (Some(raw), None) if raw.get().starts_with('"') => {
            let text: String = serde_json::from_str(raw.get()).map_err(|e| without_place(&e))?;
            (text.into_bytes(), TEXT)
        }
        (Some(raw), None) => (raw.get().as_bytes().to_vec(), JSON),
    };
    let mut message = NewMessage::new(topic.clone(), data);
    if let Some(given) = &line.content_type {
        check_content_type(given)?;
    }
    message.content_type = Some(line.content_type.unwrap_or_else(|| usual_type.to_owned()));
    message.metadata = line.metadata.0;
    for (key, _) in &message.metadata {
        check_key(key)?;
    }
    (message.key, message.dedup_id) = (line.key, line.dedup_id);
    message.delay = delay.transpose().map_err(|what| format!("`delay`: {what}"))?;
    message.check_sizes().map_err(|error| error.to_string())?;
    Ok(message)
}

/// Each line is a text of its own to `serde_json`, so that its "line 1" would mislead.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let column = error.column();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} (column {column})"),
        None => text,
    }
}

/// A file of messages that was checked whole.
#[derive(Debug)]
pub(super) struct Lines {
    file: File,
    name: String,
    topic: Topic,
}

impl Lines {
    /// Checks every line of `path` (`-` is stdin).
    pub(super) fn check(path: &Path, topic: &Topic) -> Result<Self, Failure> {
        let name = if path == Path::new("-") { "stdin".into() } else { path.display().to_string() };
        let fault =
            |error: std::io::Error| Failure::system(format!("cannot read `{name}`"), &error);
        let file = open(path).map_err(fault)?;
        let lines = Self { file, name: name.clone(), topic: topic.clone() };
        let mut problems = Vec::new();
        let mut count = 0_usize;
        let mut reader = lines.reader().map_err(fault)?;
        while let Some((number, line)) = reader.next().map_err(fault)? {
            let Err(what) = line.and_then(|line| message(topic, line)) else { continue };
            count += 1;
            if problems.len() < PROBLEMS_MAX {
                problems.push(format!("{name}:{number}: {what}"));
            }
        }
        if count == 0 {
            return Ok(lines);
        }
        if count > problems.len() {
            problems.push(format!("and {} more", count - problems.len()));
        }
        let what = match count {
            1 => "one line cannot be published; nothing was stored".to_owned(),
            count => format!("{count} lines cannot be published; nothing was stored"),
        };
        Err(Failure { why: problems, ..Failure::new(what) })
    }

    fn reader(&self) -> std::io::Result<Reader<'_>> {
        let mut file = &self.file;
        file.rewind()?;
        Ok(Reader { input: BufReader::new(file), line: Vec::new(), number: 0 })
    }
}

/// The file to read; what can be read only once is put into a temporary one.
fn open(path: &Path) -> std::io::Result<File> {
    let spool = |input: &mut dyn Read| {
        let mut spool = tempfile::tempfile()?;
        std::io::copy(input, &mut spool)?;
        Ok(spool)
    };
    if path == Path::new("-") {
        return spool(&mut std::io::stdin().lock());
    }
    let mut file = File::open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { spool(&mut file) }
}

/// Reads line by line, never more than one line's limit at a time.
struct Reader<'f> {
    input: BufReader<&'f File>,
    line: Vec<u8>,
    number: usize,
}

impl Reader<'_> {
    /// The next line that is not blank, with its number. One that is too long or no text is told
    /// as such.
    fn next(&mut self) -> std::io::Result<Option<(usize, Result<&str, String>)>> {
        loop {
            self.number += 1;
            self.line.clear();
            let mut bounded = (&mut self.input).take(LINE_BYTES_MAX);
            if bounded.read_until(b'\n', &mut self.line)? == 0 {
                return Ok(None);
            }
            if self.line.len() as u64 == LINE_BYTES_MAX && self.line.last() != Some(&b'\n') {
                self.input.skip_until(b'\n')?;
                return Ok(Some((self.number, Err("the line is longer than 8 MiB".to_owned()))));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        // Some editors begin a file with a mark that is no text.
        let mark: &[u8] = if self.number == 1 { "\u{feff}".as_bytes() } else { b"" };
        let line = self.line.strip_prefix(mark).unwrap_or(&self.line);
        let line = std::str::from_utf8(line).map(str::trim);
        Ok(Some((self.number, line.map_err(|_| "the line is not UTF-8".to_owned()))))
    }
}

fn messages(count: usize) -> String {
    if count == 1 { "1 message".to_owned() } else { format!("{count} messages") }
}

/// Stores all lines, a chunk at a time; on a failure says how many are in.
pub(super) async fn publish(log: &DynLog, lines: &Lines, ui: &Ui) -> Result<(), Failure> {
    let mut reader = lines.reader().map_err(|error| Failure::of(&error))?;
    let mut stored = 0_usize;
    let (mut chunk, mut bytes, mut first_line) = (Vec::new(), 0, 0);
    loop {
        let next = reader.next().map_err(|error| lines.stopped(Failure::of(&error), stored, 0))?;
        let ended = next.is_none();
        if let Some((number, line)) = next {
            // It was checked: only a file that changes meanwhile fails here.
            let message = line
                .and_then(|line| message(&lines.topic, line))
                .map_err(|what| lines.stopped(Failure::new(what), stored, number))?;
            if chunk.is_empty() {
                first_line = number;
            }
            bytes += message.size();
            chunk.push(message);
        }
        if chunk.len() == CHUNK_MESSAGES || bytes >= CHUNK_BYTES || (ended && !chunk.is_empty()) {
            let answers = log.publish(std::mem::take(&mut chunk)).await;
            let answers =
                answers.map_err(|error| lines.stopped(error.into(), stored, first_line))?;
            super::tell(ui, &answers);
            stored += answers.len();
            bytes = 0;
        }
        if ended {
            break;
        }
    }
    ui.note(&format!("stored {} in {}", messages(stored), clean(lines.topic.as_str())));
    Ok(())
}

impl Lines {
    /// A failure after `stored` messages; `line` (where known) is the first that is not stored.
    fn stopped(&self, failure: Failure, stored: usize, line: usize) -> Failure {
        let are = if stored == 1 { "is" } else { "are" };
        let told = format!("{} of `{}` {are} in", messages(stored), self.name);
        let failure = failure.because(told);
        match line {
            0 => failure,
            line => failure.because(format!("line {line} is the first that is not")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn parse(line: &str) -> Result<NewMessage, String> {
        message(&Topic::new("t").unwrap(), line)
    }

    #[test]
    fn data_is_stored_by_its_kind() {
        for (line, data, content_type) in [
            (r#"{"data":"a\nb"}"#, "a\nb", TEXT),
            (r#"{"data": {"b":1.50, "a":[ ]} }"#, r#"{"b":1.50, "a":[ ]}"#, JSON),
            (r#"{"data":null}"#, "null", JSON),
            (r#"{"data":12345678901234567890123}"#, "12345678901234567890123", JSON),
            (r#"{"data_base64":"aGk="}"#, "hi", BINARY),
            (r#"{"data":{},"content_type":"x/y"}"#, "{}", "x/y"),
        ] {
            let message = parse(line).unwrap();
            assert_eq!(message.data, data, "{line}");
            assert_eq!(message.content_type.as_deref(), Some(content_type), "{line}");
        }
    }

    #[test]
    fn metadata_keeps_order_and_doubled_keys() {
        let expected: Metadata =
            vec![("b".into(), "1".into()), ("a".into(), "2".into()), ("b".into(), "3".into())];
        let object = parse(r#"{"data":1,"metadata":{"b":"1","a":"2","b":"3"}}"#).unwrap();
        assert_eq!(object.metadata, expected);
        let pairs = parse(r#"{"data":1,"metadata":[["b","1"],["a","2"],["b","3"]]}"#).unwrap();
        assert_eq!(pairs.metadata, expected);
    }

    #[test]
    fn what_is_not_built_or_not_known_is_refused_by_name() {
        for (line, part) in [
            (r#"{"data":1,"key":""}"#, "`key` is empty"),
            (r#"{"data":1,"dedup_id":""}"#, "`dedup_id` is empty"),
            (r#"{"data":1,"delay":"soon"}"#, "not a duration"),
            (r#"{"data":1,"delay":-1}"#, "or milliseconds"),
            (r#"{"data":1,"delay":"400 days"}"#, "365 days"),
            (r#"{"data":1,"topic":"x"}"#, "unknown field `topic`"),
            (r#"{"data":1,"data":2}"#, "duplicate field `data`"),
            (r#"{"data":1,"data_base64":""}"#, "exclude each other"),
            (r#"{"metadata":{}}"#, "needs `data`"),
            (r#"{"data_base64":"?"}"#, "`data_base64`"),
            (r#"{"data":1,"metadata":{"windlass-id":"1"}}"#, "are the host's"),
            (r#"{"data":1,"metadata":{"a":1}}"#, "expected a string"),
            (r#"{"data":1,"metadata":{"":"1"}}"#, "key is empty"),
            (r#"{"data":1,"content_type":""}"#, "content type is empty"),
            (r#"{"data":1,"content_type":"a\r\nb"}"#, "control character"),
            (r#"{"data":1} {}"#, "trailing characters"),
            ("[1]", "invalid"),
            ("null", "expected an object"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
            assert!(!error.contains("line 1"), "{error}");
        }
    }

    #[test]
    fn a_file_is_checked_whole_and_its_problems_have_lines() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"{\"data\":1}\n\n{\"data\"\n\xff\n{\"x\":1}").unwrap();
        let topic = Topic::new("t").unwrap();
        let error = Lines::check(file.path(), &topic).unwrap_err();
        let lines: Vec<_> = error
            .why
            .iter()
            .map(|why| why.rsplit_once(".tmp").map_or(why.as_str(), |w| w.1))
            .collect();
        assert_eq!(lines.len(), 3, "{lines:?}");
        for (line, number) in lines.iter().zip([3, 4, 5]) {
            assert!(line.contains(&format!(":{number}: ")), "{line}");
        }
    }

    #[test]
    fn a_byte_order_mark_is_taken_at_the_start_only() {
        let topic = Topic::new("t").unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("\u{feff}{\"data\":1}\r\n".as_bytes()).unwrap();
        assert!(Lines::check(file.path(), &topic).is_ok());
        file.write_all("\u{feff}{\"data\":2}\n".as_bytes()).unwrap();
        let error = Lines::check(file.path(), &topic).unwrap_err();
        assert!(error.why[0].contains(":2: "), "{:?}", error.why);
    }

    #[test]
    fn a_line_without_end_is_read_in_bounds() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; 9 << 20]).unwrap();
        file.write_all(b"\n{\"data\":1}\n").unwrap();
        let error = Lines::check(file.path(), &Topic::new("t").unwrap()).unwrap_err();
        assert_eq!(error.why.len(), 1, "{:?}", error.why);
        assert!(error.why[0].contains(":1: the line is longer"), "{:?}", error.why);
    }
}
