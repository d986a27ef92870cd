//! The sampler: at each tick, the state of each group of tasks and the fill of each pipe, weighted
//! by time.

mod population;
mod tracer;

pub use population::Grouping;

use super::births::Census;
use super::classify::Endpoints;
use super::course::{Course, GroupTick};
use super::dry::DryTimes;
use super::family;
use super::group::{Group, describe, hints, input, is_due};
use super::pipes::{Fill, PipeWatch};
use super::process::{Process, TaskSample, combine, is_captured, script_of};
use super::rows;
use super::tree::Discovery;
use crate::lives::{Adopted, Life, Lives};
use population::Population;
use tracer::Tracer;
use weir_doctor::facts::{Evidence, History};
use weir_doctor::state::TaskState;
use weir_sys::Pid;
use weir_sys::proc::{Descriptor, FdInfo, ProcessIdentity, Sched};

/// Samples the tasks of a run.
#[derive(Debug)]
pub struct Sampler {
    discovery: Discovery,
    /// The processes, and the groups and rows in which they are accounted.
    pub population: Population,
    /// The watched pipes.
    pub pipes: Vec<PipeWatch>,
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
    /// The trace, where one was begun.
    pub tracer: Tracer,
}

impl Sampler {
    /// Creates a sampler for which processes started from now on are new. It raises pipes that it
    /// finds to a capacity of `found_pipe_bytes`.
    pub fn new(grouping: Grouping, found_pipe_bytes: u64) -> Sampler {
        Sampler {
            discovery: Discovery::new(),
            population: Population::new(grouping),
            pipes: Vec::new(),
            found_pipe_bytes,
            course: Course::default(),
            ticks: 0,
            looked_at: 0,
            weight_ns: 0,
            lives: Lives::open(),
            adopted: None,
            history: None,
            tracer: Tracer::default(),
        }
    }

    /// Traces what is started from now on, and what is attached; the tracer says why, if it cannot.
    pub fn trace(&mut self) {
        self.tracer.begin(!self.population.is_each());
    }

    /// Adds a group whose first process is `pid`; returns its position.
    pub fn add_group(&mut self, pid: Pid, ends: Endpoints, now_ns: u64) -> usize {
        let group = self.population.add_group(pid, ends, now_ns);
        if let Some(lives) = &mut self.lives {
            lives.add(pid, group, now_ns);
        }
        group
    }

    /// Describes the first process of a group by the arguments with which this process started it, until a
    /// sample shows what it is.
    pub fn describe(&mut self, group: usize, words: &[String]) {
        let root = &mut self.population.groups[group].root;
        // As the kernel names a program.
        const NAME_BYTES: usize = 15;
        let name = words.first().and_then(|word| word.rsplit('/').next()).unwrap_or_default();
        root.program = name.chars().take(NAME_BYTES).collect();
        root.command = words.join(" ");
        root.script = script_of(std::process::id() as Pid, words);
    }

    /// Samples processes that run already, each a group of its own, parents before their children.
    /// They lie under a shell of which nothing is known, as those of a script do.
    pub fn attach(&mut self, found: &[ProcessIdentity], now_ns: u64) {
        // The kernel's events tell of processes from their start on.
        self.lives = None;
        let pids: Vec<_> = found.iter().map(|process| process.pid).collect();
        // Twice, for those that were just being started.
        (0..2).for_each(|_| self.tracer.add(&pids));
        self.population.attach(found, now_ns);
    }

    /// Ends a group whose first process has ended: its remaining processes are no longer sampled,
    /// and no process of the group will wait for them.
    pub fn end_group(&mut self, group: usize, now_ns: u64) {
        self.follow(None);
        // A process that was never seen still has the group's output open: it was left running.
        let output = self.population.groups[group].root.ends.output;
        let mut behind = self.pipes.iter().filter(|pipe| Some(pipe.identity) == output);
        let left = behind.next().and_then(PipeWatch::has_writers) == Some(true);
        self.population.end_group(group, left, now_ns, &mut self.tracer);
    }

