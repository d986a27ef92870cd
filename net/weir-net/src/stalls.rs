//! The side that a transfer or a connection waits for, and its stalls: times of 0.2 s or more
//! without a byte that moves. TFTP and TCP say who is waited for; this counts.

use serde::Serialize;

/// After so long without progress, waiting is a stall.
const STALL_NS: u64 = 200_000_000;

/// A side that a transfer or a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum WaitedSide {
    /// This process, its files, or a CPU for it.
    #[serde(rename = "this side")]
    This,
    /// What lies between the two sides.
    #[serde(rename = "the network")]
    Network,
    /// The other side.
    #[serde(rename = "the other side")]
    Other,
}

impl WaitedSide {
    /// All sides; the place of each is its number in logs and messages.
    pub(crate) const ALL: [WaitedSide; 3] =
        [WaitedSide::This, WaitedSide::Network, WaitedSide::Other];

    /// Returns its name.
    pub fn as_str(self) -> &'static str {
        match self {
            WaitedSide::This => "this side",
            WaitedSide::Network => "the network",
            WaitedSide::Other => "the other side",
        }
    }
}

/// Stalls by the side that was waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StallCounts {
    /// Stalls for which this side was the cause.
    pub this_side_stalls: u64,
    /// Stalls by the network.
    pub network_stalls: u64,
    /// Stalls by the other side.
    pub other_side_stalls: u64,
}

impl StallCounts {
    /// Returns the stalls of all sides.
    pub fn all(&self) -> u64 {
        self.this_side_stalls + self.network_stalls + self.other_side_stalls
    }

    /// Adds those of another transfer.
    pub(crate) fn add(&mut self, other: &StallCounts) {
        self.this_side_stalls += other.this_side_stalls;
        self.network_stalls += other.network_stalls;
        self.other_side_stalls += other.other_side_stalls;
    }

    fn of(&mut self, side: WaitedSide) -> &mut u64 {
        match side {
            WaitedSide::This => &mut self.this_side_stalls,
            WaitedSide::Network => &mut self.network_stalls,
            WaitedSide::Other => &mut self.other_side_stalls,
        }
    }
}

/// Notices stalls of one transfer or connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallWatch {
    moved_ns: u64,
    is_stalled: bool,
}

impl StallWatch {
    /// Starts it.
    pub(crate) fn new(now_ns: u64) -> StallWatch {
        StallWatch { moved_ns: now_ns, is_stalled: false }
    }

    /// Notes that a byte moved, or that nobody is waited for: the stall is over.
    pub(crate) fn moved(&mut self, now_ns: u64) {
        *self = StallWatch::new(now_ns);
    }

    /// Notes that `side` is waited for. Counts a stall, and returns its side, where one begins.
    pub(crate) fn note_wait(
        &mut self,
        side: WaitedSide,
        now_ns: u64,
        counts: &mut StallCounts,
    ) -> Option<WaitedSide> {
        if self.is_stalled || !is_stall(now_ns.saturating_sub(self.moved_ns)) {
            return None;
        }
        self.is_stalled = true;
        *counts.of(side) += 1;
        Some(side)
    }
}

/// Whether so long without progress is a stall.
pub(crate) fn is_stall(time_ns: u64) -> bool {
    time_ns >= STALL_NS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_its_own_count_and_a_number_that_finds_it() {
        let mut counts = StallCounts::default();
        for (number, side) in WaitedSide::ALL.into_iter().enumerate() {
            assert_eq!(side as usize, number);
            let mut watch = StallWatch::new(0);
            assert_eq!(watch.note_wait(side, STALL_NS - 1, &mut counts), None);
            assert_eq!(watch.note_wait(side, STALL_NS, &mut counts), Some(side));
            assert_eq!(watch.note_wait(side, STALL_NS * 9, &mut counts), None, "the same stall");
            watch.moved(STALL_NS * 9);
            assert_eq!(watch.note_wait(side, STALL_NS * 10 - 1, &mut counts), None);
        }
        let expected = StallCounts { this_side_stalls: 1, network_stalls: 1, other_side_stalls: 1 };
        assert_eq!((counts, counts.all()), (expected, 3));
    }
}
