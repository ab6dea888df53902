//! Nothing: see `e2e/`.
