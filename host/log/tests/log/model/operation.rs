//! What a run may do, and how often it does it.

use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeSet;
use std::time::Duration;

/// Topics of a run: one is another's subtopic, the last one is rarely there.
pub(super) const TOPICS: [&str; 4] = ["t", "t/sub", "u", "rare"];
/// Groups of a run: the work queue, one, and one that is rarely there.
pub(super) const GROUPS: [&str; 3] = ["", "g", "rare"];

/// A message: where to, how long, and what is wrong with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Draft {
    pub(super) topic: &'static str,
    pub(super) bytes: usize,
    pub(super) key: Option<&'static str>,
    pub(super) delay: Option<u64>,
    pub(super) dedup_id: Option<&'static str>,
    pub(super) fault: Option<Fault>,
}

/// Why a message is refused.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    TooLarge,
}

/// What is done with a claim.
#[derive(Debug, Clone)]
pub(super) enum Settling {
    Ack(Vec<Draft>),
    Retry { ms: u64, counted: bool },
    DeadLetter,
    Release,
}

/// A group as declared in a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declaration {
    pub(super) topic: &'static str,
    pub(super) group: &'static str,
    pub(super) start: Reading,
    pub(super) max_attempts: u32,
    pub(super) lease_ms: u64,
    pub(super) in_flight_max: u32,
    pub(super) copies: Option<&'static str>,
}

/// From where a stream is read or a group starts; messages are counted back from the last one published.
#[derive(Debug, Clone, Copy)]
pub(super) enum Reading {
    Earliest,
    Latest,
    Ago(u64),
    At(usize),
    After(usize),
}

impl Reading {
    fn draw(random: &mut StdRng) -> Self {
        match random.random_range(0..5) {
            0 => Self::Earliest,
            3 => Self::At(random.random_range(0..40)),
            1 => Self::Latest,
            2 => Self::Ago(span(random)),
            _ => Self::After(random.random_range(0..40)),
        }
    }
}

