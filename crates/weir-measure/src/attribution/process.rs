//! One process of a stage and its tasks.

mod before;
mod script;

use super::classify::{Awaited, Endpoints, Hints, awaited, classify};
use super::locale::locale_of;
use super::position::Positions;
use super::record::{ProcessRecord, ending_of};
use crate::attribution::calls::Call;
use crate::confines::Confines;
use crate::program::may_move_uncounted;
use before::Before;
use rustix::io::Errno;
pub use script::script_of;
use weir_doctor::facts::Io;
use weir_doctor::programs::{is_posix_shell, unbuffered_by};
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::cpu::ticks_ns;
use weir_sys::proc::{
    self, Blocked, Descriptor, ProcContents, ProcDir, ProcFile, Sched, Stat, Status, access,
    ancestors, descriptor, descriptors, environment, is_anonymous_pipe, is_taken, kernel_function,
    special, words,
};

/// A process: its tasks, and what the last look showed.
#[derive(Debug, Default)]
pub struct Process {
    /// What the last look showed of it.
    pub record: ProcessRecord,
    /// Position of the group it belongs to.
    pub group: usize,
    /// Its row inside of its stage.
    pub row: Option<usize>,
    /// Whether its program can move bytes by calls that the kernel does not count, if known.
    pub may_splice: Option<bool>,
    /// How far it came in the file that it reads, where its program can do so.
    positions: Positions,
    /// Number of times it was looked at.
    pub looks: u64,
    /// Whether its arguments and environment were available when they were read.
    described: bool,
    tasks: Vec<Task>,
    io: Option<ProcFile<proc::Io>>,
    /// Position of the group that started it.
    pub starter: usize,
    /// Its last known parent; 0 for a process that was given and not found.
    pub parent: Pid,
    /// Whether its parent has ended and no process of the group replaced it: none there will wait
    /// for it.
    pub orphan: bool,
    /// Number of looks at which it was a zombie that nobody had waited for.
    pub zombie_looks: u64,
    /// Number of ticks at which it was alive.
    pub ticks_alive: u64,
    /// Time that these ticks represent.
    pub alive_ns: u64,
    /// CPU and waiting time of its tasks that have ended.
    past: Sched,
    /// The system part of the CPU time of the descendants that it waited for.
    waited_system_ns: u64,
    /// What it had used before it was watched.
    before: Before,
    /// Whether `io` counts the whole process, and not its first thread.
    io_is_whole: bool,
    /// What the control groups of its own withheld from it.
    pub confines: Confines,
    /// Page faults that took a disk or swap, when last looked at.
    pub major_faults: u64,
}

/// A thread.
#[derive(Debug)]
struct Task {
    id: Pid,
    syscall: Result<ProcFile<Blocked>, Errno>,
    sched: Option<ProcFile<Sched>>,
    /// Its bytes and calls, opened when first needed.
    io: Option<ProcFile<proc::Io>>,
    /// Its state when last looked at, and the call in which it was blocked.
    state: TaskState,
    call: Option<Call>,
    last: Sched,
    /// Its counters before it was watched.
    before: Sched,
    on_cpu_permille: u32,
}

/// The result of one look at a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskSample {
    /// Its state.
    pub state: TaskState,
    /// For a running task, the share of the time since the last look in which it had a CPU.
    pub on_cpu_permille: u32,
    /// Whether permission was missing to read its state.
    pub hidden: bool,
    /// Whether it was in a call whose bytes the kernel does not count.
    pub uncounted: bool,
    /// What it waited for, if that is a socket, a file or a device.
    pub awaited: Option<Awaited>,
    /// The call in which it was blocked.
    pub call: Option<Call>,
}

impl TaskSample {
    /// Its state, with its chance of a CPU.
    pub fn found(&self) -> (TaskState, u32) {
        (self.state, self.on_cpu_permille)
    }

