//! What a group does while the pipe of its input is empty and open: waiting that looks like work.
//!
//! Only then, and only while the group is found asleep or running, the bytes and calls of its tasks are
//! read at each tick.

use weir_doctor::facts::{Dry, Io};
use weir_doctor::state::TaskState;
use weir_sys::Pid;

/// What a look showed of a task: its state, and its bytes and calls so far.
pub type Moved = (Pid, TaskState, Io);

/// The state of the pipe that is a group's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// There is no such pipe, or none that can be looked at.
    None,
    /// Bytes are in it.
    Filled,
    /// It is empty, and somebody may write.
    Empty,
    /// Nobody who may write is left.
    Closed,
}

/// Follows a group through the times in which its input is empty.
#[derive(Debug, Default)]
pub struct DryTimes {
    /// What was seen so far.
    pub seen: Dry,
    /// Its tasks at the last look, in such a time.
    before: Option<Vec<Moved>>,
    /// Whether one of them asked for input in vain since bytes were last moved.
    asked: bool,
    /// Whether it has slept again since then.
    naps: bool,
    /// The CPU time of the group when it was first found asleep in the present nap.
    asleep_since_cpu_ns: Option<u64>,
    /// Time asleep, and running, of which it is not known yet what it was for.
    pending: (u64, u64),
    /// Whether it ever had an open input.
    had_input: bool,
}

impl DryTimes {
    /// Whether a look at its tasks is needed.
    pub fn wants_sample(input: Input, state: TaskState) -> bool {
        input == Input::Empty && matches!(state, TaskState::Sleep | TaskState::Running)
    }

    /// Takes a tick that represents `weight_ns` and found the group in this state; `cpu_ns` is its CPU
    /// time so far, `tasks` a look at its tasks where one is needed and possible, and `never_blocks` finds
    /// out whether a read of its input blocks. Returns whether the group may only have waited for input.
    pub fn tick(
        &mut self,
        input: Input,
        state: TaskState,
        (weight_ns, cpu_ns): (u64, u64),
        tasks: Option<Vec<Moved>>,
        never_blocks: impl FnOnce() -> bool,
    ) -> bool {
        self.had_input |= matches!(input, Input::Filled | Input::Empty);
        if input != Input::Empty {
            let is_over = input == Input::Closed && self.had_input;
            if is_over && state == TaskState::Running {
                self.seen.after_ns += weight_ns;
            }
            self.end(input == Input::Filled);
            return false;
        }
        if state == TaskState::Sleep {
            self.seen.slept_ns += weight_ns;
            self.seen.never_blocks = self.seen.never_blocks || never_blocks();
        }
        match (state, tasks) {
            (TaskState::BlockedIn, _) => {
                self.seen.waited_ns += weight_ns;
                self.end(false);
                false
            }
            (TaskState::Sleep | TaskState::Running, Some(tasks)) => {
                self.sample(state, tasks, weight_ns, cpu_ns)
            }
            _ => false,
        }
    }

    fn sample(&mut self, state: TaskState, tasks: Vec<Moved>, weight_ns: u64, cpu_ns: u64) -> bool {
        let since = match self.before.as_ref().map(|before| since(before, &tasks)) {
            Some(since) if since.iter().all(|(_, io)| io.read_bytes + io.write_bytes == 0) => since,
            // The first look, or bytes were moved in between.
            _ => {
                self.end(true);
                self.before = Some(tasks);
                self.wait_and_see(state, weight_ns, cpu_ns);
                return false;
            }
        };
        let in_vain = |of: TaskState| {
            let mut found = since.iter().filter(|(state, _)| *state == of).peekable();
            found.peek().is_some() && found.all(|(_, io)| io.read_calls > 0)
        };
        let waits = tasks.iter().any(|(_, state, _)| *state == TaskState::BlockedIn);
        self.asked |= since.iter().any(|(_, io)| io.read_calls > 0);
        self.before = Some(tasks);
        if state == TaskState::Sleep {
            return self.nap(weight_ns, cpu_ns);
        }
        let asked = in_vain(TaskState::Running);
        match (asked, waits) {
            (true, _) => {
                self.seen.asked_running_ns += weight_ns + std::mem::take(&mut self.pending.1);
            }
            (false, true) => self.seen.ran_beside_ns += weight_ns,
            (false, false) if self.naps => self.seen.woke_ns += weight_ns,
            (false, false) => self.pending.1 += weight_ns,
        }
        asked || waits || self.naps
    }

    /// Takes a look of which it is not known yet whether it shows work.
    fn wait_and_see(&mut self, state: TaskState, weight_ns: u64, cpu_ns: u64) {
        if state == TaskState::Sleep {
            self.asleep_since_cpu_ns = Some(cpu_ns);
            self.pending.0 += weight_ns;
        } else {
            self.pending.1 += weight_ns;
        }
    }

