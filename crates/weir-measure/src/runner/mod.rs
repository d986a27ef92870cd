//! Runs a pipeline: starts its stages, samples them while they live, reads their final counters and
//! reaps them.
//!
//! One thread does all of it, in a loop that sleeps until a stage ends or the next tick is due. It
//! relays no bytes: plain pipes join the stages, and this process keeps no end of them.
//!
//! In the order of flow: `start` makes pipes and processes, this file has the loop, `looks` says
//! when it samples and what that does, `finish` reads the kernel's final counters of each stage,
//! `found` and `script` turn found processes into groups of stages. `watch` has the loop for
//! processes that run already.

mod around;
mod bytes;
mod finish;
mod found;
mod job;
mod look_costs;
mod looks;
mod row;
mod script;
mod start;
mod stops;
mod sums;
mod watch;

pub use job::{Forward, Job, Launch, StageSpec, Watcher};
pub use start::{files_needed, files_suffice};
pub use watch::{Aim, Watched, tree, watch};

use crate::attribution::{Grouping, Sampler};
use crate::clock::Clock;
use crate::hot::Profiler;
use crate::lives::Lives;
use crate::machine;
use crate::oom;
use around::RunSurroundings;
use finish::LiveStage;
use looks::Looks;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions, getrlimit, setrlimit, waitid};
use std::time::Duration;
use stops::Stops;
use weir_doctor::ending::MemoryKills;
use weir_doctor::facts::{History, Run};
use weir_doctor::sizing::Sizing;
use weir_measure_sys::signals;

const PROGRESS_NS: u64 = 100_000_000;

/// Runs the job to its end.
///
/// If a stage cannot be started, the others run, as under a shell.
///
/// # Errors
/// When no pipe can be made.
pub fn run(job: &Job, watcher: &mut dyn Watcher) -> std::io::Result<Run> {
    let grouping = if job.script { Grouping::ByProcess } else { Grouping::ByStage };
    let mut running = RunningJob {
        clock: Clock::start(),
        sampler: Sampler::new(grouping, job.pipe_bytes),
        live: Vec::new(),
        signals: Vec::new(),
        limit_bytes: machine::pipe_limit_bytes().max(job.pipe_bytes),
        notes: Vec::new(),
        file_limit: None,
        memory_kills: oom::kills(),
        around: RunSurroundings::look(),
        profiler: job.profile.then(Profiler::new),
    };
    if job.trace {
        running.sampler.trace();
    }
    signals::restore_default(SIGCHLD);
    running.start(job, watcher)?;
    let start_ns = running.live.iter().map(LiveStage::start_ns).min();
    running.sampler.history = job.history.then(|| History::from(start_ns.unwrap_or(0)));
    allow_all_files();
    running.attend(job, watcher);
    watcher.over();
    Ok(running.finish(job))
}

/// A job that runs.
struct RunningJob {
    clock: Clock,
    sampler: Sampler,
    live: Vec<LiveStage>,
    signals: Vec<i32>,
    limit_bytes: u64,
    notes: Vec<String>,
    /// The limit of open files for stages, if this process has raised its own.
    file_limit: Option<u64>,
    /// Processes killed before the run because memory had run out.
    memory_kills: MemoryKills,
    /// The host's CPU use and the quota when the run began.
    around: RunSurroundings,
    /// Samples the functions in which the stages compute.
    profiler: Option<Profiler>,
}

impl RunningJob {
    /// Waits for all stages, sampling meanwhile.
    fn attend(&mut self, job: &Job, watcher: &mut dyn Watcher) {
        let mut shown_ns = self.clock.now_ns();
        let mut looks = Looks::new(0x77e1, job.tick_ns, shown_ns);
        // The job may have been stopped while it was being started.
        let mut taken_ns = 1;
        let mut stops = Stops::default();
        let mut woken = true;
        loop {
            let before_ns = self.clock.now_ns();
            let (here, there) = self.take_events(watcher, woken);
            let now_ns = self.clock.now_ns();
            let stopped_ns = stops.note(here, there, taken_ns, now_ns);
            if stopped_ns > 0 {
                self.clock.leave_out(stopped_ns);
            } else if self.all_stopped() {
                self.clock.leave_out(now_ns.saturating_sub(taken_ns));
            }
            taken_ns = before_ns.min(self.clock.now_ns());
            looks.turn_back(taken_ns);
            if self.live.iter().all(LiveStage::has_ended) {
                return;
            }
            let now_ns = self.clock.now_ns();
            if now_ns >= looks.due_ns() {
                looks.look(now_ns, &mut self.sampler, self.profiler.as_mut());
            }
            if now_ns >= shown_ns + PROGRESS_NS {
                watcher.progress(now_ns, &self.sampler);
                shown_ns = now_ns;
            }
            woken = self.sleep_until(stops.look_by(looks.due_ns(), self.clock.now_ns()));
        }
    }

