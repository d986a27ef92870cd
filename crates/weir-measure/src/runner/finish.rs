//! The end of a stage: reads the kernel's final counters and makes the stage's record.

use super::bytes::Hint;
use super::job::{Job, StageSpec};
use super::left::{LEFT_NS, LeftBehind};
use super::{RunningJob, bytes, sums};
use crate::attribution::{Files as FileWaits, Group, Peers, Sampler, counted, ending};
use crate::hot::Profiler;
use crate::sys::wait::{Reaped, reap};
use std::collections::HashMap;
use std::io::{stdin, stdout};
use std::os::fd::{AsFd, OwnedFd};
use weir_doctor::ending::Ending;
use weir_doctor::facts::{
    Evidence, History, Io, LeftOpen, Phase, Pipe, Run, Stage, Traced, Unseen,
};
use weir_doctor::partition::Sums;
use weir_doctor::programs::is_relay;
use weir_sys::Pid;
use weir_sys::proc::{
    self, Descriptor, FileKind, ProcContents, ProcFile, Sched, Stat, is_mounted, is_own, pidfd,
};

/// Why a stage could not be started: the status that a shell would give it, and a sentence.
pub struct StartFailure {
    /// 127 when there is no such command, 126 when it cannot be executed.
    pub status: i32,
    /// The reason.
    pub reason: String,
}

/// A stage that was started, or that failed to start.
pub(super) struct LiveStage {
    start_ns: u64,
    /// Whether it is stopped by job control.
    pub stopped: bool,
    /// What it left running, if somebody else had the pipe behind it open when it ended.
    pub left: Option<LeftBehind>,
    state: LiveState,
}

enum LiveState {
    Failed(StartFailure),
    Running(Files),
    Ended(Box<FinalCounters>),
}

/// Least number of samples for a sampled peak to count.
const ENOUGH_SAMPLES: u64 = 4;

/// Open files of a running stage, still readable when it is a zombie.
struct Files {
    pid: Pid,
    group: usize,
    pidfd: Option<OwnedFd>,
    sched: Option<ProcFile<Sched>>,
    io: Option<ProcFile<proc::Io>>,
    /// Peak memory that its process may have inherited from this one.
    inherited_rss_bytes: u64,
}

/// The final counters of a stage.
struct FinalCounters {
    group: usize,
    end_ns: u64,
    /// CPU and waiting time of the first thread of the first process.
    sched: Option<Sched>,
    /// Whether it waited for children that used CPU time.
    had_children: bool,
    io: Option<Io>,
    reaped: Option<Reaped>,
    inherited_rss_bytes: u64,
}

impl LiveStage {
    fn new(start_ns: u64, state: LiveState) -> LiveStage {
        LiveStage { start_ns, stopped: false, left: None, state }
    }

    pub fn failed(failure: StartFailure, start_ns: u64) -> LiveStage {
        LiveStage::new(start_ns, LiveState::Failed(failure))
    }

    pub fn started(pid: Pid, group: usize, start_ns: u64) -> LiveStage {
        let (sched, io) = (ProcFile::open(pid).ok(), ProcFile::open(pid).ok());
        let (pidfd, inherited_rss_bytes) = (pidfd(pid), 0);
        let files = Files { pid, group, pidfd, sched, io, inherited_rss_bytes };
        LiveStage::new(start_ns, LiveState::Running(files))
    }

    /// Notes a peak of memory that its process may have begun with.
    pub fn inherits(&mut self, rss_bytes: u64) {
        if let LiveState::Running(files) = &mut self.state {
            files.inherited_rss_bytes = rss_bytes;
        }
    }

    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    pub fn has_ended(&self) -> bool {
        self.files().is_none()
    }

    pub fn pid(&self) -> Option<Pid> {
        Some(self.files()?.pid)
    }

    /// Returns the process that has the pipe behind it open after its end.
    pub fn left_running(&self) -> Option<Pid> {
        Some(self.left.as_ref()?.process.as_ref()?.pid)
    }

