//! How a run is shown: lines for a terminal, or JSON.
//!
//! Runs on a thread of its own, so that a terminal that stands still holds up no delivery's
//! neighbours. At high rates deliveries are summed up each second, and a problem that stands is
//! said again when other lines may have pushed it away.

mod lines;
pub(crate) mod output;
mod rate;

use crate::cli::{Tone, Ui, log_flag};
use crate::event::{Event, Fate};
use crate::wire::EventBody;
use lines::Lines;
use output::OutputFiles;
use rate::Rate;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::Receiver;
use windlass_log::clock::{Clock as _, SystemClock};

/// A problem that stands is said again after so long, if there were other lines.
const SAY_AGAIN: Duration = Duration::from_secs(15);

/// What shows a run.
pub(crate) struct Report {
    ui: Arc<Ui>,
    lines: Lines,
    files: OutputFiles,
    rate: Rate,
    /// Whether messages that were handled well are not shown.
    quiet: bool,
    file_fault_told: bool,
    /// Problems that stand, and what goes on meanwhile.
    broken: BTreeMap<String, String>,
    /// When they were said last.
    said: Instant,
    /// Whether other lines came since.
    others: bool,
}

impl Report {
    /// Shows on `ui`, and writes guests' output below the folder of the log. Paths within `folder` are
    /// told without it.
    pub(crate) fn new(ui: Arc<Ui>, log: &Path, folder: &Path) -> Self {
        let painter = Arc::clone(&ui);
        let paint = move |tone: Tone, text: &str| painter.tone(tone, text);
        Self {
            ui,
            lines: Lines::new(log_flag(log), folder, paint),
            files: OutputFiles::new(log),
            rate: Rate::default(),
            quiet: false,
            file_fault_told: false,
            broken: BTreeMap::new(),
            said: Instant::now(),
            others: false,
        }
    }

    /// Whether messages that were handled well are not shown one by one.
    pub(crate) fn quiet(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Shows events until there are no more; each is told to `also` first.
    pub(crate) fn run(mut self, mut events: Receiver<Event>, mut also: impl FnMut(&Event)) {
        while let Some(event) = events.blocking_recv() {
            if matches!(event, Event::End) {
                break;
            }
            also(&event);
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
        if let Event::Delivered(delivered) = event
            && self.quiet
            && matches!(delivered.fate, Fate::Acked { .. })
        {
            return;
        }
        if self.ui.json {
            if let Some(body) = EventBody::new(event) {
                self.ui.object(&body);
            }
            return;
        }
        if let Event::Delivered(delivered) = event {
            self.others = true;
            if self.rate.shows(delivered) {
                let file = self.files.path(&delivered.consumer).display().to_string();
                self.ui.data(&self.lines.delivery(delivered, &file, SystemClock.wall_ms()));
            }
        } else if matches!(event, Event::Tick) {
            self.sum_up();
            self.say_again();
        } else {
            self.tell(event);
        }
    }

    fn tell(&mut self, event: &Event) {
        if let Event::Problem(problem) = event {
            self.broken.insert(problem.subject.clone(), problem.meanwhile.clone());
            (self.said, self.others) = (Instant::now(), false);
        } else if let Event::Mended { subject } = event {
            self.broken.remove(subject);
        }
        if let Some(text) = self.lines.event(event) {
            self.ui.data(&text);
        }
    }

    fn sum_up(&mut self) {
        for line in self.rate.turn() {
            self.ui.data(&self.ui.tone(Tone::Faint, &line));
        }
    }

    fn say_again(&mut self) {
        if self.broken.is_empty() || !self.others || self.said.elapsed() < SAY_AGAIN {
            return;
        }
        for (subject, meanwhile) in &self.broken {
            self.ui.data(&self.lines.still(subject, meanwhile));
        }
        (self.said, self.others) = (Instant::now(), false);
    }
}
