//! Opens a log that was left behind, looks at everything in it, and works with it.

use super::account::{Account, Found, Wrong};
use super::work::{GROUPS, IN, OUT, SINK, data_of, declare};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use windlass_core::{Disposition, Message, MessageId};
use windlass_log::clock::TestClock;
use windlass_log::conformance::kit;
use windlass_log::sqlite::{FILE_NAME, OpenOptions, SqliteLog};
use windlass_log::{
    Claim, DeadLetterFilter, DeadLetterQuery, DynLog, ReadFrom, ReadRequest, Settled,
};

const PAGE: usize = 5_000;
/// Longer than a verification takes; its clock stands still anyway.
const LONG: Duration = Duration::from_mins(10);
/// How many old tokens are tried.
const OLD_TOKENS: usize = 5;

/// Everything that is wrong with the log in `folder`, when it is to be what `account` says.
pub(super) async fn verify(folder: &Path, account: &Account) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    if let Err(what) = look(folder, account, &mut wrong).await {
        wrong.push(Wrong::Broken(what));
    }
    wrong
}

/// An error as text: what did not work.
fn failed<E: Debug>(what: &str) -> impl Fn(E) -> String {
    move |error| format!("{what}: {error:?}")
}

async fn look(folder: &Path, account: &Account, wrong: &mut Vec<Wrong>) -> Result<(), String> {
    // The machine has started again, and an hour has passed, so that every lease has ended.
    let clock = Arc::new(TestClock::default());
    let options = OpenOptions { create: true, clock: clock.clone(), ..OpenOptions::default() };
    let log: DynLog = SqliteLog::open(folder, options).await.map_err(failed("opening"))?;
    clock.advance(Duration::from_hours(1));
    let known = declare(&log, LONG).await.map_err(failed("declaring"))?;
    if account.declared && !known {
        wrong.push(Wrong::Lost("its groups".into()));
    }
    let mut found = Found::default();
    let mut sizes: HashMap<MessageId, u64> = HashMap::new();
    let mut claims = Vec::new();
    for (at, group) in GROUPS.iter().enumerate() {
        for claim in claim_all(&log, IN, group).await? {
            let (id, payload) = (claim.message.id, payload(&claim.message)?);
            if found.live[at].insert(id, payload).is_some() {
                wrong.push(Wrong::Broken(format!("{id} is claimed twice in {group}")));
            }
            sizes.insert(id, claim.message.size());
            claims.push(claim);
        }
        found.dead[at] = all_dead(&log, group).await?;
        let state = kit::state(&log, IN).await;
        let counts = state.groups.iter().find(|one| one.group.as_str() == *group).unwrap().counts;
        let recount = (found.live[at].len() as u64, found.dead[at].len() as u64);
        if (counts.lag(), counts.dead) != recount || counts.lag() != counts.leased {
            wrong.push(Wrong::Broken(format!("{group}: {counts:?}, and found {recount:?}")));
        }
    }
    count_topic(&log, &found, &sizes, wrong).await?;
    drain_sends(&log, &mut found).await?;
    wrong.extend(account.check(&found));
    old_tokens(&log, account, &claims, wrong).await?;
    work(&log, account, wrong).await?;
    let drift = log.recount().await.map_err(failed("a recount"))?.drift;
    if !drift.is_empty() {
        wrong.push(Wrong::Broken(format!("kept counts and rows differ: {drift:?}")));
    }
    log.close().await;
    check_file(folder).await.map_err(failed("SQLite's own check"))
}

/// The payload, where the data is the one that goes with it.
fn payload(message: &Message) -> Result<String, String> {
    let text = String::from_utf8_lossy(&message.data);
    let payload = text.split(' ').next().unwrap_or_default();
    let whole = payload.rsplit('/').next().is_some_and(|length| length.parse::<u64>().is_ok())
        && data_of(payload) == message.data;
    if whole { Ok(payload.to_owned()) } else { Err(format!("{} has other data", message.id)) }
}

async fn claim_all(log: &DynLog, topic: &str, group: &str) -> Result<Vec<Claim>, String> {
    let mut all = Vec::new();
    loop {
        let claims =
            log.claim(kit::request(topic, group, PAGE)).await.map_err(failed("a claim"))?;
        if claims.is_empty() {
            return Ok(all);
        }
        all.extend(claims);
    }
}

async fn all_dead(log: &DynLog, group: &str) -> Result<HashMap<MessageId, String>, String> {
    let query = DeadLetterQuery {
        topic: kit::topic(IN),
        group: Some(kit::group(group)),
        filter: DeadLetterFilter::default(),
        after: None,
        limit: kit::some(PAGE),
    };
    let mut found = HashMap::new();
    for dead in log.dead_letters(query).await.map_err(failed("listing the dead"))? {
        let message = dead.message.ok_or(format!("{} cannot be read", dead.id))?;
        if dead.history.attempts.is_empty() {
            return Err(format!("{} is dead without a history", dead.id));
        }
        if found.insert(dead.id, payload(&message)?).is_some() {
            return Err(format!("{} is dead twice", dead.id));
        }
    }
    Ok(found)
}

