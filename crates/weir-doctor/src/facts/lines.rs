//! The lines of bash scripts at which shells did work of their own.

use super::Line;
use alloc::string::String;

/// The time of one line: that in which samples met a bash computing there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineTime {
    /// The script and the line; line 0 where these are not known.
    pub line: Line,
    /// The function in which it is.
    pub function: Option<String>,
    /// Time that samples found it computing there.
    pub own_ns: u64,
}
