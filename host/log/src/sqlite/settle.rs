//! Settling: ack with sends, retry, dead letter, release, extend. Only the current token acts.

use super::command::Fail;
use super::dedup::Known;
use super::pending::{WaitingRow, WaitingState};
use super::quota::Freeing;
use super::writer::Writer;
use crate::api::{Extended, Extension, Settled, Settlement};
use crate::error::LogError;
use sqlx::query;
use windlass_core::history::{TEXT_BYTES_MAX, cut};
use windlass_core::lease::{Lease, Standing};
use windlass_core::policy::DELAY_MAX;
use windlass_core::{AttemptRecord, Disposition, Sequence, Timestamp, Token};

/// What one call knows of the group that it settles for. Nothing else can change it meanwhile, as
/// one call is part of one transaction.
#[derive(Debug, Clone, Copy)]
struct Ready {
    group: u64,
    /// What the sweep of its topic has passed by.
    swept: u64,
    max_attempts: u32,
}

impl Writer {
    /// Moves the ends of leases.
    pub(super) async fn extend(
        &mut self,
        extensions: Vec<Extension>,
    ) -> Result<Vec<Extended>, Fail> {
        let now = self.time.now();
        let mut answers = Vec::with_capacity(extensions.len());
        for extension in extensions {
            let token = extension.token;
            let (conn, cache) = self.parts()?;
            cache.group_by_id(conn, token.group).await?;
            let Some(group) = self.cache.group_row_mut(token.group) else {
                answers.push(Extended::Lost);
                continue;
            };
            answers.push(match group.leases.standing(&token) {
                Standing::Current => {
                    let until = now.after(extension.lease);
                    if let Some(lease) = group.leases.extend(token.sequence, until, now) {
                        self.pending.slots.insert((token.group, lease.slot));
                        self.pending.groups.insert(token.group);
                    }
                    Extended::Held(until)
                }
                Standing::Lost | Standing::NotLeased => Extended::Lost,
            });
        }
        Ok(answers)
    }

