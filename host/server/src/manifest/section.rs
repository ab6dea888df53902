//! One table of a manifest, read key by key.
//!
//! Owns how keys are refused and how values of each kind are read. What the keys mean is its
//! callers' business.

use super::problem::Problems;
use crate::typed;
use std::cmp::Reverse;
use std::ops::Range;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value and where it stands.
pub(crate) struct Found<T> {
    /// The value.
    pub value: T,
    /// Its place in the text.
    pub at: Range<usize>,
}

/// One table of the manifest.
pub(crate) struct Section<'a> {
    name: &'a str,
    table: &'a DeTable<'a>,
    at: Range<usize>,
    problems: &'a Problems<'a>,
}

impl<'a> Section<'a> {
    /// A table whose keys are all `known` or `later` (part of the contract, but not built yet);
    /// any other is a problem that names the nearest known one.
    pub(crate) fn new(
        name: &'a str,
        table: &'a DeTable<'a>,
        at: Range<usize>,
        problems: &'a Problems<'a>,
        (known, later): (&[&str], &[&str]),
    ) -> Self {
        for key in table.keys() {
            let text: &str = key.get_ref();
            if later.contains(&text) {
                problems.add(&key.span(), format!("`{text}` is not built yet"));
            } else if !known.contains(&text) {
                let nearest = nearest(text, known.iter().chain(later));
                problems.add(
                    &key.span(),
                    format!("unknown key `{text}` in {name}; the nearest known one is `{nearest}`"),
                );
            }
        }
        Self { name, table, at, problems }
    }

    /// A table below this one, its keys checked as in [`Section::new`].
    pub(crate) fn below(
        &self,
        name: &'a str,
        table: &'a DeTable<'a>,
        at: Range<usize>,
        keys: (&[&str], &[&str]),
    ) -> Self {
        Self::new(name, table, at, self.problems, keys)
    }

    /// A table below this one that takes any key.
    pub(crate) fn open(&self, name: &'a str, table: &'a DeTable<'a>, at: Range<usize>) -> Self {
        Self { name, table, at, problems: self.problems }
    }

    /// Where the section stands.
    pub(crate) fn at(&self) -> &Range<usize> {
        &self.at
    }

    /// Enters a problem.
    pub(crate) fn problem(&self, at: &Range<usize>, what: impl Into<String>) {
        self.problems.add(at, what);
    }

    /// The value of `key`, of any kind.
    pub(crate) fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    /// A text; anything else is a problem.
    pub(crate) fn text(&self, key: &str) -> Option<Found<&'a str>> {
        let value = self.value(key)?;
        let Some(text) = value.get_ref().as_str() else {
            self.wrong_kind(key, value, "a string");
            return None;
        };
        Some(Found { value: text, at: value.span() })
    }

    /// A text that must be there.
    pub(crate) fn needed_text(&self, key: &str) -> Option<Found<&'a str>> {
        if self.value(key).is_none() {
            self.problem(&self.at, format!("{} needs `{key}`", self.name));
        }
        self.text(key)
    }

    /// A text read by `parse`, whose error is a problem.
    pub(crate) fn parsed<T, E: ToString>(
        &self,
        key: &str,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(key)?;
        match parse(text.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(&text.at, format!("`{key}`: {}", error.to_string()));
                None
            }
        }
    }

    /// A span of time such as `"30s"`, within `least` and `most`.
    pub(crate) fn duration(&self, key: &str, least: Duration, most: Duration) -> Option<Duration> {
        self.parsed(key, |text| typed::duration(text, least, most))
    }

    /// A size such as `"64 MiB"`, at least `least` bytes.
    pub(crate) fn size(&self, key: &str, least: u64) -> Option<u64> {
        self.parsed(key, |text| typed::size(text, least))
    }

    /// A whole number of at least 1.
    pub(crate) fn count(&self, key: &str, most: u32) -> Option<u32> {
        let value = self.value(key)?;
        let number = value.get_ref().as_integer().and_then(|number| {
            i64::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
        });
        match number.and_then(|number| u32::try_from(number).ok()) {
            Some(number) if number >= 1 && number <= most => Some(number),
            Some(_) | None => {
                let what = format!("`{key}` must be a whole number from 1 to {most}");
                self.problem(&value.span(), what);
                None
            }
        }
    }

    /// A number between `least` and `most`.
    pub(crate) fn number(&self, key: &str, least: f64, most: f64) -> Option<f64> {
        let value = self.value(key)?;
        let text = match value.get_ref() {
            DeValue::Integer(number) => Some(number.as_str()),
            DeValue::Float(number) => Some(number.as_str()),
            DeValue::String(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_)
            | DeValue::Array(_)
            | DeValue::Table(_) => None,
        };
        match text.and_then(|text| text.replace('_', "").parse::<f64>().ok()) {
            Some(number) if number >= least && number <= most => Some(number),
            Some(_) | None => {
                let what = format!("`{key}` must be a number from {least} to {most}");
                self.problem(&value.span(), what);
                None
            }
        }
    }

    /// A list of texts, each read by `parse`.
    pub(crate) fn list<T, E: ToString>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<Found<T>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let Some(items) = value.get_ref().as_array() else {
            self.wrong_kind(key, value, "a list such as [\"orders\"]");
            return Vec::new();
        };
        let mut found = Vec::new();
        for item in items {
            let Some(text) = item.get_ref().as_str() else {
                self.wrong_kind(key, item, "a list of strings");
                continue;
            };
            match parse(text) {
                Ok(value) => found.push(Found { value, at: item.span() }),
                Err(error) => self.problem(&item.span(), format!("`{key}`: {}", error.to_string())),
            }
        }
        found
    }

    /// A table below this one.
    pub(crate) fn table(&self, key: &str) -> Option<Found<&'a DeTable<'a>>> {
        let value = self.value(key)?;
        let Some(table) = value.get_ref().as_table() else {
            self.wrong_kind(key, value, "a table");
            return None;
        };
        Some(Found { value: table, at: value.span() })
    }

    /// The tables of a `[[key]]`.
    pub(crate) fn tables(&self, key: &str) -> Vec<Found<&'a DeTable<'a>>> {
        let Some(value) = self.value(key) else { return Vec::new() };
        let items = value.get_ref().as_array();
        let tables: Option<Vec<_>> = items.and_then(|items| {
            let table = |item: &'a Spanned<DeValue<'a>>| {
                Some(Found { value: item.get_ref().as_table()?, at: item.span() })
            };
            items.iter().map(table).collect()
        });
        tables.unwrap_or_else(|| {
            let what = format!("`{key}` is a list of tables: write `[[{key}]]` above each");
            self.problem(&value.span(), what);
            Vec::new()
        })
    }

    /// All entries as pairs of texts, in the order written.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let mut pairs = Vec::new();
        for (key, value) in entries {
            match value.get_ref().as_str() {
                Some(text) => pairs.push((key.get_ref().to_string(), text.to_owned())),
                None => self.wrong_kind(key.get_ref(), value, "a string"),
            }
        }
        pairs
    }

    /// Says that a value is of the wrong kind.
    pub(crate) fn wrong_kind(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.problem(&value.span(), format!("`{key}` must be {wanted}, not {found}"));
    }
}

fn nearest<'n>(text: &str, known: impl Iterator<Item = &'n &'n str>) -> &'n str {
    let distance = |name: &str| strsim::damerau_levenshtein(text, name);
    known.min_by_key(|name| (distance(name), Reverse(name.len()))).map_or("", |name| name)
}
