//! What the tests of the commands share.

pub use weir_tests::common::*;

/// The command under test.
pub const WEIR: &str = env!("CARGO_BIN_EXE_weir");
