//! What a run looks like on a terminal, event by event: pure text, made for 80 columns.
//!
//! A word, whose, and what; details stand indented below. What a guest or a publisher wrote does
//! nothing to the terminal.

use crate::cli::{Tone, clean, shell, span};
use crate::event::{Delivered, Event, Fate, Lag, Problem};
use crate::wire::when;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

/// Most lines of a guest's output shown with one delivery.
const OUTPUT_LINES: usize = 40;
/// Details stand so far in.
const INDENT: &str = "       ";

/// How lines are made.
pub(crate) struct Lines {
    /// What a command needs to find this log from where we are.
    log_flag: String,
    /// The project's folder with a `/`: a person knows where they are.
    folder: String,
    /// Consumers of several topics: their lines say which.
    of_several: BTreeSet<String>,
    /// Colours a text, where there are colours.
    paint: Paint,
}

/// Colours a text, where there are colours.
type Paint = Box<dyn Fn(Tone, &str) -> String + Send>;

impl Lines {
    /// Lines about the project in `folder`, whose commands find the log by `log_flag`.
    pub(crate) fn new(
        log_flag: String,
        folder: &Path,
        paint: impl Fn(Tone, &str) -> String + Send + 'static,
    ) -> Self {
        let folder = format!("{}/", folder.display());
        Self { log_flag, folder, of_several: BTreeSet::new(), paint: Box::new(paint) }
    }

    fn head(&self, tone: Tone, word: &str) -> String {
        (self.paint)(tone, &format!("{word:<6}"))
    }

    fn faint(&self, text: &str) -> String {
        (self.paint)(Tone::Faint, text)
    }

    /// An event that is told by one block of lines, whatever else is going on.
    pub(crate) fn event(&mut self, event: &Event) -> Option<String> {
        Some(match event {
            Event::Delivered(_) | Event::Ready { .. } | Event::Tick | Event::End => return None,
            Event::Building { consumers, changed } => {
                let why = match changed.as_slice() {
                    [] => String::new(),
                    [one] => format!(" ({one})"),
                    [one, rest @ ..] => format!(" ({one} and {} more)", rest.len()),
                };
                let text = clean(&format!("{}{why}", consumers.join(", ")));
                format!("{} {text}", self.head(Tone::Faint, "build"))
            }
            Event::Built { consumers, elapsed } => {
                let text = clean(&consumers.join(", "));
                format!("{} {text} in {}", self.head(Tone::Faint, "built"), span(*elapsed))
            }
            Event::Serving { consumer, topics, group, revision, before } => {
                if topics.len() > 1 {
                    self.of_several.insert(consumer.clone());
                } else {
                    self.of_several.remove(consumer);
                }
                let mut text = format!("{consumer} {revision}");
                match before {
                    Some(before) if before == revision => text.push_str(", configured anew"),
                    Some(before) => {
                        let _infallible = write!(text, " (was {before})");
                    }
                    None => {
                        let _infallible = write!(text, " on {}", topics.join(", "));
                        if !group.is_work_queue() {
                            let _infallible = write!(text, " as group {group}");
                        }
                    }
                }
                format!("{} {}", self.head(Tone::Good, "runs"), clean(&text))
            }
            Event::Retired { consumer } => {
                let text = clean(consumer);
                format!("{} {text}: it finishes what it has", self.head(Tone::Warn, "stops"))
            }
            Event::Problem(problem) => self.problem(problem),
            Event::Mended { subject } => {
                format!("{} {}", self.head(Tone::Good, "mended"), clean(subject))
            }
            Event::OwnFiles { files } => {
                let text = clean(&files.join(", "));
                let what = "written by the build itself: not followed while it runs";
                format!("{} {text}: {what}", self.head(Tone::Faint, "note"))
            }
            Event::Remark { text } => {
                format!("{} {}", self.head(Tone::Faint, "note"), clean(text))
            }
            Event::Listening { address } => {
                format!("{} on {}", self.head(Tone::Faint, "listen"), clean(address))
            }
            Event::RolledBack { consumer, from, to, why } => {
                let head = self.head(Tone::Bad, "back");
                let text = clean(&format!("{consumer} from revision {from} to {to}"));
                format!("{head} {text}\n{INDENT}{}", clean(why))
            }
            Event::Lag(lag) => self.lag(lag),
            Event::Paused { consumer, reason, text, retry, .. } => {
                let head = self.head(Tone::Bad, "paused");
                let again = match retry {
                    Some(wait) => format!("tries one message in {}", span(*wait)),
                    None => "grant it under [consumer.allow] in windlass.toml".into(),
                };
                let text = clean(text);
                format!("{head} {}: {reason}\n{INDENT}{text}\n{INDENT}{again}", clean(consumer))
            }
            Event::Resumed { consumer } => {
                format!("{} {}", self.head(Tone::Good, "goes on"), clean(consumer))
            }
            Event::StorageLost { text } => {
                let head = self.head(Tone::Bad, "storage does not answer");
                format!("{head}, what is done is kept: {}", clean(text))
            }
            Event::StorageBack => self.head(Tone::Good, "storage is back"),
            Event::LogEnded => self.head(Tone::Bad, "the log has ended"),
        })
    }

