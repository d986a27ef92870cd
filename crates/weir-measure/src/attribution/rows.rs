//! A look inside of stages: the processes that a stage starts, each accounted by itself beside the
//! account of its stage.
//!
//! Nothing is done for a stage of one process. Once a stage has started another process, its first
//! process and all that it starts get a row each: times by state relative to their own input and
//! output, and the pipes that they have open.

use super::calls::Call;
use super::classify::{Endpoints, Hints, classify};
use super::diag::unix_peer;
use super::family;
use super::group::{Group, MOST_GROUPS, MoreEnd, describe, hints, is_due, read_by};
use super::pipes::{Fill, PipeWatch};
use super::process::{Process, TaskSample, combine};
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, FileKind, access, descriptor, descriptors, is_anonymous_pipe, link,
};

/// Most descriptors beyond standard input and output at which a process is looked at.
const MOST_DESCRIPTORS: usize = 64;

/// The rows of all stages, and the pipes among them.
#[derive(Debug, Default)]
pub struct Rows {
    /// The rows; the parent of a row is another row of the same stage.
    pub groups: Vec<Group>,
    /// The pipes that these processes have as input or output.
    pub pipes: Vec<PipeWatch>,
    fills: Vec<(Descriptor, Fill)>,
}

impl Rows {
    /// Adds a row for a process of a stage that `parent` started; `None` when there are too many.
    pub fn add(
        &mut self,
        process: &Process,
        stage: usize,
        parent: Option<usize>,
        now_ns: u64,
    ) -> Option<usize> {
        if self.groups.len() >= MOST_GROUPS {
            return None;
        }
        let group = Group::new(process.record.pid, Endpoints::default(), now_ns);
        self.groups.push(Group { parent, stage, ..group });
        let row = self.groups.len() - 1;
        describe(&mut self.groups[row], process);
        Some(row)
    }

    /// Begins a tick: looks at the pipes.
    pub fn begin(&mut self, weight_ns: u64) {
        let seen = |pipe: &mut PipeWatch| Some((pipe.identity, pipe.sample(weight_ns)?));
        self.fills = self.pipes.iter_mut().filter_map(seen).collect();
    }

    /// Takes the looks at the tasks of a process, whose row this is.
    pub fn sample(&mut self, row: usize, process: &Process, looks: &[TaskSample]) {
        let group = &mut self.groups[row];
        if (is_due(process.looks, true) || group.ends_due) && refresh_ends(group, process) {
            watch(&mut self.pipes, process.record.pid, group, None);
        }
        let hints = hints(&group.root.ends, &self.fills);
        group.tick.1 += looks.len();
        for look in looks {
            let state = own_state(process.record.pid, look, group, hints, true);
            group.hidden |= look.hidden;
            group.uncounted |= look.uncounted;
            combine(&mut group.tick.0, (state, look.on_cpu_permille));
        }
        if is_due(process.looks, true) {
            describe(group, process);
        }
    }

    /// Returns the state of a task as its row sees it.
    pub fn state(&self, row: usize, pid: Pid, look: &TaskSample) -> TaskState {
        let Some(group) = self.groups.get(row) else { return look.state };
        own_state(pid, look, group, hints(&group.root.ends, &self.fills), true)
    }

    /// Ends a tick: adds what was seen to the sums of each row.
    pub fn end(&mut self, now_ns: u64, weight_ns: u64) {
        family::add_tick(&mut self.groups, weight_ns, |group, _| group.tick.0);
        for group in self.groups.iter_mut().filter(|group| !group.ended) {
            let (state, tasks) = std::mem::take(&mut group.tick);
            group.add_tick(state, tasks, now_ns, weight_ns);
        }
    }

    /// Ends the row of a process.
    pub fn settle(&mut self, row: usize, process: &Process) {
        let group = &mut self.groups[row];
        group.gone = process.own_sched();
        group.ended = true;
        describe(group, process);
    }
}

