//! The trace: every switch of the CPUs from and to the tasks of a run, as the kernel makes it.
//!
//! In the order of flow: `btf` reads where the kernel keeps what is needed, `programs` writes the
//! programs with `assembler`, and the kernel checks and runs them (`crate::sys::bpf`). They
//! write events into a ring, which is read at each tick. Here the events become states of tasks, and
//! `account` sums up for how long each group was in which state. What a task waits for is read from
//! the call in which it blocked, by the code that reads it for samples.

mod account;
mod assembler;
mod btf;
mod programs;

pub use account::{Now, Span};

use crate::attribution::calls::Call;
use crate::bytes::{long, word};
use crate::sys::bpf;
use account::Account;
use btf::Types;
use programs::{LONG, Layout, Maps, ONLY_CHILDREN, SHORT, TRACED, kind};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::thread::gettid;
use std::collections::{HashMap, HashSet};
use std::io;
use weir_doctor::facts::Traced;
use weir_sys::Pid;
use weir_sys::cpu::monotonic_ns;

/// Most tasks traced at once.
const TASKS: u32 = 16_384;
/// What the ring holds: some hundred thousand switches.
const RING_BYTES: u32 = 16 << 20;
/// The number of the first namespace of processes (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: u64 = 4_026_531_836;
/// Most calls whose meaning is remembered.
const MOST_CALLS: usize = 1 << 14;

/// Where a process is accounted: its group, and its row inside of a stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub group: Option<usize>,
    pub row: Option<usize>,
}

/// The states of a task as its group and as its row see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStates {
    pub group: Now,
    pub row: Now,
}

/// How a task blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wait {
    pub pid: Pid,
    pub task: Pid,
    /// The state letter, as `/proc` shows it.
    pub letter: u8,
    /// The call in which it blocked; outside of one it was a page fault, as a rule.
    pub call: Option<Call>,
}

#[derive(Debug)]
pub struct Trace {
    ring: bpf::RecordRing,
    /// How each task is traced.
    ways: bpf::NumberMap,
    /// Events for which the ring had no room.
    lost: bpf::Counter,
    /// The programs run as long as these are open.
    _programs: Vec<OwnedFd>,
    tasks: HashMap<Pid, Task>,
    places: HashMap<Pid, Place>,
    groups: Vec<Account>,
    rows: Vec<Account>,
    /// What the calls meant when they were last looked at, and which were in this tick.
    meanings: HashMap<(Pid, Option<Call>, u8), TaskStates>,
    fresh: HashSet<(Pid, Option<Call>, u8)>,
    buffer: Vec<Event>,
    /// Whether what a process starts is accounted with it, until it has a place of its own.
    together: bool,
    pub told: Traced,
}

#[derive(Clone, Copy, Debug)]
struct Task {
    pid: Pid,
    /// `None` where it is not known.
    now: Option<TaskStates>,
}

#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    kind: u32,
    task: Pid,
    pid: Pid,
    extra: u32,
    /// r10, r9, r8, ax, cx, dx, si, di, orig_ax.
    registers: [u64; 9],
}

