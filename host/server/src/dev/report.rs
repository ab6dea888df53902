//! How a run is shown: a line a delivery with the guest's output below it, or JSON.
//!
//! Runs on a thread of its own, so that a terminal that stands still holds up no delivery's
//! neighbours. At high rates successes are summed up each second.

use super::output::OutputFiles;
use super::rate::Rate;
use crate::cli::{Tone, Ui, clean, log_flag, shell, span};
use crate::event::{Delivered, Event, Fate};
use crate::wire::EventBody;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;

/// Most lines of a guest's output shown with one delivery.
const OUTPUT_LINES: usize = 40;

/// What shows a run.
pub(super) struct Report {
    ui: Arc<Ui>,
    files: OutputFiles,
    rate: Rate,
    file_fault_told: bool,
    /// What a command needs to find this log from where we are.
    log_flag: String,
}

impl Report {
    /// Shows on `ui`, and writes guests' output below `log`.
    pub(super) fn new(ui: Arc<Ui>, log: &Path) -> Self {
        Self {
            ui,
            files: OutputFiles::new(log),
            rate: Rate::default(),
            file_fault_told: false,
            log_flag: log_flag(log),
        }
    }

    /// Shows events until there are no more.
    pub(super) fn run(mut self, mut events: Receiver<Event>) {
        while let Some(event) = events.blocking_recv() {
            if matches!(event, Event::End) {
                break;
            }
            self.take(&event);
        }
        self.sum_up();
    }

    fn take(&mut self, event: &Event) {
        if let Event::Delivered(delivered) = event
            && let Err(error) = self.files.write(delivered)
            && !std::mem::replace(&mut self.file_fault_told, true)
        {
            let path = self.files.path(&delivered.consumer);
            self.ui.note(&format!("output is not kept in {}: {error}", path.display()));
        }
        if self.ui.json {
            if let Some(body) = EventBody::new(event) {
                self.ui.object(&body);
            }
            return;
        }
        match event {
            Event::Delivered(delivered) => {
                if self.rate.shows(delivered) {
                    self.ui.data(&self.line(delivered));
                }
            }
            Event::Paused { consumer, reason, text, retry, .. } => {
                let head = self.ui.tone(Tone::Bad, &format!("paused {consumer}"));
                let again = match retry {
                    Some(wait) => format!("looks again in {}", span(*wait)),
                    None => "grant it under [consumer.allow] in windlass.toml, start again".into(),
                };
                self.ui.data(&format!("{head}: {reason}: {}; {again}", clean(text)));
            }
            Event::Resumed { consumer } => {
                self.ui.data(&self.ui.tone(Tone::Good, &format!("resumed {consumer}")));
            }
            Event::StorageLost { text } => {
                let head = self.ui.tone(Tone::Bad, "storage does not answer");
                self.ui.data(&format!("{head}, what is done is kept: {}", clean(text)));
            }
            Event::StorageBack => {
                self.ui.data(&self.ui.tone(Tone::Good, "storage is back"));
            }
            Event::LogEnded => self.ui.data(&self.ui.tone(Tone::Bad, "the log has ended")),
            Event::Tick | Event::End => self.sum_up(),
        }
    }

    fn sum_up(&mut self) {
        for line in self.rate.turn() {
            self.ui.data(&self.ui.tone(Tone::Faint, &line));
        }
    }

    fn line(&self, delivered: &Delivered) -> String {
        let (word, tone, then) = match delivered.fate {
            Fate::Acked { sent: 0 } => ("ok", Tone::Good, String::new()),
            Fate::Acked { sent } => ("ok", Tone::Good, format!("sent {sent}")),
            Fate::Retry { delay } => ("retry", Tone::Warn, format!("again in {}", span(delay))),
            Fate::Dead => ("dead", Tone::Bad, String::new()),
            Fate::Released => ("back", Tone::Warn, "given back, not counted".to_owned()),
            Fate::Lost => ("lost", Tone::Warn, "nothing settled".to_owned()),
            Fate::Unwritten => ("lost", Tone::Bad, "not written, comes again".to_owned()),
        };
        let topic = delivered.message.topic.as_str();
        let id = delivered.message.id;
        let word = self.ui.tone(tone, &format!("{word:<5}"));
        let mut text = format!(
            "{word} {}  {}  {}  {}  {}",
            clean(topic),
            self.ui.tone(Tone::Faint, &id.to_string()),
            attempt(delivered),
            delivered.outcome,
            span(delivered.elapsed),
        );
        if !then.is_empty() {
            let _infallible = write!(text, "  {then}");
        }
        self.add_output(&mut text, delivered);
        // A panic's text is what the guest printed: once is enough.
        let printed: Vec<&str> = delivered.output.text.lines().take(OUTPUT_LINES).collect();
        for line in delivered.text.lines().filter(|line| !printed.contains(line)) {
            let _infallible = write!(text, "\n      {}", self.ui.tone(tone, &clean(line)));
        }
        if delivered.fate == Fate::Dead {
            let group = if delivered.group.is_work_queue() {
                String::new()
            } else {
                format!(" --group {}", shell(delivered.group.as_str()))
            };
            let topic = shell(topic);
            let next = format!("look: windlass dlq show {topic} {id}{group}{}", self.log_flag);
            let _infallible = write!(text, "\n      {}", clean(&next));
        }
        text
    }

    fn add_output(&self, text: &mut String, delivered: &Delivered) {
        let mut lines = delivered.output.text.lines().filter(|line| !line.is_empty());
        for line in lines.by_ref().take(OUTPUT_LINES) {
            let _infallible = write!(text, "\n      | {}", clean(line));
        }
        let left = lines.count();
        let dropped = delivered.output.dropped_bytes;
        if left > 0 {
            let path = self.files.path(&delivered.consumer);
            let _infallible = write!(text, "\n      | ({left} more lines in {})", path.display());
        }
        if dropped > 0 {
            let _infallible = write!(text, "\n      | ({dropped} bytes over limits.output)");
        }
    }
}

fn attempt(delivered: &Delivered) -> String {
    match (delivered.attempt, delivered.fate) {
        (1, Fate::Acked { .. }) => "attempt 1".to_owned(),
        (attempt, _) => format!("attempt {attempt} of {}", delivered.attempts_max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev::tests::delivered;

    fn report() -> Report {
        Report::new(Arc::new(Ui::new(false)), Path::new("/p/.windlass"))
    }

    #[test]
    fn a_delivery_is_one_line_with_the_output_below() {
        let mut delivered = delivered();
        delivered.output.text = "hello\n\u{1b}[2Jworld\n".into();
        delivered.fate = Fate::Acked { sent: 2 };
        assert_eq!(
            report().line(&delivered),
            "ok    t  1700000000000-0000000000000001  attempt 1  ok  1.2 ms  sent 2\n      \
             | hello\n      | \\u{1b}[2Jworld"
        );
    }

    #[test]
    fn a_dead_letter_tells_the_guests_words_and_where_to_look() {
        let mut delivered = delivered();
        delivered.fate = Fate::Dead;
        delivered.outcome = "trapped";
        delivered.attempt = 5;
        delivered.text = "panicked at src/lib.rs:1\nboom".into();
        let line = report().line(&delivered);
        assert!(line.contains("attempt 5 of 5  trapped"), "{line}");
        assert!(line.contains("\n      boom\n"), "{line}");
        assert!(
            line.ends_with("show t 1700000000000-0000000000000001 --log /p/.windlass"),
            "{line}"
        );
    }
}
