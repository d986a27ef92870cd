//! A group of tasks accounted together: a stage, or one process found in a script.

use super::bash::Places;
use super::births::Births;
use super::classify::{Endpoints, Hints};
use super::dry::{DryTimes, Input};
use super::files::{Files, longest_read};
use super::outside::Peers;
use super::pipes::Fill;
use super::process::{Process, Unreaped};
use super::record::ProcessRecord;
use crate::trace::Span;
use std::collections::BTreeMap;
use std::path::PathBuf;
use weir_doctor::facts::{GroupQuota, MemoryLimit};
use weir_doctor::partition::Samples;
use weir_doctor::programs::{is_loaded_by_reading, reads_files};
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, Sched};

/// Interval, in looks, at which names, memory and bytes of a long-running process are read.
const REFRESH_LOOKS: u64 = 64;
/// This interval for a found process, whose totals cannot be read after its end.
const FOUND_LOOKS: u64 = 8;
/// Most processes accounted in a script; later ones are only counted.
pub const MOST_GROUPS: usize = 4096;

/// One more end of a pipe that a process has open, beside its input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoreEnd {
    /// The pipe.
    pub pipe: Descriptor,
    /// The descriptor.
    pub fd: i32,
    /// Whether it is the end that is written.
    pub writes: bool,
    /// Whether the process that started it has it open too, by the same number.
    pub shared: bool,
}

/// The sums over a group so far.
#[derive(Debug, Default)]
pub struct Group {
    /// The process it started with.
    pub root: ProcessRecord,
    /// The group that started it, if it was found and not given.
    pub parent: Option<usize>,
    /// The stage in which it was found, for a row of its own inside of a stage.
    pub stage: usize,
    /// The input and output that it began with.
    pub given: Endpoints,
    /// Other pipes that its first process had open.
    pub more_ends: Vec<MoreEnd>,
    /// The unix sockets that are its input and its output: the inodes of both of their ends.
    pub sockets: [Option<(u64, u64)>; 2],
    /// Its lane in the history of the run; none where no sample met it.
    pub lane: Option<usize>,
    /// Whether its descriptors are to be read again: it has just become another program.
    pub ends_due: bool,
    /// How many others it was found to have started.
    pub children: u64,
    /// Whether its input and output may be those of the shell of which it was a copy before.
    pub ends_doubtful: bool,
    /// Half the time that the tick at which it was first seen represents.
    pub margin_ns: u64,
    /// The strongest state and the number of tasks in this tick, for a row inside of a stage.
    pub tick: (Option<(TaskState, u32)>, usize),
    /// Samples of its state.
    pub samples: Samples,
    /// The same of it and its copies together, where it has had some.
    pub family: Option<Samples>,
    /// The first process of the group of which it is a copy.
    pub copy_of: Option<Pid>,
    /// The times by state since the last tick, where there is a trace.
    pub span: Option<Span>,
    /// Most tasks seen at the same time.
    pub most_tasks: usize,
    /// Time in which it had several tasks.
    pub several_ns: u64,
    /// State at the last look, `None` before the first.
    pub now: Option<TaskState>,
    /// CPU and waiting time of its ended tasks, as of the last look.
    pub gone: Sched,
    /// CPU time sampled, by program name.
    pub programs: BTreeMap<String, u64>,
    /// The program and the arguments of the first process when first seen: a shell often replaces
    /// itself by the last command of a script.
    pub first: (String, String),
    /// Peak memory of any one of its processes, sampled.
    pub peak_rss_bytes: u64,
    /// What those of its processes used for which nobody has waited: the kernel's sums lack it.
    pub unreaped: Unreaped,
    /// Whether some of its processes may be among these, which is unknown.
    pub perhaps_unreaped: bool,
    /// The processes that it started, with their descendants. Where each process is a group of its
    /// own, only those that this one started itself.
    pub births: Births,
    /// The peers for which it waited on sockets.
    pub peers: Peers,
    /// The files and devices for which it waited.
    pub files: Files,
    /// Of a bash: where it computed.
    pub places: Places,
    /// The longest file that its first process has open to be read, with its length, where programs
    /// of its kind are known to read files again.
    pub reads: Option<(u64, PathBuf)>,
    /// What it did while its input was empty.
    pub dry: DryTimes,
    /// Whether a task waits to write to its standard error, which is a pipe, and for how long one did.
    pub waits_for_err: (bool, u64),
    /// The CPU quota and the limit of memory of control groups of its own.
    pub confined: (Option<GroupQuota>, Option<MemoryLimit>),
    /// Page faults of its ended processes that took a disk or swap, as of the last look at each.
    pub major_faults: u64,
    /// How often it was found asleep after another state.
    pub times_asleep: u64,
    /// Whether some task's state could not be read.
    pub hidden: bool,
    /// Whether some task moved bytes by calls that the kernel does not count.
    pub uncounted: bool,
    /// Whether some program of it can do so, `None` where no program's file could be read.
    pub may_splice: Option<bool>,
    /// How far its processes came in the files that they read.
    pub position_bytes: u64,
    /// Whether it was stopped by job control.
    pub stopped: bool,
    /// Whether it has ended: its tasks are no longer sampled.
    pub ended: bool,
    /// When it was first seen.
    pub first_ns: u64,
    /// When it was last seen.
    pub last_ns: u64,
}

