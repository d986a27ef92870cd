//! What the tests of the commands share, and cells and saved runs of the bench.

pub mod cells;
pub mod history;

pub use weir_tests::common::*;

/// The command under test.
pub const WEIR_BENCH: &str = env!("CARGO_BIN_EXE_weir-bench");