    /// Whether it waits to write to its standard error, which is a pipe that is not an output of
    /// its stage.
    pub fn waits_for_err(&self) -> bool {
        let elsewhere = matches!(self.state, TaskState::Child | TaskState::File);
        elsewhere && self.call == Some(Call::Write(2))
    }
}

/// The last known CPU time and bytes of processes that nobody has waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unreaped {
    /// Number of processes.
    pub processes: u64,
    /// Their CPU time.
    pub cpu_ns: u64,
    /// The system part of it.
    pub system_ns: u64,
    /// The bytes and calls of their reads and writes.
    pub io: Io,
}

impl Unreaped {
    /// Adds other processes.
    pub fn add(&mut self, other: Unreaped) {
        self.processes += other.processes;
        self.cpu_ns += other.cpu_ns;
        self.system_ns += other.system_ns;
        self.io = self.io.plus(other.io);
    }
}

/// Whether what a process writes to its standard error is a pipe that one above it in the run has open to be read:
/// then nobody outside of the stage holds the stage up.
pub fn is_captured(pid: Pid) -> bool {
    const MOST_ABOVE: usize = 16;
    const MOST_DESCRIPTORS: usize = 256;
    let Some(error) = descriptor(pid, 2).filter(Descriptor::is_pipe) else { return false };
    let own = std::process::id() as Pid;
    let reads = |above: Pid| {
        let mut fds = descriptors(above).into_iter().flatten().take(MOST_DESCRIPTORS);
        let is_it = |fd: i32| descriptor(above, fd).as_ref() == Some(&error);
        fds.any(|fd| is_it(fd) && access(above, fd).is_some_and(|(reads, _)| reads))
    };
    ancestors(pid).take(MOST_ABOVE).take_while(|above| *above != own).any(reads)
}

/// Keeps the strongest state; for several running tasks, the chance that one had a CPU.
pub fn combine(strongest: &mut Option<(TaskState, u32)>, (state, on_cpu): (TaskState, u32)) {
    *strongest = match *strongest {
        Some((TaskState::Running, before)) if state == TaskState::Running => {
            let neither = (1000 - before.min(1000)) * (1000 - on_cpu.min(1000)) / 1000;
            Some((state, 1000 - neither))
        }
        Some((before, _)) if state > before => Some((state, on_cpu)),
        None => Some((state, on_cpu)),
        unchanged => unchanged,
    };
}

/// Returns what the state letter of a task says of a wait for storage or for something unknown;
/// `None` when the task has ended. `in_call`: it waits in a call.
pub fn by_letter(letter: u8, state: TaskState, in_call: bool) -> Option<TaskState> {
    Some(match (letter, state) {
        (b'?', _) => TaskState::Unknown,
        (b'R', _) => TaskState::Running,
        (b'D', _) => TaskState::Disk,
        (b'T' | b't', _) => TaskState::Stopped,
        (b'Z' | b'X', _) => return None,
        (_, TaskState::Disk) if in_call => TaskState::File,
        _ => TaskState::Unknown,
    })
}

impl Process {
    /// Starts to sample process `pid`, with its one known task.
    pub fn new(pid: Pid, group: usize) -> Process {
        let io = ProcFile::open(pid).ok();
        let tasks = vec![Task::new(pid, pid)];
        let io_is_whole = true;
        let record = ProcessRecord::new(pid);
        Process { record, group, starter: group, tasks, io, io_is_whole, ..Process::default() }
    }

    /// Whether it was found, and not given at the start.
    pub fn was_found(&self) -> bool {
        self.parent != 0
    }

    /// Counts its bytes as its own from now on: the kernel adds the bytes of children it waited for
    /// to the count of the process, but not to that of its one thread.
    pub fn count_alone(&mut self) {
        let pid = self.record.pid;
        self.io = ProcFile::open(ProcDir::Thread(pid, pid)).ok();
        self.io_is_whole = false;
    }

