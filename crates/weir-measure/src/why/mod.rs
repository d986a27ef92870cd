//! Why a process does not continue: the facts about it and about those for which it waits.
//!
//! Nothing is held and nobody is stopped: `/proc` is read, and descriptors are borrowed for
//! microseconds. The chain is walked again and again, until what each of its processes did was seen
//! for a while: one moment of a pipeline that flows says little.
//!
//! - `course`: what processes did over that time;
//! - `task`: what one thread waits for;
//! - `open`: which processes have a file open, and how;
//! - `locks`: who holds a lock;
//! - `ends`: the children and other processes whose end it waits for;
//! - `connect`: connections that it does not have yet;
//! - `held`: output that a program keeps in its own buffer;
//! - `signals`: signals, of which the end of a child may be one;
//! - `terminal`: the other sides of pseudo-terminals;
//! - `still`: for how long they have not run;
//! - `stopped`: stopped, frozen and traced processes.

mod connect;
mod course;
mod ends;
mod held;
mod locks;
mod open;
mod signals;
mod still;
mod stopped;
mod task;
mod terminal;

use crate::hot::Profiler;
use course::{Course, Lately, MOST_TASKS};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use weir_doctor::why::{
    Cause, HeldBack, Named, Stop, StuckThread, Why, WhyLink, beside, decisive, walk,
};
use weir_sys::Pid;
use weir_sys::proc::{
    Blocked, FileKind, ProcContents, ProcDir, Stat, descriptor, identity, tasks, words,
};

/// Time for which the processes of the first walk are watched, and those that a later one came to.
pub const WINDOW: Duration = Duration::from_millis(300);
const AGAIN: Duration = Duration::from_millis(100);
/// Whoever is reached after this time counts as at that moment.
const MOST_TIME: Duration = Duration::from_millis(600);
/// Fewer samples name no function.
const ENOUGH_SAMPLES: u64 = 8;
/// Below this part of a CPU a process counts as one that waits, if it was ever seen to.
const COMPUTES: f64 = 0.05;
/// A process that waited for a CPU for this part of the time waits for it.
const WAITS: f64 = 0.3;
/// Most threads that are named.
const MOST_NAMED: usize = 8;
/// Most characters of a command.
const MOST_CHARACTERS: usize = 60;
/// Most bytes read of a command: the program may be in a long directory.
const COMMAND_BYTES: usize = 16_384;

/// Finds out why process `pid` does not continue; `None` when there is no such process. Takes less
/// than a second.
pub fn why(pid: Pid) -> Option<Why> {
    let begun = Instant::now();
    let mut looker = Looker::near(pid);
    let (mut profiler, mut sampled) = (Profiler::new(), BTreeSet::new());
    let mut found = walk(pid, |pid| looker.sample(pid))?;
    let mut time = WINDOW;
    loop {
        // One that has a CPU now may be one that computes.
        let runs =
            |link: &&WhyLink| matches!(link.wait, Cause::Computes { .. } | Cause::Cpu { .. });
        for pid in found.links.iter().filter(runs).map(|link| link.named.pid) {
            if sampled.insert(pid) {
                profiler.attach_alone(pid, Some(pid as usize), MOST_TASKS);
            }
        }
        looker.course.watch(time);
        if !looker.host.is_quick() || begun.elapsed() >= MOST_TIME {
            looker.is_last = true;
        } else {
            looker.host = open::Host::near(pid);
        }
        found = walk(pid, |pid| looker.sample(pid))?;
        time = AGAIN;
        if looker.is_last || !looker.course.has_new() {
            break;
        }
    }
    forget_other_outputs(&mut found);
    found.left_out = looker.host.left_out();
    name_functions(&mut found, profiler);
    for link in found.links.iter_mut().filter(|link| link.share.is_none()) {
        link.still_ns = still::still_ns(link.named.pid);
    }
    Some(found)
}

