//! Code shared by the tests across the crates.
//!
//! - [`common`]: running the commands, for the tests of each of them.
//! - [`tidy`]: the house rules, which `tests/tidy.rs` checks over the workspace.

#![forbid(unsafe_code)]

#[allow(
    missing_docs,
    clippy::new_without_default,
    reason = "what tests share says what it does by its names"
)]
pub mod common;
pub mod tidy;
