//! The suites of `weir bench`.

#![forbid(unsafe_code)]