    /// Adds a thread if it is not known yet.
    pub fn add_task(&mut self, id: Pid) {
        if self.tasks.iter().all(|task| task.id != id) {
            if self.tasks.len() == 1 {
                // Threads that end add their bytes to the count of the process.
                self.io = ProcFile::open(self.record.pid).ok();
                self.io_is_whole = true;
            }
            self.tasks.push(Task::new(self.record.pid, id));
        }
    }

    /// Iterates over its tasks, in the order in which a look tells their states.
    pub fn task_ids(&self) -> impl Iterator<Item = Pid> {
        self.tasks.iter().map(|task| task.id)
    }

    /// Returns what each of its tasks was doing when last looked at, with its own bytes and calls so far;
    /// `None` where some are hidden.
    pub fn moved(&mut self) -> Option<Vec<(Pid, TaskState, Io)>> {
        let pid = self.record.pid;
        let of = |task: &mut Task| Some((task.id, task.state, task.moved(pid)?));
        self.tasks.iter_mut().map(of).collect()
    }

    /// Returns the bytes and calls of all its tasks so far.
    pub fn moved_in_all(&mut self) -> Option<Io> {
        let tasks = self.moved()?;
        Some(tasks.into_iter().fold(Io::default(), |sum, (_, _, io)| sum.plus(io)))
    }

    /// Whether each of its tasks that sleeps was found in a call that waits for nothing but a time.
    pub fn sleeps_by_the_clock(&self) -> bool {
        let by_clock = |call: Call| match call {
            Call::Sleep => true,
            Call::Select { read, write, .. } => read == 0 && write == 0,
            Call::Poll { count, .. } => count == 0,
            _ => false,
        };
        let mut asleep = self.tasks.iter().filter(|task| task.state == TaskState::Sleep);
        asleep.all(|task| task.call.is_some_and(by_clock))
    }

    /// Returns CPU time and waiting time of its present tasks, as of the last look.
    pub fn sched(&self) -> Sched {
        self.tasks.iter().fold(Sched::default(), |sum, task| sum.plus(task.used()))
    }

    /// Returns CPU time and waiting time of all its tasks, ended ones included.
    pub fn own_sched(&self) -> Sched {
        self.past.plus(self.sched())
    }

    /// Looks at every task; `with_sched` also reads the CPU time of each. Returns the result, and
    /// the totals of the tasks that ended since the last look.
    pub fn sample(
        &mut self,
        ends: &Endpoints,
        hints: Hints,
        with_sched: bool,
    ) -> (Vec<TaskSample>, Sched) {
        self.looks += 1;
        let pid = self.record.pid;
        if self.may_splice == Some(true) {
            self.positions.sample(pid, self.looks);
        }
        let (mut seen, mut gone) = (Vec::with_capacity(self.tasks.len()), Sched::default());
        self.tasks.retain_mut(|task| match task.sample(pid, ends, hints, with_sched) {
            Some(look) => {
                seen.push(look);
                true
            }
            None => {
                gone = gone.plus(task.used());
                false
            }
        });
        self.past = self.past.plus(gone);
        (seen, gone)
    }

    /// Reads what is needed only at intervals: the name, and what depends on it. Returns the peak
    /// memory.
    pub fn refresh(&mut self) -> Option<u64> {
        let status = Status::of(self.record.pid)?;
        let (name, peak) = (status.name()?, status.peak_rss_bytes());
        let is_new = name != self.record.program;
        // It enters its control group at the start, before it becomes its program.
        if self.looks > 1 {
            self.confines.sample(self.record.pid);
        }
        // Libraries are mapped after the start, and a few later. What was read of a file is kept.
        if is_new || self.looks.is_power_of_two() || self.looks.is_multiple_of(64) {
            self.see_program(true);
        }
        let became_another = || is_posix_shell(&self.record.program) && self.has_other_words();
        if is_new || !self.described || became_another() {
            self.record.program = name;
            self.describe(is_new);
        }
        peak
    }