    /// Ends the run: adds the last known figures of all processes to their groups' totals.
    pub fn close(&mut self) {
        self.follow(None);
        self.discovery.close();
        self.population.close(&mut self.tracer);
        // Others may come between them now.
        let groups = self.population.groups.iter_mut().enumerate();
        groups.for_each(|(at, group)| group.lane = Some(at));
        if let Some(lives) = self.lives.take() {
            self.adopt(&lives);
            self.lives = Some(lives);
        }
    }

    /// Adds the processes that no sample met.
    fn adopt(&mut self, lives: &Lives) {
        let each = self.population.is_each();
        let Population { groups, rows, .. } = &mut self.population;
        let (adopted, places) = lives.adopt(if each { groups } else { &mut rows.groups });
        self.adopted = Some(adopted);
        // What is no longer known is estimated by samples.
        if lives.are_complete() {
            let starter = |life: &Life| match each {
                true => life.parent.and_then(|parent| places[parent]),
                false => Some(life.group),
            };
            let births = lives.births(&starter, groups.len());
            groups.iter_mut().zip(births).for_each(|(group, births)| group.births = births);
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
        let all = self.population.births();
        all.unseen(&self.census(), all.once())
    }

    /// Returns how many found processes were seen at one tick only.
    pub fn seen_once(&self) -> u64 {
        self.population.groups.iter().map(|group| group.births.once()).sum()
    }

    /// Takes a sample of everything, which represents the `weight_ns` before `now_ns`.
    pub fn tick(&mut self, now_ns: u64, weight_ns: u64) {
        self.ticks += 1;
        self.weight_ns = weight_ns;
        self.find(now_ns);
        let fills = self.sample_pipes(now_ns, weight_ns);
        self.follow(Some(&fills));
        let each = self.population.is_each();
        let Population { processes, groups, rows, .. } = &mut self.population;
        rows.begin(weight_ns);
        let mut seen = vec![GroupTick::default(); groups.len()];
        let mut has_children = vec![false; groups.len()];
        let (mut dead, mut waits) = (Vec::new(), Vec::new());
        for process in processes.values_mut() {
            let (pid, group) = (process.record.pid, &mut groups[process.group]);
            let due = is_due(process.looks + 1, each) || group.ends_due;
            if each && due && rows::refresh_ends(group, process) {
                rows::watch(&mut self.pipes, pid, group, Some(self.found_pipe_bytes));
            }
            let hints = hints(&group.root.ends, &fills);
            // Phases are cut by the CPU time between two looks.
            let (mut looks, gone) = process.sample(&group.root.ends, hints, true);
            if !group.more_ends.is_empty() {
                for look in &mut looks {
                    look.state = rows::own_state(pid, look, group, hints, false);
                }
            }
            if let Some(row) = process.row {
                rows.sample(row, process, &looks);
            }
            self.tracer.report(process, &looks);
            group.gone = group.gone.plus(gone);
            seen[process.group].tasks += looks.len();
            for look in &looks {
                group.hidden |= look.hidden;
                group.uncounted |= look.uncounted;
                group.waits_for_err.0 |= look.waits_for_err() && !is_captured(pid);
                combine(&mut seen[process.group].state, look.found());
            }
            let found = |look: &TaskSample| Some((process.group, pid, look.state, look.awaited?));
            waits.extend(looks.iter().filter_map(found));
            // A process that ended before its first look existed all the same.
            if !looks.is_empty() || process.looks == 1 {
                process.ticks_alive += 1;
                process.alive_ns += weight_ns;
                has_children[process.starter] |= process.was_found();
            }
            if looks.is_empty() {
                dead.push(pid);
                continue;
            }
            if each && process.is_bash_at_work(&looks) {
                group.places.note(pid, process.record.script.as_deref(), weight_ns);
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
        self.looked_at = seen.iter().map(|group| group.tasks).sum();
        let totals = self.population.totals();
        self.population.remove_dead(&dead, &mut self.tracer);
        self.population.sample_again(&mut seen, &fills);
        self.population.note_waits(&waits, &seen, weight_ns);
        self.note_dry(&mut seen, &totals, &fills);
        for (group, has_children) in self.population.groups.iter_mut().zip(has_children) {
            group.births.any_ns += if has_children { weight_ns } else { 0 };
        }
        self.end_tick(&seen, &totals, now_ns);
    }

    /// Looks at the fill of each pipe.
    fn sample_pipes(&mut self, now_ns: u64, weight_ns: u64) -> Vec<(Descriptor, Fill)> {
        let mut fills = Vec::with_capacity(self.pipes.len());
        let groups = &self.population.groups;
        for (at, pipe) in self.pipes.iter_mut().enumerate() {
            let waits = |group: &Group| {
                group.now == Some(TaskState::BlockedOut)
                    && group.root.ends.output == Some(pipe.identity)
            };
            pipe.is_wanted = groups.iter().any(waits);
            let Some(fill) = pipe.sample(weight_ns) else { continue };
            if let Some(history) = &mut self.history {
                history.add_fill(at, fill.bytes, now_ns, weight_ns);
            }
            fills.push((pipe.identity, fill));
        }
        fills
    }

    /// Notes what groups did whose input is empty.
    fn note_dry(&mut self, seen: &mut [GroupTick], totals: &[Sched], fills: &[(Descriptor, Fill)]) {
        let Population { processes, groups, .. } = &mut self.population;
        for (position, seen) in seen.iter_mut().enumerate() {
            let group = &mut groups[position];
            let Some((state, _)) = seen.state.filter(|_| !group.ended && !group.stopped) else {
                continue;
            };
            let input = input(&group.root.ends, fills);
            let tasks = DryTimes::wants_sample(input, state).then(|| {
                let members = processes.values_mut().filter(|it| it.group == position);
                let moved: Option<Vec<_>> = members.map(Process::moved).collect();
                moved.map(|tasks| tasks.concat())
            });
            let used = (self.weight_ns, totals[position].cpu_ns);
            let never_blocks = || {
                let members = || processes.values().filter(|it| it.group == position);
                members().all(Process::sleeps_by_the_clock)
                    && members().all(|it| {
                        FdInfo::of(it.record.pid, 0).is_some_and(|it| it.is_nonblocking())
                    })
            };
            seen.dry = group.dry.tick(input, state, used, tasks.flatten(), never_blocks);
        }
    }

    /// Adds what a tick showed of each group to the sums.
    fn end_tick(&mut self, seen: &[GroupTick], totals: &[Sched], now_ns: u64) {
        let (weight_ns, each) = (self.weight_ns, self.population.is_each());
        let Population { groups, rows, .. } = &mut self.population;
        self.tracer.hand_over(groups, rows);
        if each {
            family::add_tick(groups, weight_ns, |_, position| seen[position].state);
        }
        for (position, group) in groups.iter_mut().enumerate() {
            let GroupTick { tasks, state, .. } = seen[position];
            group.add_tick(state, tasks, now_ns, weight_ns);
            let now = group.now.filter(|_| !group.ended && state.is_some());
            if let (Some(now), Some(history)) = (now, &mut self.history) {
                history.add(position, now, now_ns, weight_ns);
            }
        }
        if !each {
            self.course.add(now_ns, weight_ns, totals, |group| GroupTick {
                state: seen[group].state.filter(|_| !groups[group].ended),
                ..seen[group]
            });
        }
        rows.end(now_ns, weight_ns);
    }

    /// Takes what the trace has told since the last time. `fills` are those of the pipes now.
    fn follow(&mut self, fills: Option<&[(Descriptor, Fill)]>) {
        let Population { processes, groups, rows, .. } = &self.population;
        self.tracer.follow(processes.values(), (groups, rows), fills);
    }

    /// Looks for new processes and threads at the start of a tick.
    pub fn find(&mut self, now_ns: u64) {
        let Self { discovery, population, lives, weight_ns, .. } = self;
        let lives = lives.as_ref();
        for found in discovery.sample(now_ns, &mut population.processes, lives) {
            let started_by = lives.and_then(|lives| lives.above(found.pid).next());
            let is_orphan = started_by.is_some_and(|starter| starter != found.parent);
            population.add_found(found, is_orphan, now_ns, *weight_ns / 2);
        }
    }
}

fn refresh(group: &mut Group, process: &mut Process) {
    let peak = process.refresh().unwrap_or(0);
    group.peak_rss_bytes = group.peak_rss_bytes.max(peak);
    if process.record.pid == group.root.pid {
        describe(group, process);
    }
}

#[cfg(test)]
mod tests;
