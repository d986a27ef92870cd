//! Watches processes that run already: what a run samples, without having started anything.

use super::around::RunSurroundings;
use super::found::pipe_ends;
use super::job::Job;
use super::looks::SampleTimes;
use super::stall::{StallNews, StallWatch};
use super::{RunningJob, allow_all_files};
use crate::attribution::{Group, PipeWatch, Sampler};
use crate::hot::Profiler;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use weir_doctor::backlog::{Activity, Trend};
use weir_doctor::facts::{self, Evidence, History, Run, WatchedPipe};
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, ProcessIdentity, descriptor, identity, processes};

/// Longest sleep: signals are noticed this late.
const LOOK_NS: u64 = 50_000_000;
/// A process that waits at a pipe for this share of the time waits there for most of it.
const MOST: f64 = 0.5;

/// What is to be watched.
#[derive(Clone, Debug, Default)]
pub struct Aim {
    /// These processes, with what they started and what shares their pipes.
    pub pids: Vec<Pid>,
    /// How long; to their end otherwise.
    pub time: Option<Duration>,
    /// Time between two ticks.
    pub tick_ns: u64,
    /// Least capacity to give to their pipes; 0 leaves them as they are.
    pub grow_bytes: u64,
    /// Whether to sample the functions in which they compute.
    pub profile: bool,
    /// Whether to trace them.
    pub trace: bool,
    /// Whether to keep what each did over time.
    pub history: bool,
    /// After which time in which nothing moves a stall is told of, if it is.
    pub stall_after: Option<Duration>,
}

/// What was seen.
#[derive(Debug)]
pub enum Watched {
    /// The record of the time.
    Seen {
        /// The record.
        run: Box<Run>,
        /// Those that continue, also such as were started meanwhile.
        alive: Vec<Pid>,
    },
    /// None of the processes is there.
    Nobody,
}

/// Watches processes until the time is over, all have ended, or `is_over` says so; tells of stalls.
pub fn watch(
    aim: &Aim,
    is_over: &mut dyn FnMut() -> bool,
    tell: &mut dyn FnMut(StallNews),
) -> Watched {
    let found = tree(&aim.pids);
    if found.is_empty() {
        return Watched::Nobody;
    }
    allow_all_files();
    let job = Job {
        script: true,
        pipe_bytes: Some(aim.grow_bytes),
        profile: aim.profile,
        trace: aim.trace,
        ..Job::default()
    };
    let pids = || found.iter().map(|process| process.pid);
    let mut running = RunningJob::new(&job, RunSurroundings::of(pids()));
    let begun_ns = running.clock.now_ns();
    running.sampler.attach(&found, begun_ns);
    running.sampler.history = aim.history.then(|| History::from(begun_ns));
    if let Some(profiler) = &mut running.profiler {
        attach(profiler, &found);
    }
    let (trends, has_ended) = sample(&mut running, aim, is_over, tell);
    running.heard_ns = running.clock.now_ns();
    let groups = &mut running.sampler.population.groups;
    let alive = groups.iter().filter(|group| !group.ended).map(|group| group.root.pid).collect();
    groups[0].last_ns = running.heard_ns;
    running.watching = Some(Watching { pids: pids().collect(), trends, has_ended });
    Watched::Seen { run: Box::new(running.finish(&job)), alive }
}

/// What is watched, and what its pipes showed.
pub(super) struct Watching {
    pids: Vec<Pid>,
    /// The fill of each pipe over time.
    trends: Vec<Trend>,
    /// Whether all have ended.
    has_ended: bool,
}

impl Watching {
    /// Returns what became of the processes and their pipes.
    pub fn record(&self, run: &Run, sampler: &Sampler) -> facts::Watched {
        facts::Watched {
            pids: self.pids.clone(),
            has_ended: self.has_ended,
            is_stuck: activity(run, sampler).is_stuck(),
            pipes: pipes(sampler, &self.trends),
        }
    }
}

/// Samples the functions of these processes and of what they start.
fn attach(profiler: &mut Profiler, found: &[ProcessIdentity]) {
    let is_found = |pid: Pid| found.iter().any(|process| process.pid == pid);
    for process in found.iter().filter(|process| !is_found(process.parent)) {
        profiler.attach(process.pid, None);
    }
}

