//! The only place that prints: data to stdout, the rest to stderr.
//!
//! Owns colours, JSON lines, tables, and what control characters become. A reader of stdout that
//! went away is not an error of ours: what is left is not printed, and the caller can ask.

use super::failure::Failure;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

/// A colour of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// It went well.
    Good,
    /// It will be tried again.
    Warn,
    /// It went wrong.
    Bad,
    /// Beside the point.
    Faint,
}

/// Where a command prints.
#[derive(Debug)]
pub(crate) struct Ui {
    /// Data as one JSON object a line.
    pub json: bool,
    out_colour: bool,
    err_colour: bool,
    out_gone: AtomicBool,
}

impl Ui {
    /// Prints to this process's stdout and stderr.
    pub(crate) fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self {
            json,
            out_colour: wanted && std::io::stdout().is_terminal(),
            err_colour: wanted && std::io::stderr().is_terminal(),
            out_gone: AtomicBool::new(false),
        }
    }

    /// Whether the reader of stdout went away.
    pub(crate) fn is_out_gone(&self) -> bool {
        self.out_gone.load(Ordering::Relaxed)
    }

    /// Looks whether the reader of a pipe went away, without writing to it.
    pub(crate) fn look_for_reader(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let out = std::io::stdout();
        let mut out = [PollFd::new(&out, PollFlags::empty())];
        let gone = PollFlags::ERR | PollFlags::HUP;
        if poll(&mut out, Some(&Timespec::default())).is_ok() && out[0].revents().intersects(gone) {
            self.out_gone.store(true, Ordering::Relaxed);
        }
    }

    /// Lines of data for a person.
    pub(crate) fn data(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        if !self.is_out_gone() && writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            self.out_gone.store(true, Ordering::Relaxed);
        }
    }

    /// One JSON object.
    pub(crate) fn object(&self, body: &impl Serialize) {
        match serde_json::to_string(body) {
            Ok(text) => self.data(&text),
            Err(error) => self.note(&format!("this cannot be written as JSON: {error}")),
        }
    }

    /// A remark that is no data.
    #[expect(clippy::unused_self, reason = "who prints, prints through a `Ui`")]
    pub(crate) fn note(&self, text: &str) {
        // There is nobody to tell when stderr is gone.
        drop(writeln!(std::io::stderr().lock(), "{text}"));
    }

    /// A command's failure.
    pub(crate) fn failure(&self, failure: &Failure) {
        let mut text = self.err_tone(Tone::Bad, "error");
        let _infallible = write!(text, ": {}", clean(&failure.what));
        for why in &failure.why {
            for line in why.lines() {
                let _infallible = write!(text, "\n  {}", clean(line));
            }
        }
        if let Some(next) = &failure.next {
            let _infallible = write!(text, "\n  next: {}", clean(next));
        }
        self.note(&text);
    }

    /// `text` for stdout in a colour, where it shows colours.
    pub(crate) fn tone(&self, tone: Tone, text: &str) -> String {
        paint(self.out_colour, tone, text)
    }

    /// `text` for stderr in a colour, where it shows colours.
    pub(crate) fn err_tone(&self, tone: Tone, text: &str) -> String {
        paint(self.err_colour, tone, text)
    }

    /// Asks a yes-or-no question, when there is somebody to ask.
    #[expect(clippy::unused_self, reason = "who prints, prints through a `Ui`")]
    fn confirm(&self, question: &str) -> Option<bool> {
        if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
            return None;
        }
        let mut err = std::io::stderr().lock();
        write!(err, "{question} [y/N] ").and_then(|()| err.flush()).ok()?;
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer).ok()?;
        Some(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
    }

    /// Goes on only when somebody says yes to `question`. `what` says what would happen, for when
    /// there is nobody to ask.
    pub(crate) fn must_confirm(&self, question: &str, what: &str) -> Result<(), Failure> {
        match self.confirm(&clean(question)) {
            Some(true) => Ok(()),
            Some(false) => Err(Failure::new("nothing was removed")),
            None => Err(Failure::usage(what)
                .because("there is no terminal to ask on")
                .next("give --yes")),
        }
    }
}

fn paint(colour: bool, tone: Tone, text: &str) -> String {
    if !colour {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Good => "32",
        Tone::Warn => "33",
        Tone::Bad => "31",
        Tone::Faint => "2",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

/// A table; columns from number `numbers` on are numbers.
pub(crate) fn table(head: &[&str], rows: Vec<Vec<String>>, numbers: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(head);
    for row in rows {
        table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if at >= numbers {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Text that others wrote, as one line that does nothing to a terminal.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        // Also what turns the direction of writing around.
        let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c == '\t' {
            clean.push_str("    ");
        } else if c.is_control() || turns {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// A word of a command that is shown to be copied, quoted where a shell would read it otherwise.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A span of time for a person: three digits and a unit.
pub(crate) fn span(span: std::time::Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 0.001 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 0.01 {
        format!("{:.1} ms", seconds * 1e3)
    } else if seconds < 1.0 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        let whole = std::time::Duration::from_secs(span.as_secs());
        humantime::format_duration(whole).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        assert_eq!(
            clean("a\u{1b}[31mb\r\u{7}\tc\u{202e}d"),
            "a\\u{1b}[31mb\\r\\u{7}    c\\u{202e}d"
        );
        assert_eq!(clean("größe ✓"), "größe ✓");
    }

    #[test]
    fn a_command_can_be_copied_whatever_its_words_are() {
        for (word, expected) in [
            ("orders/created", "orders/created"),
            ("größe", "größe"),
            ("my orders", "'my orders'"),
            ("$(id)", "'$(id)'"),
            ("it's", "'it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell(word), expected);
        }
    }

    #[test]
    fn spans_read_well() {
        for (micros, expected) in
            [(12, "12 µs"), (1_240, "1.2 ms"), (45_400, "45 ms"), (1_500_000, "1.5 s")]
        {
            assert_eq!(span(Duration::from_micros(micros)), expected);
        }
        assert_eq!(span(Duration::from_millis(90_400)), "1m 30s");
    }
}
