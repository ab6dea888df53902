//! The memory log.
