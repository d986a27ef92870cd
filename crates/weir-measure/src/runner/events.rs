//! What happens to a running job: signals, stops, ends.
//!
//! In the order of flow: a turn of the loop takes signals and looks at the stages, leaves out the
//! time of a stop that this shows, and only then gives instants: to ends, to the kernel's events,
//! and to processes found where a signal is passed on.

use super::finish::LiveStage;
use super::job::{Forward, Watcher};
use super::left::{LEFT_NS, LeftBehind, holder, strays};
use super::stops::Signs;
use super::{RunningJob, SIGCONT};
use crate::attribution::PipeWatch;
use crate::lives::Lives;
use crate::sys::signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use rustix::stdio::{stderr, stdout};
use rustix::time::ClockId;
use std::process::Child;
use std::time::Duration;
use weir_doctor::facts::LeftProcess;
use weir_sys::Pid;
use weir_sys::cpu::{monotonic_ns, now_ns, ticks_ns};
use weir_sys::proc::{Descriptor, ProcContents, Stat, pidfd};

/// Two times within which no process ends and another one starts with its id.
const SAME_NS: u64 = 1_000_000_000;
/// How often, and how long each time, a stage that was told to be stopped is waited for: it may die
/// as it continues.
const DYING_WAITS: u32 = 100;
const DYING_WAIT: Duration = Duration::from_millis(1);

/// What woke the loop.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Woken {
    /// A stage may have changed.
    pub by_stage: bool,
    /// The kernel told of processes.
    pub by_event: bool,
}

/// What a turn found.
#[derive(Debug, Default)]
struct Turn {
    /// Signals to this process, without SIGCONT.
    signals: Vec<i32>,
    signs: Signs,
    /// Positions of the stages whose first process has ended.
    ended: Vec<usize>,
}

impl RunningJob {
    /// Handles signals to this process and changes of its children.
    pub(super) fn take_turn(&mut self, watcher: &mut dyn Watcher, woken: Woken) {
        let since_ns = self.heard_ns;
        let was_stopped = self.all_stopped();
        let turn = self.reap_children(watcher, woken);
        // What stopped all stages woke this process at that moment, and so did what ended the stop.
        if was_stopped || turn.signs.show_stop() {
            self.clock.leave_out_since(since_ns);
            self.heard_ns = since_ns;
            // Some events of the turn before may have come after the stop began.
            self.sampler.lives.iter_mut().for_each(|lives| lives.turn_back(since_ns));
        }
        if let Some(lives) = self.sampler.lives.as_mut().filter(|_| woken.by_event) {
            lives.take(&self.clock);
        }
        for signal in turn.signals {
            match watcher.forward(signal) {
                Forward::Nobody => {}
                Forward::Stages => self.forward_to_stages(signal),
                Forward::All => self.forward(signal),
            }
            self.signals.push(signal);
        }
        for position in turn.ended {
            let end_ns = self.end_of(position);
            self.note_left(position);
            self.note_survivors(position);
            self.live[position].harvest(end_ns, &mut self.sampler);
        }
    }

    /// Notes whether a stage that has just ended, and is not reaped yet, left its pipe open.
    fn note_left(&mut self, position: usize) {
        if !self.is_open_behind(position) {
            return;
        }
        let population = &self.sampler.population;
        let Some(group) = self.live[position].started_group() else { return };
        let root = population.groups[group].root.pid;
        let sampled = population.pids_of(group).filter(|pid| *pid != root).collect();
        let first = population.groups[group].root.command.clone();
        self.live[position].left = Some(LeftBehind::new(sampled, first));
    }

    /// Notes which processes that samples had met continue after the last stage, or the script.
    fn note_survivors(&mut self, position: usize) {
        let population = &self.sampler.population;
        let group = self.live[position].started_group();
        let Some(group) = group.filter(|_| position + 1 == self.live.len()) else { return };
        let root = population.groups[group].root.pid;
        let all: Vec<_> = match population.is_each() {
            true => population.pids().collect(),
            false => population.pids_of(group).collect(),
        };
        self.survivors = all.into_iter().filter(|pid| *pid != root).collect();
    }