    fn problem(&self, problem: &Problem) -> String {
        let Problem { what, why, next, meanwhile, subject: _ } = problem;
        let mut text = format!("{} {}", self.head(Tone::Bad, "broken"), clean(what));
        for line in why.iter().flat_map(|why| why.lines()) {
            let line = clean(&line.replace(&self.folder, ""));
            let _infallible = write!(text, "\n{}", format!("{INDENT}{line}").trim_end());
        }
        if let Some(next) = next {
            let _infallible = write!(text, "\n{INDENT}next: {}", clean(next));
        }
        let _infallible = write!(text, "\n{INDENT}{}", self.faint(&clean(meanwhile)));
        text
    }

    /// A problem that stands and may have scrolled away.
    pub(crate) fn still(&self, subject: &str, meanwhile: &str) -> String {
        let text = clean(&format!("still: {subject}; {meanwhile}"));
        format!("{} {text}", self.head(Tone::Bad, "broken"))
    }

    fn lag(&self, lag: &Lag) -> String {
        let Lag { topic, group, messages, before, over } = lag;
        let group =
            if group.is_work_queue() { String::new() } else { format!(" as group {group}") };
        let whose = clean(&format!("{topic}{group}"));
        let head = self.head(Tone::Warn, "lag");
        format!("{head} {whose}: {messages} behind, {} more in {}", messages - before, span(*over))
    }

    /// A delivery, with what the guest said below. `now_ms` is wall time.
    pub(crate) fn delivery(&self, delivered: &Delivered, output: &str, now_ms: u64) -> String {
        let (word, tone) = match delivered.fate {
            Fate::Acked { .. } => ("ok", Tone::Good),
            Fate::Retry { .. } => ("retry", Tone::Warn),
            Fate::Dead => ("dead", Tone::Bad),
            Fate::Released => ("back", Tone::Warn),
            Fate::Lost => ("lost", Tone::Warn),
            Fate::Unwritten => ("lost", Tone::Bad),
        };
        let id = delivered.message.id;
        let topic = delivered.message.topic.as_str();
        let mut text = format!("{} {}", self.head(tone, word), clean(&delivered.consumer));
        if self.of_several.contains(&*delivered.consumer) {
            let _infallible = write!(text, " {}", clean(topic));
        }
        let (id_text, elapsed) = (self.faint(&id.to_string()), span(delivered.elapsed));
        let _infallible = write!(text, "  {id_text}  {elapsed}");
        if let Fate::Acked { sent } = delivered.fate {
            if delivered.attempt > 1 {
                let _infallible = write!(text, "  attempt {}", delivered.attempt);
            }
            if sent > 0 {
                let _infallible = write!(text, "  sent {sent}");
            }
        }
        let _infallible = write!(text, "  {}", self.faint(&delivered.revision));
        if let Some(what) = what_follows(delivered, now_ms) {
            let _infallible = write!(text, "\n{INDENT}{}", (self.paint)(tone, &what));
        }
        add_output(&mut text, delivered, output);
        // A panic's text is what the guest printed: once is enough.
        let printed: Vec<&str> = delivered.output.text.lines().take(OUTPUT_LINES).collect();
        for line in delivered.text.lines().filter(|line| !printed.contains(line)) {
            let _infallible = write!(text, "\n{INDENT}{}", (self.paint)(tone, &clean(line)));
        }
        if delivered.fate == Fate::Dead {
            self.add_commands(&mut text, delivered);
        }
        text
    }

    fn add_commands(&self, text: &mut String, delivered: &Delivered) {
        let (topic, id) = (shell(delivered.message.topic.as_str()), delivered.message.id);
        let group = if delivered.group.is_work_queue() {
            String::new()
        } else {
            format!(" --group {}", shell(delivered.group.as_str()))
        };
        let flags = format!("{group}{}", self.log_flag);
        for command in [
            format!("dlq show {topic} {id}{flags}"),
            format!("dlq redrive {topic} --id {id}{flags}"),
        ] {
            let _infallible = write!(text, "\n{INDENT}> windlass {}", clean(&command));
        }
    }
}