    /// Settles claims, each for itself.
    pub(super) async fn settle(
        &mut self,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Result<Settled, LogError>>, Fail> {
        let now = self.time.now();
        let mut ready = None;
        let mut answers = Vec::with_capacity(settlements.len());
        for settlement in settlements {
            answers.push(match self.settle_one(settlement, now, &mut ready).await {
                Ok(settled) => Ok(settled),
                Err(Fail::Refused(error)) => Err(error),
                Err(Fail::Storage(error)) => return Err(Fail::Storage(error)),
            });
        }
        Ok(answers)
    }

    async fn settle_one(
        &mut self,
        settlement: Settlement,
        now: Timestamp,
        ready: &mut Option<Ready>,
    ) -> Result<Settled, Fail> {
        let token = settlement.token;
        let Some(Ready { swept, max_attempts, .. }) = self.ready(&token, ready).await? else {
            return Ok(Settled::LeaseLost);
        };
        if let Disposition::Ack { sends } = &settlement.disposition
            && sends.is_empty()
        {
            return match self.take_lease(&token) {
                Ok(lease) => {
                    self.acked(&token, &lease, swept, now);
                    Ok(Settled::Applied)
                }
                Err(Standing::NotLeased) => self.not_leased(&token).await,
                Err(_) => Ok(Settled::LeaseLost),
            };
        }
        match self.cache.group_row(token.group).map(|group| group.leases.standing(&token)) {
            Some(Standing::Current) => {}
            Some(Standing::NotLeased) => return self.not_leased(&token).await,
            Some(Standing::Lost) | None => return Ok(Settled::LeaseLost),
        }
        let known = if let Disposition::Ack { sends } = &settlement.disposition
            && !sends.is_empty()
        {
            let freeing = Freeing { group: token.group, sequence: token.sequence };
            self.check_messages(sends, Some(freeing)).await?
        } else {
            Known::default()
        };
        let Ok(lease) = self.take_lease(&token) else { return Ok(Settled::LeaseLost) };
        match settlement.disposition {
            Disposition::Ack { sends } => {
                self.acked(&token, &lease, swept, now);
                self.store_messages(sends, known).await?;
                Ok(Settled::Applied)
            }
            Disposition::Retry { delay, counted } => {
                let record = record_of(settlement.record, &lease, now, "retry");
                self.note_history(token.group, token.sequence, lease.failures, &record)?;
                if counted && lease.attempt >= max_attempts {
                    self.bury(token.group, &lease, lease.failures + 1, &record.outcome, now);
                    return Ok(Settled::DeadLettered);
                }
                let attempts = lease.attempt - u32::from(!counted);
                let due = now.after(delay.min(DELAY_MAX));
                self.wait(token.group, &lease, due, attempts, lease.failures + 1);
                Ok(Settled::Applied)
            }
            Disposition::Release => {
                self.wait(token.group, &lease, now, lease.attempt - 1, lease.failures);
                Ok(Settled::Applied)
            }
            Disposition::DeadLetter => {
                let record = record_of(settlement.record, &lease, now, "dead-letter");
                self.note_history(token.group, token.sequence, lease.failures, &record)?;
                self.bury(token.group, &lease, lease.failures + 1, &record.outcome, now);
                Ok(Settled::Applied)
            }
        }
    }

    /// What settling needs to know of a token's group, read once for a row of settlements of one
    /// group; nothing where there is no such group.
    async fn ready(
        &mut self,
        token: &Token,
        ready: &mut Option<Ready>,
    ) -> Result<Option<Ready>, Fail> {
        if let Some(ready) = ready.filter(|ready| ready.group == token.group) {
            return Ok(Some(ready));
        }
        let (conn, cache) = self.parts()?;
        if cache.group_by_id(conn, token.group).await?.is_none() {
            return Ok(None);
        }
        let Some(group) = cache.group_row(token.group) else { return Ok(None) };
        let (topic_name, max_attempts) = (group.topic_name.clone(), group.policy.max_attempts);
        // The topic's row says what the sweep has passed by.
        let topic = cache.topic(conn, &topic_name).await?;
        let swept = topic.and_then(|topic| cache.topic_row(topic)).map_or(0, |row| row.swept);
        *ready = Some(Ready { group: token.group, swept, max_attempts: max_attempts.get() });
        Ok(*ready)
    }

    /// Takes the lease out where the token is the current one; else what the token is worth.
    fn take_lease(&mut self, token: &Token) -> Result<Lease, Standing> {
        let Some(group) = self.cache.group_row_mut(token.group) else {
            return Err(Standing::Lost);
        };
        let lease = group.take(token, &mut self.pending.slots)?;
        self.pending.groups.insert(token.group);
        Ok(lease)
    }

    /// A message was acked: its history goes, and whatever waited for it.
    fn acked(&mut self, token: &Token, lease: &Lease, swept: u64, now: Timestamp) {
        if lease.failures > 0 {
            self.pending.history_done.entry(token.group).or_default().push(token.sequence.0);
        }
        if token.sequence.0 <= swept {
            self.let_go(token.group, token.sequence);
        }
        self.free_key(token.group, lease.key_hash, now);
    }

    /// What a token of a message that is not leased is answered.
    async fn not_leased(&mut self, token: &Token) -> Result<Settled, Fail> {
        let passed =
            self.cache.group_row(token.group).is_some_and(|group| token.sequence <= group.cursor);
        if !passed && !self.is_passed_by(token).await? {
            return Ok(Settled::LeaseLost);
        }
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let (conn, _) = self.parts()?;
        let waiting = query("select 1 from waiting where grp = ? and seq = ?")
            .bind(token.group.cast_signed())
            .bind(token.sequence.0.cast_signed())
            .fetch_optional(conn)
            .await?;
        Ok(if waiting.is_some() { Settled::LeaseLost } else { Settled::AlreadySettled })
    }

    /// Whether the cursor is to pass a message by: it was moved back before a dead letter.
    async fn is_passed_by(&mut self, token: &Token) -> Result<bool, Fail> {
        if self.cache.group_row(token.group).is_none_or(|group| group.skips == 0) {
            return Ok(false);
        }
        let marks = self.marks(token.group, token.sequence).await?;
        Ok(marks.cancelled.contains(&token.sequence))
    }

    pub(super) fn wait(
        &mut self,
        id: u64,
        lease: &Lease,
        due: Timestamp,
        attempts: u32,
        failures: u32,
    ) {
        self.pending.waiting.push(WaitingRow {
            group: id,
            sequence: lease.sequence,
            state: WaitingState::Retry,
            due,
            attempts,
            failures,
            first_at: Some(lease.first_at),
            last_at: Some(lease.claimed_at),
            size: lease.size,
            key_hash: lease.key_hash,
        });
        if let Some(group) = self.cache.group_row_mut(id) {
            group.waiting += 1;
            group.waiting_bytes += lease.size;
            group.waits_until(due);
        }
    }

    /// A group is done with a message. Where the sweep has passed it by, it goes when no other
    /// group has it.
    pub(super) fn let_go(&mut self, group: u64, sequence: Sequence) {
        let Some(group) = self.cache.group_row(group) else { return };
        let swept = self.cache.topic_row(group.topic).map_or(0, |topic| topic.swept);
        if sequence.0 <= swept {
            self.pending.let_go.entry(group.topic).or_default().push(sequence.0);
        }
    }
}

/// The attempt's record with what only the log knows, its text within its bound.
fn record_of(
    record: Option<AttemptRecord>,
    lease: &Lease,
    now: Timestamp,
    outcome: &str,
) -> AttemptRecord {
    let given = record.unwrap_or_else(|| AttemptRecord {
        attempt: 0,
        at: now,
        worker: String::new(),
        revision: String::new(),
        outcome: outcome.to_owned(),
        text: String::new(),
    });
    AttemptRecord {
        attempt: lease.attempt,
        at: now,
        worker: lease.worker.to_string(),
        text: cut(&given.text, TEXT_BYTES_MAX).to_owned(),
        ..given
    }
}
