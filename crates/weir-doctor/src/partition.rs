//! Divides a stage's wall time among its states: samples adjusted to exact totals.
//!
//! A stage of one task has exact totals (time on a CPU, time waiting for one; the rest is blocked),
//! and samples only divide the blocked time. A stage of several tasks has no exact partition: its
//! samples divide all of its wall time, and its exact sums are separate figures.

use crate::state::TaskState;

/// A sample of a wait is good evidence for this many times its weight at most. A look takes a CPU,
/// and during it a stage with short waits becomes ready: it is met waiting too seldom.
const MOST_FOR_ONE: u64 = 16;

/// Samples of one stage's state, each weighted by the time it represents.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    weight_ns: [u64; TaskState::ALL.len()],
    on_cpu_ns: u64,
    count: u64,
}

impl Samples {
    /// Adds a sample that represents `weight_ns`. For a running sample, `on_cpu_permille` is the
    /// share of the time in which at least one task had a CPU; for others it is ignored.
    pub fn add(&mut self, state: TaskState, weight_ns: u64, on_cpu_permille: u32) {
        self.weight_ns[state.index()] += weight_ns;
        if state == TaskState::Running {
            self.on_cpu_ns += weight_ns * u64::from(on_cpu_permille.min(1000)) / 1000;
        }
        self.count += 1;
    }

    /// Adds exact times by state, in the order of [`TaskState::ALL`]. For `on_cpu_ns` of them at least
    /// one task had a CPU. They count as no sample.
    pub fn add_times(&mut self, state_ns: &[u64; TaskState::ALL.len()], on_cpu_ns: u64) {
        for (mine, theirs) in self.weight_ns.iter_mut().zip(state_ns) {
            *mine += theirs;
        }
        self.on_cpu_ns += on_cpu_ns;
    }

    /// Counts a sample whose time is in what [`Samples::add_times`] adds.
    pub fn count_sample(&mut self) {
        self.count += 1;
    }

    /// Merges other samples, as if all had been taken of one stage in turn.
    pub fn merge(&mut self, other: &Samples) {
        for (mine, theirs) in self.weight_ns.iter_mut().zip(other.weight_ns) {
            *mine += theirs;
        }
        self.on_cpu_ns += other.on_cpu_ns;
        self.count += other.count;
    }

    /// Returns what came since `earlier`, which is what these were at some time.
    pub fn since(&self, earlier: &Samples) -> Samples {
        let since = |at: usize| self.weight_ns[at].saturating_sub(earlier.weight_ns[at]);
        Samples {
            weight_ns: core::array::from_fn(since),
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            count: self.count.saturating_sub(earlier.count),
        }
    }

    /// Returns the time that the samples of a state represent.
    pub fn weight_ns(&self, state: TaskState) -> u64 {
        self.weight_ns[state.index()]
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Makes the partition of a stage of one task, from its exact totals.
    pub fn divide_blocked(&self, wall_ns: u64, cpu_ns: u64, queue_ns: u64) -> Times {
        let cpu_ns = cpu_ns.min(wall_ns);
        let queue_ns = queue_ns.min(wall_ns - cpu_ns);
        let blocked_ns = wall_ns - cpu_ns - queue_ns;
        let blocked = &TaskState::ALL[..TaskState::Running.index()];
        let met_ns: u64 = blocked.iter().map(|state| self.weight_ns[state.index()]).sum();
        let unseen_ns = blocked_ns.saturating_sub(met_ns.saturating_mul(MOST_FOR_ONE));
        Times { cpu_ns, queue_ns, unseen_ns, ..self.divide(blocked, blocked_ns).0 }
    }

    /// Makes the partition of a stage of several tasks, from samples alone.
    pub fn divide_wall(&self, wall_ns: u64) -> Times {
        let (mut times, total) = self.divide(TaskState::ALL, wall_ns);
        let on_cpu = if total == 0 { 0 } else { scale(self.on_cpu_ns, wall_ns, total) };
        times.queue_ns = times.cpu_ns.saturating_sub(on_cpu);
        times.cpu_ns -= times.queue_ns;
        times
    }

    /// Divides a time among these states by their samples; without samples, it is unknown. Returns
    /// the weight of the samples too.
    fn divide(&self, states: &[TaskState], whole_ns: u64) -> (Times, u64) {
        let mut times = Times::default();
        let total = states.iter().map(|state| self.weight_ns[state.index()]).sum();
        for state in states.iter().filter(|_| total > 0) {
            *times.of(*state) = scale(self.weight_ns[state.index()], whole_ns, total);
        }
        if total == 0 {
            times.unknown_ns = whole_ns;
        }
        (times, total)
    }
}

/// Sums over all tasks of a stage, which bound its partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// CPU time of all tasks, if known exactly.
    pub cpu_ns: Option<u64>,
    /// Time that samples found tasks waiting for a CPU, summed over the tasks.
    pub queue_ns: u64,
}

