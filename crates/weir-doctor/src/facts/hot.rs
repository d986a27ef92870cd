//! The functions in which the stages of a run computed.

use alloc::string::String;
use alloc::vec::Vec;

/// Samples of where the stages were while they had a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotCode {
    /// Samples for each second of CPU time.
    pub samples_per_s: u64,
    /// Whether functions of the kernel were sampled.
    pub kernel: bool,
    /// Why nothing was sampled.
    pub refused: Option<String>,
    /// What the samples cannot show, in sentences.
    pub gaps: Vec<String>,
    /// Samples that the kernel dropped, as far as it said so.
    pub lost: u64,
    /// The stages that were sampled, in order.
    pub stages: Vec<HotStage>,
}

/// The samples of one stage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotStage {
    /// Position of the stage, or `None` where a script was sampled as a whole.
    pub stage: Option<usize>,
    /// Number of samples.
    pub samples: u64,
    /// Samples in code whose function is not known.
    pub unnamed: u64,
    /// Its functions, the hottest first; code without a name is one entry for each file.
    pub functions: Vec<HotFunction>,
}

/// A function, or the code of a file without names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotFunction {
    /// Its name, if known.
    pub name: Option<String>,
    /// The name of the program, library or module that it is in.
    pub place: String,
    /// Whether it belongs to the kernel.
    pub kernel: bool,
    /// Number of samples in it.
    pub samples: u64,
}

impl HotCode {
    /// Returns the samples of a stage, if it has any.
    pub fn of(&self, stage: Option<usize>) -> Option<&HotStage> {
        self.stages.iter().find(|one| one.stage == stage && one.samples > 0)
    }
}

impl HotStage {
    /// Returns the share of a function in the samples.
    pub fn share(&self, function: &HotFunction) -> f64 {
        function.samples as f64 / self.samples.max(1) as f64
    }
}
