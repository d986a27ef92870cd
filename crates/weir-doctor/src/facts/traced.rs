//! What was traced.

use super::{Evidence, Run};
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

impl Run {
    /// Says how the times of its stages are known, and of those of its groups.
    pub fn set_times_evidence(&mut self, is_traced: bool) {
        let is_script = self.script;
        let seen = if is_traced { Evidence::Traced } else { Evidence::Sampled };
        for stage in &mut self.stages {
            let is_exact = stage.single_task && !is_script;
            stage.times_evidence = if is_exact { Evidence::Exact } else { seen };
            stage.waits_evidence = match (stage.hidden, stage.blocked_by_pipes) {
                (true, _) => Evidence::Unknown,
                (false, true) => Evidence::Estimated,
                (false, false) => seen,
            };
        }
        self.groups.iter_mut().for_each(|group| group.run.set_times_evidence(is_traced));
    }
}

impl Traced {
    /// Whether it holds the whole run.
    pub fn is_whole(&self) -> bool {
        self.refused.is_none() && self.lost == 0 && self.events > 0
    }
}
