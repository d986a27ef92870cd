//! Processes that ask and answer each other.

use super::Stage;

/// Fewer turns are not a habit.
const MANY_TURNS: u64 = 200;
/// Turns that take longer on average cost more than the wake-ups.
const LONG_NS: u64 = 20_000_000;
/// If both together compute for longer than this in each turn, the wake-ups are no great part of it.
const LONG_WORK_NS: f64 = 1_000_000.0;
/// One that works for more of the time than this, beside what the kernel does for its calls, holds the
/// other up.
const MOSTLY: f64 = 0.75;
/// Together they work for no more than this: while one works, the other one waits.
const IN_TURN: f64 = 1.1;
/// With the waits for a CPU it is no more than this.
const IN_TURN_QUEUED: f64 = 1.5;
/// In each turn, one sends, goes on for so long, and only then begins to wait.
const OVERLAP_NS: u64 = 15_000;
/// That makes no more than this, however short the turns are.
const OVERLAP: f64 = 0.25;
/// Over a socket, one may only send and the other only receive: then one of them hardly waits for it.
const BOTH_WAIT: f64 = 0.15;

/// Two processes that can send each other something, by two pipes or by a socket.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// What each of them did.
    pub both: [Stage; 2],
    /// How long both lived at the same time.
    pub together_ns: u64,
    /// How often each of them was put on a CPU, at most.
    pub turns: u64,
    /// How often each of them read and wrote, at most; 0 where that is not known. It is put on a CPU less
    /// often where the answer is there before it waits.
    pub calls: u64,
    /// Whether a socket joins them, and not two pipes.
    pub by_socket: bool,
    /// The stage of a pipeline inside of which both were.
    pub inside: Option<usize>,
}

impl Exchange {
    /// Whether they waited in turn for each other, many times, and neither of them is slow.
    pub fn is_lock_step(&self) -> bool {
        let busy = |stage: &Stage| {
            let times = &stage.times;
            // The pipe of a shell to its coprocess counts as a wait for a child.
            let waited_ns =
                times.network_ns + times.unknown_ns + times.child_ns - times.stage_child_ns;
            self.share(times.busy_ns().saturating_sub(waited_ns))
        };
        let own = |stage: &Stage| busy(stage) - self.share(stage.times.work_queue_ns());
        let works = |stage: &Stage| own(stage) - self.share(stage.system_ns);
        let sum = |of: &dyn Fn(&Stage) -> f64| self.both.iter().map(of).sum::<f64>();
        let overlap = self.share(self.turns * OVERLAP_NS).min(OVERLAP);
        // Where the other one is its child, it waits for that.
        let waited = |stage: &Stage| self.share(stage.times.network_ns + stage.times.child_ns);
        let waits = |stage: &Stage| waited(stage) >= BOTH_WAIT;
        // Who mostly waits for room sends more than questions.
        let streams = |stage: &Stage| {
            let times = &stage.times;
            times.output_ns > times.input_ns + times.network_ns + times.child_ns
        };
        self.turns >= MANY_TURNS
            && self.each_ns() <= LONG_NS
            && sum(&works) * self.each_ns() as f64 <= LONG_WORK_NS
            && self.both.iter().all(|stage| works(stage) <= MOSTLY)
            && !self.both.iter().any(streams)
            && (!self.by_socket || self.both.iter().all(waits))
            && sum(&own) <= IN_TURN + overlap
            && sum(&busy) <= IN_TURN_QUEUED + overlap
    }

    /// Returns a time as a share of that in which both lived.
    pub fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.together_ns.max(1) as f64
    }

    /// Returns how often they asked and answered, about.
    pub fn times(&self) -> u64 {
        self.turns.max(self.calls)
    }

    /// Returns how long a turn of both takes.
    pub fn each_ns(&self) -> u64 {
        self.together_ns / self.turns.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MS, stage};

    fn exchange(one: [u64; 3], other: [u64; 3]) -> Exchange {
        let both = [stage("bash", one), stage("bc", other)];
        Exchange { both, together_ns: 1000 * MS, turns: 15_000, ..Exchange::default() }
    }

    /// A shell that asked `bc` 15,000 questions, one after the other: the shell was blamed, or `bc`.
    #[test]
    fn two_that_wait_in_turn_are_in_lock_step() {
        assert!(exchange([450, 30, 500], [310, 20, 650]).is_lock_step());
        // On a busy host both wait for a CPU.
        assert!(exchange([400, 530, 60], [90, 160, 750]).is_lock_step());
        // A shell that reads byte by byte hardly sleeps, and much of what it does is calls.
        let mut calls = exchange([790, 190, 0], [160, 20, 800]);
        assert!(!calls.is_lock_step());
        crate::made::in_kernel(&mut calls.both[0], 200 * MS);
        assert!(calls.is_lock_step());
    }

    /// The kernel still wakes one, or the other still looks up what to do next, while the first answers.
    #[test]
    fn short_turns_overlap_a_little() {
        let mut quick = exchange([440, 10, 540], [740, 300, 0]);
        crate::made::in_kernel(&mut quick.both[1], 150 * MS);
        assert!(quick.is_lock_step());
        // With 300 turns, the time in which both work is no wake-up.
        assert!(!Exchange { turns: 300, ..quick }.is_lock_step());
    }

    #[test]
    fn a_slow_server_and_two_that_work_at_once_are_not() {
        assert!(!exchange([80, 0, 900], [850, 0, 140]).is_lock_step());
        assert!(!exchange([700, 0, 300], [700, 0, 300]).is_lock_step());
        let few = Exchange { turns: 20, ..exchange([450, 30, 500], [310, 20, 650]) };
        assert!(!few.is_lock_step());
    }

    /// Workers of a pool that computed for 5 ms a task, and waited for a CPU as long, were said to lose their
    /// time by being woken.
    #[test]
    fn long_work_in_each_turn_is_no_wake_up() {
        let pool = Exchange { turns: 200, ..exchange([30, 10, 900], [430, 400, 100]) };
        assert_eq!(pool.each_ns(), 5 * MS);
        assert!(!pool.is_lock_step());
        assert!(Exchange { turns: 2000, ..pool }.is_lock_step());
    }

    /// A worker was said to ask and to be answered, which waited until its results were taken.
    #[test]
    fn one_that_waits_for_room_asks_nothing() {
        let mut both = exchange([1000, 0, 0], [10, 30, 0]);
        crate::made::in_kernel(&mut both.both[0], 600 * MS);
        assert!(both.is_lock_step());
        both.both[1].times.output_ns = 960 * MS;
        assert!(!both.is_lock_step());
    }

    /// A client that only receives waits for its server, and that one hardly for the client.
    #[test]
    fn a_stream_over_a_socket_is_no_lock_step() {
        let mut both = Exchange { by_socket: true, ..exchange([300, 0, 0], [400, 0, 0]) };
        both.both[0].times.network_ns = 600 * MS;
        assert!(!both.is_lock_step());
        both.both[1].times.network_ns = 500 * MS;
        assert!(both.is_lock_step());
    }
}