impl Trace {
    /// Begins to trace what this thread starts from now on. `together`: what a process starts is
    /// accounted with it, until it has a place of its own.
    ///
    /// # Errors
    /// Why that cannot be, in words, and what the kernel's verifier said.
    pub fn open(together: bool) -> Result<Trace, (String, String)> {
        let plain = |text: String| (text, String::new());
        if !cfg!(target_arch = "x86_64") {
            return Err(plain(String::from("it knows the calls of x86-64 only")));
        }
        if weir_sys::proc::namespace("pid") != Some(FIRST_NAMESPACE) {
            let text = "the numbers of processes are other ones here (a namespace of processes)";
            return Err(plain(String::from(text)));
        }
        let file = "/sys/kernel/btf/vmlinux";
        let bytes = std::fs::read(file).map_err(|error| plain(format!("{file}: {error}")))?;
        let layout = Types::parse(&bytes).as_ref().and_then(Layout::find);
        let layout =
            layout.ok_or_else(|| plain(format!("{file} has other types than expected")))?;
        let refused = |error: io::Error| plain(refusal(&error));
        let ways = bpf::NumberMap::make(TASKS).map_err(refused)?;
        let ring = bpf::RecordRing::make(RING_BYTES).map_err(refused)?;
        let lost = bpf::Counter::make().map_err(refused)?;
        let maps = Maps {
            tasks: ways.as_fd().as_raw_fd(),
            ring: ring.as_fd().as_raw_fd(),
            lost: lost.as_fd().as_raw_fd(),
        };
        let mut held = Vec::new();
        for (tracepoint, instructions) in programs::programs(maps, layout) {
            let program = bpf::load(&instructions).map_err(|(error, log)| {
                let name = tracepoint.to_string_lossy();
                (format!("the program for {name}: {}", refusal(&error)), log)
            })?;
            let link = bpf::attach(program.as_fd(), tracepoint).map_err(|error| {
                plain(format!("{}: {}", tracepoint.to_string_lossy(), refusal(&error)))
            })?;
            held.extend([program, link]);
        }
        let own = gettid().as_raw_nonzero().get().cast_unsigned();
        ways.set(own, ONLY_CHILDREN).map_err(refused)?;
        Ok(Trace {
            ring,
            ways,
            lost,
            _programs: held,
            tasks: HashMap::new(),
            places: HashMap::new(),
            groups: Vec::new(),
            rows: Vec::new(),
            meanings: HashMap::new(),
            fresh: HashSet::new(),
            buffer: Vec::new(),
            together,
            told: Traced::default(),
        })
    }

    /// Traces a task that runs already, with what it starts.
    pub fn add(&mut self, task: Pid) {
        if self.ways.set(task.cast_unsigned(), TRACED).is_err() {
            self.told.lost += 1;
        }
    }

    /// Says where a process is accounted.
    pub fn place(&mut self, pid: Pid, place: Place) {
        let before = self.places.insert(pid, place).unwrap_or_default();
        if before == place {
            return;
        }
        let now_ns = monotonic_ns();
        let members = self.tasks.values().filter(|task| task.pid == pid);
        for seen in members.filter_map(|task| task.now).collect::<Vec<_>>() {
            self.account(now_ns, before, Some(seen), None);
            self.account(now_ns, place, None, Some(seen));
        }
    }

    /// Takes a look at a task for which no event has come: it was as it is now.
    pub fn sample(&mut self, pid: Pid, task: Pid, seen: TaskStates) {
        let known = self.tasks.entry(task).or_insert(Task { pid, now: None });
        if known.now.is_none() {
            known.now = Some(seen);
            let place = self.places.get(&pid).copied().unwrap_or_default();
            self.account(monotonic_ns(), place, None, Some(seen));
        }
    }

    /// Takes the events that have come. `means` tells what a wait is. Returns whether all have: if
    /// not, what the tasks do is not known until they are looked at.
    pub fn take(&mut self, means: &mut dyn FnMut(Wait, Place) -> TaskStates) -> bool {
        let mut events = std::mem::take(&mut self.buffer);
        self.ring.take(|record| events.extend(Event::parse(record)));
        self.fresh.clear();
        self.told.events += events.len() as u64;
        for event in events.drain(..) {
            self.note(event, means);
        }
        self.buffer = events;
        let lost = self.lost.first().unwrap_or(u64::MAX);
        let all = lost <= self.told.lost;
        if !all {
            self.told.lost = lost;
            self.tasks.values_mut().for_each(|task| task.now = None);
            let now_ns = monotonic_ns();
            self.groups.iter_mut().chain(&mut self.rows).for_each(|it| it.clear(now_ns));
        }
        all
    }

    /// Returns for how long a group was in which state since the last time.
    pub fn group(&mut self, group: usize) -> Span {
        self.groups.get_mut(group).map(|it| it.take(monotonic_ns())).unwrap_or_default()
    }

