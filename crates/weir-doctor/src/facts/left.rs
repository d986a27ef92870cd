//! What a stage left running.

use super::Run;
use alloc::string::String;

/// A stage ended, and something that it had started still had the pipe behind it open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOpen {
    /// Position of that stage. The next one waited for the end of the pipe.
    pub stage: usize,
    /// How long the next stage continued after the end of this one.
    pub after_ns: u64,
    /// The process that had the pipe open, where it was found.
    pub process: Option<LeftProcess>,
}

/// A process that a stage left running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftProcess {
    /// Its id.
    pub pid: i32,
    /// Its command.
    pub command: String,
}

impl Run {
    /// Returns how long a stage waited for its input after the end of the stage in front of it, which had
    /// left the pipe open.
    pub fn waited_for_left_ns(&self, left: &LeftOpen) -> u64 {
        let next = self.stages.get(left.stage + 1);
        next.map_or(0, |next| next.times.input_ns).min(left.after_ns)
    }
}
