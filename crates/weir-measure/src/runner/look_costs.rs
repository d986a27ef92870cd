//! What a look of the sampler costs, on which the time to the next one depends.

/// What a look costs at most for each of its tasks, and once for all else. A release takes about a
/// twentieth of that.
const MOST_PART_NS: u64 = 100_000;

/// The costs of the looks of a run, in CPU time of the sampling thread.
///
/// Their mean counts, as far as the work explains it. A host that shares its memory out among
/// guests takes away the pages that nobody touches for some milliseconds, and needs 0.1 ms to bring
/// one back. The guest's clocks count that as work. Longer pauses would not make it less: the longer
/// a pause, the more pages are gone.
#[derive(Debug, Default)]
pub struct SampleCosts {
    mean_ns: u64,
    /// The tasks of the last look, and one more.
    parts: u64,
}

impl SampleCosts {
    /// Adds a look at so many tasks.
    pub fn add(&mut self, cost_ns: u64, tasks: usize) {
        // One dear look, as for the peer of a socket, makes no long gap.
        self.mean_ns = (self.mean_ns * 7 + cost_ns) / 8;
        self.parts = tasks as u64 + 1;
    }

    /// Returns what a look usually costs; 0 before the first.
    pub fn usual_ns(&self) -> u64 {
        self.mean_ns.min(self.parts * MOST_PART_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tasks_do_not_explain_does_not_count() {
        let mut costs = SampleCosts::default();
        assert_eq!(costs.usual_ns(), 0);
        (0..100).for_each(|_| costs.add(2_000_000, 3));
        assert_eq!(costs.usual_ns(), 4 * MOST_PART_NS);
        (0..100).for_each(|_| costs.add(2_000_000, 199));
        assert!((1_900_000..=2_000_000).contains(&costs.usual_ns()), "{costs:?}");
    }
}