/// Forgets the standard output that a process keeps back where the one before it waits for another pipe
/// of it, as for the queue of a pool; and what it may keep back where it waits for another process to
/// tell it what to write, and not for its input.
fn forget_other_outputs(found: &mut Why) {
    for at in 1..found.links.len() {
        let Cause::Pipe(awaited) = &found.links[at - 1].wait else { continue };
        let inode = awaited.inode;
        let output = descriptor(found.links[at].named.pid, 1);
        if !output.is_some_and(|output| output.kind == FileKind::Pipe && output.inode == inode) {
            found.links[at].held_back = None;
        }
        let link = &mut found.links[at];
        let input = descriptor(link.named.pid, 0);
        if let Cause::Pipe(pipe) = &link.wait
            && !input.is_some_and(|input| input.is_pipe() && input.inode == pipe.inode)
        {
            link.held_back = link.held_back.filter(|held| *held != HeldBack::Perhaps);
        }
    }
}

/// Adds the functions of those that compute.
fn name_functions(found: &mut Why, profiler: Profiler) {
    let code = profiler.finish();
    for (at, link) in found.links.iter_mut().enumerate() {
        if matches!(link.wait, Cause::Computes { .. }) {
            let hot = code.of(Some(link.named.pid as usize));
            link.hot = hot.filter(|hot| hot.samples >= ENOUGH_SAMPLES).cloned();
            link.hot.iter_mut().for_each(|hot| hot.stage = Some(at));
        }
    }
}

/// Looks at processes.
struct Looker {
    course: Course,
    host: open::Host,
    /// Whether there is no time to look for longer.
    is_last: bool,
}

impl Looker {
    fn near(pid: Pid) -> Looker {
        Looker { course: Course::default(), host: open::Host::near(pid), is_last: false }
    }

    fn sample(&mut self, pid: Pid) -> Option<WhyLink> {
        let stat = Stat::of(pid)?;
        let parent = identity(stat.parent).map(|parent| named(parent.pid, &parent.name));
        let name = identity(pid).map(|identity| identity.name).unwrap_or_default();
        // Other threads may continue after the first one has ended.
        let first = stat.has_ended().then(|| successor(pid)).flatten();
        let (task, stat) = first.unwrap_or((pid, stat));
        let lately = self.course.lately(pid);
        let has_run = lately.as_ref().is_some_and(|lately| lately.has_run);
        let tracer = stopped::tracer(task);
        let frozen = || Some(stopped::frozen_by(task)).filter(|files| !files.is_empty());
        let alone = |wait: Cause| (wait, false, 1.0);
        let (wait, has_way_out, share) = match (stat.state, tracer) {
            (b'Z' | b'X', _) => alone(Cause::Ended { parent: parent.as_ref().map(|it| it.pid) }),
            (b'T', _) => alone(Cause::Stopped(stopped::by(task, &stat))),
            (b't', Some(tracer)) if !has_run => alone(Cause::Stopped(Stop::Debugger(tracer))),
            _ if stat.is_of_kernel() => alone(Cause::Kernel),
            _ if let Some(files) = frozen() => alone(Cause::Frozen { files }),
            _ => {
                self.course.begin(pid);
                match &lately {
                    Some(lately) => did(&self.host, task, lately),
                    None => waiting(&self.host, task, None),
                }
            }
        };
        let others = || {
            beside(tasks_of(&self.host, task, lately.as_ref()).into_iter().map(|it| it.0).collect())
        };
        let beside = wait.is_for_clients().then(others).flatten();
        let waits = !matches!(wait, Cause::Computes { .. });
        let is_silent = lately.as_ref().is_some_and(|lately| lately.is_silent);
        let held_back = (waits && is_silent).then(|| held::back(pid, &name)).flatten();
        let threads = match wait {
            Cause::Threads { timed: false, .. } => stuck(task),
            _ => Vec::new(),
        };
        Some(WhyLink {
            named: named(pid, &name),
            parent,
            wait,
            beside,
            has_way_out,
            share: has_run.then_some(share),
            threads,
            still_ns: None,
            left: is_left(pid),
            tracer: tracer.and_then(identity).map(|it| named(it.pid, &it.name)),
            held_back,
            hot: None,
        })
    }
}

