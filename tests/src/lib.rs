//! What the tests across the crates share.
//!
//! - [`tidy`]: the house rules, checked over the workspace by `tests/tidy.rs`.

#![forbid(unsafe_code)]

pub mod tidy;
