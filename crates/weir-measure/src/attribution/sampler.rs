//! The sampler: at each tick, the state of each group of tasks and the fill of each pipe, weighted
//! by time.

mod attach;
mod ended;
mod traced;

use super::births::{Births, Census};
use super::classify::{Awaited, Endpoints};
use super::course::{Course, Seen};
use super::group::{Group, MOST_GROUPS, describe, hints, is_due};
use super::pipes::{Fill, PipeWatch};
use super::process::{Process, TaskLook, combine};
use super::rows::{self, Rows};
use super::tree::Discovery;
use crate::lives::{Adopted, Life, Lives};
use crate::proc::Descriptor;
use std::collections::{BTreeMap, BTreeSet};
use traced::Follower;
use weir_doctor::facts::{Evidence, History, Traced};
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::Sched;

/// How found processes are put into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// A process belongs to the group of its parent; the groups are the given stages.
    ByStage,
    /// Each process is a group of its own; the processes of a script are found from outside.
    ByProcess,
}

/// Samples the tasks of a run.
#[derive(Debug)]
pub struct Sampler {
    grouping: Grouping,
    discovery: Discovery,
    processes: BTreeMap<Pid, Process>,
    /// The groups, in order of arrival.
    pub groups: Vec<Group>,
    /// The watched pipes.
    pub pipes: Vec<PipeWatch>,
    /// The processes inside of stages, each by itself.
    pub rows: Rows,
    /// Least capacity to give to pipes that are found in a script.
    found_pipe_bytes: u64,
    /// What the stages spent their time on; nothing for the processes of a script.
    pub course: Course,
    /// Number of ticks so far.
    pub ticks: u64,
    /// How many tasks the last tick looked at.
    pub looked_at: usize,
    /// Time that the present tick represents.
    weight_ns: u64,
    /// The processes that the kernel's events tell of, where it tells them.
    pub lives: Option<Lives>,
    /// What these added to the groups in the end.
    pub adopted: Option<Adopted>,
    /// What the groups did and how full the pipes were over time, if that is kept.
    pub history: Option<History>,
    /// The trace, if there is one, or why there is none.
    follower: Option<Follower>,
    refused: Option<Traced>,
    /// CPU time that reading the trace took: fewer ticks would not make it less.
    pub follow_ns: u64,
}

/// How often to look again at a group that seems to wait for itself.
const MORE_LOOKS: usize = 4;
impl Sampler {
    /// Creates a sampler for which processes started from now on are new. It raises pipes that it
    /// finds to a capacity of `found_pipe_bytes`.
    pub fn new(grouping: Grouping, found_pipe_bytes: u64) -> Sampler {
        let (processes, groups, pipes) = (BTreeMap::new(), Vec::new(), Vec::new());
        let discovery = Discovery::new();
        let (rows, course) = (Rows::default(), Course::default());
        let (ticks, looked_at, weight_ns) = (0, 0, 0);
        Sampler {
            grouping,
            discovery,
            processes,
            groups,
            pipes,
            rows,
            found_pipe_bytes,
            course,
            ticks,
            looked_at,
            weight_ns,
            lives: Lives::open(),
            adopted: None,
            history: None,
            follower: None,
            refused: None,
            follow_ns: 0,
        }
    }

    /// Adds a group whose first process is `pid`; returns its position.
    pub fn add_group(&mut self, pid: Pid, ends: Endpoints, now_ns: u64) -> usize {
        let group = self.groups.len();
        self.groups.push(Group::new(pid, ends, now_ns));
        let mut process = Process::new(pid, group);
        // It has no library yet.
        process.see_program(false);
        if self.grouping == Grouping::ByProcess {
            process.count_alone();
        }
        self.processes.insert(pid, process);
        if let Some(lives) = &mut self.lives {
            lives.add(pid, group, now_ns);
        }
        group
    }

