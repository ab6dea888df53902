//! What the children were told, and whether the log agrees.

use super::again::Again;
use super::child::{GROUPS, IN, OUT, SENDS, SINK, declare, sends_of};
use super::*;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use windlass_core::MessageId;
use windlass_log::DeadLetterFilter;
use windlass_log::{Claim, Counts, Settlement};

/// Longer than a verification takes.
const LONG: Duration = Duration::from_mins(10);
const PAGE: usize = 2_000;

/// Ids of one group.
type PerGroup<T> = [T; 2];

/// What the children said, over all runs.
#[derive(Debug, Default)]
pub(super) struct Account {
    published: BTreeMap<MessageId, String>,
    /// Every payload ever seen, with its id: what was stored.
    seen: HashMap<MessageId, String>,
    meant: PerGroup<HashSet<MessageId>>,
    acked: PerGroup<HashSet<MessageId>>,
    /// The parts of what each message sent, by message and group.
    sent: PerGroup<HashMap<MessageId, BTreeSet<u64>>>,
    newest_of_earlier_runs: Option<MessageId>,
    claims: u64,
    again: Again,
    died: u64,
}

fn group_at(name: &str) -> usize {
    GROUPS.iter().position(|group| *group == name).unwrap()
}

impl Account {
    pub(super) fn new_run(&mut self) {
        self.newest_of_earlier_runs = self.published.keys().next_back().copied();
        self.again.new_run();
    }

    pub(super) fn enter(&mut self, said: &[&str]) {
        let id = || said[1].parse::<MessageId>().unwrap();
        let at = || group_at(said[2]);
        match said[0] {
            "open" => {}
            "published" => {
                assert!(Some(id()) > self.newest_of_earlier_runs, "ids rise across restarts");
                let earlier = self.published.insert(id(), said[2].to_owned());
                assert_eq!(earlier, None, "an id was given twice");
            }
            "claimed" => {
                let known = self.acked[at()].contains(&id());
                assert!(!known, "given again after its ack was answered: {said:?}");
                self.claims += 1;
                let at_ms = |said: &str| said.parse().unwrap();
                self.again.claimed(at(), id(), at_ms(said[4]), at_ms(said[5]));
                self.see(id(), said[3]);
            }
            "means" => {
                self.again.means(at(), id(), said[3]);
                if said[3] == "ack" {
                    self.meant[at()].insert(id());
                }
            }
            "acked" => drop(self.acked[at()].insert(id())),
            _ => panic!("a child's call failed: {said:?}"),
        }
    }

    fn see(&mut self, id: MessageId, payload: &str) {
        let known = self.seen.entry(id).or_insert_with(|| payload.to_owned());
        assert_eq!(known, payload, "message {id} changed");
    }

    /// Every message that was ever stored is live, dead, or gone by an ack, in every group.
    fn check(&self, live: &PerGroup<HashSet<MessageId>>, dead: &PerGroup<HashSet<MessageId>>) {
        for (id, payload) in &self.published {
            let found = self.seen.get(id);
            assert_eq!(found, Some(payload), "acknowledged {id} {payload} was lost");
        }
        for at in 0..2 {
            for id in self.seen.keys() {
                self.check_one(at, *id, live[at].contains(id), dead[at].contains(id));
            }
            let strangers = self.sent[at].keys().filter(|id| !self.seen.contains_key(id));
            assert_eq!(strangers.count(), 0, "what no message sent");
        }
        self.check_batches();
    }

    fn check_one(&self, at: usize, id: MessageId, live: bool, dead: bool) {
        let group = GROUPS[at];
        assert!(!(live && dead), "{id} is live and dead in {group}");
        let gone = !live && !dead;
        if gone {
            assert!(
                self.meant[at].contains(&id),
                "{id} is nowhere in {group}, and nobody acked it"
            );
        }
        let acked = self.acked[at].contains(&id);
        assert!(gone || !acked, "{id} is there in {group} after its ack was answered");
        let sent = self.sent[at].get(&id).map_or(0, |parts| parts.len() as u64);
        let expected = if gone { sends_of(id.sequence.0) } else { 0 };
        assert_eq!(sent, expected, "{id} in {group}: gone: {gone}; its sends");
    }

    /// A batch was stored whole or not at all.
    fn check_batches(&self) {
        let mut batches: HashMap<&str, (usize, usize)> = HashMap::new();
        for payload in self.seen.values() {
            let mut parts = payload.split('/');
            let (name, _, size) = (parts.next().unwrap(), parts.next(), parts.next().unwrap());
            let (found, _) = *batches.entry(name).or_insert((0, size.parse().unwrap()));
            batches.insert(name, (found + 1, size.parse().unwrap()));
        }
        for (name, (found, size)) in batches {
            assert_eq!(found, size, "of batch {name}");
        }
    }

    pub(super) fn summary(&self) -> String {
        let acked: usize = self.acked.iter().map(HashSet::len).sum();
        let sent: usize = self.sent.iter().map(HashMap::len).sum();
        let (published, claims, died) = (self.published.len(), self.claims, self.died);
        let (unheard, sent) = (self.seen.len().saturating_sub(published), sent as u64 * SENDS);
        format!(
            "{published} publishes acknowledged and none lost, {unheard} stored unheard, \
             {claims} claims, {acked} acks and none given again, none skipped, {sent} sends, \
             {died} dead; {}",
            self.again.summary()
        )
    }

    /// A test that killed idle children would show nothing.
    pub(super) fn assert_that_much_happened(&self, kills: u64) {
        let acked: usize = self.acked.iter().map(HashSet::len).sum();
        assert!(self.published.len() as u64 > kills * 5, "{}", self.summary());
        assert!(acked as u64 > kills * 5 && self.died > kills / 10, "{}", self.summary());
    }
}