/// Samples until the end; returns the fill of each pipe over time, and whether all have ended.
fn sample(
    running: &mut RunningJob,
    aim: &Aim,
    is_over: &mut dyn FnMut() -> bool,
    tell: &mut dyn FnMut(StallNews),
) -> (Vec<Trend>, bool) {
    let RunningJob { sampler, profiler, clock, .. } = running;
    let end_ns = aim.time.map_or(u64::MAX, |time| time.as_nanos() as u64);
    let mut looks = SampleTimes::new(0x3a7c, aim.tick_ns, 0);
    let mut trends: Vec<Trend> = Vec::new();
    let mut stall = StallWatch::new(aim.stall_after);
    loop {
        let now_ns = clock.now_ns();
        looks.sample(now_ns, sampler, profiler.as_mut());
        trends.resize_with(sampler.pipes.len(), Trend::default);
        for (trend, fill) in trends.iter_mut().zip(sampler.pipes.iter().map(|pipe| pipe.now)) {
            if let Some(fill) = fill {
                let capacity_bytes = fill.capacity_bytes.max(fill.bytes).max(1);
                trend.add(now_ns, fill.bytes as f64 / capacity_bytes as f64);
            }
        }
        let first =
            aim.pids.iter().copied().find(|pid| sampler.population.pids().any(|it| it == *pid));
        stall.sample(now_ns, sampler, first, &[]).into_iter().for_each(&mut *tell);
        let has_ended = sampler.population.groups.iter().all(|group| group.ended);
        let due_ns = looks.due_ns().min(end_ns);
        while !has_ended && !is_over() && clock.now_ns() < due_ns {
            let rest_ns = due_ns.saturating_sub(clock.now_ns());
            std::thread::sleep(Duration::from_nanos(rest_ns.min(LOOK_NS)));
        }
        if has_ended || is_over() || clock.now_ns() >= end_ns {
            stall.end(clock.now_ns(), !has_ended).into_iter().for_each(&mut *tell);
            return (trends, has_ended);
        }
    }
}

/// Returns what became of each pipe that two of the processes share.
fn pipes(sampler: &Sampler, trends: &[Trend]) -> Vec<WatchedPipe> {
    let of = |(watch, trend): (&PipeWatch, &Trend)| {
        let is = |end: Option<Descriptor>| end == Some(watch.identity);
        let mut all = sampler.population.groups.iter();
        let writer = all.clone().find(|group| is(group.root.ends.output));
        let reader = all.find(|group| is(group.root.ends.input));
        let (writer_pid, reader_pid) = (writer.map(|it| it.root.pid), reader.map(|it| it.root.pid));
        WatchedPipe { writer_pid, reader_pid, backlog: trend.backlog() }
    };
    let all = sampler.pipes.iter().zip(trends).map(of);
    all.filter(|pipe| pipe.writer_pid.is_some() && pipe.reader_pid.is_some()).collect()
}

fn activity(run: &Run, sampler: &Sampler) -> Activity {
    let moved = |stage: &facts::Stage| {
        let known = stage.bytes_evidence != Evidence::Unknown && !stage.uncounted;
        let io = stage.io.filter(|_| known)?;
        Some(io.read_bytes + io.write_bytes + io.read_calls + io.write_calls)
    };
    // A terminal or a server's socket may be quiet for long.
    let waits = |group: &Group| {
        let times = group.samples.divide_wall(group.last_ns.saturating_sub(group.first_ns));
        let has = |side| pipe_ends(group).any(|(_, writes)| writes == side);
        let (input, output) = (u64::from(has(false)), u64::from(has(true)));
        let waited_ns = input * times.input_ns + output * times.output_ns;
        waited_ns as f64 >= MOST * run.wall_ns as f64
    };
    Activity {
        wall_ns: run.wall_ns,
        cpu_ns: run.cpu_sum_ns(),
        moved: run.stages.iter().map(moved).sum(),
        waits: sampler.population.groups.iter().any(waits),
    }
}

/// Returns these processes, what they started, and what has the pipes of their standard input and
/// output as its own; parents before their children. This process is not among them.
pub fn tree(pids: &[Pid]) -> Vec<ProcessIdentity> {
    let own = std::process::id() as Pid;
    let all = processes().into_iter().filter(|pid| *pid != own).filter_map(identity);
    let all = std::collections::BTreeMap::from_iter(all.map(|found| (found.pid, found)));
    let ends = |pid: Pid| [0, 1].into_iter().filter_map(move |fd| descriptor(pid, fd));
    let mut sharing: HashMap<Descriptor, Vec<Pid>> = HashMap::new();
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for process in all.values() {
        children.entry(process.parent).or_default().push(process.pid);
        for pipe in ends(process.pid).filter(Descriptor::is_pipe) {
            sharing.entry(pipe).or_default().push(process.pid);
        }
    }
    let mut taken: BTreeSet<Pid> = BTreeSet::new();
    let mut due: Vec<Pid> = pids.iter().copied().filter(|pid| all.contains_key(pid)).collect();
    while let Some(pid) = due.pop() {
        if taken.insert(pid) {
            due.extend(children.get(&pid).into_iter().flatten());
            due.extend(ends(pid).filter_map(|pipe| sharing.get(&pipe)).flatten());
        }
    }
    // Ids may have wrapped around: a child may have the smaller one.
    let is_first = |pid: &&Pid| all.get(*pid).is_some_and(|it| !taken.contains(&it.parent));
    let mut order: Vec<Pid> = taken.iter().filter(is_first).copied().collect();
    let mut at = 0;
    while let Some(pid) = order.get(at) {
        order.extend(children.get(pid).into_iter().flatten().filter(|it| taken.contains(*it)));
        at += 1;
    }
    order.iter().filter_map(|pid| all.get(pid).cloned()).collect()
}