    /// Returns a process that continues and still has the output of the whole run open, where somebody
    /// may read that to its end. Who ends with the run, as a process substitution does, gets a moment
    /// for that.
    pub(super) fn left_output(&self) -> Option<LeftProcess> {
        let told = self.sampler.lives.iter().flat_map(Lives::alive).map(|(pid, _)| pid);
        let mut pids: Vec<Pid> = self.survivors.iter().copied().chain(told).collect();
        pids.sort();
        pids.dedup();
        let is_flow = |output: &Descriptor| output.is_pipe() || output.is_socket();
        let outputs = [Descriptor::of(stdout()), Descriptor::of(stderr())];
        let outputs: Vec<_> = outputs.into_iter().flatten().filter(is_flow).collect();
        let first = &self.sampler.population.groups.last()?.first.1;
        let begun_ns = monotonic_ns();
        loop {
            let found = outputs.iter().find_map(|output| holder(&pids, output, first))?;
            let rest_ns = (begun_ns + LEFT_NS).saturating_sub(monotonic_ns());
            if rest_ns == 0 {
                return Some(found);
            }
            let rest = Timespec::try_from(Duration::from_nanos(rest_ns)).unwrap_or_default();
            if let Some(process) = pidfd(found.pid) {
                let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&rest));
            }
        }
    }

    /// Finds who has a pipe open that its stage left open a while ago.
    pub(super) fn find_left(&mut self, now_ns: u64) {
        for position in 0..self.live.len().saturating_sub(1) {
            if self.live[position + 1].has_ended() {
                continue;
            }
            let live = &mut self.live[position];
            let since_ns = now_ns.saturating_sub(live.end_ns());
            let Some(group) = live.started_group() else { continue };
            if let Some(left) = &mut live.left
                && left.is_due(since_ns)
            {
                let told = self.sampler.lives.as_ref();
                let others = told.map(|lives| lives.alive_of(group).collect());
                left.sample(others.unwrap_or_else(strays), &self.sampler.pipes[position].identity);
            }
        }
    }

    /// Returns when a stage ended, as the kernel told it; this turn, where it did not. This process
    /// may have had no CPU meanwhile, or have been stopped alone.
    fn end_of(&mut self, position: usize) -> u64 {
        let Some(lives) = &mut self.sampler.lives else { return self.heard_ns };
        lives.take(&self.clock);
        let told = self.live[position].pid().and_then(|pid| lives.end_of(pid));
        told.map_or(self.heard_ns, |end_ns| end_ns.min(self.heard_ns))
    }

    /// Whether somebody can still write into the pipe behind a stage whose first process has ended.
    fn is_open_behind(&self, position: usize) -> bool {
        // The pipes of a script are found, and not between stages.
        let pipe = self.sampler.pipes.get(position).filter(|_| !self.sampler.population.is_each());
        pipe.and_then(PipeWatch::has_writers) == Some(true)
    }

    /// Hears of signals; whether this process was continued.
    pub(super) fn handle_events(&mut self, watcher: &mut dyn Watcher) -> bool {
        self.heard_ns = self.clock.now_ns();
        let before = self.heard.len();
        self.heard.extend(watcher.signals());
        let continued = self.heard[before..].contains(&SIGCONT);
        self.heard.retain(|signal| *signal != SIGCONT);
        continued
    }

    fn reap_children(&mut self, watcher: &mut dyn Watcher, woken: Woken) -> Turn {
        let mut turn = Turn::default();
        let mut continued = self.handle_events(watcher);
        let mut look = continued || woken.by_stage || child_changed();
        let mut waits = DYING_WAITS;
        // This process may have been stopped and continued between hearing and looking.
        while look {
            turn.signs.here |= continued;
            for position in 0..self.live.len() {
                self.take_changes(position, &mut turn);
            }
            turn.signs.told |= signals::take_child_stopped();
            continued = self.handle_events(watcher);
            // A stage that dies as it continues has lost the sign of that, and has not yet ended.
            let may_die = turn.signs.here && turn.signs.told && !turn.signs.show_stop();
            look = continued || may_die && waits > 0;
            if may_die && look {
                waits -= 1;
                // sleep: the kernel tells of the end, and then it is looked at.
                std::thread::sleep(DYING_WAIT);
            }
        }
        turn.signals = std::mem::take(&mut self.heard);
        turn
    }

    /// Takes the changes of one stage's first process.
    fn take_changes(&mut self, position: usize, turn: &mut Turn) {
        let live = &self.live[position];
        let pid = live.pid().filter(|_| !turn.ended.contains(&position));
        let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) else { return };
        turn.signs.there |= take_continued(pid, |stopped| self.set_stopped(position, stopped));
        // A zombie is only detected here: its files are read before it is reaped.
        let end = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // On an error another process has reaped it: how it ended stays unknown.
        if !matches!(waitid(WaitId::Pid(pid), end), Ok(None)) {
            turn.ended.push(position);
            turn.signs.ended = true;
            turn.signs.told |= self.live[position].stopped;
        }
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

    /// Leaves out a stop since `since_ns`, while stages were being started. `children`: those that
    /// had been started by then.
    pub(super) fn leave_out_start<'a>(
        &mut self,
        watcher: &mut dyn Watcher,
        since_ns: u64,
        children: impl Iterator<Item = &'a Child>,
    ) {
        if !self.handle_events(watcher) {
            return;
        }
        // Before there is a stage, this process is the whole job.
        let mut stopped = signals::take_child_stopped();
        let mut children = children.map(rustix::process::Pid::from_child).peekable();
        stopped |= children.peek().is_none();
        for pid in children {
            stopped |= take_continued(pid, |_| ());
        }
        if stopped {
            self.clock.leave_out_since(since_ns);
            self.heard_ns = since_ns;
        }
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
            self.sampler.find(self.heard_ns);
            for pid in self.sampler.population.pids() {
                // It may have ended just now.
                let _ = signals::send(pid, signal);
            }
            self.forward_to_unseen(signal);
        }
    }

    /// Forwards a signal to the processes of which the kernel told and which are not sampled: no
    /// sample met them, or their stage has ended.
    fn forward_to_unseen(&mut self, signal: i32) {
        let Some(signal) = Signal::from_named_raw(signal) else { return };
        // One that is held and is then found to have started at that time stays the same.
        let held = |(pid, start_ns)| Some((pid, start_ns, pidfd(pid)?));
        let mut held: Vec<_> = self.not_sampled().into_iter().filter_map(held).collect();
        held.retain(|(pid, start_ns, _)| {
            self.started_ns(*pid).is_some_and(|at| at.abs_diff(*start_ns) < SAME_NS)
        });
        let alive = self.not_sampled();
        for (_, _, process) in held.iter().filter(|held| alive.contains(&(held.0, held.1))) {
            let _ = pidfd_send_signal(process, signal);
        }
    }

    /// Returns the processes that are not sampled and of which no end was told, with their starts.
    fn not_sampled(&mut self) -> Vec<(Pid, u64)> {
        let Some(lives) = &mut self.sampler.lives else { return Vec::new() };
        lives.take(&self.clock);
        let sampled = std::collections::BTreeSet::from_iter(self.sampler.population.pids());
        lives.alive().filter(|(pid, _)| !sampled.contains(pid)).collect()
    }

    /// Returns when a process started, as the kernel shows it: to a clock tick.
    fn started_ns(&self, pid: Pid) -> Option<u64> {
        let started_ns = ticks_ns(Stat::of(pid)?.started_ticks);
        let age_ns = now_ns(ClockId::Boottime).saturating_sub(started_ns);
        Some(self.clock.at_ns(monotonic_ns().saturating_sub(age_ns)))
    }
}

/// Takes the stops and continuations of a child, in which `stopped` is told of each; whether it was
/// continued.
fn take_continued(pid: rustix::process::Pid, mut stopped: impl FnMut(bool)) -> bool {
    let mut continued = false;
    let halts = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
    while let Ok(Some(status)) = waitid(WaitId::Pid(pid), halts) {
        continued |= status.continued();
        stopped(status.stopped());
    }
    continued
}

/// Whether some child of this process has changed: one call in place of two for each stage.
fn child_changed() -> bool {
    let any = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED;
    let look = any | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, look), Ok(None))
}
