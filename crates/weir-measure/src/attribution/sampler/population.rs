//! Whom a sampler samples: the processes, and the groups and rows in which they are accounted.

use super::tracer::Tracer;
use crate::attribution::births::Births;
use crate::attribution::classify::{Awaited, Endpoints};
use crate::attribution::course::GroupTick;
use crate::attribution::group::{Group, MOST_GROUPS, describe, hints};
use crate::attribution::pipes::Fill;
use crate::attribution::process::{Process, combine};
use crate::attribution::rows::Rows;
use std::collections::{BTreeMap, BTreeSet};
use weir_doctor::facts::Io;
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, ProcessIdentity, Sched};

/// How often to look again at a group that seems to wait for itself.
const MORE_LOOKS: usize = 4;

/// How found processes are put into groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// A process belongs to the group of its parent; the groups are the given stages.
    ByStage,
    /// Each process is a group of its own; the processes of a script are found from outside.
    ByProcess,
}

/// The processes of a run, and what is accounted of them.
#[derive(Debug)]
pub struct Population {
    grouping: Grouping,
    /// The processes that are sampled.
    pub(super) processes: BTreeMap<Pid, Process>,
    /// The groups, in order of arrival.
    pub groups: Vec<Group>,
    /// The processes inside of stages, each by itself.
    pub rows: Rows,
}

impl Population {
    /// Creates a population of nobody.
    pub fn new(grouping: Grouping) -> Population {
        let (processes, groups, rows) = (BTreeMap::new(), Vec::new(), Rows::default());
        Population { grouping, processes, groups, rows }
    }

    /// Whether each process has a group of its own.
    pub fn is_each(&self) -> bool {
        self.grouping == Grouping::ByProcess
    }

    /// Adds a group whose first process is `pid`; returns its position.
    pub fn add_group(&mut self, pid: Pid, ends: Endpoints, now_ns: u64) -> usize {
        let group = self.groups.len();
        self.groups.push(Group::new(pid, ends, now_ns));
        let mut process = Process::new(pid, group);
        // It has no library yet.
        process.see_program(false);
        if self.is_each() {
            process.count_alone();
        }
        self.processes.insert(pid, process);
        group
    }

    /// Adds processes that run already, each a group of its own, under a shell that is not known.
    pub fn attach(&mut self, found: &[ProcessIdentity], now_ns: u64) {
        let name = String::from("sh");
        let mut shell = Group::new(0, Endpoints::default(), now_ns);
        shell.root.program.clone_from(&name);
        self.groups.push(Group { first: (name, String::new()), ended: true, ..shell });
        for process in found.iter().take(MOST_GROUPS) {
            let parent = self.processes.get(&process.parent).map_or(0, |parent| parent.group);
            let group = self.groups.len();
            let new = Group::new(process.pid, Endpoints::default(), now_ns);
            self.groups.push(Group { parent: Some(parent), ..new });
            self.processes.insert(process.pid, Process::attached(process, group));
        }
    }

    /// Adds a process that was found, unless its group has ended. `is_orphan`: the one that started it
    /// has ended, and the parent given is one above that. `margin_ns`: half the time that the tick
    /// represents.
    pub fn add_found(
        &mut self,
        found: ProcessIdentity,
        is_orphan: bool,
        now_ns: u64,
        margin_ns: u64,
    ) {
        let above = found.parent;
        let Some(starter) = self.processes.get(&above).map(|parent| parent.group) else { return };
        let own = self.is_each() && self.groups.len() < MOST_GROUPS;
        let group = if own { self.groups.len() } else { starter };
        if own {
            let new = Group::new(found.pid, Endpoints::default(), now_ns);
            self.groups.push(Group { parent: Some(starter), margin_ns, ..new });
            self.groups[starter].note_child();
        } else if self.groups[starter].ended {
            return;
        }
        let mut process = Process::found(found, group, starter);
        process.orphan = is_orphan;
        if own {
            process.count_alone();
        }
        if !self.is_each() {
            let above = self.row_of(above, starter);
            above.into_iter().for_each(|row| self.rows.groups[row].note_child());
            process.row = above.and_then(|row| self.rows.add(&process, starter, Some(row), now_ns));
            if let Some(row) = process.row {
                self.rows.groups[row].margin_ns = margin_ns;
            }
        }
        self.processes.insert(process.record.pid, process);
    }

