//! What a stage does while its input is empty: waiting that looks like work.
//!
//! A stage that polls sleeps between two looks at its input, and one that spins uses a CPU, so neither
//! is found blocked in a read. Its counters tell: it moves no byte while its input is empty.

use crate::partition::{Samples, Times};
use crate::state::TaskState;

/// Fewer such times show no habit.
const ENOUGH_ENDS: u64 = 2;
/// A stage that waited for its input in a read for more than this part of the time does not poll.
const SELDOM: f64 = 0.1;
/// Running for a shorter time beside a task that waits for input shows nothing.
const SPIN_NS: u64 = 50_000_000;

/// What a stage was found doing while the pipe of its input was empty and open, and it moved no byte, by
/// the time that the samples represent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dry {
    /// Whether a read of its input never blocks (`O_NONBLOCK`), and it sleeps by the clock: so it waits.
    pub never_blocks: bool,
    /// Asleep.
    pub slept_ns: u64,
    /// Part of it after it had asked for input in vain.
    pub asked_asleep_ns: u64,
    /// Running, and it asked for input in vain meanwhile.
    pub asked_running_ns: u64,
    /// Part of it that was not the first time since it had last moved a byte.
    pub napped_ns: u64,
    /// Running between such naps.
    pub woke_ns: u64,
    /// How often such a time of sleeping ended with bytes that it moved.
    pub ends: u64,
    /// Running while another of its tasks waited for input.
    pub ran_beside_ns: u64,
    /// Blocked on input, and none of its tasks did anything else.
    pub waited_ns: u64,
    /// Running after the pipe had been closed.
    pub after_ns: u64,
}

impl Dry {
    /// Returns the sums of both.
    pub fn plus(self, other: Dry) -> Dry {
        Dry {
            never_blocks: self.never_blocks || other.never_blocks,
            slept_ns: self.slept_ns + other.slept_ns,
            asked_asleep_ns: self.asked_asleep_ns + other.asked_asleep_ns,
            asked_running_ns: self.asked_running_ns + other.asked_running_ns,
            napped_ns: self.napped_ns + other.napped_ns,
            woke_ns: self.woke_ns + other.woke_ns,
            ends: self.ends + other.ends,
            ran_beside_ns: self.ran_beside_ns + other.ran_beside_ns,
            waited_ns: self.waited_ns + other.waited_ns,
            after_ns: self.after_ns + other.after_ns,
        }
    }

    /// Whether its naps were for input. What it read at once it may work on for long, sleeping; then it
    /// waits in a read.
    fn naps(&self) -> bool {
        self.ends >= ENOUGH_ENDS && self.hardly_waited(self.napped_ns)
    }

    /// Returns the time asleep that was waiting for input.
    fn asleep_ns(&self, samples: &Samples) -> u64 {
        let whole_ns = samples.weight_ns(TaskState::Sleep);
        match self.never_blocks && 2 * self.slept_ns >= whole_ns {
            // The pipe fills during a nap too.
            true => whole_ns,
            false => self.asked_asleep_ns + if self.naps() { self.napped_ns } else { 0 },
        }
    }

    /// Returns the time running that was waiting for input.
    fn running_ns(&self) -> u64 {
        // Threads that work on what another one read are done with it at times, or have some left
        // in the end.
        let little_left = (self.after_ns as f64) < SELDOM * self.ran_beside_ns as f64;
        let enough = self.ran_beside_ns >= SPIN_NS;
        let spins = enough && little_left && self.hardly_waited(self.ran_beside_ns);
        let spun_ns = if spins { self.ran_beside_ns } else { 0 };
        self.asked_running_ns + spun_ns + if self.naps() { self.woke_ns } else { 0 }
    }

    fn hardly_waited(&self, ns: u64) -> bool {
        (self.waited_ns as f64) < SELDOM * ns as f64
    }

    /// Whether the stage waited for its input in a way that looks like work.
    pub fn polls(&self) -> bool {
        self.asked_asleep_ns + self.running_ns() > 0
            || self.naps() && self.napped_ns > 0
            || self.never_blocks && self.slept_ns > 0
    }