    /// Sleeps until this time, or until a stage ends or a signal comes; returns whether it was woken.
    fn sleep_until(&mut self, due_ns: u64) -> bool {
        loop {
            let rest_ns = due_ns.saturating_sub(self.clock.now_ns());
            let timeout = Timespec::try_from(Duration::from_nanos(rest_ns)).unwrap_or_default();
            let alive = self.live.iter().filter(|live| !live.has_ended());
            let mut set: Vec<PollFd> =
                alive.filter_map(|live| Some(PollFd::new(live.pidfd()?, PollFlags::IN))).collect();
            let stages = set.len();
            set.extend(self.sampler.lives.iter().flat_map(Lives::sockets));
            let ready = poll(&mut set, Some(&timeout));
            let by_stage = set[..stages].iter().any(|of| !of.revents().is_empty());
            let by_event = ready.is_ok_and(|ready| ready > 0);
            if let Some(lives) = self.sampler.lives.as_mut().filter(|_| by_event) {
                lives.take(&self.clock);
            }
            // Events of processes need no look at the stages. Interrupted or not, the caller checks
            // everything again.
            if by_stage || !by_event || rest_ns == 0 {
                return by_stage || ready.is_err();
            }
        }
    }

    /// Handles signals to this process and changes of its children. Returns whether this process,
    /// and whether a stage, has just been continued after a stop. `woken`: a stage may have ended.
    fn take_events(&mut self, watcher: &mut dyn Watcher, woken: bool) -> (bool, bool) {
        let mut continued_here = false;
        for signal in watcher.signals() {
            continued_here |= signal == SIGCONT;
            match watcher.forward(signal) {
                Forward::Nobody => {}
                Forward::Stages => self.forward_to_stages(signal),
                Forward::All => self.forward(signal),
            }
            if signal != SIGCONT {
                self.signals.push(signal);
            }
        }
        let mut continued_there = false;
        if woken || child_changed() {
            for position in 0..self.live.len() {
                continued_there |= self.take_changes(position);
            }
        }
        (continued_here, continued_there)
    }

    /// Forwards a signal to the first process of each stage.
    fn forward_to_stages(&self, signal: i32) {
        for pid in self.live.iter().filter_map(LiveStage::pid) {
            // A process that has ended is not reaped before it counts as ended here.
            let _ = signals::send(pid, signal);
        }
    }

    /// Forwards a signal for the whole command to all known processes of the run.
    fn forward(&mut self, signal: i32) {
        // Twice, for processes that were just being started.
        for _ in 0..2 {
            self.sampler.find(self.clock.now_ns());
            for pid in self.sampler.population.pids() {
                // It may have ended just now.
                let _ = signals::send(pid, signal);
            }
        }
    }

    /// Handles a change of one stage's first process; returns true if it was continued.
    fn take_changes(&mut self, position: usize) -> bool {
        let live = &self.live[position];
        let pid = live.pid().filter(|_| !live.has_ended()).and_then(Pid::from_raw);
        let Some(pid) = pid else { return false };
        let mut continued = false;
        let halts = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        while let Ok(Some(status)) = waitid(WaitId::Pid(pid), halts) {
            continued |= status.continued();
            self.set_stopped(position, status.stopped());
        }
        // A zombie is only detected here: its files are read before it is reaped.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // On an error another process has reaped it: how it ended stays unknown.
        if !matches!(waitid(WaitId::Pid(pid), end), Ok(None)) {
            let now_ns = self.clock.now_ns();
            self.live[position].harvest(now_ns, &mut self.sampler);
        }
        continued
    }

    fn set_stopped(&mut self, position: usize, stopped: bool) {
        let live = &mut self.live[position];
        live.stopped = stopped;
        if let Some(group) = live.group() {
            self.sampler.population.groups[group].stopped = stopped;
        }
    }

    fn all_stopped(&self) -> bool {
        let mut alive = self.live.iter().filter(|live| !live.has_ended()).peekable();
        alive.peek().is_some() && alive.all(|live| live.stopped)
    }

    /// Returns how pipes grow, if they may.
    fn sizing(&self, job: &Job) -> Option<Sizing> {
        job.pipe_auto.then(|| Sizing::new(self.limit_bytes))
    }
}

/// Whether some child of this process has changed: one call in place of two for each stage.
fn child_changed() -> bool {
    let any = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    let look = any | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Ok(None))
}

/// Raises the limit of open files, since two files stay open for each sampled task. It is raised
/// only after all stages have started, so that they keep their own.
fn allow_all_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If refused, some tasks of very large stages cannot be sampled.
    let _ = setrlimit(Resource::Nofile, limit);
}

const SIGCHLD: i32 = Signal::CHILD.as_raw();
const SIGCONT: i32 = Signal::CONT.as_raw();