    pub fn pidfd(&self) -> Option<&OwnedFd> {
        self.files()?.pidfd.as_ref()
    }

    pub fn group(&self) -> Option<usize> {
        Some(self.files()?.group)
    }

    fn files(&self) -> Option<&Files> {
        match &self.state {
            LiveState::Running(files) => Some(files),
            _ => None,
        }
    }

    /// Reads the counters of a stage's first process, which is a zombie, then reaps it.
    pub fn harvest(&mut self, now_ns: u64, sampler: &mut Sampler) {
        let Some(files) = self.files() else { return };
        let sched = files.sched.as_ref().and_then(|file| file.read().ok());
        let io = files.io.as_ref().and_then(|file| file.read().ok().map(counted));
        let had_children = Stat::of(files.pid).is_some_and(|stat| stat.waited_ticks > 0);
        sampler.end_group(files.group, now_ns);
        let ended = FinalCounters {
            group: files.group,
            end_ns: now_ns,
            sched,
            had_children,
            io,
            reaped: reap(files.pid).ok().flatten(),
            inherited_rss_bytes: files.inherited_rss_bytes,
        };
        self.state = LiveState::Ended(Box::new(ended));
    }

    /// Returns the group of a stage that was started.
    pub fn started_group(&self) -> Option<usize> {
        match &self.state {
            LiveState::Failed(_) => None,
            LiveState::Running(files) => Some(files.group),
            LiveState::Ended(ended) => Some(ended.group),
        }
    }

    fn ending(&self) -> Option<Ending> {
        match &self.state {
            LiveState::Failed(failure) => Some(Ending::Code(failure.status)),
            LiveState::Ended(ended) => ended.reaped.map(|reaped| ending(reaped.status)),
            LiveState::Running(_) => None,
        }
    }

    pub fn end_ns(&self) -> u64 {
        match &self.state {
            LiveState::Ended(ended) => ended.end_ns,
            _ => self.start_ns,
        }
    }
}

impl RunningJob {
    /// Makes the record of the job, all of whose stages have ended, or of what was watched.
    pub(super) fn finish(mut self, job: &Job) -> Run {
        let is_watched = self.watching.is_some();
        let blind = !is_watched && !is_own();
        if blind {
            // /proc shows other processes, or is not there at all.
            let why = match is_mounted() {
                true => "belongs to another pid namespace",
                false => "cannot be read",
            };
            self.notes.push(format!("/proc {why}: only CPU time and memory are known"));
        }
        let start_ns = self.live.iter().map(|live| live.start_ns).min().unwrap_or(0);
        let end_ns = self.live.iter().map(LiveStage::end_ns).max().unwrap_or(self.heard_ns);
        // A shell that is given nothing to run succeeds.
        let none = (!is_watched).then_some(Ending::Code(0));
        let mut run = Run {
            wall_ns: end_ns.saturating_sub(start_ns),
            stopped_ns: self.clock.paused_ns(),
            ending: self.live.last().map_or(none, LiveStage::ending),
            signals: self.signals.clone(),
            ticks: self.sampler.ticks,
            notes: std::mem::take(&mut self.notes),
            // The processes watched have other descriptors than this process.
            input_from_outside: !is_watched && is_flow(stdin()),
            output_to_outside: !is_watched && is_flow(stdout()),
            script: job.script,
            pipefail: job.pipefail,
            blind,
            ..Run::default()
        };
        let busiest = self.busiest();
        if let Some(lives) = &mut self.sampler.lives {
            lives.take_rest(&self.clock);
            if lives.were_lost() {
                let note =
                    "more processes were started than could be counted: the kernel dropped events";
                run.notes.push(note.to_owned());
            }
        }
        run.left_output = if is_watched { None } else { self.left_output() };
        self.sampler.close();
        let groups = self.sampler.population.groups.iter();
        // Before the groups, which have the same surroundings.
        self.around.set(&mut run, groups.map(Group::unreaped_ns).sum(), busiest);
        run.neighbours = self.neighbours.busiest(&run.host, |pid| self.sampler.population.has(pid));
        if job.script {
            super::script::fill(&mut run, &self.sampler, self.limit_bytes, job);
        } else {
            run.stages = self.stages(job);
            run.left = self.left_open(run.wall_ns);
            run.pipes = self.pipes();
            run.settle_unseen_waits();
            let totals: Vec<_> = self.sampler.pipes.iter().map(|watch| &watch.totals).collect();
            bytes::settle(&mut run.stages, &mut run.pipes, &totals, &self.hints());
            super::script::add_inner_groups(&mut run, &self.sampler, self.limit_bytes, job);
            run.phases = if blind { Vec::new() } else { self.phases(&run, start_ns) };
        }
        run.notes.extend(closed_notes(job.closed).map(String::from));
        let population = &self.sampler.population;
        let births = population.births();
        let shell = population.groups.first().map_or("", |group| &group.root.program);
        let once = births.once();
        run.started = births.started(shell, run.wall_ns, &self.sampler.census(), once);
        run.unseen = if job.script { self.unseen(&run) } else { None };
        if let Some(watching) = &self.watching {
            run.watched = Some(watching.record(&run, &self.sampler));
            // They had started long before.
            run.critical_path = None;
            run.shape = None;
        }
        run.traced = self.sampler.tracer.traced();
        run.set_times_evidence(run.traced.as_ref().is_some_and(Traced::is_whole));
        run.hot = self.profiler.take().map(Profiler::finish);
        run.history = self.history(job, &run);
        run
    }

