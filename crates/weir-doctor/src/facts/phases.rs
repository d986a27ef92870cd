//! The phases of a run, as they were found.

/// A time in which the same stage held the run up.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its beginning, from that of the run.
    pub start_ns: u64,
    /// Its end, where the next one begins.
    pub end_ns: u64,
    /// Who held the run up.
    pub holder: Holder,
}

/// Who held a run up during a phase. Stages are positions in the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Holder {
    /// One stage, which was busy for this share of the phase, and whether no other was at work.
    Stage {
        /// Its position.
        stage: usize,
        /// The share of the phase in which it waited for no neighbour.
        busy: f64,
        /// Whether all others were done, or waited.
        alone: bool,
    },
    /// Two stages, equally busy.
    Two([usize; 2]),
    /// None: the run waited for something outside of it.
    Nobody,
}

impl Phase {
    /// Returns its length.
    pub fn length_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}
