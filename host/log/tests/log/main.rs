//! The log's one test binary: the suite against each backend, and the model.

mod crash;
mod sqlite;

mod memory {
    use windlass_log::conformance::MemoryHarness;

    windlass_log::conformance!(async { MemoryHarness::open() });
}
