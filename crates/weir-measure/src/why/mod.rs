//! Why a process does not go on: the facts about it and about those for which it waits.
//!
//! Nothing is held and nobody is stopped: `/proc` is read, and descriptors are borrowed for
//! microseconds. The chain is walked twice, [`WINDOW`] apart, so that the second walk knows how much
//! CPU time each process used in between.
//!
//! - `task`: what one thread waits for;
//! - `open`: which processes have a file open, and how;
//! - `locks`: who holds a lock;
//! - `ends`: the children and other processes whose end it waits for;
//! - `connect`: connections that it does not have yet;
//! - `held`: output that a program keeps in its own buffer;
//! - `signals`: signals, of which the end of a child may be one;
//! - `terminal`: the other sides of pseudo-terminals;
//! - `stopped`: stopped, frozen and throttled processes.

mod connect;
mod ends;
mod held;
mod locks;
mod open;
mod signals;
mod stopped;
mod task;
mod terminal;

use crate::hot::Profiler;
use crate::proc::{identity, words};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_doctor::why::{Cause, Named, Stop, Why, WhyLink, decisive, walk};
use weir_sys::Pid;
use weir_sys::proc::{Sched, Stat, read_small, tasks};

/// Time between the two walks.
pub const WINDOW: Duration = Duration::from_millis(150);
/// Fewer samples name no function.
const ENOUGH_SAMPLES: u64 = 8;
/// Most threads of a process that are looked at.
const MOST_TASKS: usize = 256;
/// Most threads of a process whose CPU time is counted.
const MOST_COUNTED: usize = 8192;
/// A process that used this part of a CPU computes.
const COMPUTES: f64 = 0.05;
/// A process that waited for a CPU for this part of the time waits for it.
const WAITS: f64 = 0.3;
/// Most characters of a command.
const MOST_CHARACTERS: usize = 60;
/// Most bytes read of a command: the program may stand in a long directory.
const COMMAND_BYTES: usize = 16_384;

/// Finds out why process `pid` does not go on; `None` when there is no such process. Takes
/// [`WINDOW`] and the time of some reads.
pub fn why(pid: Pid) -> Option<Why> {
    let looker = Looker::default();
    let first = walk(pid, |pid| looker.look(pid))?;
    let mut profiler = Profiler::new();
    for (at, link) in first.links.iter().enumerate() {
        // One that has a CPU now may be one that computes.
        if matches!(link.wait, Cause::Computes { .. } | Cause::Cpu { .. }) {
            profiler.attach(link.named.pid, Some(at));
        }
    }
    // sleep: what a process does in a while is what is measured.
    std::thread::sleep(WINDOW);
    let again = Looker { before: looker.now, ..Looker::default() };
    let mut second = walk(pid, |pid| again.look(pid))?;
    name_functions(&first, &mut second, profiler);
    Some(second)
}

/// Adds the functions of those that computed at both looks.
fn name_functions(first: &Why, second: &mut Why, profiler: Profiler) {
    let code = profiler.finish();
    for (at, before) in first.links.iter().enumerate() {
        let same = second.links.iter_mut().find(|link| link.named.pid == before.named.pid);
        let computes = same.filter(|link| matches!(link.wait, Cause::Computes { .. }));
        if let Some(link) = computes {
            link.hot = code.of(Some(at)).filter(|hot| hot.samples >= ENOUGH_SAMPLES).cloned();
        }
    }
}

/// Looks at processes, and remembers the CPU time that they had used.
#[derive(Default)]
struct Looker {
    now: RefCell<BTreeMap<Pid, Used>>,
    before: RefCell<BTreeMap<Pid, Used>>,
    host: open::Host,
}

/// What a process had used at a moment.
#[derive(Clone, Copy)]
struct Used {
    at: Instant,
    sched: Sched,
    throttled_ns: u64,
}

impl Looker {
    fn look(&self, pid: Pid) -> Option<WhyLink> {
        let stat = Stat::of(pid)?;
        let parent = identity(stat.parent).map(|parent| named(parent.pid, &parent.name));
        let name = identity(pid).map(|identity| identity.name).unwrap_or_default();
        // Other threads may go on after the first one has ended.
        let first = stat.has_ended().then(|| successor(pid)).flatten();
        let (task, stat) = first.unwrap_or((pid, stat));
        let alone = |wait: Cause| (wait, false);
        let (wait, has_way_out) = match stat.state {
            b'Z' | b'X' => alone(Cause::Ended { parent: parent.as_ref().map(|it| it.pid) }),
            b'T' => alone(Cause::Stopped(Stop::Signal(stopped::signal(&stat)))),
            b't' => alone(Cause::Stopped(stopped::debugger(task))),
            _ if stat.is_of_kernel() => alone(Cause::Kernel),
            _ if stopped::is_frozen(task) => alone(Cause::Frozen),
            _ => self.working(pid).map_or_else(|| waiting(&self.host, task), alone),
        };
        let held_back = held::back(pid, &name);
        let named = named(pid, &name);
        Some(WhyLink { named, parent, wait, has_way_out, held_back, hot: None })
    }

