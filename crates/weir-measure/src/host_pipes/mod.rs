//! All pipes of the kernel that join processes on this host, as far as this user may see them: who
//! writes, who reads, how full each is, and who waits.
//!
//! Nothing is held and nobody is stopped: `/proc` is read, and an end is borrowed for microseconds
//! as in [`crate::attribution`].
//!
//! - `rate`: how many bytes passed between two looks, and how well that is known;
//! - `waits`: which descriptors the threads of a process wait for.

mod rate;
mod waits;

pub use rate::{Rate, RateQuality};

use crate::attribution::{Fill, PipeWatch};
use crate::quota::EachLimits;
use rate::{Counts, Programs};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use waits::Waits;
use weir_doctor::facts::Quota;
use weir_sys::Pid;
use weir_sys::proc::{
    Descriptor, ProcContents, Stat, access, descriptor, descriptors, is_anonymous_pipe, link,
    processes,
};

/// Most processes whose descriptors are read.
const MOST_PROCESSES: usize = 32_768;
/// Most descriptors of a process that are read.
const MOST_DESCRIPTORS: usize = 1 << 16;
/// The longest search for pipes, and the longest look at who waits for them. What is not seen by then
/// is left out.
const MOST_TIME: Duration = Duration::from_millis(400);

/// A process that its quota throttled for this part of the time is told of.
const THROTTLED: f64 = 0.3;

/// Anonymous files that are read, which the kernel counts; of these only the first are written.
const READ: [&str; 5] = [EVENTS, "timerfd", "signalfd", "fanotify", "userfaultfd"];
const EVENTS: &str = "eventfd";

/// A process that has an end of a pipe open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holder {
    /// The process.
    pub pid: Pid,
    /// Its lowest descriptor of this end.
    pub fd: i32,
    /// Whether it waits for the pipe; `None` where that may not be seen.
    pub waits: Option<bool>,
    /// Whether it waits for nothing else.
    pub only: bool,
    /// The quota that throttled it for most of the time since the look before.
    pub quota: Option<Quota>,
}

/// A pipe or FIFO at one moment.
#[derive(Clone, Debug)]
pub struct HostPipe {
    /// The pipe.
    pub identity: Descriptor,
    /// The path of a FIFO.
    pub path: Option<String>,
    /// The processes that have its writing end.
    pub writers: Vec<Holder>,
    /// The processes that have its reading end.
    pub readers: Vec<Holder>,
    /// What is in it; `None` where no end may be borrowed.
    pub fill: Option<Fill>,
    /// How much passed since the look before; `None` at the first look.
    pub rate: Option<Rate>,
}

impl HostPipe {
    /// Whether it joins processes: a pipe of a single process joins its own threads.
    pub fn joins_processes(&self) -> bool {
        let mut pids = self.writers.iter().chain(&self.readers).map(|holder| holder.pid);
        let first = pids.next();
        pids.any(|pid| Some(pid) != first)
    }
}

/// The result of one look at all pipes.
#[derive(Clone, Debug, Default)]
pub struct PipesSnapshot {
    /// The pipes.
    pub pipes: Vec<HostPipe>,
    /// Processes whose descriptors this user may not see.
    pub unseen: usize,
    /// Processes at which there was no time to look.
    pub left_out: usize,
}

/// Looks at all pipes again and again.
#[derive(Debug)]
pub struct HostPipes {
    programs: Programs,
    /// The counts and quotas of the look before, and its time.
    before: Option<(BTreeMap<Pid, Counts>, EachLimits, Instant)>,
}

/// The descriptors of a process by the direction in which they can move bytes.
#[derive(Clone, Debug, Default)]
struct Open {
    reads: BTreeSet<Target>,
    writes: BTreeSet<Target>,
}

/// What a descriptor moves bytes to or from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// A pipe or FIFO, by device and inode.
    Pipe(u64, u64),
    /// Anything else.
    Other,
}

/// What one descriptor refers to.
struct Found {
    /// The pipe and, for a FIFO, its path.
    pipe: Option<(Descriptor, Option<String>)>,
    /// Whether it can be written to at all.
    is_written: bool,
}

