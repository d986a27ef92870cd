//! Detecting that the whole job was stopped and continued.
//!
//! This process must have been continued, and a stage too: a stage stopped alone is not a stop of
//! the job, nor is a stop of this process alone. SIGCONT marks all processes of a group before the
//! call that sends it returns, so a turn of the loop has all signs or none. A stage that has ended
//! gives none: the kernel's notice that a child was stopped then stands for it.

/// What a turn of the loop found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Signs {
    /// Whether this process was continued.
    pub here: bool,
    /// Whether a stage was continued.
    pub there: bool,
    /// Whether a stage ended.
    pub ended: bool,
    /// Whether the kernel told that a child was stopped, or a stage that ended had been stopped.
    pub told: bool,
}

impl Signs {
    /// Whether the job was stopped since the turn before, and has been continued.
    pub fn show_stop(&self) -> bool {
        self.here && (self.there || self.ended && self.told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(here: bool, there: bool, ended: bool, told: bool) -> bool {
        Signs { here, there, ended, told }.show_stop()
    }

    #[test]
    fn this_process_and_a_stage_make_a_stop() {
        assert!(shown(true, true, false, false));
        assert!(!shown(true, false, false, false), "a stray SIGCONT");
        assert!(!shown(false, true, false, true), "a stage alone");
    }

    /// A shell's `kill %1` sends SIGTERM before SIGCONT: all stages end before anybody can ask
    /// whether they were continued. Their time once counted.
    #[test]
    fn a_stage_that_ended_was_stopped_too_if_the_kernel_said_so() {
        assert!(shown(true, false, true, true));
        assert!(!shown(true, false, true, false), "it ran on to its end");
        assert!(!shown(true, false, false, true), "it is still stopped");
        assert!(!shown(false, false, true, true), "a stage alone");
    }
}