impl Group {
    /// A group that starts with process `root` at `now_ns`.
    pub fn new(root: Pid, ends: Endpoints, now_ns: u64) -> Group {
        let root = ProcessRecord { ends, ..ProcessRecord::new(root) };
        Group { root, given: ends, first_ns: now_ns, last_ns: now_ns, ..Group::default() }
    }

    /// Whether its first process is to be taken for what it is, and not for what it was `before`: it was
    /// that for a moment, or it is what a wrapper was told to run.
    pub fn is_what_it_wraps(&self, before: &str) -> bool {
        let now = &self.root.command;
        let is_text = before.split(' ').nth(1).is_some_and(|word| word.starts_with('-'));
        let named = names(before, now);
        self.was_this_for(9)
            || named && !is_text
            || self.was_this_for(5) && (named || hands_on(before, now))
    }

    /// Whether its first process was what it is for this part of its life, in tenths.
    fn was_this_for(&self, tenths: u64) -> bool {
        let since_ns = self.last_ns.saturating_sub(self.root.became_ns.max(self.first_ns));
        since_ns * 10 >= self.last_ns.saturating_sub(self.first_ns) * tenths
    }

    /// Whether it was met once at most.
    pub fn is_brief(&self) -> bool {
        self.samples.count() <= 1
    }

    /// Returns the CPU time that the kernel's sums for reaped processes lack.
    pub fn unreaped_ns(&self) -> u64 {
        self.unreaped.cpu_ns
    }

    /// Notes that its process has started another one: it may have made pipes for that.
    pub fn note_child(&mut self) {
        self.children += 1;
        self.ends_due |= self.children.is_power_of_two();
    }

    /// Adds the strongest state that its tasks were in at a tick, and their number.
    pub fn add_tick(
        &mut self,
        state: Option<(TaskState, u32)>,
        tasks: usize,
        now_ns: u64,
        weight_ns: u64,
    ) {
        self.most_tasks = self.most_tasks.max(tasks);
        if std::mem::take(&mut self.waits_for_err.0) {
            self.waits_for_err.1 += weight_ns;
        }
        self.several_ns += if tasks > 1 { weight_ns } else { 0 };
        // What was traced is exact; without it, or while nothing of the group is known, a sample
        // stands for the time.
        let span =
            self.span.take().filter(|it| !self.stopped && it.state_ns != Span::default().state_ns);
        if let Some(span) = &span {
            self.samples.add_times(&span.state_ns, span.on_cpu_ns);
        }
        let Some((state, on_cpu_permille)) = state.filter(|_| !self.ended) else { return };
        // A stopped task still shows its last call; the record of stops overrides that.
        let state = if self.stopped { TaskState::Stopped } else { state };
        match span {
            Some(_) => self.samples.count_sample(),
            None => self.samples.add(state, weight_ns, on_cpu_permille),
        }
        let falls_asleep = state == TaskState::Sleep && self.now != Some(TaskState::Sleep);
        self.times_asleep += u64::from(falls_asleep);
        self.now = Some(state);
        self.last_ns = now_ns;
    }

    /// How often its first process read, or wrote if that is less; 0 where that is not known.
    pub fn calls(&self) -> u64 {
        self.root.io.map_or(0, |io| io.read_calls.min(io.write_calls))
    }

    /// Whether it was ever seen with several tasks.
    pub fn several(&self) -> bool {
        self.most_tasks > 1
    }

