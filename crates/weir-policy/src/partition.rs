//! A stage's wall time divided among its states: samples brought into line with exact totals.
//!
//! A stage of one task has exact totals (time on a CPU, time waiting for one; the rest is
//! blocked), and samples only divide the blocked time. A stage of several tasks has no exact
//! partition: its samples divide all of its wall time, and its exact sums stand apart.

use crate::state::State;

/// Samples of one stage's state, weighted by the time each stands for.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    weight_ns: [u64; State::COUNT],
    on_cpu_ns: u64,
    count: u64,
}

impl Samples {
    /// Adds a sample that stands for `weight_ns`. Of a running sample, `on_cpu_permille` is the
    /// share of the time in which at least one task had a CPU; of others it is not looked at.
    pub fn add(&mut self, state: State, weight_ns: u64, on_cpu_permille: u32) {
        self.weight_ns[state.index()] += weight_ns;
        if state == State::Running {
            self.on_cpu_ns += weight_ns * u64::from(on_cpu_permille.min(1000)) / 1000;
        }
        self.count += 1;
    }

    /// Adds the samples of another, as if both had been taken of one stage in turn.
    pub fn merge(&mut self, other: &Samples) {
        for (mine, theirs) in self.weight_ns.iter_mut().zip(other.weight_ns) {
            *mine += theirs;
        }
        self.on_cpu_ns += other.on_cpu_ns;
        self.count += other.count;
    }

    /// Number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The partition of a stage of one task, from its exact totals.
    pub fn divide_blocked(&self, wall_ns: u64, cpu_ns: u64, queue_ns: u64) -> Times {
        let cpu_ns = cpu_ns.min(wall_ns);
        let queue_ns = queue_ns.min(wall_ns - cpu_ns);
        let blocked_ns = wall_ns - cpu_ns - queue_ns;
        let mut times = Times { cpu_ns, queue_ns, ..Times::default() };
        let running = State::Running.index();
        let total: u64 = self.weight_ns[..running].iter().sum();
        if total == 0 {
            times.unknown_ns = blocked_ns;
            return times;
        }
        for state in &State::ALL[..running] {
            *times.of(*state) += scale(self.weight_ns[state.index()], blocked_ns, total);
        }
        times
    }

    /// The partition of a stage of several tasks, from samples alone.
    pub fn divide_wall(&self, wall_ns: u64) -> Times {
        let mut times = Times::default();
        let total: u64 = self.weight_ns.iter().sum();
        if total == 0 {
            times.unknown_ns = wall_ns;
            return times;
        }
        for state in State::ALL {
            *times.of(state) += scale(self.weight_ns[state.index()], wall_ns, total);
        }
        let on_cpu = scale(self.on_cpu_ns, wall_ns, total).min(times.cpu_ns);
        times.queue_ns = times.cpu_ns - on_cpu;
        times.cpu_ns = on_cpu;
        times
    }
}

fn scale(part: u64, whole: u64, total: u64) -> u64 {
    (u128::from(part) * u128::from(whole) / u128::from(total)) as u64
}

/// A partition of a stage's wall time. The parts add up to the wall time, rounding apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// On a CPU.
    pub cpu_ns: u64,
    /// Runnable, waiting for a CPU.
    pub queue_ns: u64,
    /// Blocked on input.
    pub input_ns: u64,
    /// Blocked on output.
    pub output_ns: u64,
    /// Blocked on storage.
    pub disk_ns: u64,
    /// Blocked on another file, pipe or FIFO.
    pub file_ns: u64,
    /// Blocked on a lock.
    pub lock_ns: u64,
    /// Blocked on a child.
    pub child_ns: u64,
    /// Part of `child_ns` in which the child was a stage of its own: its work, not this stage's.
    pub stage_child_ns: u64,
    /// Asleep until a time or a signal.
    pub sleep_ns: u64,
    /// Blocked on a socket.
    pub network_ns: u64,
    /// Blocked on a device.
    pub device_ns: u64,
    /// Stopped.
    pub stopped_ns: u64,
    /// Blocked, it is not known on what.
    pub unknown_ns: u64,
}

impl Times {
    /// Time blocked elsewhere than on input or output.
    pub fn other_ns(&self) -> u64 {
        self.disk_ns
            + self.file_ns
            + self.lock_ns
            + self.child_ns
            + self.sleep_ns
            + self.network_ns
            + self.device_ns
            + self.stopped_ns
            + self.unknown_ns
    }

    /// Time in which the stage was not waiting for other stages.
    pub fn busy_ns(&self) -> u64 {
        self.own_ns() + self.queue_ns
    }

    /// Time the stage needs whatever the others do: busy time without the wait for a CPU.
    pub fn own_ns(&self) -> u64 {
        self.cpu_ns + self.other_ns() - self.stage_child_ns
    }

    fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Running => &mut self.cpu_ns,
            State::Disk => &mut self.disk_ns,
            State::Network => &mut self.network_ns,
            State::File => &mut self.file_ns,
            State::Device => &mut self.device_ns,
            State::BlockedOut => &mut self.output_ns,
            State::BlockedIn => &mut self.input_ns,
            State::Sleep => &mut self.sleep_ns,
            State::Lock => &mut self.lock_ns,
            State::Child => &mut self.child_ns,
            State::Unknown => &mut self.unknown_ns,
            State::Stopped => &mut self.stopped_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn samples(of: &[(State, u64)]) -> Samples {
        let mut samples = Samples::default();
        for (state, ms) in of {
            samples.add(*state, ms * MS, 1000);
        }
        samples
    }

    #[test]
    fn one_task_keeps_its_exact_totals_and_samples_divide_only_what_is_blocked() {
        let taken = samples(&[(State::Running, 90), (State::BlockedIn, 30), (State::Sleep, 10)]);
        let times = taken.divide_blocked(100 * MS, 50 * MS, 10 * MS);
        assert_eq!((times.cpu_ns, times.queue_ns), (50 * MS, 10 * MS));
        assert_eq!((times.input_ns, times.sleep_ns), (30 * MS, 10 * MS));
        assert_eq!(times.busy_ns(), 70 * MS);
        assert_eq!(times.own_ns(), 60 * MS);
    }

    #[test]
    fn without_samples_blocked_time_is_unknown_not_invented() {
        let times = Samples::default().divide_blocked(100, 30, 20);
        assert_eq!(times.unknown_ns, 50);
        assert_eq!(Samples::default().divide_wall(100).unknown_ns, 100);
    }

    #[test]
    fn several_tasks_divide_the_wall_and_split_running_by_who_had_a_cpu() {
        let mut taken = samples(&[(State::BlockedOut, 50)]);
        taken.add(State::Running, 50 * MS, 500);
        let times = taken.divide_wall(200 * MS);
        assert_eq!(times.output_ns, 100 * MS);
        assert_eq!((times.cpu_ns, times.queue_ns), (50 * MS, 50 * MS));
    }

    #[test]
    fn totals_beyond_the_wall_are_cut_to_it() {
        let times = samples(&[(State::Sleep, 1)]).divide_blocked(100, 90, 30);
        assert_eq!((times.cpu_ns, times.queue_ns, times.sleep_ns), (90, 10, 0));
    }

    #[test]
    fn merging_is_adding() {
        let mut left = samples(&[(State::Sleep, 10)]);
        left.merge(&samples(&[(State::Disk, 30)]));
        assert_eq!(left.count(), 2);
        assert_eq!(left.divide_wall(40 * MS).disk_ns, 30 * MS);
    }
}
