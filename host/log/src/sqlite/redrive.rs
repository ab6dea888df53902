//! Putting dead letters back, and removing them for good: a step at a time.

use super::cache::unsigned;
use super::command::{Fail, Place, StepDone};
use super::deliveries::id_of;
use super::sql::json_list;
use super::writer::Writer;
use crate::admin::DeadLetterFilter;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, query};
use windlass_core::quota::Amount;
use windlass_core::{Group, MessageId, Sequence, Timestamp, Topic};

/// Most rows one transaction moves: a million of them must not hold up everybody else.
pub(super) const STEP: i64 = 4_096;

/// A step over dead letters.
struct Step {
    group: u64,
    meant: Vec<u64>,
    /// Where the next one starts.
    next: Option<Place>,
}

impl Writer {
    /// Puts the next dead letters back: claimable at once, with fresh attempts, their history kept.
    pub(super) async fn redrive(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
        after: Place,
    ) -> Result<StepDone, Fail> {
        let now = self.time.now();
        let Some(step) = self.next_dead(topic, group, filter, after).await? else {
            return Ok(StepDone { moved: 0, of: 0, next: None });
        };
        let Step { group: id, meant: sequences, next } = step;
        if sequences.is_empty() {
            return Ok(StepDone { moved: 0, of: 0, next });
        }
        let of = sequences.len() as u64;
        let (sequences, bytes) = self.those_that_fit(id, sequences).await?;
        let parked = self.behind_their_key(id, &sequences).await?;
        let (conn, cache) = self.parts()?;
        let list = json_list(sequences.iter().copied());
        query(
            "insert into waiting(grp, seq, state, due, attempts, failures, size, key_hash)
             select grp, seq, iif(p.value is null, 0, 2), iif(p.value is null, ?1, 0), 0, failures,
                 size, key_hash
               from json_each(?3) v cross join dead d on d.grp = ?2 and d.seq = v.value
               left join json_each(?4) p on p.value = v.value",
        )
        .bind(now.0.cast_signed())
        .bind(id.cast_signed())
        .bind(&list)
        .bind(json_list(parked.iter().copied()))
        .execute(&mut *conn)
        .await?;
        query("delete from dead where grp = ? and seq in (select value from json_each(?))")
            .bind(id.cast_signed())
            .bind(&list)
            .execute(&mut *conn)
            .await?;
        let moved = sequences.len() as u64;
        if let Some(row) = cache.group_row_mut(id) {
            row.waits_until(now);
            row.waiting += moved;
            row.waiting_bytes += bytes;
            row.parked += parked.len() as u64;
            row.dead = row.dead.saturating_sub(moved);
        }
        self.pending.groups.insert(id);
        Ok(StepDone { moved, of, next })
    }

    /// Those dead letters for which the topic has room, and their size: what another group needs is
    /// counted already.
    async fn those_that_fit(
        &mut self,
        group: u64,
        dead: Vec<u64>,
    ) -> Result<(Vec<u64>, u64), Fail> {
        let Some(topic) = self.cache.group_row(group).map(|row| row.topic) else {
            return Ok((Vec::new(), 0));
        };
        let (conn, cache) = self.parts()?;
        let rows = query(
            "select seq, size from dead
              where grp = ? and seq in (select value from json_each(?)) order by seq",
        )
        .bind(group.cast_signed())
        .bind(json_list(dead.iter().copied()))
        .fetch_all(conn)
        .await?;
        let Some(row) = cache.topic_row(topic) else { return Ok((Vec::new(), 0)) };
        let (most, full) = (row.limits.most(), row.stored().over(row.limits.most()).is_some());
        let mut room = None;
        if full {
            let none = Amount::default();
            let needed = self.needed(topic, Amount { messages: u64::MAX, ..none }, most).await?;
            room = Some((needed, self.needed_elsewhere(topic, group, &dead).await?));
        }
        let (mut fit, mut bytes) = (Vec::with_capacity(rows.len()), 0);
        for row in &rows {
            let (sequence, size) = (unsigned(row, 0)?, unsigned(row, 1)?);
            if let Some((needed, elsewhere)) = &mut room
                && !elsewhere.contains(&sequence)
            {
                let with = needed.and(Amount::one(size));
                if with.over(most).is_some() {
                    continue;
                }
                *needed = with;
            }
            fit.push(sequence);
            bytes += size;
        }
        Ok((fit, bytes))
    }

