//! Why a message was given to a group more than once.
//!
//! A child says what it means to do before it asks for it, so that the reason is told before
//! anybody is given the message again. What the last holder left is given again once its lease has
//! ended, by the log's own time, and not sooner.

use std::collections::{BTreeMap, HashMap};
use windlass_core::MessageId;

/// The last time a message was given to a group.
#[derive(Debug)]
struct Held {
    /// By the child of this number.
    run: u64,
    /// Log time, ms: from when, and until when.
    from: u64,
    until: u64,
    /// What its holder meant to do, where it came to say so.
    meant: Option<String>,
}

/// Of all groups.
#[derive(Debug, Default)]
pub(super) struct Again {
    run: u64,
    held: HashMap<(usize, MessageId), Held>,
    reasons: BTreeMap<&'static str, u64>,
}

impl Again {
    pub(super) fn new_run(&mut self) {
        self.run += 1;
    }

    /// A message is given to a group, from then until then.
    ///
    /// # Panics
    ///
    /// When it was given before and there is no reason to give it again.
    pub(super) fn claimed(&mut self, group: usize, id: MessageId, from: u64, until: u64) {
        let now = Held { run: self.run, from, until, meant: None };
        let Some(before) = self.held.insert((group, id), now) else { return };
        let ended = before.until <= from;
        let reason = match before.meant.as_deref() {
            Some("retry") => "retried",
            Some("release") => "released",
            Some("dead-letter") => "dead-lettered and redriven",
            Some("leave") if ended => "left until the lease ended",
            _ if ended && before.run < self.run => "their holder was killed",
            _ if ended => "their holder was late",
            meant => panic!(
                "{id} was given at {from} while it was held, from {} until {}; meant: {meant:?}",
                before.from, before.until
            ),
        };
        *self.reasons.entry(reason).or_default() += 1;
    }

    pub(super) fn means(&mut self, group: usize, id: MessageId, what: &str) {
        if let Some(held) = self.held.get_mut(&(group, id)) {
            held.meant = Some(what.to_owned());
        }
    }

    pub(super) fn summary(&self) -> String {
        let reasons: Vec<_> =
            self.reasons.iter().map(|(reason, times)| format!("{times} {reason}")).collect();
        format!("{} given again: {}", self.reasons.values().sum::<u64>(), reasons.join(", "))
    }
}

/// Meta: what is given twice within one lease is found out.
#[test]
#[should_panic(expected = "while it was held")]
fn a_message_given_to_two_at_once_is_found_out() {
    let mut again = Again::default();
    let id = "0000000000001-0000000000000001".parse().unwrap();
    again.claimed(0, id, 10, 260);
    again.means(0, id, "ack");
    again.new_run();
    again.claimed(0, id, 259, 509);
}
