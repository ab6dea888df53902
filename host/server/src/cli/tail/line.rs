//! A message as one line, or with its data below.

use super::super::ui::{Tone, Ui, clean};
use crate::wire::when;
use bytesize::ByteSize;
use std::fmt::Write as _;
use windlass_core::Message;
use windlass_log::ReadMessage;

/// How many characters of the data a line has.
const FIRST_CHARS: usize = 100;

/// Id, size, content type and data; all that others wrote is cleaned.
pub(super) fn line(ui: &Ui, read: &ReadMessage, full: bool) -> String {
    let mut text = ui.tone(Tone::Faint, &read.id.to_string());
    let Some(message) = &read.message else {
        text.push_str("  (its record cannot be read)");
        return text;
    };
    let kind = clean(message.content_type.as_deref().unwrap_or("-"));
    let size = ByteSize(message.size()).to_string();
    let _infallible = write!(text, "  {size:>9}  {}", ui.tone(Tone::Faint, &kind));
    if let Some(key) = &message.key {
        let _infallible = write!(text, "  key {}", clean(key));
    }
    if let Some(due) = read.due {
        let _infallible = write!(text, "  due {}", when(due.0));
    }
    match data(message) {
        Err(what) => {
            let _infallible = write!(text, "  {what}");
        }
        Ok(data) if full => {
            for line in data.lines() {
                let _infallible = write!(text, "\n    {}", clean(line));
            }
        }
        Ok(data) => {
            let _infallible = write!(text, "  {}", first_part(data));
        }
    }
    text
}

fn data(message: &Message) -> Result<&str, &'static str> {
    match std::str::from_utf8(&message.data) {
        Ok("") => Err("(no data)"),
        Ok(text) => Ok(text),
        Err(_) => Err("(no text: see --json)"),
    }
}

fn first_part(data: &str) -> String {
    match data.char_indices().nth(FIRST_CHARS) {
        None => clean(data),
        Some((end, _)) => format!("{}...", clean(&data[..end])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use windlass_core::{MessageId, Sequence, Timestamp, Topic};

    fn read(data: &[u8]) -> ReadMessage {
        let id = MessageId { millis: Timestamp(1_700_000_000_000), sequence: Sequence(16) };
        let message = Message {
            id,
            topic: Topic::new("t").unwrap(),
            data: data.to_vec().into(),
            content_type: Some("text/\u{1b}plain".to_owned()),
            metadata: Vec::new(),
            key: None,
            published_at: 0,
            hops: 0,
        };
        ReadMessage { id, due: None, message: Some(Arc::new(message)) }
    }

    fn shown(read: &ReadMessage, full: bool) -> String {
        line(&Ui::new(false), read, full)
    }

    #[test]
    fn a_message_is_one_line_that_does_nothing_to_a_terminal() {
        let text = shown(&read(b"one\ntwo\x1b[2J"), false);
        let id = "1700000000000-0000000000000010";
        assert_eq!(text, format!("{id}       22 B  text/\\u{{1b}}plain  one\\ntwo\\u{{1b}}[2J"));
        let text = shown(&read(b"one\ntwo\x1b[2J\n"), true);
        assert!(text.ends_with("plain\n    one\n    two\\u{1b}[2J"), "{text}");
    }

    #[test]
    fn long_data_is_cut_and_what_is_no_text_is_named() {
        let long = "ä".repeat(FIRST_CHARS + 1);
        let text = shown(&read(long.as_bytes()), false);
        assert!(text.ends_with(&format!("{}...", "ä".repeat(FIRST_CHARS))), "{text}");
        assert!(shown(&read(long.as_bytes()), true).ends_with(&long));
        assert!(shown(&read(&[0xff]), false).ends_with("(no text: see --json)"));
        assert!(shown(&read(b""), false).ends_with("(no data)"));
        let unreadable = ReadMessage { message: None, ..read(b"") };
        assert!(shown(&unreadable, false).ends_with("(its record cannot be read)"));
        let delayed = ReadMessage { due: Some(Timestamp(1_700_000_060_000)), ..read(b"x") };
        assert!(shown(&delayed, false).contains("  due 2023-11-14T22:14:20.000Z"));
    }
}
