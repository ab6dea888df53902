//! What can be seen of a log: counts, dead letters, and what is leased or waits.

use super::side::Side;
use std::collections::BTreeSet;
use std::fmt::{Debug, Write};
use windlass_core::Topic;
use windlass_log::conformance::kit::{some, topic};
use windlass_log::{DeadLetterFilter, DeadLetterQuery, DynLog, PendingQuery, TopicState};

/// How much of it is looked at.
#[derive(Debug, Clone)]
pub(super) enum Scope {
    All,
    Of(BTreeSet<&'static str>),
}

impl Side<'_> {
    /// Everything that can be seen, in lines to read or in as few as may be.
    pub(super) async fn view(&self, process: usize, scope: &Scope, lines: bool) -> String {
        let log = self.process(process);
        let mut seen = format!("now {}\n", log.now());
        match scope {
            Scope::All => {
                for state in log.topics().await.unwrap() {
                    look(&log, &state, (true, lines), &mut seen).await;
                }
            }
            Scope::Of(names) => {
                for name in names {
                    match log.topic(&topic(name)).await.unwrap() {
                        Some(state) => look(&log, &state, (false, lines), &mut seen).await,
                        None => seen.push_str("no topic\n"),
                    }
                }
            }
        }
        seen
    }

    /// Messages stored, and dead letters.
    pub(super) async fn weight(&self) -> u64 {
        let topics = self.process(0).topics().await.unwrap();
        topics.iter().map(|topic| topic.counts.lag() + topic.counts.dead + topic.retained).sum()
    }
}

/// `whole`: lists are asked for where the counts, which come from the same rows, say that they are
/// empty, too.
async fn look(log: &DynLog, state: &TopicState, (whole, lines): (bool, bool), seen: &mut String) {
    put(state, lines, seen);
    if whole || state.counts.dead > 0 {
        put(&log.dead_letters(all_dead(state.topic.clone())).await.unwrap(), lines, seen);
    }
    for group in state.groups.iter().filter(|group| whole || group.counts.lag() > 0) {
        let (topic, group) = (state.topic.clone(), group.group.clone());
        let query = PendingQuery { topic, group, after: None, limit: some(100_000) };
        put(&log.pending(query).await.unwrap(), lines, seen);
    }
}

fn put(what: &impl Debug, lines: bool, seen: &mut String) {
    let _always = if lines { writeln!(seen, "{what:#?}") } else { writeln!(seen, "{what:?}") };
}

fn all_dead(topic: Topic) -> DeadLetterQuery {
    let filter = DeadLetterFilter::default();
    DeadLetterQuery { topic, group: None, filter, after: None, limit: some(100_000) }
}
