//! One thing shown whole: a title, and named lines below it.
//!
//! Owns what messages and histories look like there. All text is cleaned on its way in.

use super::ui::clean;
use crate::wire::when;
use bytesize::ByteSize;
use std::fmt::Write as _;
use windlass_core::{History, Message, Metadata};

/// Text that grows line by line.
#[derive(Debug)]
pub(super) struct Sheet(String);

impl Sheet {
    /// Nothing but its title.
    pub(super) fn new(title: &str) -> Self {
        Self(clean(title))
    }

    /// A value under its name; under none it belongs to the line above.
    pub(super) fn line(&mut self, name: &str, value: &str) {
        let text = format!("\n  {name:<13} {}", clean(value));
        self.0.push_str(text.trim_end());
    }

    /// Text of several lines under one name.
    pub(super) fn lines(&mut self, name: &str, text: &str) {
        let mut name = name;
        for line in text.lines() {
            self.line(std::mem::take(&mut name), line);
        }
    }

    /// What a message carries; nothing where its record cannot be read.
    pub(super) fn message(&mut self, message: Option<&Message>) {
        let Some(message) = message else {
            return self.line("data", "(its record cannot be read)");
        };
        self.line("published", &when(message.published_at));
        if let Some(key) = &message.key {
            self.line("key", key);
        }
        self.content(message.content_type.as_deref(), &message.metadata, &message.data);
    }

    /// What any message is made of, stored or not.
    pub(super) fn content(&mut self, kind: Option<&str>, metadata: &Metadata, data: &[u8]) {
        self.line("content type", kind.unwrap_or("-"));
        for (key, value) in metadata {
            self.line("metadata", &format!("{key}={value}"));
        }
        match std::str::from_utf8(data) {
            Ok("") => self.line("data", "(none)"),
            Ok(text) => self.lines("data", text),
            Err(_) => {
                let size = ByteSize(data.len() as u64);
                self.line("data", &format!("{size}, no text: see --json"));
            }
        }
    }

    /// What became of attempts.
    pub(super) fn history(&mut self, history: &History) {
        for attempt in &history.attempts {
            let place = format!("{} {}", attempt.worker, attempt.revision);
            let head = format!("{}  {}  {place}", when(attempt.at.0), attempt.outcome);
            self.line(&format!("attempt {}", attempt.attempt), head.trim_end());
            self.lines("", &attempt.text);
        }
        if history.omitted > 0 {
            self.line("", &format!("({} attempts between are not kept)", history.omitted));
        }
    }

    /// An empty line: what follows is about something else.
    pub(super) fn part(&mut self, title: &str) {
        let _infallible = write!(self.0, "\n\n  {}", clean(title));
    }

    /// All of it.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_contains_does_nothing_to_a_terminal() {
        let mut sheet = Sheet::new("\u{1b}[2J");
        let metadata = vec![("a\u{7}".to_owned(), "b\r".to_owned())];
        sheet.content(Some("\u{1b}c"), &metadata, b"one\n\x1b[31mtwo\n");
        sheet.content(None, &Vec::new(), &[0xff, 0x1b]);
        let text = sheet.into_text();
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        let expected = "\\u{1b}[2J\n  content type  \\u{1b}c\n  metadata      a\\u{7}=b\\r\n  \
                        data          one\n                \\u{1b}[31mtwo\n  content type  -\n  \
                        data          2 B, no text: see --json";
        assert_eq!(text, expected);
    }
}