    /// Ends a group whose first process has ended: its remaining processes are no longer sampled,
    /// and no process of the group will wait for them.
    pub fn end_group(&mut self, group: usize, now_ns: u64) {
        self.follow(None);
        let root = self.groups[group].root;
        self.groups[group].last_ns = now_ns;
        // A process that was never seen still has the group's output open: it was left running.
        let output = self.groups[group].ends.output;
        let mut behind = self.pipes.iter().filter(|pipe| Some(pipe.identity) == output);
        let left = behind.next().and_then(PipeWatch::has_writers) == Some(true);
        self.groups[group].perhaps_unreaped |= left && self.grouping == Grouping::ByStage;
        let members: Vec<Pid> = self.pids_of(group).filter(|pid| *pid != root).collect();
        for pid in members {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            process.orphan |= process.last_look().is_some();
            // The group has just waited for it, or it ended together with the group's first
            // process.
            self.groups[group].perhaps_unreaped |= !process.orphan && process.zombie_looks > 1;
        }
        self.groups[group].ended = true;
        let each = self.grouping == Grouping::ByProcess;
        if let Some(process) = self.processes.get_mut(&root).filter(|of| each || of.row.is_some())
            && let Some((b'Z' | b'X', _)) = process.last_look()
        {
            process.zombie_looks += 1;
        }
        match self.grouping {
            Grouping::ByStage => {
                let members: Vec<Pid> = self.pids_of(group).collect();
                members.iter().for_each(|pid| self.forget(*pid));
            }
            Grouping::ByProcess => self.forget(root),
        }
    }

    /// Ends the run: adds the last known figures of all processes to their groups' totals.
    pub fn close(&mut self) {
        self.follow(None);
        self.discovery.close();
        for pid in self.pids().collect::<Vec<_>>() {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            process.orphan |= process.last_look().is_some();
            self.groups[process.group].ended = true;
            self.forget(pid);
        }
        if let Some(lives) = self.lives.take() {
            self.adopt(&lives);
            self.lives = Some(lives);
        }
    }

    /// Adds the processes that no sample met.
    fn adopt(&mut self, lives: &Lives) {
        let each = self.grouping == Grouping::ByProcess;
        let groups = if each { &mut self.groups } else { &mut self.rows.groups };
        let (adopted, places) = lives.adopt(groups);
        self.adopted = Some(adopted);
        // What is no longer known is estimated by samples.
        if lives.are_complete() {
            let starter = |life: &Life| match each {
                true => life.parent.and_then(|parent| places[parent]),
                false => Some(life.group),
            };
            let births = lives.births(&starter, self.groups.len());
            self.groups.iter_mut().zip(births).for_each(|(group, births)| group.births = births);
        }
    }

    /// Whether each process of a script has a group of its own.
    pub fn has_all(&self) -> bool {
        self.adopted.is_some_and(|adopted| adopted.all)
    }

    /// Returns the counts of ids that the kernel assigned meanwhile.
    pub fn census(&self) -> Census {
        self.discovery.census
    }

    /// Estimates how many processes of the run were too brief to be seen, and the quality of that.
    pub fn unseen(&self) -> (u64, Evidence) {
        let mut all = Births::default();
        self.groups.iter().for_each(|group| all.merge(&group.births));
        all.unseen(&self.census(), all.once())
    }

    /// Returns how many found processes were seen at one tick only.
    pub fn seen_once(&self) -> u64 {
        self.groups.iter().map(|group| group.births.once()).sum()
    }

