//! How an end rests between two quick looks: by a fence of some kind, or by some pauses.
//!
//! Which is better depends on the CPU, on the length of a record, and on how far the line travels. On
//! one CPU a round trip took three quarters of the time with a pause in place of a full fence; on
//! another one a pause made it a quarter longer; and on a third one a fence for loads was best for
//! records of 48 bytes, and waiting for the own stores for those of 4 (docs/design/pipe.md). A virtual
//! machine's CPUs may be moved at any time. So an end tries other rests now and then, in rounds of some
//! waits, and keeps what moves the bytes sooner.

/// What an end does between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It passes a full fence.
    Fence,
    /// It waits until the last look has its value.
    Loads,
    /// It waits once until its own stores are visible, and then pauses after each look.
    Stores,
    /// It pauses.
    Pause,
    /// It pauses twice.
    TwoPauses,
    /// It pauses three times.
    ThreePauses,
}

impl Rest {
    /// The rests that are tried from this one, in turn. From each one any other is reached by steps of
    /// which each may pay.
    fn others(self) -> &'static [Rest] {
        match self {
            Rest::Fence => &[Rest::Loads, Rest::Pause, Rest::Stores],
            Rest::Loads => &[Rest::Stores, Rest::Pause, Rest::Fence, Rest::TwoPauses],
            Rest::Stores => &[Rest::Loads, Rest::Pause, Rest::Fence, Rest::TwoPauses],
            Rest::Pause => &[Rest::Loads, Rest::TwoPauses, Rest::Stores, Rest::Fence],
            Rest::TwoPauses => &[Rest::Pause, Rest::ThreePauses, Rest::Stores],
            Rest::ThreePauses => &[Rest::TwoPauses, Rest::Pause],
        }
    }
}

/// Waits in a round. A round is timed as a whole, so the clock is read once for as many waits.
const ROUND_WAITS: u32 = 128;
/// Rounds of each of two rests in a trial. Their medians are compared, so that rounds in which this
/// process or the other one was held up do not count.
const ROUNDS: usize = 9;
/// Rounds of each after which a trial ends early, if what is tried costs more by one of so many parts.
/// It would not pay, and each further round would cost as much.
const FEWEST_ROUNDS: usize = 3;
const TOO_DEAR: u64 = 8;
/// Waits before the first trial, and after a trial that changed the rest; doubled once all others have
/// been tried and none changed it.
const FIRST_PATIENCE: u32 = 1 << 10;
const MOST_PATIENCE: u32 = 1 << 15;
const FIRST_REST: Rest = Rest::Loads;
/// A change must save this part of the time: one of so many. The medians of two such sets of rounds
/// with the same rest differ by 1 to 2 %.
const WORTH: u64 = 32;
/// Bytes for which the cost of a round is given.
const PER_BYTES: u64 = 1 << 20;

/// What one end knows of how to rest.
#[derive(Clone, Debug)]
pub struct Rests {
    /// The rest now, and outside a trial.
    rest: Rest,
    kept: Rest,
    /// Waits left in the round, or until the next trial.
    left: u32,
    patience: u32,
    /// Trials since the rest was changed.
    trials: usize,
    trial: Option<Trial>,
}

impl Default for Rests {
    fn default() -> Rests {
        Rests {
            rest: FIRST_REST,
            kept: FIRST_REST,
            left: FIRST_PATIENCE,
            patience: FIRST_PATIENCE,
            trials: 0,
            trial: None,
        }
    }
}

impl Rests {
    /// Returns the rest between two looks of this wait.
    #[inline]
    pub fn rest(&self) -> Rest {
        self.rest
    }

