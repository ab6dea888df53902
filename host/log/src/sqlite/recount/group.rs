//! What a group holds counted again.

use super::super::rows::TopicId;
use super::super::{find, record};
use super::{Next, Pair, STEP, Verdict, differing, number};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, query};
use windlass_core::Sequence;

/// Most rows of leases a step reads: one may hold hundreds.
const LEASE_ROWS: i64 = 256;

/// A group's row, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    topic: i64,
    cursor: i64,
    passed: i64,
    passed_bytes: i64,
    version: i64,
    waiting: i64,
    waiting_bytes: i64,
    dead: i64,
    parked: i64,
    skips: i64,
}

impl Kept {
    async fn read(conn: &mut SqliteConnection, id: i64) -> sqlx::Result<Option<Self>> {
        let row = query(
            "select topic, cursor, passed, passed_bytes, version, waiting, waiting_bytes, dead,
               parked, skips from grp where id = ?",
        )
        .bind(id)
        .fetch_optional(conn)
        .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Self {
            topic: number(&row, 0)?,
            cursor: number(&row, 1)?,
            passed: number(&row, 2)?,
            passed_bytes: number(&row, 3)?,
            version: number(&row, 4)?,
            waiting: number(&row, 5)?,
            waiting_bytes: number(&row, 6)?,
            dead: number(&row, 7)?,
            parked: number(&row, 8)?,
            skips: number(&row, 9)?,
        }))
    }
}

/// What the rows say so far.
#[derive(Debug, Clone, Default)]
struct Found {
    waiting: i64,
    waiting_bytes: i64,
    parked: i64,
    dead: i64,
    skips: i64,
    /// Of what each claim's row says of itself: how many, their size; and what its record says.
    leased_kept: (i64, i64),
    leased: (i64, i64),
}

/// Which rows are being counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Waiting,
    Dead,
    Skips,
    Leases,
    End,
}

/// A group's rows.
#[derive(Debug, Clone)]
pub(super) struct GroupCount {
    id: i64,
    first: Option<Kept>,
    table: Table,
    /// In that table, up to this sequence, or row.
    after: i64,
    found: Found,
}

impl GroupCount {
    /// Nothing counted yet of the group of this number.
    pub(super) fn new(id: i64) -> Self {
        Self { id, first: None, table: Table::Waiting, after: -1, found: Found::default() }
    }