    /// Takes a sample of everything, which represents the `weight_ns` before `now_ns`.
    pub fn tick(&mut self, now_ns: u64, weight_ns: u64) {
        self.ticks += 1;
        self.weight_ns = weight_ns;
        self.find(now_ns);
        let fills = self.look_at_pipes(now_ns, weight_ns);
        self.follow(Some(&fills));
        self.rows.begin(weight_ns);
        let mut strongest: Vec<Option<(TaskState, u32)>> = vec![None; self.groups.len()];
        let mut counts = vec![0; self.groups.len()];
        let mut has_children = vec![false; self.groups.len()];
        let (mut dead, mut waits) = (Vec::new(), Vec::new());
        for process in self.processes.values_mut() {
            let group = &mut self.groups[process.group];
            let each = self.grouping == Grouping::ByProcess;
            let due = is_due(process.looks + 1, each) || group.ends_due;
            if each && due && rows::refresh_ends(group, process.pid) {
                rows::watch(&mut self.pipes, process.pid, group, Some(self.found_pipe_bytes));
            }
            let hints = hints(&group.ends, &fills);
            // Phases are cut by the CPU time between two looks.
            let (mut looks, gone) = process.look(&group.ends, hints, true);
            if !group.more_ends.is_empty() {
                for look in &mut looks {
                    look.state = rows::own_state(process.pid, look, group, hints, false);
                }
            }
            if let Some(row) = process.row {
                self.rows.look(row, process, &looks);
            }
            Sampler::tell(self.follower.as_mut(), process, &looks);
            group.gone = group.gone.plus(gone);
            counts[process.group] += looks.len();
            for look in &looks {
                note(group, look);
                combine(&mut strongest[process.group], look);
            }
            let found =
                |look: &TaskLook| Some((process.group, process.pid, look.state, look.awaited?));
            waits.extend(looks.iter().filter_map(found));
            // A process that ended before its first look existed all the same.
            if !looks.is_empty() || process.looks == 1 {
                process.ticks_alive += 1;
                process.alive_ns += weight_ns;
                has_children[process.starter] |= process.was_found();
            }
            if looks.is_empty() {
                dead.push(process.pid);
                continue;
            }
            let each = each || process.row.is_some();
            if is_due(process.looks, each) {
                refresh(group, process);
            }
            if each {
                // These cannot be read after its end.
                process.refresh_totals();
            }
        }
        self.looked_at = counts.iter().sum();
        let totals = self.totals();
        self.bury(&dead);
        self.look_again(&mut strongest, &counts, &fills);
        let counts_for = |group: usize, state| strongest[group].is_some_and(|(of, _)| of == state);
        waits.retain(|(group, _, state, _)| counts_for(*group, *state));
        self.note_waits(&waits, weight_ns);
        for (group, has_children) in self.groups.iter_mut().zip(has_children) {
            group.births.any_ns += if has_children { weight_ns } else { 0 };
        }
        self.end_tick(&strongest, &counts, &totals, now_ns);
    }

    /// Looks at the fill of each pipe.
    fn look_at_pipes(&mut self, now_ns: u64, weight_ns: u64) -> Vec<(Descriptor, Fill)> {
        let mut fills = Vec::with_capacity(self.pipes.len());
        for (at, pipe) in self.pipes.iter_mut().enumerate() {
            let Some(fill) = pipe.look(weight_ns) else { continue };
            if let Some(history) = &mut self.history {
                history.add_fill(at, fill.bytes, now_ns, weight_ns);
            }
            fills.push((pipe.identity, fill));
        }
        fills
    }

    /// Adds what a tick showed of each group, its strongest state and its number of tasks, to the
    /// sums.
    fn end_tick(
        &mut self,
        strongest: &[Option<(TaskState, u32)>],
        counts: &[usize],
        totals: &[Sched],
        now_ns: u64,
    ) {
        let weight_ns = self.weight_ns;
        self.hand_over();
        for (position, group) in self.groups.iter_mut().enumerate() {
            group.add_tick(strongest[position], counts[position], now_ns, weight_ns);
            let state = group.now.filter(|_| !group.ended && strongest[position].is_some());
            if let (Some(state), Some(history)) = (state, &mut self.history) {
                history.add(position, state, now_ns, weight_ns);
            }
        }
        if self.grouping == Grouping::ByStage {
            self.course.add(now_ns, weight_ns, totals, |group| Seen {
                tasks: counts[group],
                state: strongest[group].filter(|_| !self.groups[group].ended),
            });
        }
        self.rows.end(now_ns, weight_ns);
    }

    /// Returns the CPU and waiting time of each stage so far.
    fn totals(&self) -> Vec<Sched> {
        let mut totals: Vec<Sched> = self.groups.iter().map(|group| group.gone).collect();
        for process in self.processes.values() {
            totals[process.group] = totals[process.group].plus(process.sched());
        }
        totals
    }

