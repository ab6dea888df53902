//! A consumer's configuration as a revision keeps it: its table of the manifest, without where its
//! component lies and how that is made.
//!
//! It is read again by what reads manifests, so that there is one meaning of it, and compared as text
//! with sorted keys.

use super::{ConsumerSpec, Manifest, ManifestError, topics};
use std::fmt;
use std::path::Path;
use toml::{Table, Value};

/// What a revision does not keep.
const MADE: [&str; 3] = ["component", "build", "watch"];

/// One `[[consumer]]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Config(Table);

impl Config {
    /// The consumers of a manifest that was found valid, in its order.
    pub(crate) fn all(text: &str) -> Result<Vec<Self>, toml::de::Error> {
        let (document, _) = topics::split_mode(text);
        let mut root: Table = toml::from_str(&document)?;
        let Some(Value::Array(consumers)) = root.remove("consumer") else { return Ok(Vec::new()) };
        let tables = consumers.iter().filter_map(Value::as_table);
        Ok(tables.map(|table| Self(table.clone()).kept()).collect())
    }

    /// A configuration of which nothing is said but its name.
    pub(crate) fn named(name: &str) -> Self {
        Self(Table::from_iter([("name".to_owned(), Value::from(name))]))
    }

    /// Reads what a revision keeps.
    pub(crate) fn read(text: &str) -> Result<Self, toml::de::Error> {
        Ok(Self(toml::from_str::<Table>(text)?).kept())
    }

    fn kept(mut self) -> Self {
        self.0.retain(|key, _| !MADE.contains(&key));
        self
    }

    /// Its name, where it has one.
    pub(crate) fn name(&self) -> &str {
        self.0.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets a list of texts.
    pub(crate) fn set_list(&mut self, key: &str, list: impl IntoIterator<Item = String>) {
        let list = list.into_iter().map(Value::String).collect();
        self.0.insert(key.to_owned(), Value::Array(list));
    }

    /// Sets a text.
    pub(crate) fn set_text(&mut self, key: &str, text: &str) {
        self.0.insert(key.to_owned(), Value::from(text));
    }

    /// Whether something is said of `key`.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The keys, dotted below tables, of which the two say different things.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut keys = Vec::new();
        compare("", &self.0, &other.0, &mut keys);
        keys
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

fn compare(above: &str, one: &Table, other: &Table, keys: &mut Vec<String>) {
    let mut all: Vec<&String> = one.keys().chain(other.keys()).collect();
    all.sort();
    all.dedup();
    for key in all {
        match (one.get(key), other.get(key)) {
            (Some(Value::Table(one)), Some(Value::Table(other))) => {
                compare(&format!("{above}{key}."), one, other, keys);
            }
            (one, other) if one == other => {}
            _differ => keys.push(format!("{above}{key}")),
        }
    }
}

/// Reads consumers whose components lie in `folder` under the names beside their configurations, as
/// one manifest, so that what they may not do because of one another is found too.
pub(crate) fn consumers(
    folder: &Path,
    configs: impl IntoIterator<Item = (Config, String)>,
) -> Result<Vec<ConsumerSpec>, ManifestError> {
    let tables = configs.into_iter().map(|(Config(mut table), file)| {
        table.insert("component".to_owned(), Value::String(file));
        Value::Table(table)
    });
    let tables: Vec<Value> = tables.collect();
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    let root = Table::from_iter([("consumer".to_owned(), Value::Array(tables))]);
    let manifest = Manifest::parse(&folder.join("deployed"), &root.to_string())?;
    Ok(manifest.consumers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "topics = \"declared\"\n[topics.a]\n[[consumer]]\nname = \"c\"\n\
        component = \"x.wasm\"\nbuild = \"make\"\nwatch = [\"src\"]\ntopics = [\"a\"]\n\
        lease = \"5s\"\n[consumer.limits]\nwall = \"1s\"\n";

    #[test]
    fn a_configuration_comes_back_as_it_was() {
        let config = Config::all(TEXT).unwrap().remove(0);
        assert_eq!(config.name(), "c");
        let text = config.to_string();
        assert!(!text.contains("make") && !text.contains("x.wasm"), "{text}");
        let again = Config::read(&text).unwrap();
        assert_eq!((again.to_string(), again.differences(&config)), (text, vec![]));
        let folder = Path::new("/components");
        let specs = consumers(folder, [(again, "ab.wasm".to_owned())]).unwrap();
        let manifest = Manifest::parse(Path::new("/p/windlass.toml"), TEXT).unwrap();
        let mut wanted = manifest.consumers[0].clone();
        (wanted.component, wanted.build, wanted.watch) = (folder.join("ab.wasm"), None, vec![]);
        assert_eq!(specs, [wanted]);
    }

    #[test]
    fn what_differs_is_named() {
        let one = Config::read("name = \"c\"\nlease = \"5s\"\n[limits]\nwall = \"1s\"").unwrap();
        let other = Config::read("name = \"c\"\n[limits]\nwall = \"2s\"\nsends = 1").unwrap();
        assert_eq!(one.differences(&other), ["lease", "limits.sends", "limits.wall"]);
    }

    #[test]
    fn two_of_one_group_with_different_policy_are_refused() {
        let of = |name: &str, lease: &str| {
            let mut config = Config::named(name);
            config.set_list("topics", ["t".to_owned()]);
            config.set_text("lease", lease);
            (config, format!("{name}.wasm"))
        };
        let folder = Path::new("/components");
        assert_eq!(consumers(folder, [of("a", "5s"), of("b", "5s")]).unwrap().len(), 2);
        let error = consumers(folder, [of("a", "5s"), of("b", "6s")]).unwrap_err();
        assert!(error.text.contains("`a` and `b` both read `t`"), "{error}");
        assert!(consumers(folder, []).unwrap().is_empty());
    }
}
