//! One of the two logs in a run: carries operations out and tells what came of them, in words that
//! do not depend on the log.
#![expect(clippy::unwrap_used, reason = "what must not fail is not what is compared")]

use super::operation::{
    Asking, Declaration, Draft, Fault, GROUPS, Operation, Reading, Settling, TOPICS,
};
use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;
use windlass_core::{
    Disposition, Group, GroupPolicy, Message, MessageId, NewMessage, Timestamp, Token,
};
use windlass_log::DeadLetterFilter;
use windlass_log::Prefer;
use windlass_log::conformance::Harness;
use windlass_log::conformance::kit::{group, record, some, topic};
use windlass_log::{
    Claim, ClaimRequest, DeadLetterQuery, DynLog, Extension, GroupSpec, LogError, ReadFrom,
    ReadRequest, Settlement, Start, TopicLimits, TopicsMode, TransferRequest,
};

/// A log, and a second opening of it where there can be one.
pub(super) struct Side<'a> {
    harness: &'a dyn Harness,
    log: DynLog,
    second: Option<DynLog>,
    /// Of every claim given, in order; and of which topic.
    tokens: Vec<Token>,
    claimed_on: Vec<&'static str>,
    /// Of every message published, in order.
    ids: Vec<MessageId>,
}

impl<'a> Side<'a> {
    pub(super) async fn new(harness: &'a dyn Harness) -> Self {
        let second = harness.second_process().await;
        let log = harness.log();
        Self { harness, log, second, tokens: Vec::new(), claimed_on: Vec::new(), ids: Vec::new() }
    }

    /// How many claims were given.
    pub(super) fn claims(&self) -> usize {
        self.tokens.len()
    }

    /// The topics of the claims given.
    pub(super) fn claimed_on(&self) -> &[&'static str] {
        &self.claimed_on
    }

    /// Counts all rows again: what is kept must be what they say.
    pub(super) async fn recount(&self) -> Result<(), String> {
        let drift = self.log.recount().await.unwrap().drift;
        if drift.is_empty() { Ok(()) } else { Err(format!("{drift:#?}")) }
    }

    /// The log as this process has it open.
    pub(super) fn process(&self, process: usize) -> DynLog {
        let second = self.second.as_ref().filter(|_| process == 1);
        DynLog::clone(second.unwrap_or(&self.log))
    }

    /// Carries one out whose answer nobody hears.
    pub(super) async fn run_unheard(&mut self, operation: &Operation, process: usize) -> String {
        let (claims, ids) = (self.tokens.len(), self.ids.len());
        let told = self.run(operation, process).await;
        self.tokens.truncate(claims);
        self.claimed_on.truncate(claims);
        self.ids.truncate(ids);
        told
    }

    /// Something that commits and changes nothing, so that what was asked before is over.
    pub(super) async fn knock(&self, process: usize) {
        let _fails_where_that_is_wanted = self.process(process).extend(Vec::new()).await;
    }

    /// Carries one out; its answer.
    pub(super) async fn run(&mut self, operation: &Operation, process: usize) -> String {
        let log = self.process(process);
        match operation {
            Operation::Publish(drafts) => {
                let published = log.publish(drafts.iter().map(message).collect()).await;
                self.ids.extend(published.iter().flatten().map(|one| one.id));
                answer(published)
            }
            Operation::Claim { topic: on, group: name, max, untried, start } => {
                let start = start.map(|start| self.start(start));
                let prefer = if *untried { Prefer::Untried } else { Prefer::Order };
                let (topic, group, max) = (topic(on), group(name), some(*max));
                let worker = "worker".into();
                let request = ClaimRequest { topic, group, worker, max, start, prefer };
                self.take(on, log.claim(request).await)
            }
            Operation::Settle(settlings) => {
                let settlements = settlings.iter().map(|one| self.settlement(one)).collect();
                log.settle(settlements).await.into_iter().map(|one| answer(one) + ", ").collect()
            }
            Operation::Extend(extensions) => {
                let extensions = extensions.iter().map(|(claim, ms)| Extension {
                    token: self.tokens[*claim],
                    lease: Duration::from_millis(*ms),
                });
                answer(log.extend(extensions.collect()).await)
            }
            Operation::Advance(ms) => {
                self.harness.advance(Duration::from_millis(*ms)).await;
                String::new()
            }
            Operation::StepWall(ms) => {
                if let Some(clock) = self.harness.clock() {
                    clock.step_wall(*ms);
                }
                String::new()
            }
            Operation::Reopen => {
                self.log = self.harness.reopen().await;
                String::new()
            }
            Operation::Crash => {
                self.log = self.harness.crash().await;
                String::new()
            }
            Operation::Clear => clear(&log).await,
            Operation::Ask(Asking::DeclareGroups(declarations)) => {
                let specs = declarations.iter().map(|one| spec(one, self.start(one.start)));
                answer(log.declare_groups(specs.collect()).await)
            }
            Operation::Ask(Asking::AddGroup(one)) => {
                answer(log.add_group(spec(one, self.start(one.start))).await)
            }
            Operation::Ask(Asking::Redrive(on, name, (back, ago, reason))) => {
                let filter = DeadLetterFilter {
                    id: back.and_then(|back| self.id(back)),
                    since: ago.map(|ms| Timestamp(log.now().0.saturating_sub(ms))),
                    reason: reason.map(str::to_owned),
                };
                answer(log.redrive(&topic(on), name.map(group).as_ref(), &filter).await)
            }
            Operation::Ask(Asking::Cancel(back, name)) => match self.id(*back) {
                Some(id) => answer(log.cancel(id, name.map(group).as_ref()).await),
                None => String::new(),
            },
            Operation::Ask(Asking::MakeDue(back, name)) => match self.id(*back) {
                Some(id) => answer(log.make_due(id, name.map(group).as_ref()).await),
                None => String::new(),
            },
            Operation::Ask(Asking::Seek(on, name, reading)) => {
                answer(log.seek(&topic(on), &group(name), self.start(*reading)).await)
            }
            Operation::Ask(Asking::Transfer(on, name, idle, max)) => {
                let request = TransferRequest {
                    topic: topic(on),
                    group: group(name),
                    worker: "heir".into(),
                    idle: Duration::from_millis(*idle),
                    ids: Vec::new(),
                    max: some(*max),
                };
                self.take(on, log.transfer(request).await)
            }
            Operation::Ask(Asking::Show(back)) => {
                let id = self.ids.len().checked_sub(back + 1).map(|at| self.ids[at]);
                match id {
                    Some(id) => format!("{:#?}", log.message(id).await.unwrap()),
                    None => String::new(),
                }
            }
            Operation::Ask(Asking::Read(on, reading, limit)) => {
                self.read(&log, on, *reading, *limit).await
            }
            Operation::Ask(asking) => ask(&log, asking).await,
        }
    }