    /// Returns the watched process that wanted the CPUs most. They may have control groups of their
    /// own: its quota is the one that says most.
    fn busiest(&self) -> Option<Pid> {
        self.watching.as_ref()?;
        let population = &self.sampler.population;
        let wanted = population.totals().into_iter().map(|it| it.cpu_ns + it.queue_ns);
        wanted.zip(population.groups.iter().map(|group| group.root.pid)).max().map(|(_, root)| root)
    }

    /// Returns where a stage left a process that had its pipe open while the next stage continued.
    fn left_open(&self, wall_ns: u64) -> Vec<LeftOpen> {
        let pairs = self.live.windows(2).enumerate();
        let left = |(stage, pair): (usize, &[LiveStage])| {
            let left = pair[0].left.as_ref()?;
            let after_ns = pair[1].end_ns().saturating_sub(pair[0].end_ns());
            let process = left.process.clone();
            (after_ns >= LEFT_NS.max(wall_ns / 10)).then_some(LeftOpen { stage, after_ns, process })
        };
        pairs.filter_map(left).collect()
    }

    /// Returns what the stages, or the processes of a script, did over time, if that was kept.
    fn history(&mut self, job: &Job, run: &Run) -> Option<History> {
        let history = self.sampler.history.take()?;
        let stage = |group| self.live.iter().position(|one| one.started_group() == Some(group));
        let groups = self.sampler.population.groups.iter();
        let lanes: HashMap<usize, &Group> =
            groups.filter_map(|group| Some((group.lane?, group))).collect();
        let name = |lane: usize| match stage(lane).filter(|_| !job.script) {
            Some(stage) => (Some(stage), job.stages[stage].label.clone()),
            None => {
                let label =
                    lanes.get(&lane).map_or_else(String::new, |one| one.root.command.clone());
                (run.row_of_lane(lane), label)
            }
        };
        Some(history.named(&name, job.script))
    }

