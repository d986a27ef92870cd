//! The looks of the sampler: when the next one is due, what each does, and for how long a time it
//! stands.

use super::look_costs::SampleCosts;
use crate::attribution::Sampler;
use crate::hot::Profiler;
use weir_policy::random::Random;

/// At the start the ticks are closer together: their interval is this share (1/32) of the time that
/// has passed, so short runs have samples too, and no more than a longer one needs.
const CLOSE_SHIFT: u32 = 5;
/// The shortest interval.
const CLOSE_TICK_NS: u64 = 1_000_000;
/// Sampling may take this share of one CPU (1/64); the interval grows when it takes more, as far as
/// [`LookCosts`] counts it.
const COST_SHIFT: u32 = 6;
/// Most ticks that one sample may represent, however long this process had no CPU.
const LONGEST_TICKS: u64 = 20;

/// The looks of one run or watch.
pub struct SampleTimes {
    tick_ns: u64,
    random: Random,
    costs: SampleCosts,
    last_ns: u64,
    due_ns: u64,
}

impl SampleTimes {
    /// Creates looks about `tick_ns` apart, the first of which is due at `start_ns`.
    pub fn new(seed: u64, tick_ns: u64, start_ns: u64) -> SampleTimes {
        let (random, costs) = (Random::new(seed), SampleCosts::default());
        SampleTimes { tick_ns, random, costs, last_ns: start_ns, due_ns: start_ns }
    }

    /// Returns when the next look is due.
    pub fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Looks at the states of all tasks and at the functions in which they compute.
    pub fn sample(&mut self, now_ns: u64, sampler: &mut Sampler, profiler: Option<&mut Profiler>) {
        let since_ns = now_ns.saturating_sub(self.last_ns);
        // Not by the clock: a job stopped just here would not be sampled for minutes.
        let begun_ns = sampler.tracer.sample_ns();
        sampler.tick(now_ns, since_ns.min(self.tick_ns * LONGEST_TICKS));
        if let Some(profiler) = profiler {
            profiler.take();
        }
        let cost_ns = sampler.tracer.sample_ns().saturating_sub(begun_ns);
        self.costs.add(cost_ns, sampler.looked_at);
        self.last_ns = now_ns;
        self.due_ns = now_ns + self.pause_ns(now_ns);
    }

    /// Follows a clock that may have gone back to `now_ns`.
    pub fn turn_back(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.min(now_ns);
        self.due_ns = self.due_ns.min(now_ns + self.tick_ns * 2);
    }

    fn pause_ns(&mut self, now_ns: u64) -> u64 {
        let close_ns = (now_ns >> CLOSE_SHIFT).max(CLOSE_TICK_NS);
        let tick_ns = self.tick_ns.min(close_ns).max(self.costs.usual_ns() << COST_SHIFT);
        // Jitter keeps the ticks out of step with periodic work in the stages.
        tick_ns / 2 + self.random.below(tick_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn pauses_are_short_at_the_start_and_long_when_looks_are_dear() {
        let mut looks = SampleTimes::new(1, 20 * MS, 0);
        let mut pauses = |costs_ns: u64, now_ns: u64| {
            (0..100).for_each(|_| looks.costs.add(costs_ns, 1000));
            (0..100).map(|_| looks.pause_ns(now_ns)).collect::<Vec<_>>()
        };
        let all_in = |pauses: Vec<u64>, tick_ns: u64| {
            pauses.iter().all(|pause| (tick_ns / 2..tick_ns * 3 / 2).contains(pause))
        };
        assert!(all_in(pauses(0, 1), MS));
        assert!(all_in(pauses(0, 320 * MS), 10 * MS));
        assert!(all_in(pauses(0, 60_000 * MS), 20 * MS));
        let dear = pauses(2 * MS, 60_000 * MS);
        assert!(dear.iter().all(|pause| (60 * MS..192 * MS).contains(pause)), "{dear:?}");
    }

    #[test]
    fn after_a_stop_the_next_look_is_not_put_off() {
        let mut looks = SampleTimes::new(1, 20 * MS, 9_000 * MS);
        looks.turn_back(100 * MS);
        assert_eq!((looks.last_ns, looks.due_ns()), (100 * MS, 140 * MS));
        looks.turn_back(120 * MS);
        assert_eq!((looks.last_ns, looks.due_ns()), (100 * MS, 140 * MS));
    }
}