    /// Returns the row of a process of a stage that has started another. The first process of a
    /// stage gets one only then.
    fn row_of(&mut self, pid: Pid, stage: usize) -> Option<usize> {
        let process = self.processes.get_mut(&pid)?;
        if process.row.is_none() && self.groups[stage].root.pid == pid {
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
        members.map(|process| process.record.pid)
    }

    /// Returns what each process has used and, if that is wanted, moved so far; its bytes and calls only
    /// where the kernel counts all that it moves. What was left running wakes up for its own reasons: of it
    /// those that are counted are enough.
    pub fn counts(&mut self, moved: bool) -> BTreeMap<Pid, (Sched, Option<Io>)> {
        let groups = &self.groups;
        let of = |process: &mut Process| {
            let may_move = process.may_splice == Some(true) || groups[process.group].uncounted;
            let is_counted = process.orphan || !may_move;
            let moved = if moved && is_counted { process.moved_in_all() } else { None };
            (process.own_sched(), moved)
        };
        self.processes.iter_mut().map(|(pid, process)| (*pid, of(process))).collect()
    }

    /// Whether a process was found to be left running by the one that started it.
    pub fn is_orphan(&self, pid: Pid) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.orphan)
    }

    /// Returns the processes that all groups started.
    pub fn births(&self) -> Births {
        let mut all = Births::default();
        self.groups.iter().for_each(|group| all.merge(&group.births));
        all
    }

    /// Returns the CPU and waiting time of each group so far.
    pub fn totals(&self) -> Vec<Sched> {
        let mut totals: Vec<Sched> = self.groups.iter().map(|group| group.gone).collect();
        for process in self.processes.values() {
            totals[process.group] = totals[process.group].plus(process.sched());
        }
        totals
    }

    /// Looks again at groups all of whose tasks seemed to wait for each other. That is impossible:
    /// tasks are sampled one after the other, so two that pass work to and fro can both appear to
    /// wait.
    pub fn sample_again(&mut self, seen: &mut [GroupTick], fills: &[(Descriptor, Fill)]) {
        for (position, seen) in seen.iter_mut().enumerate().filter(|(_, seen)| seen.tasks > 1) {
            let ends = self.groups[position].root.ends;
            let hints = hints(&ends, fills);
            for _ in 0..MORE_LOOKS {
                if !matches!(seen.state, Some((TaskState::Child | TaskState::Lock, _))) {
                    break;
                }
                for process in self.processes.values_mut().filter(|it| it.group == position) {
                    let (looks, gone) = process.sample(&ends, hints, false);
                    let group = &mut self.groups[position];
                    group.gone = group.gone.plus(gone);
                    looks.iter().for_each(|look| combine(&mut seen.state, look.found()));
                }
            }
        }
    }

    /// Whether a process is one of the run.
    pub fn has(&self, pid: Pid) -> bool {
        self.processes.contains_key(&pid)
    }

    /// Notes what groups waited for: the task whose state is that of its group tells.
    pub fn note_waits(
        &mut self,
        waits: &[(usize, Pid, TaskState, Awaited)],
        seen: &[GroupTick],
        weight_ns: u64,
    ) {
        let (mut noted, mut rows) = (BTreeSet::new(), BTreeSet::new());
        for (position, pid, state, awaited) in waits {
            let row = self.processes.get(pid).and_then(|process| process.row);
            if let (Some(row), Awaited::Socket { fd, writes, .. }) = (row, awaited)
                && rows.insert(row)
            {
                // Its own peer. Nobody outside is watched twice.
                let peers = &mut self.rows.groups[row].peers;
                peers.note(*pid, (*fd, *writes), weight_ns, &|_| true);
            }
            let counts = seen[*position].state.is_some_and(|(of, _)| of == *state);
            // Of several tasks in that state the first counts.
            if !counts || !noted.insert(*position) {
                continue;
            }
            let group = &mut self.groups[*position];
            match awaited {
                Awaited::Socket { fd, writes, .. } => {
                    let inside = |pid: Pid| self.processes.contains_key(&pid);
                    group.peers.note(*pid, (*fd, *writes), weight_ns, &inside);
                }
                awaited => group.files.note(*pid, *state, *awaited, weight_ns),
            }
        }
    }

    /// Removes processes that have ended, except the first process of a group: that one is ended by
    /// whoever reaps it or, if it was found, here. A zombie that nobody has waited for is kept:
    /// whether somebody will tells whether the kernel's sums include it.
    pub fn remove_dead(&mut self, dead: &[Pid], tracer: &mut Tracer) {
        let mut gone = Vec::new();
        for pid in dead {
            let Some(process) = self.processes.get_mut(pid) else { continue };
            let group = &mut self.groups[process.group];
            let given = group.parent.is_none() && group.root.pid == *pid;
            if given && !group.ended {
                continue;
            }
            group.ended |= group.root.pid == *pid;
            match process.last_sample() {
                Some((b'Z' | b'X', _)) => process.note_zombie(),
                _ => gone.push(*pid),
            }
        }
        gone.iter().for_each(|pid| self.forget(*pid, tracer));
        self.find_orphans(&gone);
    }

    /// Follows a process to its new parent after its parent has ended; no process of the group will
    /// wait for it unless the new parent belongs to the group too.
    fn find_orphans(&mut self, gone: &[Pid]) {
        let left = self.processes.values().filter(|process| gone.contains(&process.parent));
        for pid in left.map(|process| process.record.pid).collect::<Vec<_>>() {
            let Some(mut process) = self.processes.remove(&pid) else { continue };
            let parent = process.last_sample().map_or(process.parent, |(_, parent)| parent);
            process.parent = parent.max(1);
            process.orphan = !self.processes.contains_key(&parent);
            self.processes.insert(pid, process);
        }
    }

    /// Ends a group whose first process has ended: its remaining processes are no longer sampled,
    /// and no process of the group will wait for them. `left`: a process that was never seen was
    /// left running.
    pub fn end_group(&mut self, group: usize, left: bool, now_ns: u64, tracer: &mut Tracer) {
        let (root, each) = (self.groups[group].root.pid, self.is_each());
        self.groups[group].last_ns = now_ns;
        self.groups[group].perhaps_unreaped |= left && !each;
        let members: Vec<Pid> = self.pids_of(group).collect();
        for pid in members.iter().filter(|pid| **pid != root) {
            let Some(process) = self.processes.get_mut(pid) else { continue };
            process.orphan |= process.last_sample().is_some();
            // The group has just waited for it, or it ended together with the group's first
            // process.
            self.groups[group].perhaps_unreaped |= !process.orphan && process.zombie_looks > 1;
        }
        self.groups[group].ended = true;
        if let Some(process) = self.processes.get_mut(&root).filter(|of| each || of.row.is_some())
            && let Some((b'Z' | b'X', _)) = process.last_sample()
        {
            process.note_zombie();
        }
        let gone = if each { vec![root] } else { members };
        gone.iter().for_each(|pid| self.forget(*pid, tracer));
    }

    /// Ends the run: adds the last known figures of all processes to their groups' totals.
    pub fn close(&mut self, tracer: &mut Tracer) {
        for pid in self.pids().collect::<Vec<_>>() {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            process.orphan |= process.last_sample().is_some();
            self.groups[process.group].ended = true;
            self.forget(pid, tracer);
        }
    }

    /// Adds a process to the totals of its group, and stops sampling it.
    fn forget(&mut self, pid: Pid, tracer: &mut Tracer) {
        let Some(mut process) = self.processes.remove(&pid) else { return };
        process.confines.read();
        tracer.flush(&process, &mut self.groups, &mut self.rows);
        settle(&mut self.groups[process.group], &process);
        if let Some(row) = process.row {
            self.rows.settle(row, &process);
        }
        if process.was_found() {
            let births = &mut self.groups[process.starter].births;
            births.note(&process.record.program, process.ticks_alive, process.alive_ns);
        }
    }
}

/// Adds the figures of an ended process to the totals of its group.
fn settle(group: &mut Group, process: &Process) {
    let sched = process.sched();
    group.position_bytes += process.position_bytes();
    let may = [group.may_splice, process.may_splice];
    group.may_splice = may.into_iter().flatten().reduce(|one, other| one || other);
    group.gone = group.gone.plus(sched);
    group.major_faults += process.major_faults;
    // Of several processes in groups of their own, the one counts that was held up longest.
    let (quota, memory) = &mut group.confined;
    let quotas = quota.take().into_iter().chain(process.confines.quota());
    *quota = quotas.max_by_key(|held| held.quota.throttled_ns);
    let limits = memory.take().into_iter().chain(process.confines.memory());
    *memory = limits.max_by_key(|limit| limit.times_reached);
    if process.orphan {
        group.unreaped.add(process.used());
    }
    *group.programs.entry(process.record.program.clone()).or_default() += sched.cpu_ns;
    if process.record.pid == group.root.pid {
        describe(group, process);
    }
}