    /// Returns what lived too briefly to be seen: the kernel's sums for the first process include
    /// all that was waited for, and what no row has of that was not seen.
    fn unseen(&self, run: &Run) -> Option<Unseen> {
        let LiveState::Ended(ended) = &self.live.first()?.state else { return None };
        let reaped = ended.reaped?;
        let groups = || self.sampler.population.groups.iter();
        // What nobody waited for is not in the sums.
        let unreaped_ns: u64 = groups().map(Group::unreaped_ns).sum();
        let all_ns = reaped.user_ns + reaped.system_ns + unreaped_ns;
        let rows_ns: u64 = run.stages.iter().map(|row| row.user_ns + row.system_ns).sum();
        let cpu_ns = all_ns.saturating_sub(rows_ns);
        if let Some(adopted) = self.sampler.adopted.filter(|_| self.sampler.has_all()) {
            let (processes, evidence) = (Some(adopted.processes), Evidence::Exact);
            return Some(Unseen { processes, evidence, cpu_ns });
        }
        let (unseen, evidence) = self.sampler.unseen();
        let processes = (evidence != Evidence::LowerBound).then_some(unseen);
        Some(Unseen { processes, evidence: Evidence::Estimated, cpu_ns })
    }

    /// Cuts the run into phases.
    fn phases(&self, run: &Run, start_ns: u64) -> Vec<Phase> {
        // A stage that could not be started has no group.
        let of = |group| self.live.iter().position(|live| live.started_group() == Some(group));
        let place = |group: usize| of(group).unwrap_or(group);
        let is_relay = |group: usize| run.stages.get(place(group)).is_some_and(|one| one.relay);
        let groups = &self.sampler.population.groups;
        let polls = |group: usize| groups.get(group).is_some_and(|it| it.dry.seen.polls());
        let timeline = self.sampler.course.timeline().without_dry(&polls);
        let mut phases = timeline.phases(start_ns + run.wall_ns, &is_relay);
        for phase in &mut phases {
            phase.start_ns = phase.start_ns.saturating_sub(start_ns);
            phase.end_ns = phase.end_ns.saturating_sub(start_ns);
            phase.holder = phase.holder.at(&place);
        }
        phases
    }

    fn stages(&self, job: &Job) -> Vec<Stage> {
        let pairs = self.live.iter().zip(&job.stages);
        pairs.map(|(live, spec)| stage(live, spec, &self.sampler)).collect()
    }

    /// Returns what is known of the stages' bytes besides their counts.
    fn hints(&self) -> Vec<Hint> {
        let hint = |live: &LiveStage| match &live.state {
            LiveState::Ended(ended) => {
                let group = &self.sampler.population.groups[ended.group];
                let told = self.sampler.lives.as_ref();
                let told = told.filter(|lives| lives.may_splice(ended.group)).map(|_| true);
                Hint { may_splice: told.or(group.may_splice), position_bytes: group.position_bytes }
            }
            _ => Hint { may_splice: Some(false), position_bytes: 0 },
        };
        self.live.iter().map(hint).collect()
    }

    fn pipes(&self) -> Vec<Pipe> {
        let watches = self.sampler.pipes.iter().enumerate();
        watches.map(|(left, watch)| watch.record(left, left + 1, self.limit_bytes)).collect()
    }
}

/// Whether a descriptor is a pipe, a socket or a device: something outside of the run is behind it.
fn is_flow(fd: impl AsFd) -> bool {
    let flows = |found: Descriptor| {
        matches!(found.kind, FileKind::Pipe | FileKind::Socket | FileKind::Device)
    };
    Descriptor::of(fd).is_some_and(flows)
}

/// Returns the remarks on standard descriptors that are closed.
fn closed_notes(closed: [bool; 3]) -> impl Iterator<Item = &'static str> {
    let notes = [
        "standard input was closed: the first stage has none",
        "standard output was closed: the last stage has none",
        "standard error was closed",
    ];
    closed.into_iter().zip(notes).filter_map(|(is_closed, note)| is_closed.then_some(note))
}

