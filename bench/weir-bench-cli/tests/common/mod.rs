//! What the tests of the commands share, and cells and saved runs of the bench.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub mod cells;
pub mod history;

pub use weir_tests::common::*;

/// The command under test.
pub const WEIR_BENCH: &str = env!("CARGO_BIN_EXE_weir-bench");