    /// Returns what a process does with the CPUs, if it is that.
    fn working(&self, pid: Pid) -> Option<Cause> {
        let quota = stopped::quota(pid);
        let throttled_ns = quota.map_or(0, |quota| quota.throttled_ns);
        let used = Used { at: Instant::now(), sched: sched(pid), throttled_ns };
        self.now.borrow_mut().insert(pid, used);
        let before = *self.before.borrow().get(&pid)?;
        let elapsed_ns = used.at.duration_since(before.at).as_nanos() as f64;
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / elapsed_ns;
        let cpus = share(used.sched.cpu_ns, before.sched.cpu_ns);
        let queue = share(used.sched.queue_ns, before.sched.queue_ns);
        let throttled = share(used.throttled_ns, before.throttled_ns);
        let wants = cpus + queue >= COMPUTES;
        match quota {
            Some(quota) if wants && throttled >= WAITS => {
                return Some(Cause::Quota { cpus: quota.cpus });
            }
            _ => {}
        }
        if queue >= WAITS && queue > cpus {
            return Some(Cause::Cpu { share: queue.min(1.0) });
        }
        (cpus >= COMPUTES).then_some(Cause::Computes { cpus })
    }
}

/// Returns a thread that goes on, of a process whose first one has ended.
fn successor(pid: Pid) -> Option<(Pid, Stat)> {
    let lives = |task: Pid| Stat::of(task).filter(|stat| !stat.has_ended());
    tasks(pid).into_iter().find_map(|task| Some((task, lives(task)?)))
}

/// Returns what a process waits for that uses no CPU, by the id of a thread that has not ended: what
/// was open and in memory is the kernel's to tell of such a thread only. Also tells whether something
/// else may let the process go on.
fn waiting(host: &open::Host, first: Pid) -> (Cause, bool) {
    let lives = |task: &Pid| *task == first || Stat::of(*task).is_some_and(|s| !s.has_ended());
    let all = tasks(first);
    let is_cut = all.len() > MOST_TASKS;
    let all = all.into_iter().take(MOST_TASKS).filter(lives);
    let all: Vec<(Cause, bool)> = all.map(|task| task::wait(host, first, task)).collect();
    let waits = all.iter().map(|(wait, _)| wait.clone()).collect();
    let wait = decisive(waits).unwrap_or(Cause::Unknown { kernel: None });
    let is_out = |(other, has_way_out): &(Cause, bool)| *has_way_out || other.is_way_out(&wait);
    let has_way_out = is_cut || all.iter().any(is_out);
    (wait, has_way_out)
}

/// Returns the CPU time of all threads.
fn sched(pid: Pid) -> Sched {
    let of = |task: Pid| {
        let mut buffer = [0; 128];
        let text = read_small(&format!("/proc/{pid}/task/{task}/schedstat"), &mut buffer).ok()?;
        Sched::parse(text)
    };
    let all = tasks(pid).into_iter().take(MOST_COUNTED).filter_map(of);
    all.fold(Sched::default(), Sched::plus)
}

/// Returns a process with its command: its words, or its name in brackets where it has none.
fn named(pid: Pid, name: &str) -> Named {
    let words = words(pid, COMMAND_BYTES).join(" ");
    let command = match words.trim() {
        "" => format!("[{name}]"),
        // Text of a script may have several lines.
        words => without_directory(&words.split_whitespace().collect::<Vec<_>>().join(" ")),
    };
    let cut: String = command.chars().take(MOST_CHARACTERS).collect();
    let command = if cut.len() < command.len() { format!("{cut}...") } else { cut };
    Named { pid, command }
}

/// Removes the directory of the program.
fn without_directory(command: &str) -> String {
    let end = command.find(' ').unwrap_or(command.len());
    let start = command[..end].rfind('/').map_or(0, |slash| slash + 1);
    command[start..].to_owned()
}
