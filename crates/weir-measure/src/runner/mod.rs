//! Runs a pipeline: starts its stages, samples them while they live, reads their final counters and
//! reaps them.
//!
//! One thread does all of it, in a loop that sleeps until a stage ends or the next tick is due. It
//! relays no bytes: plain pipes join the stages, and this process keeps no end of them.
//!
//! In the order of flow: `start` makes pipes and processes, this file has the loop, `events` has
//! what that does with signals and changes of stages, `looks` says when it samples and what that
//! does, `finish` reads the kernel's final counters of each stage, `found` and `script` turn found
//! processes into groups of stages. `watch` has the loop for processes that run already.

mod around;
mod bytes;
mod events;
mod exchange;
mod finish;
mod found;
mod job;
mod left;
mod look_costs;
mod looks;
mod neighbours;
mod row;
mod script;
mod stall;
mod start;
mod stops;
mod sums;
mod watch;

pub use job::{Forward, Job, LARGER_PIPE_BYTES, Launch, StageSpec, Watcher};
pub use stall::StallNews;
pub use start::{files_needed, files_suffice};
pub use watch::{Aim, Watched, tree, watch};

use crate::attribution::{Grouping, Sampler};
use crate::clock::Clock;
use crate::hot::Profiler;
use crate::lives::Lives;
use crate::machine;
use crate::sys::signals;
use around::RunSurroundings;
use events::Woken;
use finish::LiveStage;
use looks::SampleTimes;
use neighbours::Neighbours;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Resource, Signal, getrlimit, setrlimit};
use stall::StallWatch;
use std::time::Duration;
use watch::Watching;
use weir_doctor::facts::{History, Run};
use weir_doctor::sizing::Sizing;
use weir_doctor::state::TaskState;
use weir_sys::Pid;

const PROGRESS_NS: u64 = 100_000_000;

/// Runs the job to its end.
///
/// If a stage cannot be started, the others run, as under a shell.
///
/// # Errors
/// When no pipe can be made.
pub fn run(job: &Job, watcher: &mut dyn Watcher) -> std::io::Result<Run> {
    let mut running = RunningJob::new(job, RunSurroundings::sample());
    signals::signal_children_ends()?;
    running.start(job, watcher)?;
    let start_ns = running.live.iter().map(LiveStage::start_ns).min();
    running.sampler.history = job.history.then(|| History::from(start_ns.unwrap_or(0)));
    allow_all_files();
    running.attend(job, watcher);
    signals::restore_default(Signal::CHILD.as_raw());
    watcher.over();
    Ok(running.finish(job))
}

/// A job that runs.
struct RunningJob {
    clock: Clock,
    sampler: Sampler,
    live: Vec<LiveStage>,
    /// Signals that have been handled.
    signals: Vec<i32>,
    /// Signals that have not been handled yet.
    heard: Vec<i32>,
    /// When this process last heard of signals: what it has not heard of came after that. All that
    /// it then finds has this time.
    heard_ns: u64,
    limit_bytes: u64,
    notes: Vec<String>,
    /// The limit of open files for stages, if this process has raised its own.
    file_limit: Option<u64>,
    /// The host's CPU use and the limits when the run began.
    around: RunSurroundings,
    /// Who else uses the CPUs.
    neighbours: Neighbours,
    /// Samples the functions in which the stages compute.
    profiler: Option<Profiler>,
    /// The processes that samples had met and that continued after the last stage.
    survivors: Vec<Pid>,
    /// What is watched, where the processes ran already.
    watching: Option<Watching>,
}

