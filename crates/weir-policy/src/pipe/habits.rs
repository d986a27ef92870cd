//! Capacity and habits of a pipe, as measured on the machine.
//!
//! What makes a ring fast between two CPUs depends on the CPU model: how its size compares with the
//! caches, and whether a reader should dirty the lines it has read (on some CPUs, rewriting lines
//! that the other CPU has only read is four times slower). So trials decide if there were any, and
//! otherwise the sizes of the caches. The lines of a ring that fits the second level stay in the
//! reader's own cache, where they were only read. Those of a larger one are mostly in the third level
//! when the writer comes back to them.

/// How pipes behave by default: as calibration found, or as follows from the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// How many bytes a pipe holds.
    pub capacity_bytes: u64,
    /// Whether a reader stores into each cache line that it has read, in rings of about
    /// `capacity_bytes`. Where this size fits the second-level cache and a ring does not, it does not
    /// there; the other way round it does.
    pub dirties: bool,
    /// How long a streaming reader that has run dry lets the writer run ahead; 0 for not at all.
    pub backoff_ns: u64,
    /// What waking the other end costs, which bounds spinning.
    pub wake_ns: u64,
}

impl Habits {
    /// Returns whether a reader of a ring of this size stores into each line it has read.
    ///
    /// What holds for a ring larger than the second-level cache says nothing of one that fits it, and
    /// the other way round.
    pub fn dirties_in(&self, ring_bytes: u64, second_bytes: u64) -> bool {
        let fits = |bytes| bytes <= second_bytes;
        let is_alike = fits(ring_bytes) == fits(self.capacity_bytes);
        if is_alike { self.dirties } else { fits(ring_bytes) }
    }
}

/// The sizes of a CPU's caches; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caches {
    /// The bytes of the second level, which a CPU has for itself.
    pub second_bytes: u64,
    /// The bytes of the third level, which CPUs share.
    pub third_bytes: u64,
}

/// One trial: a stream of chunks between two CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RingTrial {
    /// The capacity tried.
    pub capacity_bytes: u64,
    /// Whether the reader dirtied lines.
    pub dirties: bool,
    /// What it moved, in the same unit as the other trials.
    pub rate: f64,
}

const LEAST_BYTES: u64 = 1 << 20;
const MOST_BYTES: u64 = 4 << 20;
/// A trial must be faster by this factor to justify more memory, or a habit.
const WORTH: f64 = 1.05;
/// The time of a wake-up across CPUs on most virtual machines, until it is measured.
const WAKE_NS: u64 = 20_000;
/// A writer's time for some lines.
const BACKOFF_NS: u64 = 1_000;

/// Chooses without trials: a ring twice the second-level cache, within 1 to 4 MiB and a quarter of
/// the third-level cache.
pub fn fallback(caches: Caches) -> Habits {
    let third = if caches.third_bytes == 0 { u64::MAX } else { caches.third_bytes / 4 };
    let fits = |bytes: u64| if bytes == 0 { 0 } else { 1 << bytes.ilog2() };
    let capacity_bytes = (2 * caches.second_bytes)
        .next_power_of_two()
        .min(fits(third))
        .clamp(LEAST_BYTES, MOST_BYTES);
    let dirties = capacity_bytes <= caches.second_bytes;
    Habits { capacity_bytes, dirties, backoff_ns: BACKOFF_NS, wake_ns: WAKE_NS }
}

/// Chooses the smallest capacity that is about as fast as the fastest, and the habit that helps it.
pub fn choose(caches: Caches, trials: &[RingTrial], wake_ns: u64) -> Habits {
    let best = |of: &dyn Fn(&RingTrial) -> bool| {
        trials.iter().filter(|trial| of(trial)).map(|trial| trial.rate).fold(0.0, f64::max)
    };
    let fastest = best(&|_| true);
    let enough = trials.iter().filter(|trial| trial.rate * WORTH >= fastest && fastest > 0.0);
    let Some(capacity_bytes) = enough.map(|trial| trial.capacity_bytes).min() else {
        return fallback(caches);
    };
    let here = |dirties| best(&|t| t.capacity_bytes == capacity_bytes && t.dirties == dirties);
    let dirties = here(true) > WORTH * here(false);
    let wake_ns = if wake_ns == 0 { WAKE_NS } else { wake_ns };
    Habits { capacity_bytes, dirties, backoff_ns: BACKOFF_NS, wake_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHES: Caches = Caches { second_bytes: 1 << 20, third_bytes: 32 << 20 };

    fn trial(mib: u64, dirties: bool, rate: f64) -> RingTrial {
        RingTrial { capacity_bytes: mib << 20, dirties, rate }
    }

    #[test]
    fn without_trials_the_ring_lies_between_the_caches() {
        assert_eq!(fallback(CACHES).capacity_bytes, 2 << 20);
        assert_eq!(fallback(Caches::default()).capacity_bytes, 1 << 20);
        let small = Caches { second_bytes: 4 << 20, third_bytes: 6 << 20 };
        assert_eq!(fallback(small).capacity_bytes, 1 << 20);
        assert!(fallback(small).dirties, "it fits the second level");
        assert_eq!(choose(CACHES, &[], 0), fallback(CACHES));
    }

    #[test]
    fn a_ring_that_fits_the_second_level_is_dirtied_unless_trials_say_otherwise() {
        let dirties = |habits: Habits| {
            [256 << 10, 1 << 20, 2 << 20].map(|ring| habits.dirties_in(ring, CACHES.second_bytes))
        };
        assert_eq!(dirties(fallback(CACHES)), [true, true, false]);
        let large = [trial(2, false, 20.0), trial(2, true, 20.0)];
        assert_eq!(dirties(choose(CACHES, &large, 0)), [true, true, false]);
        let small = [trial(1, false, 20.0), trial(1, true, 20.0)];
        assert_eq!(dirties(choose(CACHES, &small, 0)), [false; 3]);
        let small = [trial(1, false, 20.0), trial(1, true, 30.0)];
        assert_eq!(dirties(choose(CACHES, &small, 0)), [true, true, false]);
        let pays = [trial(2, false, 20.0), trial(2, true, 30.0)];
        assert_eq!(dirties(choose(CACHES, &pays, 0)), [true; 3]);
        assert!(!fallback(Caches::default()).dirties_in(4096, 0), "nothing is known");
    }

    #[test]
    fn the_smallest_of_the_fastest_is_taken_with_the_habit_that_pays_there() {
        let trials = [
            trial(1, false, 8.0),
            trial(1, true, 24.0),
            trial(4, false, 25.0),
            trial(4, true, 10.0),
        ];
        let habits = choose(CACHES, &trials, 15_000);
        assert_eq!(
            (habits.capacity_bytes, habits.dirties, habits.wake_ns),
            (1 << 20, true, 15_000)
        );
        let flat = [trial(1, false, 20.0), trial(1, true, 20.5), trial(2, false, 20.2)];
        assert!(!choose(CACHES, &flat, 0).dirties);
    }
}