    /// See [`super::Count::step`].
    pub(super) async fn step(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<(u64, Next)> {
        let Some(kept) = Kept::read(conn, self.id).await? else {
            return Ok((0, Next::Done(Verdict::Gone)));
        };
        let first = self.first.get_or_insert_with(|| kept.clone()).clone();
        if first != kept {
            // What is left to count would not save it.
            return Ok((0, Next::Done(Verdict::Disturbed)));
        }
        let mut left = STEP;
        while left > 0 && self.table != Table::End {
            left -= self.page(conn, left).await?;
        }
        let rows = (STEP - left).cast_unsigned();
        if self.table != Table::End {
            return Ok((rows, Next::More));
        }
        let Found { waiting, waiting_bytes, parked, dead, skips, leased_kept, leased } =
            self.found.clone();
        let mut pairs = differing([
            ("waiting messages", kept.waiting, waiting),
            ("waiting bytes", kept.waiting_bytes, waiting_bytes),
            ("parked messages", kept.parked, parked),
            ("dead letters", kept.dead, dead),
            ("cancelled ahead", kept.skips, skips),
            ("leased messages", leased_kept.0, leased.0),
            ("leased bytes", leased_kept.1, leased.1),
        ]);
        pairs.append(&mut passed_differing(conn, &kept).await?);
        Ok((rows, Next::Done(Verdict::Compared(pairs))))
    }

    /// The next rows of a table, at most so many; then the next table's turn comes.
    async fn page(&mut self, conn: &mut SqliteConnection, most: i64) -> sqlx::Result<i64> {
        let (rows, whole) = match self.table {
            Table::Waiting => {
                let row = self.counted(WAITING, conn, most).await?;
                self.found.waiting += number(&row, 0)?;
                self.found.waiting_bytes += number(&row, 2)?;
                self.found.parked += number(&row, 3)?;
                (number(&row, 0)?, number(&row, 0)? < most)
            }
            Table::Dead => {
                let row = self.counted(DEAD, conn, most).await?;
                self.found.dead += number(&row, 0)?;
                (number(&row, 0)?, number(&row, 0)? < most)
            }
            Table::Skips => {
                let row = self.counted(SKIPS, conn, most).await?;
                self.found.skips += number(&row, 0)?;
                (number(&row, 0)?, number(&row, 0)? < most)
            }
            Table::Leases => {
                let rows = self.leases(conn).await?;
                // A full step ends here, as one row is worth many.
                if rows < LEASE_ROWS { (rows.min(most), true) } else { (most, false) }
            }
            Table::End => (0, true),
        };
        if whole {
            self.after = -1;
            self.table = match self.table {
                Table::Waiting => Table::Dead,
                Table::Dead => Table::Skips,
                Table::Skips => Table::Leases,
                Table::Leases | Table::End => Table::End,
            };
        }
        Ok(rows)
    }

    async fn counted(
        &mut self,
        text: &'static str,
        conn: &mut SqliteConnection,
        most: i64,
    ) -> sqlx::Result<SqliteRow> {
        let row = query(text).bind(self.id).bind(self.after).bind(most).fetch_one(conn).await?;
        self.after = self.after.max(number(&row, 1)?);
        Ok(row)
    }

    /// The next leases; how many rows there were.
    async fn leases(&mut self, conn: &mut SqliteConnection) -> sqlx::Result<i64> {
        let rows = query(
            "select id, n, bytes, batch from lease where grp = ? and id > ? order by id limit ?",
        )
        .bind(self.id)
        .bind(self.after)
        .bind(LEASE_ROWS)
        .fetch_all(conn)
        .await?;
        for row in &rows {
            self.after = number(row, 0)?;
            // What cannot be read becomes dead letters when it is come to (law 12).
            let Ok(leases) = record::decode_leases(0, row.try_get(3)?) else { continue };
            let (kept, found) = (&mut self.found.leased_kept, &mut self.found.leased);
            *kept = (kept.0 + number(row, 1)?, kept.1 + number(row, 2)?);
            let bytes: u64 = leases.iter().map(|lease| lease.size).sum();
            *found = (found.0 + leases.len() as i64, found.1 + bytes.cast_signed());
        }
        Ok(rows.len() as i64)
    }
}

const WAITING: &str = "select count(*), max(seq), sum(size), count(*) filter (where state = 2) from
    (select seq, size, state from waiting where grp = ? and seq > ? order by seq limit ?)";
const DEAD: &str = "select count(*), max(seq) from
    (select seq from dead where grp = ? and seq > ? order by seq limit ?)";
const SKIPS: &str = "select count(*), max(seq) from
    (select seq from skip where grp = ? and seq > ? order by seq limit ?)";

/// How many messages lie before a group's cursor: what is stored behind it was not passed. Each
/// message says how many came before it; only what the sweep has passed by is counted, and only as
/// far as a step goes.
async fn passed_differing(conn: &mut SqliteConnection, kept: &Kept) -> sqlx::Result<Vec<Pair>> {
    let row = query("select published, published_bytes, swept from topic where id = ?")
        .bind(kept.topic)
        .fetch_optional(&mut *conn)
        .await?;
    let Some(row) = row else { return Ok(vec![("topics it reads", 1, 0)]) };
    let topic = TopicId(kept.topic.cast_unsigned());
    let (cursor, swept) = (kept.cursor.cast_unsigned(), number(&row, 2)?.cast_unsigned());
    let behind = if cursor < swept {
        let row = query(
            "select count(*), sum(size) from
               (select size from message where id > ? and id <= ? order by id limit ?)",
        )
        .bind(topic.rowid(Sequence(cursor)))
        .bind(topic.rowid(Sequence(swept)))
        .bind(STEP)
        .fetch_one(&mut *conn)
        .await?;
        if number(&row, 0)? == STEP {
            return Ok(Vec::new());
        }
        (number(&row, 0)?, number(&row, 1)?)
    } else {
        (0, 0)
    };
    let before = find::before_next(conn, topic, Sequence(cursor.max(swept)), Sequence::MAX).await?;
    let before = match before {
        Some(before) => (before.messages.cast_signed(), before.bytes.cast_signed()),
        None => (number(&row, 0)?, number(&row, 1)?),
    };
    Ok(differing([
        ("passed messages", kept.passed, before.0 - behind.0),
        ("passed bytes", kept.passed_bytes, before.1 - behind.1),
    ]))
}