    /// Returns the same of a row.
    pub fn row(&mut self, row: usize) -> Span {
        self.rows.get_mut(row).map(|it| it.take(monotonic_ns())).unwrap_or_default()
    }

    fn note(&mut self, event: Event, means: &mut dyn FnMut(Wait, Place) -> TaskStates) {
        let now = match event.kind {
            kind::BLOCKS => self.meaning(&event, means),
            kind::PREEMPTED => Some(Now::Queued.seen()),
            kind::RUNS => Some(Now::OnCpu.seen()),
            kind::WAKES => match self.tasks.get(&event.task).and_then(|task| task.now) {
                // It was woken before it gave its CPU up.
                Some(seen) if seen.group == Now::OnCpu => return,
                _ => Some(Now::Queued.seen()),
            },
            kind::FORK => {
                let parent = event.extra.cast_signed();
                if self.together && event.task == event.pid && !self.places.contains_key(&event.pid)
                {
                    let above = self.places.get(&parent).copied().unwrap_or_default();
                    self.places.insert(event.pid, Place { row: None, ..above });
                }
                self.tasks.insert(event.task, Task { pid: event.pid, now: None });
                Some(Now::Queued.seen())
            }
            kind::EXEC => {
                let before = event.extra.cast_signed();
                self.meanings.retain(|(pid, ..), _| *pid != event.pid);
                if before != event.task
                    && let Some(task) = self.tasks.remove(&before)
                {
                    self.tasks.insert(event.task, task);
                }
                return;
            }
            _ => None,
        };
        let unknown = Task { pid: event.task, now: None };
        let task = self.tasks.entry(event.task).or_insert(unknown);
        let (pid, before) = (task.pid, std::mem::replace(&mut task.now, now));
        if event.kind == kind::EXIT {
            self.tasks.remove(&event.task);
        }
        let place = self.places.get(&pid).copied().unwrap_or_default();
        self.account(event.at_ns, place, before, now);
    }

    /// Returns what a wait is. The same call of a process means the same within a tick.
    fn meaning(
        &mut self,
        event: &Event,
        means: &mut dyn FnMut(Wait, Place) -> TaskStates,
    ) -> Option<TaskStates> {
        let pid = self.tasks.get(&event.task).map_or(event.task, |task| task.pid);
        let (letter, call) = (letter(event.extra), event.call());
        let key = (pid, call, letter);
        if !self.fresh.contains(&key) {
            let place = self.places.get(&pid).copied().unwrap_or_default();
            let unknown =
                |seen: TaskStates| seen.group == Now::Waits(weir_doctor::state::TaskState::Unknown);
            let seen = means(Wait { pid, task: event.task, letter, call }, place);
            if self.meanings.len() >= MOST_CALLS {
                self.meanings.clear();
            }
            // The descriptors of a process that has ended say nothing any more.
            if !unknown(seen) || !self.meanings.contains_key(&key) {
                self.meanings.insert(key, seen);
            }
            self.fresh.insert(key);
        }
        self.meanings.get(&key).copied()
    }

    fn account(
        &mut self,
        now_ns: u64,
        place: Place,
        from: Option<TaskStates>,
        to: Option<TaskStates>,
    ) {
        let change = |accounts: &mut Vec<Account>, at: Option<usize>, of: fn(TaskStates) -> Now| {
            let Some(at) = at else { return };
            if accounts.len() <= at {
                accounts.resize_with(at + 1, Account::default);
            }
            accounts[at].change(now_ns, from.map(of), to.map(of));
        };
        change(&mut self.groups, place.group, |seen| seen.group);
        change(&mut self.rows, place.row, |seen| seen.row);
    }
}

impl Now {
    /// The state, seen alike by all.
    pub fn seen(self) -> TaskStates {
        TaskStates { group: self, row: self }
    }
}