    /// Counts a wait. Returns whether a round is over: then the caller [continues](Rests::mark) to
    /// the next one.
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
        self.rest = self.trial.as_ref().map_or(self.kept, Trial::rest);
    }

    fn begin_trial(&mut self, chance: u64) {
        let others = self.kept.others();
        let tried = others[self.trials % others.len()];
        self.trials += 1;
        self.trial = Some(Trial::new(self.kept, tried, chance));
    }

    fn end_trial(&mut self, chance: u64) {
        let Some(trial) = self.trial.take() else { return };
        let pays = trial.pays();
        if pays && !trial.is_second {
            let second = Trial::new(self.kept, trial.tried(), chance);
            self.trial = Some(Trial { is_second: true, ..second });
            return;
        }
        if pays {
            self.kept = trial.tried();
            self.trials = 0;
            self.patience = FIRST_PATIENCE;
        } else if self.trials.is_multiple_of(self.kept.others().len()) {
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

#[derive(Clone, Debug)]
struct Side {
    rest: Rest,
    costs: [u64; ROUNDS],
    rounds: usize,
}

impl Side {
    fn is_over(&self) -> bool {
        self.rounds == ROUNDS
    }

    /// The median of its rounds so far, of which there is one at least.
    fn median(&self) -> u64 {
        let mut costs = self.costs;
        let costs = &mut costs[..self.rounds];
        costs.sort_unstable();
        costs[self.rounds / 2]
    }
}

impl Trial {
    fn new(kept: Rest, tried: Rest, chance: u64) -> Trial {
        let side = |rest| Side { rest, costs: [0; ROUNDS], rounds: 0 };
        Trial { sides: [side(kept), side(tried)], turn: (chance & 1) as usize, is_second: false }
    }

    fn tried(&self) -> Rest {
        self.sides[1].rest
    }

    fn rest(&self) -> Rest {
        self.sides[self.turn].rest
    }

    /// Takes down what a round cost. Returns whether there is one more.
    fn goes_on(&mut self, cost: u64, chance: u64) -> bool {
        let side = &mut self.sides[self.turn];
        side.costs[side.rounds] = cost;
        side.rounds += 1;
        // By chance: were two ends to take turns in step, each would see what the other one does.
        let next = (chance & 1) as usize;
        self.turn = if self.sides[next].is_over() { 1 - next } else { next };
        !self.sides[self.turn].is_over() && !self.is_too_dear()
    }

    /// Whether what is tried costs so much more that the trial need not continue.
    fn is_too_dear(&self) -> bool {
        if self.sides.iter().any(|side| side.rounds < FEWEST_ROUNDS) {
            return false;
        }
        let [kept, tried] = self.sides.each_ref().map(Side::median);
        tried > kept.saturating_add(kept / TOO_DEAR)
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

    const RESTS: [Rest; 6] =
        [Rest::Fence, Rest::Loads, Rest::Stores, Rest::Pause, Rest::TwoPauses, Rest::ThreePauses];

    /// The time of a wait by its rest, in the order of [`RESTS`].
    type Times = [u64; 6];

    /// On a CPU where a pause pays and two do not; on one where a full fence is best; where lines come
    /// from far; and for two lengths of records on a third CPU.
    const PAUSES_PAY: Times = [67, 62, 60, 54, 61, 75];
    const FENCES_PAY: Times = [37, 42, 46, 45, 50, 60];
    const FAR: Times = [250, 230, 220, 210, 170, 200];
    const LOADS_PAY: Times = [76, 69, 84, 76, 87, 99];
    const STORES_PAY: Times = [54, 51, 47, 51, 62, 75];

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
        fn trips(&mut self, count: u64, times: Times, seldom: u64) -> Times {
            let mut waits = [0; 6];
            for trip in 0..count {
                for (end, since_ns) in self.ends.iter_mut().zip(&mut self.since_ns) {
                    if end.begins() {
                        end.mark(self.now_ns - *since_ns, 256);
                        *since_ns = self.now_ns;
                    }
                    let rest = RESTS.iter().position(|rest| *rest == end.rest()).unwrap_or(0);
                    waits[rest] += 1;
                    self.chance = scatter(self.chance + 1);
                    self.now_ns += times[rest] + self.chance % 5;
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
        let all = [PAUSES_PAY, FENCES_PAY, FAR, LOADS_PAY, STORES_PAY, FAR, PAUSES_PAY];
        for times in all {
            let best = (0..6).min_by_key(|rest| times[*rest]).expect("some");
            ends.trips(4_000_000, times, 1_000);
            let waits = ends.trips(1_000_000, times, 1_000);
            assert!(waits[best] > 1_930_000, "{waits:?} of two million, {times:?}");
        }
    }

    #[test]
    fn most_ends_have_learned_after_a_hundred_thousand_waits() {
        for times in [PAUSES_PAY, FENCES_PAY, FAR, LOADS_PAY, STORES_PAY] {
            let best = (0..6).min_by_key(|rest| times[*rest]).expect("some");
            let mut right = 0;
            for chance in 0..32 {
                let mut ends = Ends { chance, ..Ends::new() };
                ends.trips(100_000, times, u64::MAX);
                right += ends.trips(1_000, times, u64::MAX)[best];
            }
            assert!(right > 54_000, "{right} of 64 thousand, {times:?}");
        }
    }

    #[test]
    fn rests_that_make_no_difference_are_seldom_tried() {
        let mut ends = Ends::new();
        ends.trips(1_000_000, [50; 6], 1_000);
        let waits = ends.trips(1_000_000, [50; 6], 1_000);
        let most = waits.into_iter().max().unwrap_or_default();
        assert!(most > 1_940_000, "{waits:?}");
    }

    /// Where all others are twice as slow, half of each trial was spent with one of them.
    #[test]
    fn rests_that_cost_much_more_are_tried_for_a_short_time() {
        let mut ends = Ends::new();
        let waits = ends.trips(100_000, [100, 50, 100, 100, 100, 100], 1_000);
        let others = 200_000 - waits[1];
        assert!(others < 20_000, "{waits:?}");
    }

    #[test]
    fn every_rest_is_reached_from_every_other() {
        for first in RESTS {
            let mut reached = RESTS.map(|rest| rest == first);
            for _ in RESTS {
                let from = reached;
                for (from, _) in RESTS.iter().zip(from).filter(|(_, reached)| *reached) {
                    for (rest, reached) in RESTS.iter().zip(&mut reached) {
                        *reached |= from.others().contains(rest);
                    }
                }
            }
            assert_eq!(reached, [true; 6], "from {first:?}");
        }
    }

    #[test]
    fn what_counts_is_the_time_for_each_byte() {
        let mut rests = Rests::default();
        // Each wait takes twice as long with a pause, and three times as many bytes follow it.
        for _ in 0..100_000 {
            let paused = rests.rest() == Rest::Pause;
            let (ns, bytes) = if paused { (2_000, 30) } else { (1_000, 10) };
            if rests.begins() {
                rests.mark(ns, bytes);
            }
        }
        assert_eq!(rests.kept, Rest::Pause);
    }

    /// Rounds of an end to which nothing came for days cost so much that a part more did not fit.
    #[test]
    fn rounds_that_last_for_days_are_compared() {
        let mut rests = Rests::default();
        (0..64).for_each(|_| rests.mark(u64::MAX / PER_BYTES, 0));
        assert_eq!(rests.kept, Rests::default().kept, "none is better");
    }
}
