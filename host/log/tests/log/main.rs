//! The log's one test binary: the suite against each backend, and the model.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests: what fails is a panic")]
#![allow(clippy::cast_precision_loss, reason = "counts of tests")]

mod crash;
mod gone;
mod model;
mod opening;
mod power;
mod readonly;
mod recount;
mod rows;
mod soak;
mod space;
mod sqlite;
mod sync;
mod trouble;

mod memory {
    use windlass_log::conformance::MemoryHarness;

    windlass_log::conformance!(async { MemoryHarness::open() });
}