impl Default for HostPipes {
    fn default() -> HostPipes {
        HostPipes::new()
    }
}

impl HostPipes {
    /// Creates a watch that has not looked yet.
    pub fn new() -> HostPipes {
        HostPipes { programs: Programs::default(), before: None }
    }

    /// Looks at all pipes. With `all`, those of a single process are among them.
    pub fn snapshot(&mut self, all: bool) -> PipesSnapshot {
        let mut sweep = Sweep::default();
        let (own, begun) = (std::process::id() as Pid, Instant::now());
        let mut others = processes().into_iter().filter(|pid| *pid != own).peekable();
        let (mut looked_at, has_time) = (0, || begun.elapsed() < MOST_TIME);
        while let Some(pid) = others.next_if(|_| has_time() && looked_at < MOST_PROCESSES) {
            sweep.process(pid);
            looked_at += 1;
        }
        let left_out = others.count();
        let Sweep { pipes, open, unseen } = sweep;
        let mut pipes: Vec<HostPipe> =
            pipes.into_values().filter(|pipe| all || pipe.joins_processes()).collect();
        let holders = |pipe: &HostPipe| {
            let both = pipe.writers.iter().chain(&pipe.readers);
            both.map(|holder| holder.pid).collect::<Vec<_>>()
        };
        let pids = BTreeSet::from_iter(pipes.iter().flat_map(holders));
        let begun = Instant::now();
        let has_time = |_: &&Pid| begun.elapsed() < MOST_TIME;
        let seen = pids.iter().take_while(has_time);
        let waits = BTreeMap::from_iter(seen.map(|pid| (*pid, Waits::of(*pid))));
        let left_out = left_out + pids.len() - waits.len();
        let limits = EachLimits::of(waits.keys().copied());
        let now = Instant::now();
        let counts =
            BTreeMap::from_iter(pids.iter().filter_map(|pid| Some((*pid, Counts::of(*pid)?))));
        for pipe in &mut pipes {
            note_waits(pipe, &waits, &open);
            pipe.fill = fill(pipe);
            if let Some((before, earlier, then)) = &self.before {
                let elapsed_s = now.duration_since(*then).as_secs_f64();
                for holder in pipe.writers.iter_mut().chain(&mut pipe.readers) {
                    let quota = limits.since(earlier, holder.pid);
                    holder.quota = quota
                        .filter(|quota| quota.throttled_ns as f64 >= THROTTLED * elapsed_s * 1e9);
                }
                let between = rate::Between { before, now: &counts, open: &open, elapsed_s };
                pipe.rate = between.rate(pipe, &mut self.programs);
            }
        }
        self.before = Some((counts, limits, now));
        PipesSnapshot { pipes, unseen, left_out }
    }
}

/// The pipes and descriptors found so far.
#[derive(Default)]
struct Sweep {
    pipes: BTreeMap<(u64, u64), HostPipe>,
    open: BTreeMap<Pid, Open>,
    unseen: usize,
}

impl Sweep {
    fn process(&mut self, pid: Pid) {
        let Some(fds) = descriptors(pid) else {
            // It may have ended, or be a thread of the kernel, which has none.
            self.unseen += usize::from(is_of_a_user(pid));
            return;
        };
        let mut open = Open::default();
        for fd in fds.take(MOST_DESCRIPTORS) {
            let Some(found) = find(pid, fd) else { continue };
            let Some((reads, writes)) = access(pid, fd) else { continue };
            let target = match &found.pipe {
                Some((pipe, _)) => Target::Pipe(pipe.device, pipe.inode),
                None => Target::Other,
            };
            // Nobody reads what is on a terminal by the descriptors of output and errors.
            if reads && !(target == Target::Other && (fd == 1 || fd == 2)) {
                open.reads.insert(target);
            }
            if writes && found.is_written && !(target == Target::Other && (fd == 0 || fd == 2)) {
                open.writes.insert(target);
            }
            if let Some((pipe, path)) = found.pipe {
                self.end(pid, fd, pipe, path, (reads, writes));
            }
        }
        self.open.insert(pid, open);
    }

