//! Watches processes that run already: what a run samples, without having started anything.

use super::around::RunSurroundings;
use super::found::pipe_ends;
use super::job::Job;
use super::looks::Looks;
use super::{allow_all_files, script};
use crate::attribution::{Group, Grouping, PipeWatch, Sampler};
use crate::clock::Clock;
use crate::hot::Profiler;
use crate::machine;
use crate::oom;
use crate::proc::{Descriptor, ProcessIdentity, descriptor, identity};
use crate::quota::{self, EachLimits};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use weir_doctor::backlog::{Activity, Trend};
use weir_doctor::facts::{self, Evidence, History, Run, WatchedPipe};
use weir_sys::Pid;
use weir_sys::proc::processes;

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

/// Watches processes until the time is over, all have ended, or `is_over` says so.
pub fn watch(aim: &Aim, is_over: &mut dyn FnMut() -> bool) -> Watched {
    let found = tree(&aim.pids);
    if found.is_empty() {
        return Watched::Nobody;
    }
    allow_all_files();
    let clock = Clock::start();
    let (around, kills) = (RunSurroundings::look(), oom::kills());
    let limits = EachLimits::of(found.iter().map(|process| process.pid));
    let mut sampler = Sampler::new(Grouping::ByProcess, aim.grow_bytes);
    if aim.trace {
        sampler.trace();
    }
    sampler.attach(&found, clock.now_ns());
    sampler.history = aim.history.then(|| History::from(clock.now_ns()));
    let mut profiler = aim.profile.then(|| profiler(&found));
    let (trends, has_ended) = sample(&mut sampler, &mut profiler, aim, &clock, is_over);
    let wall_ns = clock.now_ns();
    let going_on = sampler.population.groups.iter().filter(|group| !group.ended);
    let alive = going_on.map(|group| group.root).collect();
    let limits = busiest(&sampler).map_or_else(Vec::new, |pid| limits.limits(pid));
    sampler.close();
    sampler.population.groups[0].last_ns = wall_ns;
    let job = Job { script: true, ..Job::default() };
    let mut run = Run {
        wall_ns,
        cpus: machine::usable_cpus(),
        ticks: sampler.ticks,
        script: true,
        memory_kills: oom::kills_since(kills),
        ..Run::default()
    };
    script::fill(&mut run, &sampler, machine::pipe_limit_bytes(), &job);
    // They had started long before.
    run.critical_path = None;
    let births = sampler.population.births();
    run.started = births.started("sh", wall_ns, &sampler.census(), births.once());
    around.set(&mut run, 0);
    run.quota = quota::between(&limits, &quota::again(&limits));
    // Nobody tells what of the CPU time that others used was theirs, nor whether this process's
    // limit of memory is theirs.
    (run.host.others_cpus, run.memory_limit) = (None, None);
    for group in &mut run.groups {
        (group.run.host, group.run.quota, group.run.memory_limit) = (run.host, run.quota, None);
    }
    let pids = found.iter().map(|process| process.pid).collect();
    let pipes = pipes(&sampler, &trends);
    let is_stuck = activity(&run, &sampler).is_stuck();
    run.watched = Some(facts::Watched { pids, has_ended, is_stuck, pipes });
    run.hot = profiler.map(Profiler::finish);
    run.traced = sampler.tracer.traced();
    let groups = &sampler.population.groups;
    let command = |at: usize| groups.get(at).map(|group: &Group| group.command.clone());
    let history = sampler.history.take();
    let name = |at: usize| (run.row_of_lane(at), command(at).unwrap_or_default());
    run.history = history.map(|history| history.named(&name, true));
    Watched::Seen { run: Box::new(run), alive }
}

/// Returns the process that wanted the CPUs most. They may have control groups of their own: its quota
/// is the one that says most.
fn busiest(sampler: &Sampler) -> Option<Pid> {
    let wanted = sampler.population.totals().into_iter().map(|it| it.cpu_ns + it.queue_ns);
    let roots = sampler.population.groups.iter().map(|group| group.root);
    wanted.zip(roots).max().map(|(_, root)| root)
}

/// Samples the functions of these processes and of what they start.
fn profiler(found: &[ProcessIdentity]) -> Profiler {
    let mut profiler = Profiler::new();
    let is_found = |pid: Pid| found.iter().any(|process| process.pid == pid);
    for process in found.iter().filter(|process| !is_found(process.parent)) {
        profiler.attach(process.pid, None);
    }
    profiler
}

/// Samples until the end; returns the fill of each pipe over time, and whether all have ended.
fn sample(
    sampler: &mut Sampler,
    profiler: &mut Option<Profiler>,
    aim: &Aim,
    clock: &Clock,
    is_over: &mut dyn FnMut() -> bool,
) -> (Vec<Trend>, bool) {
    let end_ns = aim.time.map_or(u64::MAX, |time| time.as_nanos() as u64);
    let mut looks = Looks::new(0x3a7c, aim.tick_ns, 0);
    let mut trends: Vec<Trend> = Vec::new();
    loop {
        let now_ns = clock.now_ns();
        looks.look(now_ns, sampler, profiler.as_mut());
        trends.resize_with(sampler.pipes.len(), Trend::default);
        for (trend, fill) in trends.iter_mut().zip(sampler.pipes.iter().map(|pipe| pipe.now)) {
            if let Some(fill) = fill {
                let capacity_bytes = fill.capacity_bytes.max(fill.bytes).max(1);
                trend.add(now_ns, fill.bytes as f64 / capacity_bytes as f64);
            }
        }
        let has_ended = sampler.population.groups.iter().all(|group| group.ended);
        let due_ns = looks.due_ns().min(end_ns);
        while !has_ended && !is_over() && clock.now_ns() < due_ns {
            let rest_ns = due_ns.saturating_sub(clock.now_ns());
            std::thread::sleep(Duration::from_nanos(rest_ns.min(LOOK_NS)));
        }
        if has_ended || is_over() || clock.now_ns() >= end_ns {
            return (trends, has_ended);
        }
    }
}

/// Returns what became of each pipe that two of the processes share.
fn pipes(sampler: &Sampler, trends: &[Trend]) -> Vec<WatchedPipe> {
    let of = |(watch, trend): (&PipeWatch, &Trend)| {
        let is = |end: Option<Descriptor>| end == Some(watch.identity);
        let mut all = sampler.population.groups.iter();
        let writer = all.clone().find(|group| is(group.ends.output));
        let reader = all.find(|group| is(group.ends.input));
        let (writer_pid, reader_pid) = (writer.map(|it| it.root), reader.map(|it| it.root));
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
        waits_at_pipe: sampler.population.groups.iter().any(waits),
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