    /// Whether its arguments are no longer those that were read: a shell that becomes another shell
    /// (`bash -c 'exec bash x.sh'`) keeps its name.
    fn has_other_words(&self) -> bool {
        // Longer ones are cut here. What follows the first words of a shell is seldom another.
        let mut words = words(self.record.pid, 4096);
        let has_words = !words.is_empty();
        words.retain(|word| !word.is_empty());
        has_words && !self.record.command.starts_with(&words.join(" "))
    }

    /// Looks into the file of its program, and into those of its libraries.
    pub fn see_program(&mut self, libraries: bool) {
        if self.may_splice != Some(true) {
            self.may_splice = may_move_uncounted(self.record.pid, libraries).or(self.may_splice);
        }
    }

    /// Whether it seems to be a bash that computes. One that lives briefly is not worth a look at its file.
    pub fn is_bash_at_work(&self, looks: &[TaskSample]) -> bool {
        const FEW_LOOKS: u64 = 4;
        let shell = self.record.program == "bash" || self.record.script.is_some();
        let works = matches!(looks, [look] if look.state == TaskState::Running);
        shell && works && self.looks > FEW_LOOKS
    }

    /// Returns how far it came in the files that it read, if it was watched.
    pub fn position_bytes(&self) -> u64 {
        self.positions.bytes()
    }

    /// Reads the arguments and the locale. In the middle of execve(2) a process has its new name
    /// but neither arguments nor environment: then they are read again the next time.
    fn describe(&mut self, is_new: bool) {
        const MOST_BYTES: usize = 65_536;
        let pid = self.record.pid;
        let mut words = words(pid, MOST_BYTES);
        let has_arguments = !words.is_empty();
        // An ended process has none any more.
        if is_new || has_arguments {
            words.retain(|word| !word.is_empty());
            self.record.command = words.join(" ");
            self.record.script = script_of(pid, &words);
            let variables = environment(pid, MOST_BYTES);
            self.record.locale = locale_of(&variables);
            let is_set = |text: &String, name| {
                let value = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('='));
                value.is_some_and(|value| !value.is_empty())
            };
            let name = unbuffered_by(&self.record.program);
            self.record.unbuffered =
                name.is_some_and(|name| variables.iter().any(|text| is_set(text, name)));
            self.described = has_arguments && !variables.is_empty();
        }
    }

    /// Reads the totals that are unavailable after its end: bytes, and the division of its CPU
    /// time.
    pub fn refresh_totals(&mut self) {
        if let Some(stat) = Stat::of(self.record.pid) {
            let before = self.before.stat.as_ref();
            let since = |of: fn(&Stat) -> u64| of(&stat).saturating_sub(before.map_or(0, of));
            let system_ticks = since(|stat| stat.system_ticks);
            let share = (system_ticks * 1000).checked_div(since(|stat| stat.own_ticks));
            self.record.system_permille = share.unwrap_or(self.record.system_permille);
            self.record.waited.0 = ticks_ns(since(|stat| stat.waited_ticks));
            self.waited_system_ns = ticks_ns(since(|stat| stat.waited_system_ticks));
            self.major_faults = since(|stat| stat.major_faults);
        }
        let io = self.io.as_ref().and_then(|io| Some(counted(io.read().ok()?)));
        let before = if self.io_is_whole { self.before.io_whole } else { self.before.io_alone };
        self.record.io = io.map(|io| io.since(before)).or(self.record.io);
    }

    /// Reads its final totals, if it still exists, running or ended: CPU time and its division,
    /// bytes. Returns its state letter and its parent.
    pub fn last_sample(&mut self) -> Option<(u8, Pid)> {
        let stat = Stat::of(self.record.pid)?;
        for task in &mut self.tasks {
            task.measure_on_cpu();
        }
        // The kernel shows 0 to those who may not know it.
        let status = stat.exit_status.filter(|status| stat.has_ended() && *status != 0);
        self.record.ending = status.map(ending_of);
        self.refresh_totals();
        Some((stat.state, stat.parent))
    }

    /// Notes that it was found to have ended, while nobody had waited for it.
    pub fn note_zombie(&mut self) {
        self.zombie_looks += 1;
        // What it waited for was read after its end.
        self.record.waited.1 = true;
    }

    /// Returns what it used, with those that it waited for, as of the last look.
    pub fn used(&self) -> Unreaped {
        let cpu_ns = self.own_sched().cpu_ns;
        let system_ns = cpu_ns / 1000 * self.record.system_permille + self.waited_system_ns;
        let cpu_ns = cpu_ns + self.record.waited.0;
        Unreaped { processes: 1, cpu_ns, system_ns, io: self.record.io.unwrap_or_default() }
    }
}