    /// Notes the tokens of claims; what they say.
    fn take(&mut self, on: &'static str, claims: Result<Vec<Claim>, LogError>) -> String {
        let claims = match claims {
            Ok(claims) => claims,
            Err(error) => return error.to_string(),
        };
        let mut told = String::new();
        for claim in claims {
            let first = self.tokens.len();
            self.tokens.push(claim.token);
            self.claimed_on.push(on);
            let Message { id, data, .. } = claim.message.as_ref();
            let _always = write!(
                told,
                "#{first} {id} {} bytes attempt {} of {} until {}, ",
                data.len(),
                claim.attempt,
                claim.max_attempts,
                claim.lease_until
            );
        }
        told
    }

    /// The id of a message published, counted back from the last one.
    fn id(&self, back: usize) -> Option<MessageId> {
        self.ids.len().checked_sub(back + 1).map(|at| self.ids[at])
    }

    fn start(&self, reading: Reading) -> Start {
        match reading {
            Reading::Earliest => Start::Earliest,
            Reading::Latest => Start::Latest,
            Reading::Ago(ms) => Start::Time(Timestamp(self.log.now().0.saturating_sub(ms))),
            Reading::At(back) => self.id(back).map_or(Start::Earliest, Start::At),
            Reading::After(back) => self.id(back).map_or(Start::Earliest, Start::After),
        }
    }

    /// A topic's stream from somewhere to its end, and what it says then.
    async fn read(&self, log: &DynLog, on: &str, reading: Reading, limit: usize) -> String {
        let mut from = match reading {
            Reading::Earliest => ReadFrom::Earliest,
            Reading::Latest => ReadFrom::Latest,
            Reading::Ago(ms) => ReadFrom::Time(Timestamp(log.now().0.saturating_sub(ms))),
            Reading::At(back) | Reading::After(back) => {
                match self.ids.len().checked_sub(back + 1) {
                    Some(at) => ReadFrom::After(self.ids[at]),
                    None => ReadFrom::Earliest,
                }
            }
        };
        let mut told = String::new();
        loop {
            let request = ReadRequest { topic: topic(on), from, limit: some(limit) };
            let page = log.stream(request).await.unwrap();
            let ids: Vec<_> = page.messages.iter().map(|one| one.id.sequence.0).collect();
            let _always = write!(told, "{:?} {ids:?} to {}, ", page.gap, page.position.0);
            if !page.more {
                return told;
            }
            from = ReadFrom::Position(page.position);
        }
    }

    fn settlement(&self, (claim, what, recorded): &(usize, Settling, bool)) -> Settlement {
        let disposition = match what {
            Settling::Ack(drafts) => {
                Disposition::Ack { sends: drafts.iter().map(message).collect() }
            }
            Settling::Retry { ms, counted } => {
                Disposition::Retry { delay: Duration::from_millis(*ms), counted: *counted }
            }
            Settling::DeadLetter => Disposition::DeadLetter,
            Settling::Release => Disposition::Release,
        };
        let record = recorded.then(|| record("failed", &format!("claim {claim}")));
        Settlement { token: self.tokens[*claim], disposition, record }
    }
}

