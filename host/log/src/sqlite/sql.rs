//! Statements over many rows, and statements that travel together.
//!
//! Each statement costs a hop to the connection's thread and back, which takes longer than most
//! statements do. So rows share a statement, in a few fixed sizes that stay in the statement
//! cache, and what a transaction writes last is one [`Script`] with its COMMIT.

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Encode, Sqlite, Type};
use std::sync::OnceLock;

/// Rows of a statement. Fewer rows go into the next larger one, filled up with rows of NULL.
const SIZES: [usize; 5] = [1, 4, 16, 64, 256];
const ROWS_MAX: usize = SIZES[SIZES.len() - 1];

/// A statement over many rows.
pub(super) struct ManyRows {
    kind: Kind,
    texts: [OnceLock<String>; SIZES.len()],
}

enum Kind {
    /// Table and columns, of which the first is never NULL; how many; what follows the rows.
    Insert(&'static str, usize, &'static str),
    /// Table, columns to set, and the key, whose argument comes last.
    Update(&'static str, &'static [&'static str], &'static str),
}

impl Kind {
    fn columns(&self) -> usize {
        match self {
            Self::Insert(_, columns, _) => *columns,
            Self::Update(_, columns, _) => columns.len() + 1,
        }
    }

    fn text(&self, size: usize) -> String {
        let row = format!("({})", vec!["?"; self.columns()].join(","));
        let rows = vec![row; size].join(",");
        match self {
            Self::Insert(into, _, after) if size == 1 => {
                format!("insert into {into} values {rows} {after}")
            }
            Self::Insert(into, _, after) => format!(
                "insert into {into} select * from (values {rows}) where column1 is not null {after}"
            ),
            Self::Update(table, columns, key) if size == 1 => {
                format!("update {table} set {} = ? where {key} = ?", columns.join(" = ?, "))
            }
            Self::Update(table, columns, key) => {
                let set = columns.iter().enumerate();
                let set = set.map(|(at, name)| format!("{name} = v.column{}", at + 1));
                format!(
                    "update {table} set {} from (values {rows}) as v where {key} = v.column{}",
                    set.collect::<Vec<_>>().join(", "),
                    columns.len() + 1
                )
            }
        }
    }
}

/// Arguments under way to a statement.
#[derive(Default)]
pub(super) struct Args(SqliteArguments);

impl Args {
    /// One more argument. Encoding our types (numbers, text, blobs) cannot fail.
    pub(super) fn push<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) {
        let _cannot_fail = self.0.add(value);
    }

    /// More numbers.
    pub(super) fn push_all(&mut self, numbers: impl IntoIterator<Item = i64>) {
        for number in numbers {
            self.push(number);
        }
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

/// Statements in one string, with the arguments of all of them in order.
#[derive(Default)]
pub(super) struct Script {
    text: String,
    args: Args,
}

impl Script {
    /// One more statement. Its parameters are plain `?`, numbers would mean the script's.
    pub(super) fn add(&mut self, statement: &str) {
        debug_assert!(!statement.contains("?1"), "{statement}");
        self.text.push_str(statement);
        self.text.push(';');
    }

    /// An argument of the statement just added.
    pub(super) fn bind<'t, T: Encode<'t, Sqlite> + Type<Sqlite>>(&mut self, value: T) {
        self.args.push(value);
    }

    /// Runs all statements. After an error those before it have been run.
    pub(super) async fn run(self, conn: &mut SqliteConnection) -> sqlx::Result<()> {
        if self.text.is_empty() {
            return Ok(());
        }
        let text = AssertSqlSafe(self.text);
        sqlx::query_with::<Sqlite, _>(text, self.args.done()).execute(conn).await?;
        Ok(())
    }
}

impl ManyRows {
    /// An insert `into` a table and its columns, of which the first is never NULL; `after`: what
    /// follows the rows.
    pub(super) const fn insert(into: &'static str, columns: usize, after: &'static str) -> Self {
        Self::new(Kind::Insert(into, columns, after))
    }

    /// An update of `columns` by `key`, whose argument comes last.
    pub(super) const fn update(
        table: &'static str,
        columns: &'static [&'static str],
        key: &'static str,
    ) -> Self {
        Self::new(Kind::Update(table, columns, key))
    }

    const fn new(kind: Kind) -> Self {
        Self { kind, texts: [const { OnceLock::new() }; SIZES.len()] }
    }

    /// Adds at most [`ROWS_MAX`] rows to `script`; `bind` gives one row's arguments, in order.
    fn add<R>(
        &'static self,
        script: &mut Script,
        rows: impl ExactSizeIterator<Item = R>,
        bind: impl Fn(&mut Args, R),
    ) {
        let sizes = SIZES.iter().zip(&self.texts);
        let Some((size, text)) = sizes.into_iter().find(|(size, _)| **size >= rows.len()) else {
            return;
        };
        let missing = size - rows.len();
        script.add(text.get_or_init(|| self.kind.text(*size)));
        for row in rows {
            bind(&mut script.args, row);
        }
        for _ in 0..missing * self.kind.columns() {
            script.args.push(None::<i64>);
        }
    }

    /// Adds all rows to `script`, but for full statements, which run at once.
    pub(super) async fn join<R>(
        &'static self,
        script: &mut Script,
        conn: &mut SqliteConnection,
        rows: Vec<R>,
        bind: impl Fn(&mut Args, R),
    ) -> sqlx::Result<()> {
        let mut left = rows.len();
        let mut rows = rows.into_iter();
        while left > ROWS_MAX {
            let full: Vec<R> = rows.by_ref().take(ROWS_MAX).collect();
            let mut now = Script::default();
            self.add(&mut now, full.into_iter(), &bind);
            now.run(&mut *conn).await?;
            left -= ROWS_MAX;
        }
        if left > 0 {
            self.add(script, rows, bind);
        }
        Ok(())
    }

    /// Writes all rows now.
    pub(super) async fn run<R>(
        &'static self,
        conn: &mut SqliteConnection,
        rows: Vec<R>,
        bind: impl Fn(&mut Args, R),
    ) -> sqlx::Result<()> {
        let mut script = Script::default();
        self.join(&mut script, conn, rows, bind).await?;
        script.run(conn).await
    }
}

/// Hashes as a JSON array, as SQLite stores them.
pub(super) fn json_hashes(hashes: impl IntoIterator<Item = u64>) -> String {
    let hashes: Vec<String> =
        hashes.into_iter().map(|hash| hash.cast_signed().to_string()).collect();
    format!("[{}]", hashes.join(","))
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