impl Times {
    /// Makes the partition of a stage of several tasks, bounded by its sums: some task cannot have
    /// been on a CPU for longer than all its tasks together.
    ///
    /// Samples show more than that for tasks that run for microseconds at a time: a tick that wakes
    /// this process often finds them just made runnable. So the excess becomes waiting for a CPU,
    /// as far as the tasks' sums of that allow, and the rest becomes waiting for whatever else they
    /// were found waiting for.
    pub fn within(self, sums: &Sums) -> Times {
        let excess_ns = sums.cpu_ns.map_or(0, |most| self.cpu_ns.saturating_sub(most));
        if excess_ns == 0 {
            return self;
        }
        let mut times = Times { cpu_ns: self.cpu_ns - excess_ns, ..self };
        let queued_ns = excess_ns.min(sums.queue_ns.saturating_sub(self.queue_ns));
        times.queue_ns += queued_ns;
        let rest_ns = excess_ns - queued_ns;
        let running = TaskState::Running.index();
        let blocked_ns: u64 = TaskState::ALL[..running].iter().map(|state| *times.of(*state)).sum();
        let mut left_ns = rest_ns;
        for state in &TaskState::ALL[..running] {
            let time = times.of(*state);
            let part_ns = if blocked_ns == 0 { 0 } else { scale(*time, rest_ns, blocked_ns) };
            *time += part_ns;
            left_ns -= part_ns;
        }
        // The rounding error, or all of it if nothing is known of its waits.
        times.unknown_ns += left_ns;
        times
    }
}

fn scale(part: u64, whole: u64, total: u64) -> u64 {
    (u128::from(part) * u128::from(whole) / u128::from(total)) as u64
}

/// A partition of a stage's wall time. The parts add up to the wall time, except for rounding.
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
    /// Part of `child_ns` in which the child was a stage itself: that work is not this stage's.
    pub stage_child_ns: u64,
    /// Asleep until a time or a signal.
    pub sleep_ns: u64,
    /// Blocked on a socket.
    pub network_ns: u64,
    /// Blocked on a device.
    pub device_ns: u64,
    /// Stopped.
    pub stopped_ns: u64,
    /// Blocked on something unknown.
    pub unknown_ns: u64,
    /// Part of the blocked time that is divided by too few samples to be sure, or by none.
    pub unseen_ns: u64,
    /// Part of `input_ns` in which it slept, and asked for input in between.
    pub napped_ns: u64,
    /// Part of `sleep_ns` that may have been for input too.
    pub doubtful_ns: u64,
    /// Part of `cpu_ns` in which it only asked for input, or waited for it without sleeping.
    pub spun_cpu_ns: u64,
    /// That part of `queue_ns`.
    pub spun_queue_ns: u64,
}

