//! Which whole region goes when regions do not fit into one memory together.
//!
//! Paging lets each region lose some pages; when none keeps enough to get on, all wait. Then a whole
//! region goes. Joy 1980: the oldest of the n largest, not the oldest of all (which may be small)
//! and not the largest (which may just have come).

/// A region, as the choice sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwapFacts {
    /// Frames that it has.
    pub frames: u32,
    /// When it came in, or was last let in again.
    pub since_ns: u64,
    /// It may not go: it is pinned, or is out already.
    pub stays: bool,
}

/// The regions among which the oldest goes.
pub const LARGEST: usize = 4;

/// Chooses the region that goes: the oldest of the `largest` largest.
pub fn choose(regions: &[SwapFacts], largest: usize) -> Option<usize> {
    let can_go = |at: &usize| !regions[*at].stays && regions[*at].frames > 0;
    // How many are larger; of two alike, the first counts as larger.
    let larger = |at: usize| {
        let than = regions[at].frames;
        let beats = |other: &usize| {
            let frames = regions[*other].frames;
            frames > than || frames == than && *other < at
        };
        (0..regions.len()).filter(can_go).filter(beats).count()
    };
    (0..regions.len())
        .filter(can_go)
        .filter(|at| larger(*at) < largest.max(1))
        .min_by_key(|at| regions[*at].since_ns)
}

/// What happened in a pool of regions within some time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Its length.
    pub ns: u64,
    /// The time that threads waited for pages, summed.
    pub waited_ns: u64,
    /// Threads that used regions.
    pub threads: u32,
    /// Faults that had to read.
    pub hard: u64,
    /// Of these, those on pages that had gone within the interval or the one before.
    pub again: u64,
}

/// Thrashing: for two intervals in a row, threads waited for pages during more than half of the
/// time, and more than half of the pages they waited for had only just gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thrashing {
    before: bool,
}

impl Thrashing {
    /// Learns of an interval, and says whether a region must go. It says so at most every other
    /// interval, so that the effect is seen before the next one goes.
    pub fn interval(&mut self, seen: Interval) -> bool {
        let waits = u128::from(seen.waited_ns) * 2 > u128::from(seen.ns) * u128::from(seen.threads);
        let now = waits && seen.hard > 0 && seen.again * 2 > seen.hard;
        let goes = now && self.before;
        self.before = now && !goes;
        goes
    }
}
