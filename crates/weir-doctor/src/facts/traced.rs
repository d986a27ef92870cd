//! What was traced.

use alloc::string::String;

/// A trace of a run: the switches of the CPUs, as the kernel told them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// Number of events.
    pub events: u64,
    /// Events that were lost; where some were, samples took their place.
    pub lost: u64,
    /// Why nothing was traced, if so: samples took its place.
    pub refused: Option<String>,
    /// What the kernel's verifier said of a program that it refused.
    pub verifier: String,
}

impl Traced {
    /// Whether it holds the whole run.
    pub fn is_whole(&self) -> bool {
        self.refused.is_none() && self.lost == 0 && self.events > 0
    }
}
