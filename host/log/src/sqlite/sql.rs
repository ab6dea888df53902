//! Statements over many rows.
//!
//! Each statement costs a hop to the connection's thread, so rows travel together, in a few fixed
//! sizes that stay in the statement cache.

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, Encode, Sqlite, Type};
use std::sync::OnceLock;

const SIZES: [usize; 5] = [256, 64, 16, 4, 1];

/// `{before} (?,?),(?,?) {after}` in the sizes above.
pub(super) struct ManyRows {
    before: &'static str,
    row: &'static str,
    after: &'static str,
    texts: [OnceLock<String>; SIZES.len()],
}

/// Arguments under way to a statement.
#[derive(Default)]
pub(super) struct Args(SqliteArguments);

impl Args {
    /// One more argument. Encoding our types (numbers, text, blobs) cannot fail.
    pub(super) fn push<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) {
        let _cannot_fail = self.0.add(value);
    }

    /// One more argument.
    pub(super) fn with<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(mut self, value: T) -> Self {
        self.push(value);
        self
    }

    /// For a statement.
    pub(super) fn done(self) -> SqliteArguments {
        self.0
    }
}

impl ManyRows {
    /// `row` is the placeholders of one row, in parentheses.
    pub(super) const fn new(before: &'static str, row: &'static str, after: &'static str) -> Self {
        Self { before, row, after, texts: [const { OnceLock::new() }; SIZES.len()] }
    }

    /// Writes all rows; `bind` gives one row's arguments, in order.
    pub(super) async fn run<R>(
        &'static self,
        conn: &mut SqliteConnection,
        rows: Vec<R>,
        bind: impl Fn(&mut Args, R),
    ) -> sqlx::Result<()> {
        let mut left = rows.len();
        let mut rows = rows.into_iter();
        for (size, text) in SIZES.iter().zip(&self.texts) {
            while left >= *size {
                let sql = text.get_or_init(|| {
                    let rows = vec![self.row; *size].join(",");
                    format!("{} {rows} {}", self.before, self.after)
                });
                let mut args = Args::default();
                for row in rows.by_ref().take(*size) {
                    bind(&mut args, row);
                }
                sqlx::query_with::<Sqlite, _>(sql.as_str(), args.done())
                    .execute(&mut *conn)
                    .await?;
                left -= size;
            }
        }
        Ok(())
    }
}

/// Numbers as a JSON array, for `in (select value from json_each(?))`.
pub(super) fn json_list(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut text = String::from("[");
    for (at, number) in numbers.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&number.to_string());
    }
    text.push(']');
    text
}