impl RunningJob {
    /// Begins the record of a job whose stages are not started yet.
    fn new(job: &Job, around: RunSurroundings) -> RunningJob {
        let grouping = if job.script { Grouping::ByProcess } else { Grouping::ByStage };
        let pipe_bytes = job.pipe_bytes.unwrap_or(0);
        let mut running = RunningJob {
            clock: Clock::start(),
            sampler: Sampler::new(grouping, pipe_bytes),
            live: Vec::new(),
            signals: Vec::new(),
            heard: Vec::new(),
            heard_ns: 0,
            limit_bytes: machine::pipe_limit_bytes().max(pipe_bytes),
            notes: Vec::new(),
            file_limit: None,
            around,
            neighbours: Neighbours::new(),
            profiler: job.profile.then(Profiler::new),
            survivors: Vec::new(),
            watching: None,
        };
        if job.trace {
            running.sampler.trace();
        }
        running
    }

    /// Waits for all stages, sampling meanwhile.
    fn attend(&mut self, job: &Job, watcher: &mut dyn Watcher) {
        let mut shown_ns = self.clock.now_ns();
        let mut looks = SampleTimes::new(0x77e1, job.tick_ns, shown_ns);
        let mut stall = StallWatch::new(watcher.stall_after());
        let mut woken = Woken { by_stage: true, by_event: false };
        loop {
            self.take_turn(watcher, woken);
            looks.turn_back(self.heard_ns);
            if self.live.iter().all(LiveStage::has_ended) {
                let news = stall.end(self.heard_ns, false);
                return news.into_iter().for_each(|news| watcher.stall(news));
            }
            // By the clock now, it could be the time after a stop of which nobody has heard yet.
            let now_ns = self.heard_ns;
            if now_ns >= looks.due_ns() {
                looks.sample(now_ns, &mut self.sampler, self.profiler.as_mut());
                self.find_left(now_ns);
                let left: Vec<Pid> = self.live.iter().filter_map(LiveStage::left_running).collect();
                let first = self.last_waiting();
                let news = stall.sample(now_ns, &mut self.sampler, first, &left);
                news.into_iter().for_each(|news| watcher.stall(news));
                self.neighbours.tick(now_ns);
            }
            if now_ns >= shown_ns + PROGRESS_NS {
                watcher.progress(now_ns, &self.sampler);
                shown_ns = now_ns;
            }
            woken = self.sleep_until(looks.due_ns());
        }
    }

    /// Returns the first process of the last stage that lives, rather of one that waits for another
    /// than of one that sleeps.
    fn last_waiting(&self) -> Option<Pid> {
        let sleeps = |live: &&LiveStage| {
            let now = live.group().and_then(|group| self.sampler.population.groups[group].now);
            now == Some(TaskState::Sleep)
        };
        let alive = || self.live.iter().rev().filter(|live| !live.has_ended());
        alive().find(|live| !sleeps(live)).or_else(|| alive().next())?.pid()
    }

    /// Sleeps until this time, or until a stage changes, the kernel tells of processes or a signal
    /// comes; returns what woke it.
    fn sleep_until(&mut self, due_ns: u64) -> Woken {
        let rest_ns = due_ns.saturating_sub(self.clock.now_ns());
        let timeout = Timespec::try_from(Duration::from_nanos(rest_ns)).unwrap_or_default();
        let alive = self.live.iter().filter(|live| !live.has_ended());
        let mut set: Vec<PollFd> =
            alive.filter_map(|live| Some(PollFd::new(live.pidfd()?, PollFlags::IN))).collect();
        let stages = set.len();
        set.extend(self.sampler.lives.iter().flat_map(Lives::sockets));
        let ready = poll(&mut set, Some(&timeout));
        let by_stage = set[..stages].iter().any(|of| !of.revents().is_empty());
        Woken { by_stage: by_stage || ready.is_err(), by_event: ready.is_ok_and(|ready| ready > 0) }
    }

    /// Returns how pipes grow, if they may.
    fn sizing(&self, job: &Job) -> Option<Sizing> {
        job.pipe_auto.then(|| Sizing::new(self.limit_bytes))
    }
}

/// Raises the limit of open files, since two files stay open for each sampled task. It is raised
/// only after all stages have started, so that they keep their own.
fn allow_all_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, some tasks of very large stages cannot be sampled.
    let _ = setrlimit(Resource::Nofile, limit);
}

const SIGCONT: i32 = Signal::CONT.as_raw();