    fn end(
        &mut self,
        pid: Pid,
        fd: i32,
        identity: Descriptor,
        path: Option<String>,
        (reads, writes): (bool, bool),
    ) {
        let new = HostPipe {
            identity,
            path,
            writers: Vec::new(),
            readers: Vec::new(),
            fill: None,
            rate: None,
        };
        let pipe = self.pipes.entry((identity.device, identity.inode)).or_insert(new);
        for (is_end, holders) in [(reads, &mut pipe.readers), (writes, &mut pipe.writers)] {
            match holders.last_mut() {
                _ if !is_end => {}
                Some(last) if last.pid == pid => last.fd = last.fd.min(fd),
                _ => holders.push(Holder { pid, fd, waits: None, only: false, quota: None }),
            }
        }
    }
}

/// Returns what a descriptor refers to; `None` for what moves no bytes that the kernel counts for
/// the process, and for what has been closed.
fn find(pid: Pid, fd: i32) -> Option<Found> {
    let link = link(pid, fd)?;
    let link = link.to_string_lossy();
    if link.starts_with("pipe:[") {
        let pipe = descriptor(pid, fd).filter(Descriptor::is_pipe)?;
        return Some(Found { pipe: Some((pipe, None)), is_written: true });
    }
    let is_read = READ.iter().any(|kind| link.contains(kind));
    if link == "/dev/null" || link.starts_with("anon_inode:[") && !is_read {
        return None;
    }
    if !link.starts_with('/') || link.starts_with("/memfd:") {
        let is_written = !link.starts_with("anon_inode:") || link.contains(EVENTS);
        return Some(Found { pipe: None, is_written });
    }
    let identity = descriptor(pid, fd)?;
    let path = (!is_anonymous_pipe(&identity)).then(|| link.into_owned());
    Some(Found { pipe: identity.is_pipe().then_some((identity, path)), is_written: true })
}

/// Whether a process exists and is not a thread of the kernel.
fn is_of_a_user(pid: Pid) -> bool {
    Stat::of(pid).is_some_and(|stat| !stat.is_of_kernel())
}

/// Looks into a pipe by the first holder that lets an end be borrowed.
fn fill(pipe: &HostPipe) -> Option<Fill> {
    const MOST_TRIES: usize = 4;
    let ends = pipe.writers.len().max(pipe.readers.len()).min(MOST_TRIES);
    (0..ends).find_map(|at| {
        let mut watch = PipeWatch::new(pipe.identity, None);
        watch.is_wanted = pipe.writers.iter().any(|writer| writer.waits == Some(true));
        if let Some(writer) = pipe.writers.get(at) {
            watch.set_writer(writer.pid, writer.fd);
        }
        if let Some(reader) = pipe.readers.get(at) {
            watch.set_reader(reader.pid, reader.fd);
        }
        watch.sample(0)
    })
}

/// Notes which holders wait for this pipe.
fn note_waits(pipe: &mut HostPipe, waits: &BTreeMap<Pid, Waits>, open: &BTreeMap<Pid, Open>) {
    let target = Target::Pipe(pipe.identity.device, pipe.identity.inode);
    let identity = pipe.identity;
    for (writes, holders) in [(true, &mut pipe.writers), (false, &mut pipe.readers)] {
        for holder in holders {
            let Some(waits) = waits.get(&holder.pid) else { continue };
            let ends = open.get(&holder.pid);
            let ends = ends.map(|open| if writes { &open.writes } else { &open.reads });
            // Where only the kind of the wait is known, a single pipe leaves no doubt.
            let pipes =
                || ends.map_or(0, |ends| ends.iter().filter(|end| **end != Target::Other).count());
            let is_single = || ends.is_some_and(|ends| ends.contains(&target)) && pipes() == 1;
            (holder.waits, holder.only) = waits.on(holder.pid, &identity, writes, is_single);
        }
    }
}

#[cfg(test)]
mod tests;
