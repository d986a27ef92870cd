//! Code shared by the tests across the crates.
//!
//! - [`tidy`]: the house rules, which `tests/tidy.rs` checks over the workspace.

#![forbid(unsafe_code)]

pub mod tidy;
