//! Groups that fall behind: seen now and then, told when they grow.

use crate::event::{Event, Events, Lag};
use std::collections::HashMap;
use std::time::Duration;
use tokio::sync::watch;
use windlass_core::{Group, Topic};
use windlass_log::{DynLog, GroupSpec};

/// How far apart looks are.
const LOOK: Duration = Duration::from_secs(5);
/// Fewer messages than this are no backlog.
const LEAST: u64 = 100;
/// Looks in a row that find more than the one before.
const GROWING: u32 = 2;

/// Which groups grow, look after look.
#[derive(Debug, Default)]
struct Trend {
    seen: HashMap<(Topic, Group), Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    messages: u64,
    /// Looks in a row that found more.
    growing: u32,
    /// What it was when the growth began, and how many looks ago.
    base: (u64, u32),
    /// What was told last of this growth.
    told: u64,
}

impl Trend {
    /// A group has so many messages not settled. Whether that is to be told, and then how many it
    /// had when it began to grow and how many looks ago that was.
    fn look(&mut self, topic: &Topic, group: &Group, messages: u64) -> Option<(u64, u32)> {
        let first = Seen { messages, growing: 0, base: (messages, 0), told: 0 };
        let seen = self.seen.entry((topic.clone(), group.clone())).or_insert(first);
        if messages <= seen.messages {
            *seen = first;
            return None;
        }
        seen.messages = messages;
        seen.growing += 1;
        seen.base.1 += 1;
        // Told again only when there is much more of it.
        let tell = messages >= LEAST && seen.growing >= GROWING && messages >= seen.told * 3 / 2;
        tell.then(|| {
            seen.told = messages;
            seen.base
        })
    }
}

/// Tells of groups that fall behind, for as long as it is let.
pub(crate) async fn watch(log: DynLog, groups: watch::Receiver<Vec<GroupSpec>>, events: Events) {
    let mut trend = Trend::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let wanted = groups.borrow().clone();
        // A log in trouble is told of by whoever needs it.
        let Ok(lags) = log.lags().await else { continue };
        let lags: HashMap<_, _> =
            lags.into_iter().map(|lag| ((lag.topic, lag.group), lag.messages)).collect();
        for spec in wanted {
            let Some(&lag) = lags.get(&(spec.topic.clone(), spec.group.clone())) else { continue };
            if let Some((before, looks)) = trend.look(&spec.topic, &spec.group, lag) {
                let (topic, group) = (spec.topic.to_string(), spec.group);
                let over = LOOK * looks;
                events.tell(Event::Lag(Lag { topic, group, messages: lag, before, over })).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_when_it_lasts_and_again_when_there_is_half_as_much_more() {
        let (topic, group) = (Topic::new("t").unwrap(), Group::default());
        let mut trend = Trend::default();
        let mut told = Vec::new();
        for (look, lag) in [0, 80, 120, 150, 200, 190, 195, 400].into_iter().enumerate() {
            if let Some(base) = trend.look(&topic, &group, lag) {
                told.push((look, lag, base));
            }
        }
        assert_eq!(told, [(2, 120, (0, 2)), (4, 200, (0, 4)), (7, 400, (190, 2))]);
    }
}