/// Returns the counts of the kernel as facts.
pub fn counted(io: proc::Io) -> Io {
    let proc::Io { read_bytes, write_bytes, read_calls, write_calls } = io;
    Io { read_bytes, write_bytes, read_calls, write_calls }
}

impl Task {
    fn new(pid: Pid, id: Pid) -> Task {
        let dir = ProcDir::Thread(pid, id);
        let (syscall, sched) = (ProcFile::open(dir), ProcFile::open(dir).ok());
        let (last, before) = (Sched::default(), Sched::default());
        let (io, state) = (None, TaskState::default());
        let call = None;
        Task { id, syscall, sched, io, state, call, last, before, on_cpu_permille: 1000 }
    }

    /// Returns its own bytes and calls so far.
    fn moved(&mut self, pid: Pid) -> Option<Io> {
        let open = || ProcFile::open(ProcDir::Thread(pid, self.id)).ok();
        self.io = self.io.take().or_else(open);
        Some(counted(self.io.as_ref()?.read().ok()?))
    }

    /// Returns what it used since it is watched.
    fn used(&self) -> Sched {
        self.last.since(self.before)
    }

    /// Looks at the task; `None` when it has ended.
    fn sample(
        &mut self,
        pid: Pid,
        ends: &Endpoints,
        hints: Hints,
        sched: bool,
    ) -> Option<TaskSample> {
        if sched {
            self.on_cpu_permille = self.measure_on_cpu();
        }
        let mut look =
            TaskSample { on_cpu_permille: self.on_cpu_permille, ..TaskSample::default() };
        let blocked = match self.syscall.as_ref().map_err(|error| *error).and_then(ProcFile::read) {
            Err(Errno::SRCH) => return None,
            read => read.ok(),
        };
        look.state = match blocked {
            Some(Blocked::Running) => TaskState::Running,
            Some(Blocked::Call(number, args)) => {
                let call = Call::decode(number, &args);
                look.call = Some(call);
                look.uncounted = call.moves_uncounted();
                classify(pid, call, ends, hints)
            }
            Some(Blocked::NotInCall) => TaskState::Disk,
            Some(Blocked::Hidden) | None => {
                look.hidden = true;
                TaskState::Unknown
            }
        };
        // Only the state letter shows whether a wait for storage, or one outside any call (a page
        // fault), is really for the disk; for a hidden task it is all that is known.
        if matches!(look.state, TaskState::Disk | TaskState::Unknown) {
            let letter = match self.letter(pid) {
                Some(letter) => letter,
                // Hidden altogether, as another user's process may be.
                None if is_taken(self.id) => b'?',
                None => return None,
            };
            look.hidden |= letter == b'?';
            look.state = by_letter(letter, look.state, blocked != Some(Blocked::NotInCall))?;
        }
        let call = match blocked {
            Some(Blocked::Call(number, args)) => Call::decode(number, &args),
            _ => Call::Other(-1),
        };
        if matches!(look.state, TaskState::Disk | TaskState::File | TaskState::Device) {
            look.state = self.still(pid, call, look.state);
        }
        look.awaited = awaited(pid, self.id, call, look.state, ends);
        self.state = look.state;
        self.call = look.call;
        Some(look)
    }

