//! What each stage spent its time on, tick by tick, from which the phases of a run are cut.

use weir_doctor::phases::{Spent, Timeline};
use weir_doctor::state::TaskState;
use weir_sys::proc::Sched;

/// The course of a run so far.
#[derive(Debug, Default)]
pub struct Course {
    timeline: Timeline,
    /// CPU and waiting time of each group at the last tick.
    before: Vec<Sched>,
}

/// What a tick showed of a group.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupTick {
    /// Number of its tasks.
    pub tasks: usize,
    /// Its state, and for a running one the chance that it had a CPU, in parts of a thousand.
    pub state: Option<(TaskState, u32)>,
    /// Whether it may only have waited for input, without blocking.
    pub dry: bool,
}

impl Course {
    /// Adds a tick that represents the `weight_ns` before `now_ns`. `totals` are the CPU and waiting
    /// times of the groups so far, and `seen` says what the tick showed of each.
    pub fn add(
        &mut self,
        now_ns: u64,
        weight_ns: u64,
        totals: &[Sched],
        seen: impl Fn(usize) -> GroupTick,
    ) {
        self.before.resize(totals.len(), Sched::default());
        let pairs = totals.iter().zip(&mut self.before).enumerate();
        let spent = pairs.map(|(group, (total, before))| {
            let before = std::mem::replace(before, *total);
            let cpu_ns = total.cpu_ns.saturating_sub(before.cpu_ns);
            let queue_ns = total.queue_ns.saturating_sub(before.queue_ns);
            let seen = seen(group);
            let spent = spent(weight_ns, &seen, cpu_ns, queue_ns);
            let (dry_own_ns, dry_queue_ns) = match seen.dry {
                true => (spent.own_ns, spent.queue_ns),
                false => (0, 0),
            };
            Spent { dry_own_ns, dry_queue_ns, ..spent }
        });
        self.timeline.add(now_ns, weight_ns, &spent.collect::<Vec<_>>());
    }

    /// Returns what the groups spent their time on.
    pub fn timeline(&self) -> &Timeline {
        &self.timeline
    }
}

/// Returns what a group spent a tick on, in which its tasks used this CPU time and waited for a CPU
/// for this long. For one task both are exact; several tasks may work at the same time, so their
/// state counts.
fn spent(weight_ns: u64, seen: &GroupTick, cpu_ns: u64, queue_ns: u64) -> Spent {
    let cpu_ns = cpu_ns.min(weight_ns);
    let queue_ns = queue_ns.min(weight_ns - cpu_ns);
    let single = seen.tasks < 2;
    match seen.state {
        None => Spent::default(),
        Some((TaskState::Running, on_cpu_permille)) if !single => {
            let own_ns = weight_ns / 1000 * u64::from(on_cpu_permille.min(1000));
            Spent { own_ns, queue_ns: weight_ns - own_ns, ..Spent::default() }
        }
        Some((state, _)) if waits_elsewhere(state) => {
            let queue_ns = if single { queue_ns } else { 0 };
            Spent { own_ns: weight_ns - queue_ns, queue_ns, ..Spent::default() }
        }
        Some(_) if single => Spent { own_ns: cpu_ns, queue_ns, ..Spent::default() },
        Some(_) => Spent::default(),
    }
}

/// Whether a state is a wait for something else than a neighbour.
fn waits_elsewhere(state: TaskState) -> bool {
    use TaskState::{BlockedIn, BlockedOut, Running, Unknown};
    !matches!(state, Running | BlockedIn | BlockedOut | Unknown)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: TaskState, tasks: usize, cpu_ns: u64, queue_ns: u64) -> (u64, u64) {
        let seen = GroupTick { tasks, state: Some((state, 600)), dry: false };
        let Spent { own_ns, queue_ns, .. } = spent(1000, &seen, cpu_ns, queue_ns);
        (own_ns, queue_ns)
    }

    #[test]
    fn one_task_has_exact_times_whatever_it_was_found_doing() {
        assert_eq!(of(TaskState::Running, 1, 300, 100), (300, 100));
        assert_eq!(of(TaskState::BlockedIn, 1, 300, 100), (300, 100));
        assert_eq!(of(TaskState::Sleep, 1, 300, 100), (900, 100));
        assert_eq!(of(TaskState::Running, 1, 3000, 100), (1000, 0), "a late tick");
    }

    #[test]
    fn of_several_tasks_the_state_counts() {
        assert_eq!(of(TaskState::Running, 2, 2000, 0), (600, 400));
        assert_eq!(of(TaskState::BlockedOut, 2, 300, 100), (0, 0));
        assert_eq!(of(TaskState::Disk, 2, 300, 100), (1000, 0));
    }
}