    /// Notes what groups waited for: the task whose state is that of its group tells.
    fn note_waits(&mut self, waits: &[(usize, Pid, TaskState, Awaited)], weight_ns: u64) {
        let mut noted = BTreeSet::new();
        for (position, pid, state, awaited) in waits {
            // Of several tasks in that state the first counts.
            if !noted.insert(*position) {
                continue;
            }
            let group = &mut self.groups[*position];
            match awaited {
                Awaited::Socket { fd, writes, .. } => {
                    let processes = &self.processes;
                    let inside = |pid: Pid| processes.contains_key(&pid);
                    group.peers.note(*pid, (*fd, *writes), weight_ns, &inside);
                }
                awaited => group.files.note(*pid, *state, *awaited, weight_ns),
            }
        }
    }

    /// Looks again at groups all of whose tasks seemed to wait for each other. That is impossible:
    /// tasks are sampled one after the other, so two that pass work to and fro can both appear to
    /// wait.
    fn look_again(
        &mut self,
        strongest: &mut [Option<(TaskState, u32)>],
        counts: &[usize],
        fills: &[(Descriptor, Fill)],
    ) {
        for (position, seen) in strongest.iter_mut().enumerate().filter(|(at, _)| counts[*at] > 1) {
            let ends = self.groups[position].ends;
            let hints = hints(&ends, fills);
            for _ in 0..MORE_LOOKS {
                let among_themselves =
                    matches!(seen, Some((TaskState::Child | TaskState::Lock, _)));
                if !among_themselves {
                    break;
                }
                let members = self.processes.values_mut().filter(|p| p.group == position);
                members.for_each(|process| {
                    let (looks, gone) = process.look(&ends, hints, false);
                    let group = &mut self.groups[position];
                    group.gone = group.gone.plus(gone);
                    looks.iter().for_each(|look| combine(seen, look));
                });
            }
        }
    }

    /// Looks for new processes and threads at the start of a tick.
    pub fn find(&mut self, now_ns: u64) {
        for found in self.discovery.look(now_ns, &mut self.processes) {
            let Some(starter) = self.processes.get(&found.parent).map(|parent| parent.group) else {
                continue;
            };
            let own = self.grouping == Grouping::ByProcess && self.groups.len() < MOST_GROUPS;
            let group = if own {
                let group = Group::new(found.pid, Endpoints::default(), now_ns);
                let margin_ns = self.weight_ns / 2;
                self.groups.push(Group { parent: Some(starter), margin_ns, ..group });
                self.groups.len() - 1
            } else {
                starter
            };
            if own || !self.groups[starter].ended {
                let parent = found.parent;
                let mut process = Process::found(found, group, starter);
                if own {
                    process.count_alone();
                }
                if self.grouping == Grouping::ByStage {
                    let above = self.row_of(parent, starter);
                    let row =
                        above.and_then(|row| self.rows.add(&process, starter, Some(row), now_ns));
                    if let Some(row) = row {
                        self.rows.groups[row].margin_ns = self.weight_ns / 2;
                    }
                    process.row = row;
                }
                self.processes.insert(process.pid, process);
            }
        }
    }

    /// Returns the row of a process of a stage that has started another. The first process of a
    /// stage gets one only then.
    fn row_of(&mut self, pid: Pid, stage: usize) -> Option<usize> {
        let process = self.processes.get_mut(&pid)?;
        if process.row.is_none() && self.groups[stage].root == pid {
            let from_ns = self.groups[stage].first_ns;
            process.row = self.rows.add(process, stage, None, from_ns);
        }
        process.row
    }

    /// Iterates over all sampled processes.
    pub fn pids(&self) -> impl Iterator<Item = Pid> {
        self.processes.keys().copied()
    }

    /// Iterates over those of one group.
    pub fn pids_of(&self, group: usize) -> impl Iterator<Item = Pid> {
        let members = self.processes.values().filter(move |process| process.group == group);
        members.map(|process| process.pid)
    }
}

fn refresh(group: &mut Group, process: &mut Process) {
    let peak = process.refresh().unwrap_or(0);
    group.peak_rss_bytes = group.peak_rss_bytes.max(peak);
    if process.pid == group.root {
        describe(group, process);
    }
}

fn note(group: &mut Group, look: &TaskLook) {
    group.hidden |= look.hidden;
    group.uncounted |= look.uncounted;
}

#[cfg(test)]
mod tests;