/// What an operator asks.
#[derive(Debug, Clone)]
pub(super) enum Asking {
    DeclareGroups(Vec<Declaration>),
    AddGroup(Declaration),
    RemoveGroup(&'static str, &'static str, bool),
    DeclareTopics(bool, Vec<&'static str>),
    /// Of a message counted back, of the last so many milliseconds, of a reason.
    Redrive(&'static str, Option<&'static str>, (Option<usize>, Option<u64>, Option<&'static str>)),
    Cancel(usize, Option<&'static str>),
    MakeDue(usize, Option<&'static str>),
    Purge(&'static str, Option<&'static str>),
    Show(usize),
    /// From here, in pages of so many, at most so many pages.
    Read(&'static str, Reading, usize),
    Page(&'static str, Option<&'static str>, usize),
    Sweep,
    Seek(&'static str, &'static str, Reading),
    /// Idle for so long, at most so many.
    Transfer(&'static str, &'static str, u64, usize),
    ReleaseWorker(&'static str, &'static str),
    /// Most messages, most bytes, the dedup window, `max-age`, `retain`, and by force.
    Limit(&'static str, u64, u64, u64, Option<u64>, Option<(u64, u64)>, bool),
    AcknowledgeGap(&'static str, &'static str),
    /// With its dead letters.
    PurgeTopic(&'static str, bool),
    /// By force.
    RemoveTopic(&'static str, bool),
    Retain(Duration, u64),
}

/// One step. Claims are named by the order in which they were given.
#[derive(Debug, Clone)]
pub(super) enum Operation {
    Publish(Vec<Draft>),
    Claim {
        topic: &'static str,
        group: &'static str,
        max: usize,
        untried: bool,
        start: Option<Reading>,
    },
    /// With a record or without.
    Settle(Vec<(usize, Settling, bool)>),
    Extend(Vec<(usize, u64)>),
    Advance(u64),
    StepWall(i64),
    Ask(Asking),
    Reopen,
    Crash,
    /// Everything is settled and removed; only where a log has grown.
    Clear,
}

impl Operation {
    /// The next one; `claims` were given so far.
    pub(super) fn draw(random: &mut StdRng, claims: usize) -> Self {
        let topic = topic(random);
        match random.random_range(0..100) {
            0..18 => Self::Publish(drafts(random, 0, 5)),
            18..44 => Self::Claim {
                topic,
                group: group(random),
                max: random.random_range(1..6),
                untried: random.random_bool(0.15),
                start: random.random_bool(0.1).then(|| Reading::draw(random)),
            },
            44..62 if claims > 0 => {
                let n = random.random_range(1..5);
                Self::Settle((0..n).map(|_| settling(random, claims)).collect())
            }
            62..66 if claims > 0 => {
                let n = random.random_range(1..4);
                Self::Extend((0..n).map(|_| (claim(random, claims), span(random))).collect())
            }
            66..80 => Self::Advance(span(random)),
            80 => Self::StepWall(random.random_range(-3_600_000..3_600_000)),
            81..97 => Self::Ask(Asking::draw(random, topic)),
            97 => Self::Reopen,
            98 => Self::Crash,
            _ => Self::Advance(random.random_range(0..3)),
        }
    }
}

impl Operation {
    /// Whether it may be tried while a commit fails. Opening and passing time are not asked for;
    /// emptying a topic takes several commits, so that a part of it may be done.
    pub(super) fn may_fail(&self) -> bool {
        match self {
            Self::Publish(_) | Self::Claim { .. } | Self::Settle(_) | Self::Extend(_) => true,
            Self::Ask(asking) => {
                !matches!(asking, Asking::PurgeTopic(..) | Asking::RemoveTopic(..))
            }
            Self::Advance(_) | Self::StepWall(_) | Self::Reopen | Self::Crash | Self::Clear => {
                false
            }
        }
    }

    pub(super) fn is_claim(&self) -> bool {
        matches!(self, Self::Claim { .. })
    }

    /// The topics it names; `claimed_on` are those of the claims.
    pub(super) fn topics(&self, claimed_on: &[&'static str]) -> BTreeSet<&'static str> {
        let of = |drafts: &[Draft]| drafts.iter().map(|draft| draft.topic).collect::<Vec<_>>();
        let all = || TOPICS.into();
        match self {
            Self::Publish(drafts) => of(drafts).into_iter().collect(),
            Self::Claim { topic, .. } => [*topic].into(),
            Self::Settle(settlings) => {
                let sent = settlings.iter().flat_map(|(_, what, _)| match what {
                    Settling::Ack(drafts) => of(drafts),
                    Settling::Retry { .. } | Settling::DeadLetter | Settling::Release => Vec::new(),
                });
                settlings.iter().map(|(claim, ..)| claimed_on[*claim]).chain(sent).collect()
            }
            Self::Extend(extensions) => {
                extensions.iter().map(|(claim, _)| claimed_on[*claim]).collect()
            }
            Self::Ask(asking) => asking.topic().map_or_else(all, |topic| [topic].into()),
            Self::Advance(_) | Self::StepWall(_) => ["t"].into(),
            Self::Reopen | Self::Crash | Self::Clear => all(),
        }
    }
}

impl Asking {
    /// The one topic it names; none where there are several or it cannot be told.
    fn topic(&self) -> Option<&'static str> {
        match self {
            Self::Redrive(topic, ..)
            | Self::Purge(topic, _)
            | Self::Read(topic, ..)
            | Self::Page(topic, ..)
            | Self::Seek(topic, ..)
            | Self::Transfer(topic, ..)
            | Self::ReleaseWorker(topic, _)
            | Self::Limit(topic, ..)
            | Self::AcknowledgeGap(topic, _)
            | Self::PurgeTopic(topic, _)
            | Self::RemoveTopic(topic, _)
            | Self::RemoveGroup(topic, ..) => Some(topic),
            Self::AddGroup(declaration) => Some(declaration.topic),
            Self::DeclareGroups(_)
            | Self::DeclareTopics(..)
            | Self::Cancel(..)
            | Self::MakeDue(..)
            | Self::Show(_)
            | Self::Sweep
            | Self::Retain(..) => None,
        }
    }

    fn draw(random: &mut StdRng, topic: &'static str) -> Self {
        match random.random_range(0..43) {
            0..4 => {
                let n = random.random_range(1..4);
                Self::DeclareGroups((0..n).map(|_| declaration(random)).collect())
            }
            4 => {
                let n = random.random_range(0..2);
                let topics = (0..n).map(|_| self::topic(random)).collect();
                Self::DeclareTopics(random.random_bool(0.5), topics)
            }
            5..8 => Self::Redrive(topic, one_or_all(random), filter(random)),
            26..30 => Self::Cancel(random.random_range(0..20), one_or_all(random)),
            35..37 => Self::Seek(topic, group(random), Reading::draw(random)),
            37 => Self::Transfer(topic, group(random), span(random), random.random_range(1..4)),
            38 => Self::ReleaseWorker(topic, group(random)),
            32..35 => Self::Limit(
                topic,
                [5, 20, 1_000][random.random_range(0..3)],
                [100, 500, 1 << 30][random.random_range(0..3)],
                span(random),
                random.random_bool(0.3).then(|| span(random) * 2),
                random
                    .random_bool(0.3)
                    .then(|| (span(random) * 3, [0, 3, 10][random.random_range(0..3)])),
                random.random_bool(0.6),
            ),
            41 => Self::PurgeTopic(topic, random.random_bool(0.4)),
            42 => Self::RemoveTopic(topic, random.random_bool(0.6)),
            39 => Self::AcknowledgeGap(topic, group(random)),
            30..32 => Self::MakeDue(random.random_range(0..20), one_or_all(random)),
            8 => Self::Purge(topic, one_or_all(random)),
            9 => Self::Page(topic, one_or_all(random), random.random_range(1..4)),
            10..15 => Self::Sweep,
            23 => Self::AddGroup(declaration(random)),
            24..26 => Self::RemoveGroup(topic, group(random), random.random_bool(0.7)),
            15..19 => Self::Show(random.random_range(0..40)),
            19..23 => Self::Read(topic, Reading::draw(random), random.random_range(1..6)),
            _ => Self::Retain(
                Duration::from_millis(span(random) * 3),
                [0, 3, 10, 10_000][random.random_range(0..4)],
            ),
        }
    }
}

fn topic(random: &mut StdRng) -> &'static str {
    let rare = random.random_bool(0.02);
    TOPICS[if rare { 3 } else { random.random_range(0..3) }]
}

fn group(random: &mut StdRng) -> &'static str {
    let rare = random.random_bool(0.02);
    GROUPS[if rare { 2 } else { random.random_range(0..2) }]
}

fn filter(random: &mut StdRng) -> (Option<usize>, Option<u64>, Option<&'static str>) {
    match random.random_range(0..6) {
        0 => (Some(random.random_range(0..20)), None, None),
        1 => (None, Some(span(random)), None),
        2 => (None, None, Some("lease-ended")),
        3 => (None, Some(span(random)), Some("failed")),
        _ => (None, None, None),
    }
}

fn one_or_all(random: &mut StdRng) -> Option<&'static str> {
    random.random_bool(0.5).then(|| group(random))
}

/// Spans around the leases and waits of a run, so that some end at the same time.
fn span(random: &mut StdRng) -> u64 {
    [0, 1, 500, 1_000, 1_000, 2_000, 5_000, 5_000, 10_000, 60_000][random.random_range(0..10)]
}

fn drafts(random: &mut StdRng, least: usize, most: usize) -> Vec<Draft> {
    (0..random.random_range(least..=most)).map(|_| draft(random)).collect()
}

fn draft(random: &mut StdRng) -> Draft {
    let fault = match random.random_range(0..100) {
        0 => Some(Fault::TooLarge),
        _ => None,
    };
    Draft {
        topic: topic(random),
        bytes: random.random_range(0..40),
        key: random.random_bool(0.3).then(|| ["a", "b", "c"][random.random_range(0..3)]),
        dedup_id: random.random_bool(0.1).then(|| ["x", "y", "z"][random.random_range(0..3)]),
        delay: random.random_bool(0.15).then(|| span(random)),
        fault,
    }
}

/// Mostly a late one, sometimes any.
fn claim(random: &mut StdRng, claims: usize) -> usize {
    let from = if random.random_bool(0.85) { claims.saturating_sub(12) } else { 0 };
    random.random_range(from..claims)
}

fn settling(random: &mut StdRng, claims: usize) -> (usize, Settling, bool) {
    let what = match random.random_range(0..10) {
        0..4 => Settling::Ack(Vec::new()),
        4 => Settling::Ack(drafts(random, 1, 3)),
        5..8 => Settling::Retry { ms: span(random), counted: random.random_bool(0.8) },
        8 => Settling::DeadLetter,
        _ => Settling::Release,
    };
    (claim(random, claims), what, random.random_bool(0.9))
}

fn declaration(random: &mut StdRng) -> Declaration {
    Declaration {
        topic: topic(random),
        group: group(random),
        start: if random.random_bool(0.5) { Reading::Earliest } else { Reading::draw(random) },
        max_attempts: [1, 2, 3, 5, 30][random.random_range(0..5)],
        lease_ms: [0, 1_000, 5_000, 5_000, 30_000][random.random_range(0..5)],
        in_flight_max: [1, 3, 10, 10_000][random.random_range(0..4)],
        copies: random.random_bool(0.3).then(|| self::topic(random)),
    }
}
