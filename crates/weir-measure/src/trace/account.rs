//! How long a group of tasks was in each state: the strongest of its tasks' states counts, at every
//! instant.

use weir_doctor::state::TaskState;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Now {
    OnCpu,
    /// It is ready and has none.
    Queued,
    Waits(TaskState),
}

const STATES: usize = TaskState::ALL.len();
const ON_CPU: usize = STATES;

/// Time by state; ready tasks without a CPU count as running ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub state_ns: [u64; STATES],
    pub on_cpu_ns: u64,
}

/// The account of a group.
#[derive(Clone, Debug, Default)]
pub struct Account {
    /// Tasks in each state; those on a CPU are behind the others.
    tasks: [u32; STATES + 1],
    since_ns: u64,
    span: Span,
}

impl Now {
    fn place(self) -> usize {
        match self {
            Now::OnCpu => ON_CPU,
            Now::Queued => TaskState::Running.index(),
            Now::Waits(state) => state.index(),
        }
    }
}

impl Account {
    /// Adds the time up to `now_ns` to the state that the group is in. A clock of another CPU may be
    /// a little behind.
    pub fn advance(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.since_ns);
        self.since_ns = self.since_ns.max(now_ns);
        match self.tasks.iter().rposition(|count| *count > 0) {
            Some(ON_CPU) => {
                self.span.on_cpu_ns += passed_ns;
                self.span.state_ns[TaskState::Running.index()] += passed_ns;
            }
            // What it did while stopped is for those to say who stop it.
            Some(state) if state != TaskState::Stopped.index() => {
                self.span.state_ns[state] += passed_ns;
            }
            _ => {}
        }
    }

    /// Moves one task from a state to another; `None` is before its start and behind its end.
    pub fn change(&mut self, now_ns: u64, from: Option<Now>, to: Option<Now>) {
        self.advance(now_ns);
        if let Some(from) = from {
            let count = &mut self.tasks[from.place()];
            *count = count.saturating_sub(1);
        }
        if let Some(to) = to {
            self.tasks[to.place()] += 1;
        }
    }

    /// Takes what has been added since the last time.
    pub fn take(&mut self, now_ns: u64) -> Span {
        self.advance(now_ns);
        std::mem::take(&mut self.span)
    }

    /// Begins anew, without a task.
    pub fn clear(&mut self, now_ns: u64) {
        *self = Account { since_ns: now_ns, ..Account::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_state_counts_at_every_instant() {
        let mut account = Account::default();
        let reads = Now::Waits(TaskState::BlockedIn);
        account.change(100, None, Some(Now::Queued));
        account.change(110, Some(Now::Queued), Some(Now::OnCpu));
        account.change(120, None, Some(reads));
        account.change(150, Some(Now::OnCpu), Some(Now::Waits(TaskState::Child)));
        // An event of a CPU whose clock is behind takes nothing back.
        account.change(149, Some(reads), Some(Now::Queued));
        account.change(160, Some(Now::Queued), None);
        let span = account.take(200);
        let of = |state: TaskState| span.state_ns[state.index()];
        assert_eq!((of(TaskState::Running), span.on_cpu_ns), (60, 40));
        assert_eq!((of(TaskState::BlockedIn), of(TaskState::Child)), (0, 40));
        assert_eq!(account.take(210).state_ns[TaskState::Child.index()], 10);
    }
}
