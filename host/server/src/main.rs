//! Windlass.
fn main() {}