impl Times {
    /// Corrects the waits that too few samples met: they were for this.
    pub fn unseen_was(self, state: TaskState) -> Times {
        let waits = &TaskState::ALL[..TaskState::Running.index()];
        let mut times = Times { unseen_ns: 0, ..self };
        let blocked_ns: u64 = waits.iter().map(|wait| *times.of(*wait)).sum();
        let unseen_ns = self.unseen_ns.min(blocked_ns);
        let mut left_ns = blocked_ns;
        for wait in waits.iter().filter(|_| blocked_ns > 0) {
            let time = times.of(*wait);
            *time = scale(*time, blocked_ns - unseen_ns, blocked_ns);
            left_ns -= *time;
        }
        *times.of(state) += left_ns;
        times
    }

    /// Returns the time blocked on anything but input or output.
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

    /// Returns the time in which the stage was not waiting for other stages.
    pub fn busy_ns(&self) -> u64 {
        self.own_ns() + self.work_queue_ns()
    }

    /// Returns its time on a CPU without what it spun while its input was empty.
    pub fn work_cpu_ns(&self) -> u64 {
        self.cpu_ns - self.spun_cpu_ns
    }

    /// Returns its time waiting for a CPU without that.
    pub fn work_queue_ns(&self) -> u64 {
        self.queue_ns - self.spun_queue_ns
    }

    /// Takes up to this much of the waits of a process, none of which may have had another cause, for waits
    /// for what it started: a pool waits for a lock, an event loop in `epoll`, a reader for a pipe.
    pub fn waits_for_children(mut self, most_ns: u64) -> Times {
        let mut left_ns = most_ns;
        let waits = [
            &mut self.lock_ns,
            &mut self.file_ns,
            &mut self.sleep_ns,
            &mut self.network_ns,
            &mut self.unknown_ns,
        ];
        for wait in waits {
            let taken_ns = left_ns.min(*wait);
            *wait -= taken_ns;
            left_ns -= taken_ns;
        }
        self.child_ns += most_ns - left_ns;
        self.stage_child_ns += most_ns - left_ns;
        self
    }

    /// Returns the time the stage needs on its own: busy time without the wait for a CPU.
    pub fn own_ns(&self) -> u64 {
        self.work_cpu_ns() + self.other_ns() - self.stage_child_ns
    }

    /// Returns that time without the waits that may have been for other stages: hidden ones, and those
    /// that too few samples met.
    pub fn sure_own_ns(&self) -> u64 {
        let waits_ns = self.own_ns() - self.work_cpu_ns() - self.unknown_ns;
        self.work_cpu_ns() + waits_ns.saturating_sub(self.unseen_ns + self.doubtful_ns)
    }

    /// Returns the time of waits that no program needs only to be started.
    pub fn idle_ns(&self) -> u64 {
        let outside_ns = self.network_ns + self.file_ns + self.device_ns;
        outside_ns + self.sleep_ns + self.lock_ns + self.stopped_ns
    }

