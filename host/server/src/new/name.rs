//! The name of a new project: its folder, package, consumer and topic at once.
//!
//! Stricter than any of these alone, so that one name serves all of them in every language.

use crate::cli::Failure;
use windlass_core::Topic;

/// As many as a crate registry takes.
const BYTES_MAX: usize = 64;

/// Lowercase letters, digits, `-` and `_`, a letter first; and a valid topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectName(String);

impl ProjectName {
    /// Checks `name`; the failure's next command has a name that would do.
    pub(crate) fn new(name: &str) -> Result<Self, Failure> {
        let plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let why = if name.is_empty() {
            "it is empty".to_owned()
        } else if name.len() > BYTES_MAX {
            format!("it is longer than {BYTES_MAX} bytes")
        } else if !name.starts_with(|c: char| c.is_ascii_lowercase()) || !name.chars().all(plain) {
            "a name has lowercase letters, digits, `-` and `_`, and begins with a letter".to_owned()
        } else {
            match Topic::new(name) {
                Ok(_) => return Ok(Self(name.to_owned())),
                Err(error) => error.to_string(),
            }
        };
        Err(refused(name, why, &similar(name)))
    }

    /// It is taken by something else; another that is near it would do.
    pub(crate) fn refused(&self, why: impl Into<String>) -> Failure {
        refused(&self.0, why.into(), &format!("{}-consumer", self.0))
    }

    /// The name as written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// As compilers name files and modules after it.
    pub(crate) fn snake_case(&self) -> String {
        self.0.replace('-', "_")
    }
}

fn refused(name: &str, why: String, instead: &str) -> Failure {
    let shown: String = name.chars().take(80).collect();
    Failure::usage(format!("`{shown}` cannot be the name of a new consumer"))
        .because(why)
        .next(format!("windlass new {instead}"))
}

/// A valid name that is like `name`.
fn similar(name: &str) -> String {
    let mut similar = String::new();
    for c in name.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            similar.push(c.to_ascii_lowercase());
        } else if !similar.ends_with('-') {
            similar.push('-');
        }
    }
    let similar = similar.trim_start_matches(|c: char| !c.is_ascii_lowercase());
    let similar: String = similar.chars().take(BYTES_MAX / 2).collect();
    match similar.trim_end_matches('-') {
        "" => "hello".to_owned(),
        "windlass" => "windlass-consumer".to_owned(),
        similar => similar.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Exit;

    #[test]
    fn a_name_serves_as_package_consumer_and_topic() {
        for good in ["a", "orders", "orders-eu_2", &"x".repeat(64)] {
            assert_eq!(ProjectName::new(good).unwrap().as_str(), good);
        }
        assert_eq!(ProjectName::new("a-b_c").unwrap().snake_case(), "a_b_c");
    }

    #[test]
    fn a_refused_name_comes_with_one_that_would_do() {
        let long = "x".repeat(65);
        for (bad, instead) in [
            ("", "hello"),
            ("My Orders!", "my-orders"),
            ("orders/created", "orders-created"),
            ("../up", "up"),
            ("2fast", "fast"),
            ("-x", "x"),
            ("größe", "gr-e"),
            ("windlass", "windlass-consumer"),
            (&long, &"x".repeat(32)),
        ] {
            let failure = ProjectName::new(bad).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{bad}");
            assert_eq!(failure.next, Some(format!("windlass new {instead}")), "{bad}");
            assert!(ProjectName::new(instead).is_ok(), "{instead}");
        }
    }
}
