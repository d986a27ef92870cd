//! What the tests of the commands share.

pub use weir_tests::common::*;

/// `weir` beside the command under test, which it runs as `weir net`. [`net::Bed`] has it built.
pub const WEIR: &str = {
    let own = env!("CARGO_BIN_EXE_weir-net");
    own.split_at(own.len() - "-net".len()).0
};
