//! Time since something began, as a number: the engines take the time as an argument.

use std::time::Instant;

/// Returns the nanoseconds since then, up to the 584 years that the type holds.
#[inline]
pub(crate) fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