/// The topic's bytes and what it retains, counted again.
async fn count_topic(
    log: &DynLog,
    found: &Found,
    sizes: &HashMap<MessageId, u64>,
    wrong: &mut Vec<Wrong>,
) -> Result<(), String> {
    let mut stored = 0;
    let mut from = ReadFrom::Earliest;
    loop {
        let request = ReadRequest { topic: kit::topic(IN), from, limit: kit::some(PAGE) };
        let page = log.stream(request).await.map_err(failed("the stream"))?;
        stored += page.messages.len();
        if !page.more {
            break;
        }
        from = ReadFrom::Position(page.position);
    }
    let state = kit::state(log, IN).await;
    let held: HashSet<_> =
        found.live.iter().chain(&found.dead).flat_map(|held| held.keys()).collect();
    let recount = (sizes.values().sum::<u64>(), (stored as u64).checked_sub(held.len() as u64));
    if (state.bytes, Some(state.retained)) != recount {
        let said = (state.bytes, state.retained);
        wrong.push(Wrong::Broken(format!("bytes and retained: {said:?}, and found {recount:?}")));
    }
    Ok(())
}

/// Takes what acked messages sent.
async fn drain_sends(log: &DynLog, found: &mut Found) -> Result<(), String> {
    for claim in claim_all(log, OUT, SINK).await? {
        let text = String::from_utf8_lossy(&claim.message.data).into_owned();
        let [id, group, part] = text.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("`{text}` was not sent by a handler"));
        };
        let at = GROUPS.iter().position(|one| *one == group).ok_or(text.clone())?;
        let id = id.parse().map_err(failed("an id"))?;
        let parts = found.sent[at].entry(id).or_default();
        if !parts.insert(part.parse().map_err(failed("a part"))?) {
            return Err(format!("`{text}` was sent twice"));
        }
    }
    Ok(())
}

/// What was given before does not act any more (law 7).
async fn old_tokens(
    log: &DynLog,
    account: &Account,
    claims: &[Claim],
    wrong: &mut Vec<Wrong>,
) -> Result<(), String> {
    let old: HashSet<&str> = account.tokens.iter().map(String::as_str).collect();
    for claim in claims {
        if old.contains(claim.token.to_string().as_str()) {
            wrong.push(Wrong::Broken(format!("the token {} was given again", claim.token)));
        }
    }
    for token in account.tokens.iter().rev().take(OLD_TOKENS) {
        let token = token.parse().map_err(failed("a token"))?;
        let answer = log.settle(vec![kit::settlement(token, kit::acked())]).await.remove(0);
        match answer.map_err(failed("an old token"))? {
            Settled::LeaseLost | Settled::AlreadySettled => {}
            answer @ (Settled::Applied | Settled::DeadLettered) => {
                wrong.push(Wrong::Broken(format!("the old token {token}: {answer:?}")));
            }
        }
    }
    Ok(())
}

/// The log goes on: ids rise, what is published is claimed, and an ack settles it.
async fn work(log: &DynLog, account: &Account, wrong: &mut Vec<Wrong>) -> Result<(), String> {
    let batch = vec![kit::message(IN, "1"), kit::message(IN, "2")];
    let published = log.publish(batch).await.map_err(failed("a publish"))?;
    if Some(&published[0].id) <= account.published.keys().next_back() {
        let what = format!("{} does not rise over what was acknowledged", published[0].id);
        wrong.push(Wrong::Lost(what));
    }
    for group in GROUPS {
        let claims = claim_all(log, IN, group).await?;
        if !kit::ids(&claims).into_iter().eq(published.iter().map(|one| one.id)) {
            return Err(format!("{group}: {:?}, not {published:?}", kit::ids(&claims)));
        }
        for (claim, disposition) in claims.iter().zip([kit::acked(), Disposition::Release]) {
            let settlement = kit::settlement(claim.token, disposition);
            let answer = log.settle(vec![settlement]).await.remove(0);
            if answer.map_err(failed("settling"))? != Settled::Applied {
                return Err(format!("{group}: a fresh claim does not settle"));
            }
        }
        if claim_all(log, IN, group).await?.len() != 1 {
            return Err(format!("{group}: one was released"));
        }
    }
    Ok(())
}

async fn check_file(folder: &Path) -> Result<(), sqlx::Error> {
    use sqlx::{ConnectOptions, Connection, Row};
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(folder.join(FILE_NAME));
    let mut conn = options.connect().await?;
    let row = sqlx::query("pragma integrity_check").fetch_one(&mut conn).await?;
    let said: String = row.try_get(0)?;
    conn.close().await?;
    if said == "ok" { Ok(()) } else { Err(sqlx::Error::Protocol(said)) }
}