/// Returns what a process did most since it was first looked at, whether something else may end that
/// if it is a wait, and its share of the time.
fn did(host: &open::Host, task: Pid, lately: &Lately) -> (Cause, bool, f64) {
    let busy = lately.cpus.max(lately.queue);
    // One of very many threads that computes is enough.
    let all_watched = lately.unwatched < WAITS;
    if all_watched && (busy < lately.longest_wait() || busy < COMPUTES) {
        let (wait, has_way_out, share) = waiting(host, task, Some(lately));
        if !matches!(wait, Cause::Computes { .. }) && busy < share.max(COMPUTES) {
            return (wait, has_way_out || lately.has_run, share);
        }
    }
    let cause = match lately.quota {
        Some((quota, throttled)) if throttled >= WAITS => Cause::Quota { cpus: quota.cpus },
        _ if lately.queue >= WAITS && lately.queue > lately.cpus => {
            Cause::Cpu { share: lately.queue.min(1.0) }
        }
        _ => Cause::Computes { cpus: lately.cpus },
    };
    (cause, false, busy.min(1.0))
}

/// Whether the process that started this one has ended: its parent is of another session, and it began
/// none itself.
fn is_left(pid: Pid) -> bool {
    // Sessions of another pid namespace have no number here.
    let is_no_leader = |own: &Stat| own.session != pid && own.session != 0;
    let Some(own) = Stat::of(pid).filter(is_no_leader) else { return false };
    Stat::of(own.parent).is_some_and(|parent| parent.session != own.session)
}

/// Returns a thread that continues, of a process whose first one has ended.
fn successor(pid: Pid) -> Option<(Pid, Stat)> {
    let lives = |task: Pid| Stat::of(task).filter(|stat| !stat.has_ended());
    tasks(pid).into_iter().find_map(|task| Some((task, lives(task)?)))
}

/// Returns what a process waits for, by the id of a thread that has not ended: what was open and in
/// memory is the kernel's to tell of such a thread only. Also tells whether something else may let the
/// process continue, and in which share of the time it waited so.
fn waiting(host: &open::Host, first: Pid, lately: Option<&Lately>) -> (Cause, bool, f64) {
    let is_cut = tasks(first).len() > MOST_TASKS;
    let all = tasks_of(host, first, lately);
    let waits = all.iter().map(|(wait, ..)| wait.clone()).collect();
    let wait = decisive(waits).unwrap_or(Cause::Unknown { kernel: None });
    let share = all.iter().find(|(other, ..)| *other == wait).map_or(1.0, |(.., share)| *share);
    let is_out =
        |(other, has_way_out, _): &(Cause, bool, f64)| *has_way_out || other.is_way_out(&wait);
    let has_way_out = is_cut || all.iter().any(is_out);
    (wait, has_way_out, share)
}

/// Returns the same of each thread.
fn tasks_of(host: &open::Host, first: Pid, lately: Option<&Lately>) -> Vec<(Cause, bool, f64)> {
    let lives = |task: &Pid| *task == first || Stat::of(*task).is_some_and(|s| !s.has_ended());
    let of = |task: Pid| {
        let past = lately.and_then(|lately| lately.of(task)).unwrap_or_default();
        match past.wait {
            Some((blocked, share)) if share > past.busy => {
                let (cause, has_way_out) = task::wait(host, first, task, Some(blocked));
                (cause, has_way_out, share)
            }
            _ if past.busy >= COMPUTES => (Cause::Computes { cpus: past.busy }, false, past.busy),
            _ => {
                let (cause, has_way_out) =
                    task::wait(host, first, task, Blocked::of(ProcDir::Thread(first, task)));
                (cause, has_way_out, 1.0)
            }
        }
    };
    tasks(first).into_iter().take(MOST_TASKS).filter(lives).map(of).collect()
}

/// Returns the threads of a process that wait for locks, conditions or ends of their own, for no
/// limited time; none where one of them does something else.
fn stuck(first: Pid) -> Vec<StuckThread> {
    let all = tasks(first);
    let of = |id: &Pid| {
        let blocked = Blocked::of(ProcDir::Thread(first, *id))?;
        let lacks = locks::stuck(first, blocked, &all)?;
        let name = identity(*id).map(|identity| identity.name).unwrap_or_default();
        Some(StuckThread { id: *id, name, lacks })
    };
    let stuck: Vec<StuckThread> = all.iter().take(MOST_NAMED + 1).map_while(of).collect();
    if stuck.len() == all.len() && all.len() > 1 { stuck } else { Vec::new() }
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