/// Why it did not go well, and what comes of it.
fn what_follows(delivered: &Delivered, now_ms: u64) -> Option<String> {
    let then = match delivered.fate {
        Fate::Acked { .. } => return None,
        Fate::Retry { delay } => {
            let at = when(now_ms.saturating_add(windlass_core::time::millis(delay)));
            let clock = at.get(11..19).unwrap_or_default();
            format!("; again in {}, at {clock} UTC", span(delay))
        }
        Fate::Dead => String::new(),
        Fate::Released => "; given back, not counted".to_owned(),
        Fate::Lost => "; nothing settled".to_owned(),
        Fate::Unwritten => "; not written, comes again".to_owned(),
    };
    let Delivered { outcome, attempt, attempts_max, .. } = delivered;
    Some(format!("{outcome}, attempt {attempt} of {attempts_max}{then}"))
}

fn add_output(text: &mut String, delivered: &Delivered, file: &str) {
    // Rust's hint at a variable of the guest's environment helps nobody here.
    let is_hint = |line: &str| line.starts_with("note: run with `RUST_BACKTRACE");
    let lines = delivered.output.text.lines();
    let mut lines = lines.filter(|line| !line.is_empty() && !is_hint(line));
    for line in lines.by_ref().take(OUTPUT_LINES) {
        let _infallible = write!(text, "\n{INDENT}| {}", clean(line));
    }
    let left = lines.count();
    let dropped = delivered.output.dropped_bytes;
    if left > 0 {
        let _infallible = write!(text, "\n{INDENT}| ({left} more lines in {file})");
    }
    if dropped > 0 {
        let _infallible = write!(text, "\n{INDENT}| ({dropped} bytes over limits.output)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::delivered;
    use std::time::Duration;
    use windlass_core::Group;

    fn lines() -> Lines {
        Lines::new(" --log /p/.windlass".into(), Path::new("/p"), |_, text| text.to_owned())
    }

    #[test]
    fn a_delivery_is_one_line_with_the_output_below() {
        let mut delivered = delivered();
        delivered.output.text = "hello\n\u{1b}[2Jworld\n".into();
        delivered.fate = Fate::Acked { sent: 2 };
        assert_eq!(
            lines().delivery(&delivered, "f", 0),
            "ok     c  1700000000000-0000000000000001  1.2 ms  sent 2  0a1b2c3d\n       \
             | hello\n       | \\u{1b}[2Jworld"
        );
    }

    #[test]
    fn a_retry_says_when_and_a_dead_letter_where_to_look_and_how_to_redrive() {
        let mut delivered = delivered();
        delivered.fate = Fate::Retry { delay: Duration::from_secs(90) };
        delivered.outcome = "trapped";
        delivered.text = "panicked at src/lib.rs:1\nboom".into();
        assert_eq!(
            lines().delivery(&delivered, "f", 1_000),
            "retry  c  1700000000000-0000000000000001  1.2 ms  0a1b2c3d\n       \
             trapped, attempt 1 of 5; again in 1m 30s, at 00:01:31 UTC\n       \
             panicked at src/lib.rs:1\n       boom"
        );
        delivered.fate = Fate::Dead;
        delivered.group = Group::new("g").unwrap();
        let text = lines().delivery(&delivered, "f", 0);
        let id = "1700000000000-0000000000000001";
        assert!(text.contains("\n       trapped, attempt 1 of 5\n"), "{text}");
        assert!(
            text.ends_with(&format!(
                "\n       > windlass dlq show t {id} --group g --log /p/.windlass\n       \
                 > windlass dlq redrive t --id {id} --group g --log /p/.windlass"
            )),
            "{text}"
        );
    }

    #[test]
    fn new_code_says_what_it_replaces() {
        let mut lines = lines();
        let mut serving = |topics: &[&str], before: Option<&str>| {
            let event = Event::Serving {
                consumer: "c".into(),
                topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
                group: Group::new("g").unwrap(),
                revision: "0a1b2c3d".into(),
                before: before.map(str::to_owned),
            };
            lines.event(&event).unwrap()
        };
        assert_eq!(serving(&["t", "u"], None), "runs   c 0a1b2c3d on t, u as group g");
        assert_eq!(serving(&["t"], Some("99999999")), "runs   c 0a1b2c3d (was 99999999)");
        assert_eq!(serving(&["t", "u"], Some("0a1b2c3d")), "runs   c 0a1b2c3d, configured anew");
        assert!(lines.delivery(&delivered(), "f", 0).starts_with("ok     c t  17000"));
    }

    #[test]
    fn what_is_broken_is_one_block() {
        let problem = Problem {
            subject: "build `make`".into(),
            what: "the build of `c` failed".into(),
            why: vec!["error: no\n --> /p/x:3".into()],
            next: Some("mend it".into()),
            meanwhile: "c 0a1b2c3d goes on".into(),
        };
        assert_eq!(
            lines().event(&Event::Problem(Box::new(problem))).unwrap(),
            "broken the build of `c` failed\n       error: no\n        --> x:3\n       \
             next: mend it\n       c 0a1b2c3d goes on"
        );
    }
}
