//! Many workers in two processes on one log: who holds what, and when.
//!
//! Goal: no message is held under two valid tokens at once, each is acked once in each group, and
//! given again only where it was given back or a lease ended. Method: every worker writes down each
//! claim: from when it is granted, by the log's time, and when it was about to settle. Until then a
//! settlement that applies shows its token to be the current one; a claim that was left or lost is
//! good until its lease ends. In the order of their grants one must begin where the last has ended.

use super::processes::Other;
use super::worker::{self, GROUPS, How, IN};
use super::*;
use std::collections::BTreeMap;
use std::time::Instant;

/// One claim, as its worker saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) group: u8,
    pub(super) sequence: u64,
    /// Log time, ms: when it was granted.
    pub(super) from: u64,
    /// Up to here its token was the current one.
    pub(super) until: u64,
    pub(super) attempt: u32,
    pub(super) how: How,
}

/// How many claims ended how; or the first that contradicts another.
fn judge(mut holds: Vec<Hold>) -> Result<BTreeMap<How, u64>, String> {
    // Within a millisecond, the one that ended in it came first.
    holds.sort_by_key(|one| (one.group, one.sequence, one.from, one.until, one.attempt, one.how));
    let mut ends: BTreeMap<How, u64> = BTreeMap::new();
    let mut before: Option<Hold> = None;
    for hold in holds {
        *ends.entry(hold.how).or_default() += 1;
        let same = |one: &Hold| (one.group, one.sequence) == (hold.group, hold.sequence);
        let attempt = match before.filter(same) {
            None => 1,
            Some(last) if last.how == How::Acked => {
                return Err(format!("given after its ack: {last:?}, then {hold:?}"));
            }
            Some(last) if last.until > hold.from => {
                return Err(format!("held twice at once: {last:?} and {hold:?}"));
            }
            Some(last) => last.attempt + u32::from(last.how != How::Released),
        };
        if hold.attempt != attempt {
            return Err(format!("attempt {attempt} was to come: {before:?}, then {hold:?}"));
        }
        before = Some(hold);
    }
    Ok(ends)
}

#[test]
fn no_message_is_held_by_two_of_many_workers_in_two_processes() {
    if let Some(folder) = folder() {
        return worker::main(&folder);
    }
    let messages = number("WINDLASS_WORKERS_MESSAGES", 20_000);
    let folder = tempfile::tempdir().unwrap();
    runtime().block_on(async {
        let log = open(folder.path(), false).await;
        worker::declare(&log).await;
        log.close().await;
    });
    let start = Instant::now();
    let name = "crash::workers::no_message_is_held_by_two_of_many_workers_in_two_processes";
    let mut others = [0, 1].map(|number| Other::start(name, folder.path(), number));
    for other in &mut others {
        assert_eq!(other.next().as_deref(), Some("ready"));
    }
    for other in &mut others {
        other.tell(&format!("{}", messages / 2));
    }
    for other in &mut others {
        assert_eq!(other.next().as_deref(), Some("published"));
    }
    let published = start.elapsed();
    for other in &mut others {
        other.tell("all is published");
    }
    for other in &mut others {
        assert_eq!(other.next().as_deref(), Some("done"));
        assert!(other.child.wait().unwrap().success());
    }
    let (took, messages) = (start.elapsed(), messages / 2 * 2);
    let mut sequences: Vec<u64> = Vec::new();
    let mut holds: Vec<Hold> = Vec::new();
    for number in [0, 1] {
        let (published, held) = worker::read(folder.path(), number);
        assert!(!held.is_empty(), "both work");
        sequences.extend(published);
        holds.extend(held);
    }
    sequences.sort_unstable();
    sequences.dedup();
    assert_eq!(sequences.len() as u64, messages, "each was published under a number of its own");
    for group in [0, 1] {
        let acked = holds.iter().filter(|one| one.group == group && one.how == How::Acked);
        let mut acked: Vec<u64> = acked.map(|one| one.sequence).collect();
        acked.sort_unstable();
        assert!(acked == sequences, "{} acks in {}", acked.len(), GROUPS[usize::from(group)]);
    }
    let claims = holds.len();
    let ends = judge(holds).unwrap_or_else(|contradiction| panic!("{contradiction}"));
    for how in [How::Retried, How::Released, How::Left] {
        assert!(ends.contains_key(&how), "{how:?} was to happen: {ends:?}");
    }
    runtime().block_on(recount(folder.path(), messages));
    println!(
        "{messages} messages by 64 workers in {took:.1?} (published in {published:.1?}): \
         {claims} claims, {ends:?}"
    );
}

/// What the log counts is what its rows come to.
async fn recount(folder: &Path, messages: u64) {
    use sqlx::{ConnectOptions, Connection};
    let log = open(folder, false).await;
    let state = kit::state(&log, IN).await;
    assert_eq!((state.counts.lag(), state.counts.dead, state.bytes), (0, 0, 0), "{state:?}");
    assert_eq!(state.groups.len(), GROUPS.len());
    log.close().await;
    let file = folder.join(windlass_log::sqlite::FILE_NAME);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(file);
    let mut conn = options.connect().await.unwrap();
    for table in ["lease", "waiting", "dead", "history", "skip"] {
        let count = sqlx::AssertSqlSafe(format!("select count(*) from {table}"));
        let rows: i64 = sqlx::query_scalar(count).fetch_one(&mut conn).await.unwrap();
        assert_eq!(rows, 0, "rows of {table}");
    }
    let stored: i64 =
        sqlx::query_scalar("select count(*) from message").fetch_one(&mut conn).await.unwrap();
    assert_eq!(stored.cast_unsigned(), state.retained);
    let of_topic = "select published from topic where name = ?";
    let published: i64 = sqlx::query_scalar(of_topic).bind(IN).fetch_one(&mut conn).await.unwrap();
    assert_eq!(published.cast_unsigned(), messages);
    let passed: Vec<i64> =
        sqlx::query_scalar("select passed from grp").fetch_all(&mut conn).await.unwrap();
    assert_eq!(passed, [published; 2], "each group has passed each message once");
    conn.close().await.unwrap();
}

/// Meta: what contradicts is found out.
#[test]
fn claims_that_contradict_each_other_are_found_out() {
    let hold =
        |from, until, attempt, how| Hold { group: 0, sequence: 7, from, until, attempt, how };
    let fine = [
        hold(10, 12, 1, How::Released),
        hold(12, 12, 1, How::Retried),
        hold(12, 20, 2, How::Left),
        hold(20, 21, 3, How::Acked),
    ];
    assert_eq!(judge(fine.to_vec()).unwrap().len(), 4);
    let with = |at: usize, other: Hold| {
        let mut holds = fine.to_vec();
        holds[at] = other;
        judge(holds).unwrap_err()
    };
    assert!(with(3, hold(19, 21, 3, How::Acked)).contains("twice at once"));
    assert!(with(0, hold(10, 12, 1, How::Acked)).contains("after its ack"));
    assert!(with(3, hold(20, 21, 2, How::Acked)).contains("attempt 3"));
    assert!(with(0, hold(10, 13, 1, How::Released)).contains("twice at once"));
}