    /// Returns the program that used most CPU in it, or else its first one.
    pub fn top_program(&self) -> &str {
        let top = self.programs.iter().max_by_key(|(_, cpu_ns)| **cpu_ns);
        top.filter(|(_, cpu_ns)| **cpu_ns > 0).map_or(&self.root.program, |(name, _)| name)
    }
}

/// Whether a wrapper was told by name what it has become, with the same arguments: a shim of pyenv.
fn names(wrapper: &str, program: &str) -> bool {
    let name = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut given = program.split(' ');
    let Some(first) = given.next().map(name).filter(|name| !name.is_empty()) else { return false };
    let mut words = wrapper.split(' ');
    words.any(|word| name(word) == first) && words.eq(given)
}

/// Whether a wrapper hands on the arguments that it was given: a script that ends with
/// `exec java -jar x "$@"`.
fn hands_on(wrapper: &str, program: &str) -> bool {
    let wrapper: Vec<&str> = wrapper.split(' ').collect();
    let given: Vec<&str> = program.split(' ').skip(1).collect();
    // Behind the interpreter and the script.
    let arguments = wrapper.get(2..).filter(|arguments| !arguments.is_empty());
    let is_text = wrapper.get(1).is_some_and(|word| word.starts_with('-'));
    !is_text && arguments.is_some_and(|arguments| given.ends_with(arguments))
}

/// Whether a process is due for a reading of its name and memory: at its 1st, 2nd, 4th, ... look,
/// since programs replace themselves (`exec`) early, and later at intervals.
pub fn is_due(looks: u64, each: bool) -> bool {
    let every = if each { FOUND_LOOKS } else { REFRESH_LOOKS };
    looks.is_power_of_two() || looks.is_multiple_of(every)
}

/// Takes what is known of the first process of a group.
pub fn describe(group: &mut Group, process: &Process) {
    if group.root.program != process.record.program {
        // What was open before is what the process that forked it had open.
        group.more_ends.clear();
        // It may have ended at the next look.
        group.reads = read_by(process);
        group.ends_due = true;
        group.root.became_ns = group.last_ns;
    }
    group.root.take_sample(&process.record);
    if group.first.0.is_empty() {
        group.first = (group.root.program.clone(), group.root.command.clone());
    }
}

/// Returns the longest file that a process has open to be read, with its length, where programs of its
/// kind are known to read files again.
pub fn read_by(process: &Process) -> Option<(u64, PathBuf)> {
    let ProcessRecord { pid, program, .. } = &process.record;
    (reads_files(program) || is_loaded_by_reading(program)).then(|| longest_read(*pid)).flatten()
}

/// Returns what the pipes of a group show now.
pub fn hints(ends: &Endpoints, fills: &[(Descriptor, Fill)]) -> Hints {
    let of = |end: Option<Descriptor>| fills.iter().find(|(pipe, _)| Some(*pipe) == end);
    Hints {
        input_empty: of(ends.input).is_some_and(|(_, fill)| fill.bytes == 0),
        output_full: of(ends.output).is_some_and(|(_, fill)| fill.full),
    }
}

/// Returns the state of the pipe that is the input of a group.
pub fn input(ends: &Endpoints, fills: &[(Descriptor, Fill)]) -> Input {
    let Some(end) = ends.input.filter(Descriptor::is_pipe) else { return Input::None };
    match fills.iter().find(|(pipe, _)| *pipe == end) {
        None => Input::None,
        Some((_, fill)) if fill.bytes > 0 => Input::Filled,
        Some((_, fill)) if fill.fed => Input::Empty,
        Some(_) => Input::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// python3 of pyenv was called "bash (the script itself), at last python3", and started in a loop,
    /// "bash pyenv exec python3".
    #[test]
    fn a_wrapper_is_what_it_runs() {
        let shim = "bash /opt/pyenv/shims/python3 etl.py -v";
        assert!(names(shim, "/opt/pyenv/versions/3.11/bin/python3 etl.py -v"));
        assert!(names("bash /opt/pyenv/libexec/pyenv exec python3 -c x", "/opt/python3 -c x"));
        assert!(hands_on("/bin/sh /usr/bin/tool in out", "java -jar /usr/lib/tool.jar in out"));
        let is = |wrapper, program| names(wrapper, program) || hands_on(wrapper, program);
        assert!(!is("bash -c sleep 0.2; sleep 0.3", "sleep 0.3"));
        assert!(!is("bash report.sh", "gzip -9 a"));
        assert!(!is("bash report.sh in", "gzip -9 a"));
        assert!(!is("bash x.sh", ""));
    }
}
