//! Whose memory goes to whom among the regions of a pool.
//!
//! A region that faults asks for more. It gets frames from the region that has the most of them for
//! each of its faults (Chu and Opderbeck 1972: the frequency of faults says who has too little).

/// A region, as the choice sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareFacts {
    /// Frames that it has.
    pub frames: u32,
    /// Frames that it keeps.
    pub least: u32,
    /// Its faults in the last intervals.
    pub faults: u64,
}

impl ShareFacts {
    /// Whether it has more frames for each fault than another, `tenths` of them at least.
    fn has_more_than(&self, other: &ShareFacts, tenths: u128) -> bool {
        let product = |of: &ShareFacts, with: &ShareFacts| {
            u128::from(of.frames) * (u128::from(with.faults) + 1)
        };
        product(self, other) * 10 > product(other, self) * tenths
    }
}

/// Chooses the region that gives: the one with the most frames for each fault. It has at least half
/// as many again as a region that asks, so that frames do not go to and fro.
pub fn giver(regions: &[ShareFacts], asker: Option<usize>) -> Option<usize> {
    let may_give = |at: &usize| Some(*at) != asker && regions[*at].frames > regions[*at].least;
    let best = (0..regions.len())
        .filter(may_give)
        .reduce(|best, at| if regions[at].has_more_than(&regions[best], 10) { at } else { best })?;
    let enough = asker.is_none_or(|asker| regions[best].has_more_than(&regions[asker], 15));
    enough.then_some(best)
}

/// How many frames a region gives at a time: a sixteenth, so that the choice is made anew often.
pub fn gives(region: &ShareFacts) -> u32 {
    (region.frames / 16).clamp(1, region.frames.saturating_sub(region.least).max(1))
}
