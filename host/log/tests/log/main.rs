//! The log's one test binary: the suite against each backend, and the model.

mod crash;
mod model;
mod sqlite;
mod sync;

mod memory {
    use windlass_log::conformance::MemoryHarness;

    windlass_log::conformance!(async { MemoryHarness::open() });
}