/// Returns the state of a task relative to the pipes of its own process. `anew`: it was classified
/// by the input and output of others.
pub fn own_state(
    pid: Pid,
    look: &TaskSample,
    group: &Group,
    hints: Hints,
    anew: bool,
) -> TaskState {
    let Some(call) = look.call else { return look.state };
    let fixed = matches!(look.state, TaskState::Running | TaskState::Disk | TaskState::Stopped);
    if fixed || look.hidden {
        return look.state;
    }
    let state = match (anew, classify(pid, call, &group.root.ends, hints)) {
        (true, state) if state != TaskState::Disk => state,
        _ => look.state,
    };
    let (fd, writes) = match call {
        Call::Read(fd) => (fd, false),
        Call::Write(fd) => (fd, true),
        _ => return state,
    };
    if !matches!(state, TaskState::Child | TaskState::File) {
        return state;
    }
    let at = group.more_ends.iter().any(|end| end.fd == fd && end.writes == writes);
    match (at, writes) {
        (false, _) => state,
        (true, false) => TaskState::BlockedIn,
        (true, true) => TaskState::BlockedOut,
    }
}

/// Reads what a process has open; returns whether that has changed.
pub fn refresh_ends(group: &mut Group, process: &Process) -> bool {
    let pid = process.record.pid;
    let before = (group.root.ends, group.more_ends.len());
    let due = std::mem::take(&mut group.ends_due);
    group.reads = read_by(process).max(group.reads.take());
    group.root.ends.input = descriptor(pid, 0).or(group.root.ends.input);
    group.root.ends.output = descriptor(pid, 1).or(group.root.ends.output);
    group.root.output = regular_file(pid, group.root.ends.output);
    let sides = [group.root.ends.input, group.root.ends.output];
    group.sockets = std::array::from_fn(|side| {
        let inode = sides[side].filter(Descriptor::is_socket)?.inode;
        let known = group.sockets[side].filter(|(own, _)| *own == inode);
        known.or_else(|| Some((inode, unix_peer(inode)?)))
    });
    // What is open changes when a program starts, or starts another one, hardly later.
    if group.samples.count() < 64 || due {
        for end in more_ends(pid, process.parent) {
            let known = |mine: &MoreEnd| mine.pipe == end.pipe && mine.writes == end.writes;
            if !group.more_ends.iter().any(known) {
                group.more_ends.push(end);
            }
        }
    }
    before != (group.root.ends, group.more_ends.len())
}

/// Returns the path of the standard output of a process, if it is a regular file.
pub fn regular_file(pid: Pid, output: Option<Descriptor>) -> Option<String> {
    output.filter(|output| output.kind == FileKind::Storage)?;
    Some(link(pid, 1)?.to_string_lossy().into_owned())
}

/// Finds the pipes among the other descriptors of a process.
fn more_ends(pid: Pid, parent: Pid) -> Vec<MoreEnd> {
    let Some(numbers) = descriptors(pid) else { return Vec::new() };
    let others = numbers.filter(|fd| *fd > 1).take(MOST_DESCRIPTORS);
    others.filter_map(|fd| more_end(pid, parent, fd)).collect()
}

fn more_end(pid: Pid, parent: Pid, fd: i32) -> Option<MoreEnd> {
    let pipe = descriptor(pid, fd).filter(Descriptor::is_pipe)?;
    let (reads, writes) = access(pid, fd)?;
    // Standard error belongs to nobody's pipeline, and both ends at once to a shell's own use.
    let is_end = reads != writes && fd != 2;
    let shared = || parent != 0 && descriptor(parent, fd) == Some(pipe);
    is_end.then(|| MoreEnd { pipe, fd, writes, shared: shared() })
}

/// Watches the pipes that a process has as its input or output.
pub fn watch(pipes: &mut Vec<PipeWatch>, pid: Pid, group: &Group, enlarge: Option<u64>) {
    let main = [(group.root.ends.input, 0, false), (group.root.ends.output, 1, true)];
    let main = main.into_iter().filter_map(|(end, fd, writes)| Some((end?, fd, writes)));
    let more = group.more_ends.iter().map(|end| (end.pipe, end.fd, end.writes));
    for (pipe, fd, writes) in main.chain(more).filter(|(pipe, ..)| pipe.is_pipe()) {
        let position = pipes.iter().position(|watch| watch.identity == pipe);
        let position = position.unwrap_or_else(|| {
            pipes.push(match enlarge {
                Some(bytes) => PipeWatch::found(pipe, bytes),
                None => PipeWatch::new(pipe, None),
            });
            pipes.len() - 1
        });
        let watch = &mut pipes[position];
        if writes && !watch.has_writer() {
            watch.set_writer(pid, fd);
        } else if !writes && !watch.has_reader() {
            watch.set_reader(pid, fd);
        }
    }
}

/// Whether a pipe has a name, so that it may be used again.
pub fn is_named(pipe: &Descriptor) -> bool {
    !is_anonymous_pipe(pipe)
}
