//! How an end rests between two quick looks: by a full fence, or by some pauses.
//!
//! Which is better depends on the CPU, and on how far the line travels. On one CPU a round trip took
//! three quarters of the time with a pause in place of the fence; on another one a pause made it a
//! quarter longer; and a line that comes from far wants more pauses than one that comes from near
//! (docs/design/pipe.md). A virtual machine's CPUs may be moved at any time. So an end tries one more
//! and one less now and then, in rounds of some waits, and keeps what moves the bytes sooner.

/// Waits in a round. A round is timed as a whole, so the clock is read once for as many waits.
const ROUND_WAITS: u32 = 128;
/// Rounds of each of two rests in a trial. Their medians are compared, so that rounds in which this
/// process or the other one was held up do not count.
const ROUNDS: usize = 9;
/// Waits before the first trial, and after a trial that changed the rest; doubled after one that did
/// not.
const FIRST_PATIENCE: u32 = 1 << 10;
const MOST_PATIENCE: u32 = 1 << 15;
const FIRST_PAUSES: u32 = 1;
/// A change must save this part of the time: one of so many. The medians of two such sets of rounds
/// with the same rest differ by 1 to 2 %.
const WORTH: u64 = 32;
/// Bytes for which the cost of a round is given.
const PER_BYTES: u64 = 1 << 20;

/// What one end knows of how to rest.
#[derive(Clone, Debug)]
pub struct Rests {
    /// Pauses between two looks now, and outside a trial.
    pauses: u32,
    kept_pauses: u32,
    /// Waits left in the round, or until the next trial.
    left: u32,
    patience: u32,
    /// Whether the next trial is of one more pause, and not of one less.
    upwards: bool,
    trial: Option<Trial>,
}

impl Default for Rests {
    fn default() -> Rests {
        Rests {
            pauses: FIRST_PAUSES,
            kept_pauses: FIRST_PAUSES,
            left: FIRST_PATIENCE,
            patience: FIRST_PATIENCE,
            upwards: false,
            trial: None,
        }
    }
}

impl Rests {
    /// The largest number of pauses between two looks.
    pub const MOST_PAUSES: u32 = 3;

    /// Returns how many pauses are between two looks of this wait; 0 for a fence.
    #[inline]
    pub fn pauses(&self) -> u32 {
        self.pauses
    }

    /// Counts a wait. Returns whether a round is over: then the caller [goes on](Rests::mark) to the
    /// next one.
    #[inline]
    pub fn begins(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    /// Goes on to the next round. The one that is over took `ns`, and the end moved `bytes` in it.
    pub fn mark(&mut self, ns: u64, bytes: u64) {
        self.left = ROUND_WAITS;
        let chance = scatter(ns);
        match &mut self.trial {
            None => self.begin_trial(chance),
            Some(trial) => {
                let cost = ns.saturating_mul(PER_BYTES) / bytes.max(1);
                if !trial.goes_on(cost, chance) {
                    self.end_trial(chance);
                }
            }
        }
        self.pauses = self.trial.as_ref().map_or(self.kept_pauses, Trial::pauses);
    }

    fn begin_trial(&mut self, chance: u64) {
        let kept = self.kept_pauses;
        self.upwards = (self.upwards || kept == 0) && kept < Rests::MOST_PAUSES;
        let tried = if self.upwards { kept + 1 } else { kept - 1 };
        self.trial = Some(Trial::new(kept, tried, chance));
    }

    fn end_trial(&mut self, chance: u64) {
        let Some(trial) = self.trial.take() else { return };
        let pays = trial.pays();
        if pays && !trial.is_second {
            let second = Trial::new(self.kept_pauses, trial.tried(), chance);
            self.trial = Some(Trial { is_second: true, ..second });
            return;
        }
        if pays {
            self.kept_pauses = trial.tried();
            self.patience = FIRST_PATIENCE;
        } else {
            self.upwards = !self.upwards;
            self.patience = (self.patience * 2).min(MOST_PATIENCE);
        }
        // Two ends that wait for each other in turn would hold their trials at the same time. So
        // each adds a time of its own.
        self.left = self.patience + (chance % u64::from(self.patience)) as u32;
    }
}

/// Rounds of two rests, in random order. Only a second trial, after one that paid, changes the rest.
#[derive(Clone, Debug)]
struct Trial {
    /// What is kept, and what is tried.
    sides: [Side; 2],
    /// The side whose round it is.
    turn: usize,
    is_second: bool,
}

#[derive(Clone, Debug, Default)]
struct Side {
    pauses: u32,
    costs: [u64; ROUNDS],
    rounds: usize,
}

impl Side {
    fn is_over(&self) -> bool {
        self.rounds == ROUNDS
    }

