//! A topic's stored messages counted again.

use super::super::find;
use super::super::rows::{TopicId, Unclaimed};
use super::{Next, Pair, STEP, Verdict, differing, number};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, query};
use windlass_core::Sequence;

/// A topic's row, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TopicKept {
    published: i64,
    published_bytes: i64,
    removed: i64,
    removed_bytes: i64,
    swept: i64,
    stragglers: i64,
    /// All messages up to here were there.
    newest: i64,
}

impl TopicKept {
    async fn read(conn: &mut SqliteConnection, id: i64) -> sqlx::Result<Option<(Self, String)>> {
        let row = query(
            "select published, published_bytes, removed, removed_bytes, swept, stragglers,
               (select next_sequence - 1 from state), unclaimed from topic where id = ?",
        )
        .bind(id)
        .fetch_optional(conn)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let kept = Self {
            published: number(&row, 0)?,
            published_bytes: number(&row, 1)?,
            removed: number(&row, 2)?,
            removed_bytes: number(&row, 3)?,
            swept: number(&row, 4)?,
            stragglers: number(&row, 5)?,
            newest: number(&row, 6)?,
        };
        Ok(Some((kept, row.try_get(7)?)))
    }
}

/// A topic's stored messages.
#[derive(Debug, Clone)]
pub(super) struct TopicCount {
    id: i64,
    first: Option<TopicKept>,
    /// Counted up to this sequence.
    after: i64,
    messages: i64,
    bytes: i64,
    stragglers: i64,
}

impl TopicCount {
    /// Nothing counted yet of the topic of this number.
    pub(super) fn new(id: i64) -> Self {
        Self { id, first: None, after: 0, messages: 0, bytes: 0, stragglers: 0 }
    }

    /// What the whole count says, `last` being what is kept at its end.
    fn compare(&self, first: &TopicKept, last: &TopicKept) -> Verdict {
        // Another topic of the same number, or one that was emptied.
        let moved = last.removed - first.removed;
        let moved_bytes = last.removed_bytes - first.removed_bytes;
        if last.published < first.published || moved < 0 || moved_bytes < 0 {
            return Verdict::Disturbed;
        }
        // What was removed meanwhile may have been counted before, or not.
        let within = |figure, kept: i64, found: i64, moved: i64| {
            let as_should = found <= kept && found >= kept - moved;
            (figure, kept, if as_should { kept } else { found })
        };
        let still = (first.removed, first.swept, first.stragglers)
            == (last.removed, last.swept, last.stragglers);
        let stragglers = if still { self.stragglers } else { first.stragglers };
        Verdict::Compared(differing([
            within("stored messages", first.published - first.removed, self.messages, moved),
            within(
                "stored bytes",
                first.published_bytes - first.removed_bytes,
                self.bytes,
                moved_bytes,
            ),
            ("messages behind the sweep", first.stragglers, stragglers),
        ]))
    }
}

impl TopicCount {
    /// See [`super::Count::step`].
    pub(super) async fn step(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<(u64, Next)> {
        let Some((kept, unclaimed)) = TopicKept::read(conn, self.id).await? else {
            return Ok((0, Next::Done(Verdict::Gone)));
        };
        let first = self.first.get_or_insert_with(|| kept.clone()).clone();
        let topic = TopicId(self.id.cast_unsigned());
        let at = |sequence: i64| topic.rowid(Sequence(sequence.cast_unsigned()));
        let row = query(
            "select count(*), sum(size), max(id), count(*) filter (where id <= ?4) from
               (select id, size from message where id > ?1 and id <= ?2 order by id limit ?3)",
        )
        .bind(at(self.after))
        .bind(at(first.newest))
        .bind(STEP)
        .bind(at(first.swept))
        .fetch_one(&mut *conn)
        .await?;
        let rows = number(&row, 0)?;
        self.messages += rows;
        self.bytes = self.bytes.wrapping_add(number(&row, 1)?);
        self.stragglers += number(&row, 3)?;
        if rows == STEP {
            self.after = TopicId::sequence(number(&row, 2)?).0.cast_signed();
            return Ok((rows.cast_unsigned(), Next::More));
        }
        let mut verdict = self.compare(&first, &kept);
        if let Verdict::Compared(pairs) = &mut verdict {
            pairs.append(&mut unclaimed_differing(conn, topic, &kept, &unclaimed).await?);
        }
        Ok((rows.cast_unsigned(), Next::Done(verdict)))
    }
}

/// What waits for a first group, as far as one look can tell: where it still grows, what was
/// published before it; else how many there are, if no more than a step.
async fn unclaimed_differing(
    conn: &mut SqliteConnection,
    topic: TopicId,
    kept: &TopicKept,
    unclaimed: &str,
) -> sqlx::Result<Vec<Pair>> {
    let Ok(ranges) = serde_json::from_str::<Vec<Unclaimed>>(unclaimed) else {
        return Ok(vec![("unclaimed ranges that can be read", 1, 0)]);
    };
    let mut pairs = Vec::new();
    for range in ranges {
        let found = if let Some(hi) = range.hi {
            if range.messages > STEP.cast_unsigned() {
                continue;
            }
            find::count(conn, topic, Sequence(range.lo), Sequence(hi)).await?
        } else {
            let all = find::Before {
                messages: kept.published.cast_unsigned(),
                bytes: kept.published_bytes.cast_unsigned(),
            };
            find::before_next(conn, topic, Sequence(range.lo), Sequence::MAX).await?.unwrap_or(all)
        };
        let as_i64 = |number: u64| number.cast_signed();
        pairs.push(("unclaimed messages", as_i64(range.messages), as_i64(found.messages)));
        pairs.push(("unclaimed bytes", as_i64(range.bytes), as_i64(found.bytes)));
    }
    Ok(differing(pairs))
}
