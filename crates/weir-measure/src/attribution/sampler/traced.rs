//! Tracing beside sampling: where there is a trace, the times by state are the kernel's own. Samples
//! still find the processes, name what they wait for, and tell the state of a task that has not
//! moved since.

use super::{Grouping, Sampler};
use crate::attribution::classify::{Endpoints, classify};
use crate::attribution::group::{Group, hints};
use crate::attribution::pipes::Fill;
use crate::attribution::process::{Process, TaskLook, by_letter};
use crate::attribution::rows::{self, Rows};
use crate::proc::{Descriptor, descriptor};
use crate::trace::{Now, Place, Seen, Trace, Wait};
use weir_doctor::facts::Traced;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::cpu::thread_ns;
use weir_sys::proc::tasks;

/// A trace, and what the pipes were last seen to hold.
#[derive(Debug)]
pub struct Follower {
    trace: Trace,
    fills: Vec<(Descriptor, Fill)>,
}

impl Sampler {
    /// Traces what this thread starts from now on, and what is attached. Where that cannot be, it
    /// samples, and [`Sampler::traced`] says why.
    pub fn trace(&mut self) {
        match Trace::open(self.grouping == Grouping::ByStage) {
            Ok(trace) => self.follower = Some(Follower { trace, fills: Vec::new() }),
            Err((why, verifier)) => {
                self.refused = Some(Traced { refused: Some(why), verifier, ..Traced::default() });
            }
        }
    }

    /// Returns what was traced, if that was asked for.
    pub fn traced(&self) -> Option<Traced> {
        let follower = self.follower.as_ref().map(|it| it.trace.told.clone());
        follower.or_else(|| self.refused.clone())
    }

    /// Traces these processes, which run already.
    pub(super) fn trace_all(&mut self, pids: &[Pid]) {
        let Some(Follower { trace, .. }) = &mut self.follower else { return };
        pids.iter().flat_map(|pid| tasks(*pid)).for_each(|task| trace.add(task));
    }

    /// Takes what the trace has told since the last time. `fills` are those of the pipes now.
    pub(super) fn follow(&mut self, fills: Option<&[(Descriptor, Fill)]>) {
        let Some(follower) = &mut self.follower else { return };
        let begun_ns = thread_ns();
        if let Some(fills) = fills {
            follower.fills = fills.to_vec();
        }
        for process in self.processes.values() {
            let place = Place { group: Some(process.group), row: process.row };
            follower.trace.place(process.pid, place);
        }
        let (groups, rows, fills) = (&self.groups, &self.rows, &follower.fills);
        follower.trace.take(&mut |wait, place| meaning(wait, place, groups, rows, fills));
        self.follow_ns += thread_ns().saturating_sub(begun_ns);
    }

    /// Tells the trace the states of tasks of which no event has come.
    pub(super) fn tell(follower: Option<&mut Follower>, process: &Process, looks: &[TaskLook]) {
        let Some(Follower { trace, .. }) = follower else { return };
        for (task, look) in process.task_ids().zip(looks) {
            let now = match look.state {
                TaskState::Running => Now::OnCpu,
                state => Now::Waits(state),
            };
            trace.look(process.pid, task, now.seen());
        }
    }

    /// Hands the traced times since the last tick to the groups, whose tick ends.
    pub(super) fn hand_over(&mut self) {
        let Some(Follower { trace, .. }) = &mut self.follower else { return };
        for (at, group) in self.groups.iter_mut().enumerate() {
            group.span = Some(trace.group(at));
        }
        for (at, row) in self.rows.groups.iter_mut().enumerate() {
            row.span = Some(trace.row(at));
        }
    }

    /// Adds the traced times since the last tick to the sums of a process that has ended.
    pub(super) fn flush(&mut self, group: usize, row: Option<usize>) {
        let Some(Follower { trace, .. }) = &mut self.follower else { return };
        add(&mut self.groups[group], &trace.group(group));
        if let Some(row) = row {
            add(&mut self.rows.groups[row], &trace.row(row));
        }
    }
}

fn add(group: &mut Group, span: &crate::trace::Span) {
    if !group.stopped {
        group.samples.add_times(&span.state_ns, span.on_cpu_ns);
    }
}

/// Returns the ends of a group, before the first look at it too.
fn ends(pid: Pid, group: &Group) -> Endpoints {
    match group.ends {
        Endpoints { input: None, output: None } => {
            Endpoints { input: descriptor(pid, 0), output: descriptor(pid, 1) }
        }
        known => known,
    }
}

/// Finds what a wait is for the group and for the row of the process.
fn meaning(
    wait: Wait,
    place: Place,
    groups: &[Group],
    rows: &Rows,
    fills: &[(Descriptor, Fill)],
) -> Seen {
    let group = place.group.and_then(|at| groups.get(at));
    let ends = group.map_or_else(Endpoints::default, |group| ends(wait.pid, group));
    let hints = hints(&ends, fills);
    let state = match wait.call {
        Some(call) => classify(wait.pid, call, &ends, hints),
        None => TaskState::Disk,
    };
    let state = match state {
        _ if wait.letter == b'T' => TaskState::Stopped,
        TaskState::Disk | TaskState::Unknown => {
            by_letter(wait.letter, state, wait.call.is_some()).unwrap_or(TaskState::Unknown)
        }
        state => state,
    };
    let look = TaskLook {
        state,
        on_cpu_permille: 0,
        hidden: false,
        uncounted: false,
        awaited: None,
        call: wait.call,
    };
    let of_group = match group {
        Some(group) if !group.more_ends.is_empty() => {
            rows::own_state(wait.pid, &look, group, hints, false)
        }
        _ => state,
    };
    let of_row = place.row.map_or(state, |row| rows.state(row, wait.pid, &look));
    Seen { group: Now::Waits(of_group), row: Now::Waits(of_row) }
}
