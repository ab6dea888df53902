//! A template's `Cargo.lock`: what cargo itself would write, whatever the project is called.

/// What stands before each package.
const PACKAGE: &str = "\n[[package]]\n";

/// The file with its packages in cargo's order. The template's dependencies are in it already;
/// the project's own package goes where its name belongs.
pub(super) fn in_order(text: &str) -> String {
    let mut blocks = text.split(PACKAGE);
    let head = blocks.next().unwrap_or_default();
    let mut packages: Vec<String> = blocks.map(|block| format!("{}\n", block.trim_end())).collect();
    // Two versions of one package stay as they are.
    packages.sort_by(|a, b| name(a).cmp(name(b)));
    [head].into_iter().chain(packages.iter().map(String::as_str)).collect::<Vec<_>>().join(PACKAGE)
}

/// The names of all packages in the file.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(PACKAGE).skip(1).map(name)
}

fn name(block: &str) -> &str {
    let line = block.lines().next().and_then(|line| line.strip_prefix("name = "));
    line.unwrap_or_default().trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_package_goes_where_its_name_belongs() {
        let lock = |names: &[&str]| {
            let package = |name: &&str| format!("{PACKAGE}name = \"{name}\"\nversion = \"1\"\n");
            format!("version = 4\n{}", names.iter().map(package).collect::<String>())
        };
        for (name, expected) in [
            ("a", ["a", "log", "syn", "syn", "wit"]),
            ("new", ["log", "new", "syn", "syn", "wit"]),
            ("z", ["log", "syn", "syn", "wit", "z"]),
        ] {
            let text = lock(&[name, "log", "syn", "syn", "wit"]);
            assert_eq!(in_order(&text), lock(&expected));
            assert!(names(&in_order(&text)).eq(expected));
        }
    }
}