/// Opens the log, takes all that is in it into account, checks, and puts it back.
pub(super) async fn verify(folder: &Path, account: &mut Account) {
    let log = open(folder, false).await;
    declare(&log, LONG).await;
    let before = kit::state(&log, IN).await;
    let mut live: PerGroup<HashSet<MessageId>> = PerGroup::default();
    let mut dead: PerGroup<HashSet<MessageId>> = PerGroup::default();
    let mut sizes: HashMap<MessageId, u64> = HashMap::new();
    for (at, name) in GROUPS.iter().enumerate() {
        let counts =
            before.groups.iter().find(|group| group.group.as_str() == *name).unwrap().counts;
        let claims = claim_all(&log, name, counts).await;
        for claim in &claims {
            account.see(claim.message.id, &String::from_utf8_lossy(&claim.message.data));
            assert!(live[at].insert(claim.message.id), "claimed twice");
            sizes.insert(claim.message.id, claim.message.size());
        }
        for (id, payload) in all_dead(&log, name).await {
            account.see(id, &payload);
            assert!(dead[at].insert(id), "dead twice");
        }
        account.died += dead[at].len() as u64;
        let after = counts_of(&log, name).await;
        let found = (live[at].len() as u64, dead[at].len() as u64);
        assert_eq!((after.lag(), after.dead), found, "counts and contents of {name}");
        release(&log, &claims).await;
        assert_eq!(counts_of(&log, name).await.lag(), found.0, "after the release");
    }
    let needed: u64 = sizes.values().sum();
    assert_eq!(kit::state(&log, IN).await.bytes, needed, "bytes of what some group needs");
    drain_sends(&log, account).await;
    assert_eq!(log.recount().await.unwrap().drift, [], "kept counts and rows");
    account.check(&live, &dead);
    log.close().await;
    check_file(folder).await;
}

async fn counts_of(log: &DynLog, group: &str) -> Counts {
    let state = kit::state(log, IN).await;
    state.groups.iter().find(|state| state.group.as_str() == group).unwrap().counts
}

/// Claims until all that is not settled is held; what has used up its attempts becomes dead.
async fn claim_all(log: &DynLog, group: &str, before: Counts) -> Vec<Claim> {
    let waiter = log.waiter(&kit::topic(IN), &kit::group(group));
    let mut claims: Vec<Claim> = Vec::new();
    let everything = before.lag() + before.dead;
    loop {
        claims.extend(log.claim(kit::request(IN, group, PAGE)).await.unwrap());
        let counts = counts_of(log, group).await;
        assert_eq!(counts.lag() + counts.dead, everything, "{group}: nothing comes or goes");
        if counts.lag() == claims.len() as u64 {
            return claims;
        }
        // What killed children held, and retries, come within moments; an open log that does not
        // serve is not woken by them.
        let _looked_often = tokio::time::timeout(Duration::from_millis(5), waiter.woken()).await;
    }
}

async fn all_dead(log: &DynLog, group: &str) -> Vec<(MessageId, String)> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = log
            .dead_letters(windlass_log::DeadLetterQuery {
                topic: kit::topic(IN),
                group: Some(kit::group(group)),
                filter: DeadLetterFilter::default(),
                after: after.take(),
                limit: kit::some(PAGE),
            })
            .await
            .unwrap();
        let Some(last) = page.last() else { return found };
        after = Some((last.group.clone(), last.id));
        for dead in page {
            let message = dead.message.expect("a readable dead letter");
            assert!(!dead.history.attempts.is_empty(), "{} has a history", dead.id);
            found.push((dead.id, String::from_utf8_lossy(&message.data).into_owned()));
        }
    }
}

async fn release(log: &DynLog, claims: &[Claim]) {
    for page in claims.chunks(PAGE) {
        let releases: Vec<Settlement> =
            page.iter().map(|claim| kit::settlement(claim.token, Disposition::Release)).collect();
        for answer in log.settle(releases).await {
            assert_eq!(answer.unwrap(), Settled::Applied);
        }
    }
}

/// Takes what was sent since the last look, for good.
async fn drain_sends(log: &DynLog, account: &mut Account) {
    loop {
        let claims = log.claim(kit::request(OUT, SINK, PAGE)).await.unwrap();
        if claims.is_empty() {
            break;
        }
        let acks = claims.iter().map(|claim| kit::settlement(claim.token, kit::acked())).collect();
        for answer in log.settle(acks).await {
            assert_eq!(answer.unwrap(), Settled::Applied);
        }
        for claim in claims {
            let text = String::from_utf8_lossy(&claim.message.data).into_owned();
            let [id, group, part] = text.split(' ').collect::<Vec<_>>()[..] else {
                panic!("`{text}` was not sent by a child")
            };
            let parts = account.sent[group_at(group)].entry(id.parse().unwrap()).or_default();
            assert!(parts.insert(part.parse().unwrap()), "sent twice: {text}");
        }
    }
    assert_eq!(kit::state(log, OUT).await.counts.lag(), 0);
}

async fn check_file(folder: &Path) {
    use sqlx::{ConnectOptions, Connection, Row};
    let file = folder.join(windlass_log::sqlite::FILE_NAME);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    let mut conn = options.connect().await.unwrap();
    let row = sqlx::query("pragma quick_check").fetch_one(&mut conn).await.unwrap();
    assert_eq!(row.get::<String, _>(0), "ok", "SQLite's own check of the file");
    conn.close().await.unwrap();
}