    /// Takes a look that found the group asleep, and no byte was moved since the last one.
    fn nap(&mut self, weight_ns: u64, cpu_ns: u64) -> bool {
        if self.asked {
            self.seen.asked_asleep_ns += weight_ns + std::mem::take(&mut self.pending.0);
            return true;
        }
        // It has been awake since it was found asleep, and moved nothing.
        let again = self.asleep_since_cpu_ns.is_some_and(|since_ns| since_ns != cpu_ns);
        self.asleep_since_cpu_ns = Some(cpu_ns);
        self.naps |= again;
        if !self.naps {
            // It may sleep because of what it read.
            self.wait_and_see(TaskState::Sleep, weight_ns, cpu_ns);
            return false;
        }
        let (asleep_ns, running_ns) = std::mem::take(&mut self.pending);
        self.seen.napped_ns += weight_ns + asleep_ns;
        self.seen.woke_ns += running_ns;
        true
    }

    /// Ends such a time; `moved`: because there were bytes.
    fn end(&mut self, moved: bool) {
        self.seen.ends += u64::from(moved && self.naps);
        let (seen, had_input) = (self.seen, self.had_input);
        *self = DryTimes { seen, had_input, ..DryTimes::default() };
    }
}

/// Returns what each task that was known before has moved since, with its state now.
fn since(before: &[Moved], now: &[Moved]) -> Vec<(TaskState, Io)> {
    let known = |id: Pid| before.iter().find(|(other, ..)| *other == id);
    now.iter()
        .filter_map(|(id, state, io)| known(*id).map(|(.., before)| (*state, io.since(*before))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io(read_bytes: u64, read_calls: u64) -> Io {
        Io { read_bytes, read_calls, ..Io::default() }
    }

    /// Ticks of one task, each of 10 ns: its state, bytes and read calls so far, and CPU time.
    fn seen(ticks: &[(Input, TaskState, u64, u64, u64)]) -> Dry {
        let mut dry = DryTimes::default();
        for (input, state, bytes, calls, cpu_ns) in ticks {
            let tasks = DryTimes::wants_sample(*input, *state)
                .then(|| vec![(7, *state, io(*bytes, *calls))]);
            dry.tick(*input, *state, (10, *cpu_ns), tasks, || false);
        }
        dry.seen
    }

    use Input::{Closed, Empty, Filled};
    use TaskState::{BlockedIn, Running, Sleep};

    #[test]
    fn who_asks_in_vain_between_naps_waits_for_input() {
        let seen = seen(&[
            (Filled, Running, 100, 1, 0),
            (Empty, Sleep, 200, 2, 5),
            (Empty, Sleep, 200, 3, 6),
            (Empty, Sleep, 200, 3, 6),
            (Empty, Running, 200, 9, 6),
            (Filled, Sleep, 200, 9, 6),
        ]);
        assert_eq!((seen.asked_asleep_ns, seen.asked_running_ns, seen.napped_ns), (30, 10, 0));
    }

    /// Each item takes a nap, and the writer is no faster: the pipe is empty all the time.
    #[test]
    fn who_sleeps_for_each_byte_that_it_moves_works() {
        let each = |n: u64| (Empty, Sleep, 100 * n, n, n);
        let seen = seen(&[each(1), each(1), each(2), each(2), each(3), each(4)]);
        assert_eq!(seen, Dry { slept_ns: 60, ..Dry::default() });
    }

    #[test]
    fn the_first_nap_may_be_for_what_was_read_and_the_next_one_is_not() {
        let seen = seen(&[
            (Empty, Sleep, 100, 1, 5),
            (Empty, Sleep, 100, 1, 5),
            (Empty, Sleep, 100, 1, 5),
            (Empty, Sleep, 100, 1, 6),
            (Empty, Running, 100, 1, 6),
            (Filled, Sleep, 100, 1, 7),
            (Empty, BlockedIn, 200, 2, 8),
            (Closed, Running, 300, 3, 9),
        ]);
        assert_eq!((seen.napped_ns, seen.woke_ns, seen.ends), (40, 10, 1));
        assert_eq!((seen.waited_ns, seen.after_ns), (10, 10));
    }

    #[test]
    fn a_task_that_runs_beside_one_that_waits_is_told_apart_from_one_that_asks() {
        let mut dry = DryTimes::default();
        for calls in [1, 1, 1] {
            let tasks = vec![(7, BlockedIn, io(9, 1)), (8, Running, io(0, calls))];
            dry.tick(Empty, Running, (10, 0), Some(tasks), || false);
        }
        assert_eq!((dry.seen.ran_beside_ns, dry.seen.asked_running_ns), (20, 0));
        // One more that computes: nobody knows for whom.
        let tasks = vec![(7, Running, io(9, 5)), (8, Running, io(0, 1))];
        assert!(!dry.tick(Empty, Running, (10, 0), Some(tasks), || false));
    }
}
