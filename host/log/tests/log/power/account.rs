//! What a recorded process was told up to a moment, and whether what is found agrees. Pure.

use super::work::{GROUPS, sends_of};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use windlass_core::MessageId;

/// By group.
pub(super) type PerGroup<T> = [T; 2];

/// What the process said so far.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Its groups are declared.
    pub(super) declared: bool,
    /// Payloads of what was acknowledged, and of what was given to somebody.
    pub(super) published: BTreeMap<MessageId, String>,
    seen: HashMap<MessageId, String>,
    /// Somebody was about to ack it; that ack was answered well.
    meant: PerGroup<HashSet<MessageId>>,
    acked: PerGroup<HashSet<MessageId>>,
    /// Dead-lettered, answered well, with no redrive since somebody was about to do it.
    buried: PerGroup<HashSet<MessageId>>,
    burying: PerGroup<HashSet<MessageId>>,
    redriving: PerGroup<u32>,
    /// Tokens that were given.
    pub(super) tokens: Vec<String>,
    /// Calls that failed.
    pub(super) errors: Vec<String>,
    /// Payloads of publishes that were answered with an error.
    pub(super) refused: HashSet<String>,
}

/// What a log holds.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) live: PerGroup<HashMap<MessageId, String>>,
    pub(super) dead: PerGroup<HashMap<MessageId, String>>,
    /// The parts of what each message sent, by message and group.
    pub(super) sent: PerGroup<HashMap<MessageId, BTreeSet<u64>>>,
}

/// What is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Something acknowledged is not there.
    Lost(String),
    /// Anything else: two places, half a transaction, counts, a log that does not work.
    Broken(String),
}

fn group_at(name: &str) -> usize {
    GROUPS.iter().position(|group| *group == name).unwrap()
}

impl Account {
    /// One thing the process said.
    pub(super) fn enter(&mut self, line: &str) {
        let said: Vec<&str> = line.trim_end().split(' ').collect();
        let id = || said[1].parse::<MessageId>().unwrap();
        let at = || group_at(said[2]);
        match said[0] {
            "open" => self.declared = true,
            "published" => drop(self.published.insert(id(), said[2].to_owned())),
            "refused" => drop(self.refused.insert(said[1].to_owned())),
            "claimed" => {
                self.seen.insert(id(), said[3].to_owned());
                self.tokens.push(said[4].to_owned());
            }
            "means-ack" => drop(self.meant[at()].insert(id())),
            "acked" => drop(self.acked[at()].insert(id())),
            "means-bury" if self.redriving[at()] == 0 => drop(self.burying[at()].insert(id())),
            "buried" if self.burying[at()].remove(&id()) => drop(self.buried[at()].insert(id())),
            "means-bury" | "buried" | "checkpointed" => {}
            "means-redrive" => {
                let at = group_at(said[1]);
                self.redriving[at] += 1;
                self.buried[at].clear();
                self.burying[at].clear();
            }
            "redriven" => self.redriving[group_at(said[1])] -= 1,
            "error" => self.errors.push(line.to_owned()),
            _ => panic!("`{line}`"),
        }
    }

    /// Everything that is wrong with what was found.
    pub(super) fn check(&self, found: &Found) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        let mut known: BTreeMap<MessageId, &str> = BTreeMap::new();
        let told = self.published.iter().chain(&self.seen);
        let held = found.live.iter().chain(&found.dead).flatten();
        for (id, payload) in told.chain(held) {
            let first = known.entry(*id).or_insert(payload);
            if first != payload {
                wrong.push(Wrong::Broken(format!("{id} is {payload}, and was {first}")));
            }
        }
        for (at, group) in GROUPS.iter().enumerate() {
            for id in known.keys() {
                self.check_one(at, group, *id, found, &mut wrong);
            }
            for id in found.sent[at].keys().filter(|id| !known.contains_key(id)) {
                wrong.push(Wrong::Broken(format!("{id}, which sent something, is not known")));
            }
        }
        check_batches(&known, found, &mut wrong);
        wrong
    }

    fn check_one(
        &self,
        at: usize,
        group: &str,
        id: MessageId,
        found: &Found,
        wrong: &mut Vec<Wrong>,
    ) {
        let (live, dead) = (found.live[at].contains_key(&id), found.dead[at].contains_key(&id));
        let gone = !live && !dead;
        let mut lost = |what: &str| wrong.push(Wrong::Lost(format!("{id} in {group}: {what}")));
        if gone && !self.meant[at].contains(&id) {
            lost(if self.published.contains_key(&id) {
                "its publish was acknowledged, and it is nowhere"
            } else {
                "it was given to somebody, and it is nowhere"
            });
        }
        if !gone && self.acked[at].contains(&id) {
            lost("its ack was answered, and it is there again");
        }
        if !dead && !gone && self.buried[at].contains(&id) {
            lost("its dead-lettering was answered, and it is live");
        }
        // What is nowhere and was not acked is told above.
        let acked = gone && self.meant[at].contains(&id);
        let sent = found.sent[at].get(&id).map_or(0, |parts| parts.len() as u64);
        let expected = if acked { sends_of(id) } else { 0 };
        if sent == 0 && expected > 0 {
            lost("it is gone, and what its ack sent is nowhere");
        } else if sent != expected {
            let what = format!("{id} in {group}: gone: {gone}, and {sent} of its sends are there");
            wrong.push(Wrong::Broken(what));
        }
        if live && dead {
            wrong.push(Wrong::Broken(format!("{id} in {group} is live and dead")));
        }
    }

    /// How many messages were acknowledged.
    pub(super) fn acknowledged(&self) -> usize {
        self.published.len() + self.acked.iter().map(HashSet::len).sum::<usize>()
    }
}

/// A batch of which something is there was stored whole. A payload is `NAME.BATCH/PLACE/SIZE/BYTES`.
fn check_batches(known: &BTreeMap<MessageId, &str>, found: &Found, wrong: &mut Vec<Wrong>) {
    #[derive(Default)]
    struct Batch {
        size: usize,
        known: usize,
        held: bool,
    }
    let mut batches: HashMap<&str, Batch> = HashMap::new();
    for (id, payload) in known {
        let mut parts = payload.split('/');
        let (name, _, size) = (parts.next().unwrap(), parts.next(), parts.next().unwrap());
        let batch = batches.entry(name).or_default();
        batch.size = size.parse().unwrap();
        batch.known += 1;
        batch.held |= found.live.iter().chain(&found.dead).any(|held| held.contains_key(id));
    }
    for (name, batch) in batches {
        if batch.held && batch.known != batch.size {
            let Batch { known, size, .. } = batch;
            wrong.push(Wrong::Broken(format!("{known} of {size} of batch {name} are there")));
        }
    }
}