    fn of(&mut self, state: TaskState) -> &mut u64 {
        match state {
            TaskState::Running => &mut self.cpu_ns,
            TaskState::Disk => &mut self.disk_ns,
            TaskState::Network => &mut self.network_ns,
            TaskState::File => &mut self.file_ns,
            TaskState::Device => &mut self.device_ns,
            TaskState::BlockedOut => &mut self.output_ns,
            TaskState::BlockedIn => &mut self.input_ns,
            TaskState::Sleep => &mut self.sleep_ns,
            TaskState::Lock => &mut self.lock_ns,
            TaskState::Child => &mut self.child_ns,
            TaskState::Unknown => &mut self.unknown_ns,
            TaskState::Stopped => &mut self.stopped_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn samples(of: &[(TaskState, u64)]) -> Samples {
        let mut samples = Samples::default();
        for (state, ms) in of {
            samples.add(*state, ms * MS, 1000);
        }
        samples
    }

    #[test]
    fn one_task_keeps_its_exact_totals_and_samples_divide_only_what_is_blocked() {
        let taken = samples(&[
            (TaskState::Running, 90),
            (TaskState::BlockedIn, 30),
            (TaskState::Sleep, 10),
        ]);
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

    /// One sample of a disk among ninety of a stage that ran: all of its blocked time was called
    /// waiting for the disk.
    #[test]
    fn one_sample_of_a_wait_does_not_stand_for_all_of_them() {
        let taken = samples(&[(TaskState::Running, 900), (TaskState::Disk, 10)]);
        let times = taken.divide_blocked(1000 * MS, 200 * MS, 0);
        assert_eq!((times.disk_ns, times.unseen_ns), (800 * MS, 640 * MS));
        let fed = times.unseen_was(TaskState::BlockedIn);
        assert_eq!((fed.disk_ns, fed.input_ns, fed.unseen_ns), (160 * MS, 640 * MS, 0));
    }

    #[test]
    fn several_tasks_divide_the_wall_and_split_running_by_who_had_a_cpu() {
        let mut taken = samples(&[(TaskState::BlockedOut, 50)]);
        taken.add(TaskState::Running, 50 * MS, 500);
        let times = taken.divide_wall(200 * MS);
        assert_eq!(times.output_ns, 100 * MS);
        assert_eq!((times.cpu_ns, times.queue_ns), (50 * MS, 50 * MS));
    }

    /// `splice` between two pipes by a stage of several tasks: samples found it running most of the
    /// time, but it used 350 ms.
    #[test]
    fn samples_do_not_say_more_cpu_time_than_was_used() {
        let mut taken = samples(&[(TaskState::BlockedIn, 300), (TaskState::BlockedOut, 100)]);
        taken.add(TaskState::Running, 1180 * MS, 1000);
        let times = taken.divide_wall(1580 * MS);
        assert_eq!(times.cpu_ns, 1180 * MS);
        let sums = Sums { cpu_ns: Some(350 * MS), queue_ns: 30 * MS };
        let held = times.within(&sums);
        assert_eq!((held.cpu_ns, held.queue_ns), (350 * MS, 30 * MS));
        assert_eq!((held.input_ns, held.output_ns), (900 * MS, 300 * MS));
        assert_eq!(held.busy_ns() + held.input_ns + held.output_ns, 1580 * MS);
        // Not bounded where the sums are inexact, nor where they are large enough.
        assert_eq!(times.within(&Sums::default()), times);
        assert_eq!(times.within(&Sums { cpu_ns: Some(1180 * MS), queue_ns: 0 }), times);
        let mut alone = Samples::default();
        alone.add(TaskState::Running, 100, 1000);
        let held = alone.divide_wall(100).within(&Sums { cpu_ns: Some(40), queue_ns: 0 });
        assert_eq!((held.cpu_ns, held.unknown_ns), (40, 60));
    }

    #[test]
    fn totals_beyond_the_wall_are_cut_to_it() {
        let times = samples(&[(TaskState::Sleep, 1)]).divide_blocked(100, 90, 30);
        assert_eq!((times.cpu_ns, times.queue_ns, times.sleep_ns), (90, 10, 0));
    }

    /// A pool in python "waited for a lock 97 % of the time" while what it had started computed.
    #[test]
    fn waits_of_a_parent_are_for_its_children() {
        let (cpu_ns, lock_ns, sleep_ns) = (100, 700, 200);
        let times = Times { cpu_ns, lock_ns, sleep_ns, ..Times::default() };
        let waited = times.waits_for_children(850);
        assert_eq!((waited.lock_ns, waited.sleep_ns, waited.stage_child_ns), (0, 50, 850));
        assert_eq!((waited.busy_ns(), waited.other_ns()), (150, times.other_ns()));
        assert_eq!(times.waits_for_children(5000).busy_ns(), 100);
    }

    #[test]
    fn merging_is_adding() {
        let mut left = samples(&[(TaskState::Sleep, 10)]);
        left.merge(&samples(&[(TaskState::Disk, 30)]));
        assert_eq!(left.count(), 2);
        assert_eq!(left.divide_wall(40 * MS).disk_ns, 30 * MS);
    }
}