    fn median(&self) -> u64 {
        let mut costs = self.costs;
        costs.sort_unstable();
        costs[ROUNDS / 2]
    }
}

impl Trial {
    fn new(kept: u32, tried: u32, chance: u64) -> Trial {
        let side = |pauses| Side { pauses, ..Side::default() };
        Trial { sides: [side(kept), side(tried)], turn: (chance & 1) as usize, is_second: false }
    }

    fn tried(&self) -> u32 {
        self.sides[1].pauses
    }

    fn pauses(&self) -> u32 {
        self.sides[self.turn].pauses
    }

    /// Takes down what a round cost. Returns whether there is one more.
    fn goes_on(&mut self, cost: u64, chance: u64) -> bool {
        let side = &mut self.sides[self.turn];
        side.costs[side.rounds] = cost;
        side.rounds += 1;
        // By chance: were two ends to take turns in step, each would see what the other one does.
        let next = (chance & 1) as usize;
        self.turn = if self.sides[next].is_over() { 1 - next } else { next };
        !self.sides[self.turn].is_over()
    }

    /// Whether what was tried costs less.
    fn pays(&self) -> bool {
        let [kept, tried] = self.sides.each_ref().map(Side::median);
        tried < kept - kept / WORTH
    }
}

/// Makes a number of which each bit depends on each bit of a time.
fn scatter(ns: u64) -> u64 {
    let mixed = (ns ^ (ns >> 17)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed ^ (mixed >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of a wait by the number of pauses.
    type Times = [u64; 1 + Rests::MOST_PAUSES as usize];

    /// On a CPU where a pause pays and two do not, and on one where a fence is best.
    const PAUSES_PAY: Times = [67, 54, 61, 75];
    const FENCES_PAY: Times = [37, 45, 50, 60];
    const FAR: Times = [250, 210, 170, 200];

    /// Two ends that wait for each other in turn.
    struct Ends {
        ends: [Rests; 2],
        since_ns: [u64; 2],
        now_ns: u64,
        chance: u64,
    }

    impl Ends {
        fn new() -> Ends {
            let ends = [Rests::default(), Rests::default()];
            Ends { ends, since_ns: [0; 2], now_ns: 0, chance: 1 }
        }

        /// Makes round trips; one in `seldom` is held up. Returns the waits with each rest.
        fn trips(&mut self, count: u64, times: Times, seldom: u64) -> [u64; 4] {
            let mut waits = [0; 4];
            for trip in 0..count {
                for (end, since_ns) in self.ends.iter_mut().zip(&mut self.since_ns) {
                    if end.begins() {
                        end.mark(self.now_ns - *since_ns, 256);
                        *since_ns = self.now_ns;
                    }
                    waits[end.pauses() as usize] += 1;
                    self.chance = scatter(self.chance + 1);
                    self.now_ns += times[end.pauses() as usize] + self.chance % 5;
                }
                if trip % seldom == 0 {
                    self.now_ns += 50_000;
                }
            }
            waits
        }
    }

    #[test]
    fn ends_learn_how_to_rest_here_and_learn_anew_when_that_changes() {
        let mut ends = Ends::new();
        for (times, best) in [(PAUSES_PAY, 1), (FENCES_PAY, 0), (FAR, 2), (PAUSES_PAY, 1)] {
            ends.trips(4_000_000, times, 1_000);
            let waits = ends.trips(1_000_000, times, 1_000);
            assert!(waits[best] > 1_950_000, "{waits:?} of two million, {times:?}");
        }
    }

    #[test]
    fn most_ends_have_learned_after_a_hundred_thousand_waits() {
        let mut fences = 0;
        for chance in 0..32 {
            let mut ends = Ends { chance, ..Ends::new() };
            ends.trips(100_000, FENCES_PAY, u64::MAX);
            fences += ends.trips(1_000, FENCES_PAY, u64::MAX)[0];
        }
        assert!(fences > 54_000, "{fences} of 64 thousand");
    }

    #[test]
    fn rests_that_make_no_difference_are_seldom_tried() {
        let mut ends = Ends::new();
        ends.trips(1_000_000, [50; 4], 1_000);
        let waits = ends.trips(1_000_000, [50; 4], 1_000);
        let most = waits.into_iter().max().unwrap_or_default();
        assert!(most > 1_940_000, "{waits:?}");
    }

    #[test]
    fn what_counts_is_the_time_for_each_byte() {
        let mut rests = Rests::default();
        // Each wait takes twice as long with a pause, and three times as many bytes follow it.
        for _ in 0..100_000 {
            let (ns, bytes) = if rests.pauses() == 1 { (2_000, 30) } else { (1_000, 10) };
            if rests.begins() {
                rests.mark(ns, bytes);
            }
        }
        assert_eq!(rests.kept_pauses, 1);
    }
}