fn stage(live: &LiveStage, spec: &StageSpec, sampler: &Sampler) -> Stage {
    let mut stage = Stage { label: spec.label.clone(), processes: 1, ..Stage::default() };
    stage.inserted = spec.inserted;
    stage.relay = spec.inserted || is_relay(&spec.label);
    stage.ending = live.ending();
    let ended = match &live.state {
        LiveState::Ended(ended) => ended,
        LiveState::Failed(failure) => {
            stage.failure = Some(failure.reason.clone());
            return stage;
        }
        LiveState::Running(_) => return stage,
    };
    let group = &sampler.population.groups[ended.group];
    stage.wall_ns = ended.end_ns.saturating_sub(live.start_ns);
    stage.program = group.top_program().to_owned();
    stage.most_tasks = group.most_tasks.max(1);
    stage.samples = group.samples.count();
    stage.hidden = group.hidden;
    stage.uncounted = group.uncounted;
    stage.locale.clone_from(&group.root.locale);
    stage.unbuffered = group.root.unbuffered;
    let used = ended.reaped.map_or(0, |reaped| reaped.user_ns + reaped.system_ns);
    // Without /proc, only the CPU time is known.
    let main = ended.sched.unwrap_or(Sched { cpu_ns: used, ..Sched::default() });
    if let Some(reaped) = ended.reaped {
        sums::add_unreaped(&mut stage, group, (reaped.user_ns, reaped.system_ns));
        let exact = reaped.max_rss_bytes > ended.inherited_rss_bytes;
        // The sampled peak of a process seen only at its birth says little; the kernel's figure,
        // although it may be inherited, is at least a bound.
        let sampled = Some(group.peak_rss_bytes).filter(|_| stage.samples >= ENOUGH_SAMPLES);
        let sampled = sampled.filter(|bytes| *bytes > 0);
        let (bytes, evidence) = match sampled {
            _ if exact => (reaped.max_rss_bytes, Evidence::Exact),
            Some(bytes) => (bytes, Evidence::Sampled),
            None => (reaped.max_rss_bytes, Evidence::UpperBound),
        };
        (stage.max_rss_bytes, stage.max_rss_evidence) = (Some(bytes), evidence);
        stage.major_faults = Some(reaped.major_faults);
    }
    (stage.quota, stage.memory_limit) = group.confined.clone();
    stage.io = ended.io.map(|io| io.plus(group.unreaped.io)).or(group.root.io);
    stage.bytes_evidence = bytes::evidence(&stage, ended.io.is_some());
    stage.times_asleep = group.times_asleep;
    stage.err_ns = group.waits_for_err.1.min(stage.wall_ns);
    stage.peer = Peers::longest(std::iter::once(&group.peers));
    let (census, once) = (sampler.census(), sampler.seen_once());
    stage.started = group.births.started(&group.root.program, stage.wall_ns, &census, once);
    stage.single_task = is_single(ended, group.several_ns, &stage);
    stage.several_ns = group.several_ns.min(stage.wall_ns);
    stage.queue_sum_ns = main.queue_ns.max(group.gone.queue_ns);
    stage.times = if stage.single_task {
        group.samples.divide_blocked(stage.wall_ns, main.cpu_ns, main.queue_ns)
    } else {
        let exact = stage.cpu_evidence == Evidence::Exact;
        let sums = Sums { cpu_ns: exact.then(|| stage.cpu_sum_ns()), queue_ns: stage.queue_sum_ns };
        group.samples.divide_wall(stage.wall_ns).within(&sums)
    };
    stage.times = group.dry.seen.settle(stage.times, &group.samples);
    let files = std::iter::once(&group.files);
    (stage.files, stage.flushes) = FileWaits::within(files, &stage.times);
    stage
}

/// Whether the first thread's counters are those of the whole stage: no other task was seen for
/// long, or used a notable CPU time.
fn is_single(ended: &FinalCounters, several_ns: u64, stage: &Stage) -> bool {
    let Some(main) = ended.sched else { return true };
    let elsewhere_ns = stage.cpu_sum_ns().saturating_sub(main.cpu_ns);
    let little_ns = stage.wall_ns / 100;
    // Short-lived children show by their CPU time, which counts in whole clock ticks.
    let children = ended.had_children && elsewhere_ns > little_ns;
    several_ns <= little_ns && elsewhere_ns <= little_ns + 2_000_000 && !children
}