    /// Corrects a partition that comes from these samples: naps become waiting for input, and of the
    /// time on a CPU and the wait for one the spinning is told.
    pub fn settle(&self, times: Times, samples: &Samples) -> Times {
        let share = |ns: u64, state: TaskState| match samples.weight_ns(state) {
            0 => 0.0,
            whole => (ns as f64 / whole as f64).min(1.0),
        };
        let of = |time_ns: u64, share: f64| (time_ns as f64 * share) as u64;
        let napped_ns = of(times.sleep_ns, share(self.asleep_ns(samples), TaskState::Sleep));
        let spun = share(self.running_ns(), TaskState::Running);
        // Whether it slept because of what it had moved, or to look again later, is not known.
        let doubtful_ns = self.slept_ns.saturating_sub(self.asleep_ns(samples));
        Times {
            doubtful_ns: of(times.sleep_ns, share(doubtful_ns, TaskState::Sleep)),
            sleep_ns: times.sleep_ns - napped_ns,
            input_ns: times.input_ns + napped_ns,
            napped_ns,
            spun_cpu_ns: of(times.cpu_ns, spun),
            spun_queue_ns: of(times.queue_ns, spun),
            ..times
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Of a second: 700 ms asleep, 200 ms running, 50 ms blocked on input, 50 ms unknown.
    fn settled(dry: Dry) -> Times {
        let mut samples = Samples::default();
        samples.add(TaskState::Sleep, 700 * MS, 0);
        samples.add(TaskState::Running, 200 * MS, 1000);
        samples.add(TaskState::BlockedIn, 100 * MS, 0);
        dry.settle(samples.divide_blocked(1000 * MS, 200 * MS, 0), &samples)
    }

    /// A program that asked a pipe again and again, with naps of a millisecond, was the next limit of
    /// a pipeline: "at most 1.2x faster" where replacing the stage before it gave 9x.
    #[test]
    fn naps_on_an_empty_pipe_are_waiting_for_input() {
        let asks = Dry { slept_ns: 600 * MS, asked_asleep_ns: 600 * MS, ..Dry::default() };
        let times = settled(asks);
        assert_eq!((times.sleep_ns / MS, times.input_ns / MS), (100, 700));
        assert_eq!((times.napped_ns / MS, times.busy_ns() / MS), (600, 300));
        assert!(asks.polls());
    }

    /// A perl with a non-blocking input slept for three milliseconds whenever it had read all.
    #[test]
    fn who_never_blocks_in_a_read_sleeps_to_look_again() {
        let polls = Dry { never_blocks: true, slept_ns: 600 * MS, ..Dry::default() };
        let times = settled(polls);
        assert_eq!((times.sleep_ns / MS, times.napped_ns / MS, times.doubtful_ns), (0, 700, 0));
        assert!(polls.polls());
        // One that keeps to a rate sleeps while its input is full.
        let rate = Dry { slept_ns: 100 * MS, ..polls };
        assert_eq!((settled(rate).sleep_ns / MS, settled(rate).doubtful_ns / MS), (700, 100));
    }

    #[test]
    fn naps_that_asked_nothing_count_once_they_are_a_habit_and_it_never_waits_otherwise() {
        let (ends, waited_ns) = (3, 10 * MS);
        let naps =
            Dry { slept_ns: 600 * MS, napped_ns: 600 * MS, ends, waited_ns, ..Dry::default() };
        assert_eq!(settled(naps).napped_ns / MS, 600);
        // One that works on lines that it read at once, and then waits for more.
        let works = Dry { waited_ns: 100 * MS, ..naps };
        for other in [works, Dry { ends: 1, ..naps }] {
            let (times, plain) = (settled(other), settled(Dry::default()));
            assert_eq!((times.sleep_ns, times.busy_ns()), (plain.sleep_ns, plain.busy_ns()));
            assert_eq!(times.sure_own_ns() / MS, 300, "a bound does not rest on it");
            assert!(!other.polls());
        }
    }

    #[test]
    fn spinning_uses_a_cpu_and_is_no_work() {
        let spins = Dry { ran_beside_ns: 150 * MS, after_ns: 5 * MS, ..Dry::default() };
        let times = settled(spins);
        assert_eq!((times.cpu_ns / MS, times.spun_cpu_ns / MS), (200, 150));
        assert_eq!((times.own_ns() / MS, times.sure_own_ns() / MS), (750, 750));
        // Threads that compute what another one has read.
        let works = Dry { waited_ns: 50 * MS, ..spins };
        assert_eq!(settled(works).spun_cpu_ns, 0);
        let behind = Dry { after_ns: 50 * MS, ..spins };
        assert_eq!(settled(behind).spun_cpu_ns, 0);
        let asks = Dry { asked_running_ns: 100 * MS, ..works };
        assert_eq!(settled(asks).spun_cpu_ns / MS, 100);
    }
}
