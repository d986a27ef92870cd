//! Tracing beside sampling: where there is a trace, the times by state are the kernel's own.
//! Samples still find the processes, name what they wait for, and tell the state of a task that has
//! not moved since.

use crate::attribution::classify::{Endpoints, classify};
use crate::attribution::group::{Group, hints};
use crate::attribution::pipes::Fill;
use crate::attribution::process::{Process, TaskSample, by_letter};
use crate::attribution::rows::{self, Rows};
use crate::trace::{Now, Place, Span, TaskStates, Trace, Wait};
use weir_doctor::facts::Traced;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::cpu::thread_ns;
use weir_sys::proc::{Descriptor, descriptor, tasks};

/// The tracing of a run. It does nothing unless it was begun and is possible.
#[derive(Debug, Default)]
pub struct Tracer {
    trace: Option<Trace>,
    /// What the pipes were last seen to hold.
    fills: Vec<(Descriptor, Fill)>,
    /// Why there is no trace.
    refused: Option<Traced>,
    /// CPU time that reading the trace took.
    follow_ns: u64,
}

impl Tracer {
    /// Traces what this thread starts from now on, and what is added. `together`: what a process
    /// starts is accounted with it, until it has a place of its own.
    pub fn begin(&mut self, together: bool) {
        match Trace::open(together) {
            Ok(trace) => self.trace = Some(trace),
            Err((why, verifier)) => {
                self.refused = Some(Traced { refused: Some(why), verifier, ..Traced::default() });
            }
        }
    }

    /// Returns what was traced, or why nothing was, if that was asked for.
    pub fn traced(&self) -> Option<Traced> {
        self.trace.as_ref().map(|trace| &trace.told).or(self.refused.as_ref()).cloned()
    }

    /// Returns the CPU time of this thread so far, without what reading the trace took: fewer ticks
    /// would not make that less.
    pub fn sample_ns(&self) -> u64 {
        thread_ns().saturating_sub(self.follow_ns)
    }

    /// Traces these processes, which run already.
    pub fn add(&mut self, pids: &[Pid]) {
        let Some(trace) = &mut self.trace else { return };
        pids.iter().flat_map(|pid| tasks(*pid)).for_each(|task| trace.add(task));
    }

    /// Takes what the trace has told of these processes since the last time. `fills` are those of
    /// the pipes now.
    pub fn follow<'a>(
        &mut self,
        processes: impl Iterator<Item = &'a Process>,
        (groups, rows): (&[Group], &Rows),
        fills: Option<&[(Descriptor, Fill)]>,
    ) {
        let Some(trace) = &mut self.trace else { return };
        let begun_ns = thread_ns();
        if let Some(fills) = fills {
            self.fills = fills.to_vec();
        }
        for process in processes {
            let place = Place { group: Some(process.group), row: process.row };
            trace.place(process.record.pid, place);
        }
        trace.take(&mut |wait, place| meaning(wait, place, groups, rows, &self.fills));
        self.follow_ns += thread_ns().saturating_sub(begun_ns);
    }

    /// Tells the trace the states of tasks of which no event has come.
    pub fn report(&mut self, process: &Process, looks: &[TaskSample]) {
        let Some(trace) = &mut self.trace else { return };
        for (task, look) in process.task_ids().zip(looks) {
            let now = match look.state {
                TaskState::Running => Now::OnCpu,
                state => Now::Waits(state),
            };
            trace.sample(process.record.pid, task, now.seen());
        }
    }

    /// Hands the traced times since the last tick to the groups and rows, whose tick ends.
    pub fn hand_over(&mut self, groups: &mut [Group], rows: &mut Rows) {
        let Some(trace) = &mut self.trace else { return };
        for (at, group) in groups.iter_mut().enumerate() {
            group.span = Some(trace.group(at));
        }
        for (at, row) in rows.groups.iter_mut().enumerate() {
            row.span = Some(trace.row(at));
        }
    }

    /// Adds the traced times since the last tick to the sums of a process that has ended.
    pub fn flush(&mut self, process: &Process, groups: &mut [Group], rows: &mut Rows) {
        let Some(trace) = &mut self.trace else { return };
        add(&mut groups[process.group], &trace.group(process.group));
        if let Some(row) = process.row {
            add(&mut rows.groups[row], &trace.row(row));
        }
    }
}

fn add(group: &mut Group, span: &Span) {
    if !group.stopped {
        group.samples.add_times(&span.state_ns, span.on_cpu_ns);
    }
}

/// Returns the ends of a group, before the first look at it too.
fn ends(pid: Pid, group: &Group) -> Endpoints {
    match group.root.ends {
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
) -> TaskStates {
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
    let look = TaskSample { state, call: wait.call, ..TaskSample::default() };
    let of_group = match group {
        Some(group) if !group.more_ends.is_empty() => {
            rows::own_state(wait.pid, &look, group, hints, false)
        }
        _ => state,
    };
    let of_row = place.row.map_or(state, |row| rows.state(row, wait.pid, &look));
    TaskStates { group: Now::Waits(of_group), row: Now::Waits(of_row) }
}