    /// Which of these dead letters have another message of their key before them.
    async fn behind_their_key(&mut self, group: u64, dead: &[u64]) -> Result<Vec<u64>, Fail> {
        let (conn, _) = self.parts()?;
        let rows = query(
            "select seq, key_hash from dead
              where grp = ? and seq in (select value from json_each(?)) and key_hash is not null
              order by seq",
        )
        .bind(group.cast_signed())
        .bind(json_list(dead.iter().copied()))
        .fetch_all(conn)
        .await?;
        let mut keyed = Vec::with_capacity(rows.len());
        for row in &rows {
            keyed.push((unsigned(row, 0)?, unsigned(row, 1)?));
        }
        let keys = keyed.iter().map(|(_, key)| *key).collect();
        let mut busy = self.busy_keys(group, keys).await?;
        let parked = keyed.into_iter().filter(|(_, key)| !busy.insert(*key));
        Ok(parked.map(|(sequence, _)| sequence).collect())
    }

    /// Removes the next dead letters for good.
    pub(super) async fn purge_dead(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        after: Place,
    ) -> Result<StepDone, Fail> {
        let all = DeadLetterFilter::default();
        let Some(step) = self.next_dead(topic, group, &all, after).await? else {
            return Ok(StepDone { moved: 0, of: 0, next: None });
        };
        let Step { group: id, meant: sequences, next } = step;
        if sequences.is_empty() {
            return Ok(StepDone { moved: 0, of: 0, next });
        }
        let (conn, cache) = self.parts()?;
        let list = json_list(sequences.iter().copied());
        for statement in [
            "delete from dead where grp = ? and seq in (select value from json_each(?))",
            "delete from history where grp = ? and seq in (select value from json_each(?))",
        ] {
            query(statement).bind(id.cast_signed()).bind(&list).execute(&mut *conn).await?;
        }
        let moved = sequences.len() as u64;
        if let Some(row) = cache.group_row_mut(id) {
            row.dead = row.dead.saturating_sub(moved);
        }
        for sequence in &sequences {
            self.let_go(id, Sequence(*sequence));
        }
        self.pending.groups.insert(id);
        Ok(StepDone { moved, of: moved, next })
    }

    /// The next dead letters behind `after`: of one group, at most a step's worth, of which some are
    /// meant.
    async fn next_dead(
        &mut self,
        topic: &Topic,
        group: Option<&Group>,
        filter: &DeadLetterFilter,
        after: Place,
    ) -> Result<Option<Step>, Fail> {
        let groups = self.groups_meant(topic, group).await?;
        let last = groups.last().copied();
        for id in groups.into_iter().filter(|id| *id >= after.group) {
            let behind = if id == after.group { after.sequence } else { 0 };
            // One that is named is found at once.
            let named = filter.id.map(|wanted| wanted.sequence.0);
            let (behind, up_to) = match named {
                Some(named) => (behind.max(named.saturating_sub(1)), named),
                None => (behind, Sequence::MAX.0),
            };
            let (conn, _) = self.parts()?;
            let rows = query(
                "select seq, at, reason from dead
                  where grp = ? and seq > ? and seq <= ? order by seq limit ?",
            )
            .bind(id.cast_signed())
            .bind(behind.cast_signed())
            .bind(up_to.cast_signed())
            .bind(STEP)
            .fetch_all(conn)
            .await?;
            let Some(end) = rows.last() else { continue };
            let more = rows.len() as i64 >= STEP || Some(id) != last;
            let next = Place { group: id, sequence: unsigned(end, 0)? };
            let meant = self.those_meant(id, &rows, filter).await?;
            return Ok(Some(Step { group: id, meant, next: more.then_some(next) }));
        }
        Ok(None)
    }

    /// Which of a group's dead letters a filter means.
    async fn those_meant(
        &mut self,
        group: u64,
        rows: &[SqliteRow],
        filter: &DeadLetterFilter,
    ) -> Result<Vec<u64>, Fail> {
        let (conn, cache) = self.parts()?;
        let mut meant = Vec::with_capacity(rows.len());
        for row in rows {
            let sequence = Sequence(unsigned(row, 0)?);
            // Without an id to compare any will do; nor is there one where no record can be read.
            let mut id = filter.id.unwrap_or(MessageId { millis: Timestamp(0), sequence });
            if let (Some(_), Some(group)) = (filter.id, cache.group_row(group)) {
                let found = id_of(conn, group.topic, sequence).await?;
                id = if found.millis.0 == 0 { id } else { found };
            }
            if filter.fits(id, Timestamp(unsigned(row, 1)?), row.try_get(2)?) {
                meant.push(sequence.0);
            }
        }
        Ok(meant)
    }
}
