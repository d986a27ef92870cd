//! What the tests of the commands share.

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub use weir_tests::common::*;

/// The command under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");
