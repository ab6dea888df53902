//! Whether Rust can build components here: told before the first build fails on it.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Longer than a compiler needs to say where its files are; `rustup` may wait for a network.
const PATIENCE: Duration = Duration::from_secs(3);

const RUST: &str = "curl --proto '=https' -sSf https://sh.rustup.rs | sh";
const TARGET: &str = "rustup target add wasm32-wasip2";

/// What has to be done once before a project in `folder` can be built; nothing when it can, or when
/// nobody can say.
pub(crate) async fn missing_steps(folder: &Path) -> &'static [&'static str] {
    // It compiles the standard library itself, for any target: see `guest-examples/build --env`.
    if std::env::var_os("CARGO_UNSTABLE_BUILD_STD").is_some() {
        return &[];
    }
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let asked = Command::new(compiler)
        .args(["--print", "target-libdir", "--target", "wasm32-wasip2"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .output();
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => steps(answer.ok().map(|output| output.stdout).as_deref()),
        Err(_) => &[],
    }
}

/// What follows from the compiler's answer; there is none where it could not be asked.
fn steps(answer: Option<&[u8]>) -> &'static [&'static str] {
    let Some(answer) = answer else { return &[RUST, TARGET] };
    let libraries = String::from_utf8_lossy(answer);
    let libraries = libraries.trim();
    if libraries.is_empty() || Path::new(libraries).is_dir() { &[] } else { &[TARGET] }
}

#[cfg(test)]
mod tests {
    use super::{RUST, TARGET, steps};

    #[test]
    fn only_what_is_surely_missing_is_a_step() {
        assert_eq!(steps(None), [RUST, TARGET]);
        assert_eq!(steps(Some(b"/nowhere/lib\n")), [TARGET]);
        assert!(steps(Some(b"/tmp\n")).is_empty());
        assert!(steps(Some(b"")).is_empty(), "an old compiler, or a broken one");
    }
}
