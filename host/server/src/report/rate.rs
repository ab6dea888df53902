//! Keeping a fast run readable: so many lines a second, then sums.
//!
//! A burst is shown from its beginning. Once a second had more than its lines, the next one shows
//! no more than a sample, so that a lasting rush is some lines and a sum each second.

use crate::cli::span;
use crate::event::{Delivered, Fate};
use std::collections::BTreeMap;
use std::time::Duration;

/// Successes shown between two ticks, which are a second apart.
const SUCCESSES_SHOWN: u32 = 20;
/// Failures shown between two ticks; each is several lines.
const FAILURES_SHOWN: u32 = 8;
/// Of either, after a second that had more.
const SAMPLE: u32 = 2;

/// What was not shown since the last tick.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    successes: u32,
    failures: u32,
    /// Whether the last second had more than its lines.
    rush: bool,
    hidden: BTreeMap<String, Hidden>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Hidden {
    successes: u64,
    failures: u64,
    sent: u64,
    elapsed: Duration,
}

impl Rate {
    /// Whether a delivery is to be shown; if not, it is summed up.
    pub(crate) fn shows(&mut self, delivered: &Delivered) -> bool {
        let (count, most) = match delivered.fate {
            Fate::Acked { .. } => (&mut self.successes, SUCCESSES_SHOWN),
            Fate::Retry { .. } | Fate::Dead | Fate::Released | Fate::Lost | Fate::Unwritten => {
                (&mut self.failures, FAILURES_SHOWN)
            }
        };
        *count = count.saturating_add(1);
        if *count <= if self.rush { SAMPLE } else { most } {
            return true;
        }
        let hidden = self.hidden.entry(delivered.consumer.to_string()).or_default();
        hidden.elapsed += delivered.elapsed;
        match delivered.fate {
            Fate::Acked { sent } => {
                hidden.successes += 1;
                hidden.sent += sent as u64;
            }
            Fate::Retry { .. } | Fate::Dead | Fate::Released | Fate::Lost | Fate::Unwritten => {
                hidden.failures += 1;
            }
        }
        false
    }

    /// A second has passed: a line for every consumer with deliveries that were not shown.
    pub(crate) fn turn(&mut self) -> Vec<String> {
        (self.successes, self.failures) = (0, 0);
        self.rush = !self.hidden.is_empty();
        let lines = std::mem::take(&mut self.hidden);
        lines.into_iter().map(|(consumer, hidden)| hidden.line(&consumer)).collect()
    }
}

impl Hidden {
    fn line(self, consumer: &str) -> String {
        let Self { successes, failures, sent, elapsed } = self;
        let count = u32::try_from(successes + failures).unwrap_or(u32::MAX).max(1);
        let mean = span(elapsed / count);
        let mut parts = Vec::new();
        if successes > 0 {
            parts.push(format!("{successes} more ok"));
        }
        if failures > 0 {
            parts.push(format!("{failures} more failed (windlass dlq ls, or --json)"));
        }
        if sent > 0 {
            parts.push(format!("{sent} sent"));
        }
        format!("+      {consumer}: {}, {mean} each", parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::delivered;

    #[test]
    fn beyond_its_lines_a_second_is_summed_up() {
        let mut rate = Rate::default();
        let shown = (0..1_000).filter(|_| rate.shows(&delivered())).count();
        assert_eq!(shown, 20);
        let mut failed = delivered();
        failed.fate = Fate::Dead;
        assert!(rate.shows(&failed), "failures have lines of their own");
        assert_eq!(rate.turn(), ["+      c: 980 more ok, 1.2 ms each"]);
        let shown = (0..1_000).filter(|_| rate.shows(&delivered())).count();
        assert_eq!(shown, 2, "a rush that lasts is a sample and a sum");
        rate.turn();
        assert!(rate.turn().is_empty());
        let shown = (0..10).filter(|_| rate.shows(&delivered())).count();
        assert_eq!(shown, 10, "it is over");
    }
}