    /// Corrects a wait for a file or a device where the descriptor was another one when the call began: a
    /// shell puts a pipe into the place of its standard input for one `read`, and puts it back at once.
    fn still(&self, pid: Pid, call: Call, state: TaskState) -> TaskState {
        /// `/dev/null` and its like, which nobody waits for.
        const MEMORY: u32 = 1;
        let (Call::Read(fd) | Call::Write(fd)) = call else { return state };
        if let Some(pipe) = descriptor(pid, fd).filter(Descriptor::is_pipe) {
            return if is_anonymous_pipe(&pipe) { TaskState::Child } else { state };
        }
        match state {
            TaskState::Disk => state,
            _ if kernel_function(pid, self.id).is_some_and(|name| name.contains("pipe")) => {
                TaskState::Child
            }
            _ if matches!(special(pid, fd), Some((MEMORY, _, false))) => TaskState::Unknown,
            _ => state,
        }
    }

    fn measure_on_cpu(&mut self) -> u32 {
        let Some(now) = self.sched.as_ref().and_then(|file| file.read().ok()) else { return 1000 };
        let cpu = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        let queue = now.queue_ns.saturating_sub(self.last.queue_ns);
        self.last = now;
        (cpu * 1000).checked_div(cpu + queue).unwrap_or(1000) as u32
    }

    /// Returns the state letter; `None` when the task has ended.
    fn letter(&self, pid: Pid) -> Option<u8> {
        Stat::of(ProcDir::Thread(pid, self.id)).map(|stat| stat.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    /// Looks at a child until it is in the state, for at most some thousands of looks.
    fn comes_to(child: &Child, ends: &Endpoints, state: TaskState) -> bool {
        let mut process = Process::new(child.id() as Pid, 0);
        (0..200_000).any(|_| {
            std::thread::yield_now();
            process.sample(ends, Hints::default(), true).0.iter().any(|look| look.state == state)
        })
    }

    #[test]
    fn a_real_child_is_seen_reading_and_asleep() {
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let input = cat.stdin.as_ref().and_then(Descriptor::of);
        assert!(comes_to(&cat, &Endpoints { input, output: None }, TaskState::BlockedIn));
        drop(cat.stdin.take());
        cat.wait().expect("waited");
        let mut sleep = Command::new("sleep").arg("60").spawn().expect("sleep");
        assert!(comes_to(&sleep, &Endpoints::default(), TaskState::Sleep));
        sleep.kill().expect("killed");
        sleep.wait().expect("waited");
    }

    /// `wait` of dash and of other shells is a loop around `sigsuspend`: they seemed to sleep.
    #[test]
    fn a_shell_that_waits_in_sigsuspend_waits_for_its_child() {
        let mut command = Command::new("dash");
        let shell = command.args(["-c", "sleep 60 & echo $!; wait; :"]).stdout(Stdio::piped());
        let Ok(mut shell) = shell.spawn() else {
            eprintln!("SKIPPED: dash is not installed");
            return;
        };
        let mut line = String::new();
        let mut output = std::io::BufReader::new(shell.stdout.take().expect("piped"));
        std::io::BufRead::read_line(&mut output, &mut line).expect("a line");
        let is = comes_to(&shell, &Endpoints::default(), TaskState::Child);
        let sleep = rustix::process::Pid::from_raw(line.trim().parse().expect("an id"));
        let killed = rustix::process::Signal::KILL;
        rustix::process::kill_process(sleep.expect("an id"), killed).expect("killed");
        shell.wait().expect("waited");
        assert!(is);
    }

    #[test]
    fn a_process_that_is_gone_shows_nothing() {
        let mut child = Command::new("true").spawn().expect("true");
        let mut process = Process::new(child.id() as Pid, 0);
        child.wait().expect("waited");
        let (seen, _) = process.sample(&Endpoints::default(), Hints::default(), true);
        assert_eq!(seen, vec![]);
    }
}
