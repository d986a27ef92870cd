//! Which whole region goes when regions do not fit into one memory together.
//!
//! Paging lets each region lose some pages; when none keeps enough to get on, all wait. Then a whole
//! region goes. Joy 1980: the oldest of the n largest, not the oldest of all (which may be small)
//! and not the largest (which may just have come).

use alloc::vec::Vec;

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

/// The regions among which the oldest goes, where nothing else is said.
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

/// What is to be done with whole regions now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// This one goes out.
    pub goes: Option<usize>,
    /// This one comes in again.
    pub comes: Option<usize>,
}

/// A region in a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RotationFacts {
    /// Frames that it has, or had when it went out.
    pub frames: u32,
    /// When it came in, or went out.
    pub since_ns: u64,
    /// It is out.
    pub is_out: bool,
}

/// Decides which regions are out. Regions that are out come in again in their order, each for
/// another that goes, so that each has its turn.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// A region that came in stays for at least this time, and one that went out stays out for it.
    pub turn_ns: u64,
    /// The oldest of this many of the largest goes.
    pub largest: usize,
}

impl Rotation {
    /// Decides what is to be done now. `thrashes` is the answer of [`Thrashing::interval`], and `free`
    /// the frames that nobody has.
    pub fn decide(
        &self,
        now_ns: u64,
        thrashes: bool,
        free: u32,
        regions: &[RotationFacts],
    ) -> Exchange {
        let ripe = |at: &usize| now_ns.saturating_sub(regions[*at].since_ns) >= self.turn_ns;
        let outs = (0..regions.len()).filter(|at| regions[*at].is_out);
        let next = outs.min_by_key(|at| regions[*at].since_ns);
        let ins = regions.iter().filter(|region| !region.is_out).count();
        let facts = |must_be_ripe: bool| -> Vec<SwapFacts> {
            let stays = |at: usize| regions[at].is_out || must_be_ripe && !ripe(&at);
            let each = |at: usize| SwapFacts {
                frames: regions[at].frames,
                since_ns: regions[at].since_ns,
                stays: stays(at),
            };
            (0..regions.len()).map(each).collect()
        };
        if thrashes && ins > 1 {
            return Exchange { goes: choose(&facts(false), self.largest), comes: None };
        }
        let Some(comes) = next.filter(ripe) else { return Exchange::default() };
        if free >= regions[comes].frames || ins == 0 {
            return Exchange { goes: None, comes: Some(comes) };
        }
        match choose(&facts(true), self.largest) {
            Some(goes) => Exchange { goes: Some(goes), comes: Some(comes) },
            // Nobody can go. It does not wait for ever.
            None if now_ns.saturating_sub(regions[comes].since_ns) >= 4 * self.turn_ns => {
                Exchange { goes: None, comes: Some(comes) }
            }
            None => Exchange::default(),
        }
    }
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
    /// Faults that the region would not have had with all of the memory.
    pub again: u64,
}

/// Thrashing: for two intervals in a row, threads waited for pages during more than half of the
/// time, and more than half of the faults would not have been if each region had been alone.
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
