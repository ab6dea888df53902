//! New messages: what lies behind a group's cursor, and what becomes of it as the cursor passes.
//!
//! Most are given out. What was cancelled is passed by, what has a delay or a message of its key
//! before it goes into a row of its own, at most so many a transaction. A group without keys, delays
//! and cancelled messages does nothing for them.

use super::cache::unsigned;
use super::cancel::Marks;
use super::claim::{Before, Claiming};
use super::command::Fail;
use super::pending::{WaitingRow, WaitingState};
use super::record;
use super::rows::TopicId;
use super::writer::Writer;
use sqlx::{Row, query};
use std::collections::HashSet;
use std::sync::Arc;
use windlass_core::passing::{PARKED_MAX, Passing, SET_ASIDE_MAX, key_hash, passing};
use windlass_core::{Message, Sequence, Timestamp};

/// What lies behind a cursor.
pub(super) const NEW: &str =
    "select id, size, record from message where id > ? and id <= ? order by id limit ?";

/// A message that a group has not come to yet.
struct New {
    sequence: Sequence,
    size: u64,
    /// None where its record cannot be read.
    message: Option<Arc<Message>>,
    due: Option<Timestamp>,
}

impl New {
    fn key(&self) -> Option<u64> {
        self.message.as_ref()?.key.as_deref().map(key_hash)
    }
}

/// What is known beside the next messages.
struct Beside {
    marks: Marks,
    /// Keys of which a message is leased or waits.
    busy: HashSet<u64>,
}

/// What passing one message came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    Given,
    NotGiven,
    /// The cursor stops before it.
    Stop,
}

impl Writer {
    /// New messages, by sequence.
    pub(super) async fn claim_new(&mut self, claiming: &mut Claiming) -> Result<(), Fail> {
        // Behind those that are not given out there may be others.
        while self.claim_next(claiming).await? {}
        Ok(())
    }

    /// The next so many; whether to go on behind them.
    async fn claim_next(&mut self, claiming: &mut Claiming) -> Result<bool, Fail> {
        let limit = self.in_flight_room(claiming);
        let next = self.next_messages(claiming, limit).await?;
        let Some(last) = next.last() else { return Ok(false) };
        let marks = self.marks(claiming.group, last.sequence).await?;
        let keys = next.iter().filter_map(New::key).collect();
        let busy = self.busy_keys(claiming.group, keys).await?;
        let mut beside = Beside { marks, busy };
        let mut go_on = false;
        for new in next {
            match self.pass_one(claiming, &mut beside, new).await? {
                Passed::Given => {}
                Passed::NotGiven => go_on = true,
                Passed::Stop => {
                    go_on = false;
                    break;
                }
            }
        }
        self.trim_tail(claiming);
        if beside.marks.any() {
            self.drop_marks(claiming.group).await?;
        }
        Ok(go_on)
    }

    /// What becomes of one message.
    async fn pass_one(
        &mut self,
        claiming: &mut Claiming,
        beside: &mut Beside,
        new: New,
    ) -> Result<Passed, Fail> {
        let key = new.key();
        let due = new.due.filter(|_| !beside.marks.hurried.contains(&new.sequence));
        let cancelled = beside.marks.cancelled.contains(&new.sequence);
        let busy = key.is_some_and(|key| beside.busy.contains(&key));
        let passing = passing(cancelled, busy, due, claiming.now);
        let state = match passing {
            Passing::Skip => {
                self.pass(claiming, &new, key);
                self.let_go(claiming.group, new.sequence);
                return Ok(Passed::NotGiven);
            }
            Passing::Give => {
                let before = self.pass(claiming, &new, key);
                beside.busy.extend(key);
                match new.message {
                    Some(message) => self.grant(claiming, before, message).await?,
                    None => self.bury_unreadable(claiming, &before)?,
                }
                return Ok(Passed::Given);
            }
            Passing::Park => WaitingState::Parked,
            Passing::Delay(_) => WaitingState::Delay,
        };
        let parked = self.cache.group_row(claiming.group).map_or(0, |row| row.parked);
        if state == WaitingState::Parked && parked >= PARKED_MAX {
            return Ok(Passed::Stop);
        }
        if self.touched.set_aside >= SET_ASIDE_MAX {
            // What is behind it is for the next claim.
            self.touched.again.insert(claiming.group);
            return Ok(Passed::Stop);
        }
        self.pass(claiming, &new, key);
        beside.busy.extend(key);
        self.set_aside(claiming.group, &new, key, state, due.unwrap_or_default());
        Ok(Passed::NotGiven)
    }