/// Has every group be done with everything, and everything removed.
async fn clear(log: &DynLog) -> String {
    let mut told = answer(log.set_retain(Duration::ZERO, 0).await);
    for on in TOPICS.map(topic) {
        told += &answer(log.set_limits(&on, TopicLimits::default(), true).await);
        for name in GROUPS.map(group) {
            let policy = GroupPolicy::default();
            let (topic, group, start) = (on.clone(), name.clone(), Start::Earliest);
            let spec = GroupSpec { topic, group, policy, start };
            told += &answer(log.declare_groups(vec![spec]).await);
            told += &answer(log.seek(&on, &name, Start::Latest).await);
        }
        told += &answer(log.purge_dead(&on, None).await);
    }
    told + &answer(log.sweep().await)
}

async fn ask(log: &DynLog, asking: &Asking) -> String {
    match asking {
        Asking::DeclareGroups(_)
        | Asking::Redrive(..)
        | Asking::Seek(..)
        | Asking::Transfer(..)
        | Asking::Cancel(..)
        | Asking::MakeDue(..)
        | Asking::AddGroup(_)
        | Asking::Show(_)
        | Asking::Read(..) => String::new(),
        Asking::RemoveGroup(on, name, force) => {
            answer(log.remove_group(&topic(on), &group(name), *force).await)
        }
        Asking::DeclareTopics(declared, topics) => {
            let mode = if *declared { TopicsMode::Declared } else { TopicsMode::Open };
            let topics = topics.iter().map(|on| topic(on)).collect();
            answer(log.declare_topics(mode, topics).await)
        }
        Asking::Purge(on, name) => {
            answer(log.purge_dead(&topic(on), name.map(group).as_ref()).await)
        }
        Asking::PurgeTopic(on, dead) => answer(log.purge_topic(&topic(on), *dead).await),
        Asking::RemoveTopic(on, force) => answer(log.remove_topic(&topic(on), *force).await),
        Asking::Page(on, name, limit) => pages(log, on, name.map(group), *limit).await,
        Asking::AcknowledgeGap(on, name) => {
            answer(log.acknowledge_gap(&topic(on), &group(name)).await)
        }
        Asking::Limit(on, max_messages, max_bytes, window, max_age, retain, force) => {
            let dedup_window = Duration::from_millis(*window);
            let (max_messages, max_bytes) = (*max_messages, *max_bytes);
            let max_age = max_age.map(Duration::from_millis);
            let retain = retain.map(|(ms, messages)| (Duration::from_millis(ms), messages));
            let limits = TopicLimits { max_messages, max_bytes, dedup_window, retain, max_age };
            answer(log.set_limits(&topic(on), limits, *force).await)
        }
        Asking::ReleaseWorker(on, name) => {
            answer(log.release_worker(&topic(on), &group(name), "worker").await)
        }
        Asking::Sweep => answer(log.sweep().await),
        Asking::Retain(span, messages) => answer(log.set_retain(*span, *messages).await),
    }
}

/// All dead letters, page by page.
async fn pages(log: &DynLog, on: &str, group: Option<Group>, limit: usize) -> String {
    let mut told = String::new();
    let mut after: Option<(Group, MessageId)> = None;
    loop {
        let (topic, group) = (topic(on), group.clone());
        let query = DeadLetterQuery {
            topic,
            group,
            filter: DeadLetterFilter::default(),
            after,
            limit: some(limit),
        };
        let page = match log.dead_letters(query).await {
            Ok(page) => page,
            Err(error) => return error.to_string(),
        };
        let Some(last) = page.last() else { return told };
        after = Some((last.group.clone(), last.id));
        for dead in &page {
            let _always = write!(told, "{} {}, ", dead.group, dead.id);
        }
        told.push_str("; ");
    }
}

fn answer<T: std::fmt::Debug>(result: Result<T, LogError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => error.to_string(),
    }
}

fn message(draft: &Draft) -> NewMessage {
    let mut new = NewMessage::new(topic(draft.topic), vec![b'x'; draft.bytes]);
    new.hops = u32::try_from(draft.bytes % 3).unwrap();
    new.metadata = vec![("n".into(), draft.bytes.to_string()); draft.bytes % 2];
    new.dedup_id = draft.dedup_id.map(str::to_owned);
    new.key = draft.key.map(str::to_owned);
    new.delay = draft.delay.map(Duration::from_millis);
    match draft.fault {
        Some(Fault::TooLarge) => new.content_type = Some("x".repeat(2_000)),
        None => {}
    }
    new
}

fn spec(declaration: &Declaration, start: Start) -> GroupSpec {
    GroupSpec {
        topic: topic(declaration.topic),
        group: group(declaration.group),
        policy: GroupPolicy {
            max_attempts: NonZeroU32::new(declaration.max_attempts).unwrap(),
            lease: Duration::from_millis(declaration.lease_ms),
            in_flight_max: NonZeroU32::new(declaration.in_flight_max).unwrap(),
            dead_letter_topic: declaration.copies.map(topic),
            ..GroupPolicy::default()
        },
        start,
    }
}
