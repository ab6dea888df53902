//! The SQLite log.
