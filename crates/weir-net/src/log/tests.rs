//! Tests of the log within one process.