    fn set_aside(
        &mut self,
        group: u64,
        new: &New,
        key_hash: Option<u64>,
        state: WaitingState,
        due: Timestamp,
    ) {
        self.touched.set_aside += 1;
        self.pending.waiting.push(WaitingRow {
            group,
            sequence: new.sequence,
            state,
            due,
            attempts: 0,
            failures: 0,
            first_at: None,
            last_at: None,
            size: new.size,
            key_hash,
        });
        if let Some(row) = self.cache.group_row_mut(group) {
            row.waiting += 1;
            row.waiting_bytes += new.size;
            if state == WaitingState::Parked {
                row.parked += 1;
            } else {
                row.waits_until(due);
            }
        }
    }

    /// Moves the cursor over one message.
    fn pass(&mut self, claiming: &Claiming, new: &New, key_hash: Option<u64>) -> Before {
        if let Some(group) = self.cache.group_row_mut(claiming.group) {
            group.cursor = new.sequence;
            group.passed += 1;
            group.passed_bytes += new.size;
        }
        self.pending.groups.insert(claiming.group);
        let (sequence, size) = (new.sequence, new.size);
        Before { sequence, size, attempts: 0, failures: 0, first_at: None, key_hash }
    }

    /// What lies behind the cursor: from memory where the newest are kept, else from the file.
    async fn next_messages(&mut self, claiming: &Claiming, limit: usize) -> Result<Vec<New>, Fail> {
        let (Some(group), Some(topic)) =
            (self.cache.group_row(claiming.group), self.cache.topic_row(claiming.topic))
        else {
            return Ok(Vec::new());
        };
        if limit == 0 || group.passed >= topic.published {
            return Ok(Vec::new());
        }
        let (cursor, name) = (group.cursor, topic.name.clone());
        if let Some(messages) = self.cache.tail.after(&name, cursor, limit) {
            let of = |(message, due): (Arc<Message>, Option<Timestamp>)| New {
                sequence: message.sequence(),
                size: message.size(),
                message: Some(message),
                due,
            };
            return Ok(messages.into_iter().map(of).collect());
        }
        if self.pending.hides_rows() {
            self.flush_rows().await?;
        }
        let limit = limit.min(self.rows_at_once(claiming));
        let (conn, _) = self.parts()?;
        let rows = query(NEW)
            .bind(claiming.topic.rowid(cursor))
            .bind(claiming.topic.rowid(Sequence::MAX))
            .bind(limit as i64)
            .fetch_all(conn)
            .await?;
        let mut next = Vec::with_capacity(rows.len());
        for row in rows {
            let sequence = TopicId::sequence(row.try_get(0)?);
            let size = unsigned(&row, 1)?;
            let stored = record::decode_stored(&name, sequence, row.try_get(2)?).ok();
            let (message, due) =
                stored.map_or((None, None), |(message, due)| (Some(Arc::new(message)), due));
            next.push(New { sequence, size, message, due });
        }
        Ok(next)
    }

    /// With one group alone, what it has passed is not read again.
    fn trim_tail(&mut self, claiming: &Claiming) {
        let Some(topic) = self.cache.topic_row(claiming.topic).filter(|row| row.groups.len() == 1)
        else {
            return;
        };
        if let Some(cursor) = self.cache.group_row(claiming.group).map(|row| row.cursor) {
            let name = topic.name.clone();
            self.cache.tail.trim(&name, cursor);
        }
    }
}