impl Event {
    fn parse(record: &[u8]) -> Option<Event> {
        let word = |at: usize| word(record, at);
        let long = |at: usize| long(record, at);
        let mut registers = [u64::MAX; 9];
        if record.len() >= LONG {
            for (at, register) in registers.iter_mut().enumerate() {
                *register = long(SHORT + at * 8)?;
            }
        }
        let (task, pid) = (word(12)?.cast_signed(), word(16)?.cast_signed());
        Some(Event { at_ns: long(0)?, kind: word(8)?, task, pid, extra: word(20)?, registers })
    }

    /// The call in which the task was, by the registers with which it came into the kernel.
    fn call(&self) -> Option<Call> {
        let [r10, r9, r8, _, _, dx, si, di, number] = self.registers;
        let number = number.cast_signed();
        (number >= 0).then(|| Call::decode(number, &[di, si, dx, r10, r8, r9]))
    }
}

/// The letter for a state of the kernel.
fn letter(state: u32) -> u8 {
    match state {
        _ if state & 0x1 != 0 => b'S',
        // A kernel thread's idle wait does not count as one for storage.
        _ if state & 0x402 == 0x402 => b'S',
        _ if state & 0x2 != 0 => b'D',
        _ if state & 0xc != 0 => b'T',
        _ if state & 0xb0 != 0 => b'X',
        _ => b'S',
    }
}

/// Says why the kernel refused.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => String::from("bpf is not allowed here; as root it is, unless locked down"),
        Some(38) => String::from("this kernel has no bpf"),
        _ => format!("bpf: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use weir_doctor::state::TaskState;

    /// Opens a trace, if this host allows it.
    fn opened() -> Option<Trace> {
        match Trace::open(true) {
            Ok(trace) => Some(trace),
            Err((why, log)) => {
                assert!(log.is_empty(), "{why}\n{log}");
                println!("SKIPPED: {why}");
                None
            }
        }
    }

    /// A child sleeps twice, in itself and in a child of its own: the trace has both, from the first
    /// instant to the last, and no sample was taken.
    #[test]
    fn a_child_and_its_child_are_traced_from_their_start_to_their_end() {
        let Some(mut trace) = opened() else { return };
        // sleep: what is waited for is time.
        let mut shell = Command::new("bash");
        let text = "read -r; sleep 0.3; exec sleep 0.2";
        let mut shell = shell.args(["-c", text]).stdin(Stdio::piped()).spawn().expect("bash");
        trace.place(shell.id().cast_signed(), Place { group: Some(1), row: None });
        // It begins once it has its place, however long that took.
        drop(shell.stdin.take());
        assert!(shell.wait().expect("waited").success());
        let mut calls = Vec::new();
        let all = trace.take(&mut |wait, place| {
            assert_eq!(place.group, Some(1));
            calls.extend(wait.call);
            Now::Waits(match wait.call {
                Some(Call::Sleep) => TaskState::Sleep,
                Some(Call::Child) => TaskState::Child,
                _ => TaskState::Disk,
            })
            .seen()
        });
        assert!(all && trace.told.lost == 0);
        assert!(calls.contains(&Call::Sleep) && calls.contains(&Call::Child), "{calls:?}");
        let span = trace.group(1);
        let of = |state: TaskState| span.state_ns[state.index()];
        // The child's sleep is stronger than the wait for it, and only what is stronger still may
        // are in its place, on a busy host.
        let told_ns = span.state_ns.iter().sum::<u64>() - of(TaskState::Child);
        assert!(of(TaskState::Sleep) > 0 && told_ns >= 500_000_000, "{span:?}");
        assert!(of(TaskState::Child) < told_ns, "{span:?}");
        assert!(span.on_cpu_ns > 0 && span.on_cpu_ns <= of(TaskState::Running), "{span:?}");
        assert!(trace.tasks.is_empty(), "all have ended: {:?}", trace.tasks);
    }

    /// What others do is not told.
    #[test]
    fn a_process_of_another_thread_is_not_traced() {
        let Some(mut trace) = opened() else { return };
        let other = std::thread::spawn(|| Command::new("true").status());
        assert!(other.join().expect("joined").expect("true").success());
        trace.take(&mut |_, _| Now::OnCpu.seen());
        assert_eq!(trace.told.events, 0);
    }
}
