//! Who else used the CPUs during a run, by the name of the program.
//!
//! All processes of the host are looked at once while the run finds no idle CPU, and again at its end. What
//! one has used in between, with the children that it waited for, counts for its name: so the compilers that
//! a build started and buried count for the build.

use crate::host_cpu::HostCpu;
use crate::machine;
use std::collections::BTreeMap;
use std::time::Instant;
use weir_doctor::facts::{Host, Neighbour};
use weir_sys::Pid;
use weir_sys::cpu::ticks_ns;
use weir_sys::proc::{ProcContents, Stat, name, processes};

/// The first look comes so late that a short run pays nothing for it.
const FIRST_NS: u64 = 500_000_000;
/// More processes than this take too long to look at.
const MOST_PROCESSES: usize = 4096;
/// CPUs are idle where more of them than this had nothing to do.
const IDLE: f64 = 0.25;
/// Most programs that are named.
const MOST_NAMED: usize = 2;
/// A program that used fewer CPUs is not named.
const MUCH_CPUS: f64 = 0.1;

/// The processes of the host as they were while no CPU was idle.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// When to look next, until there was a look.
    due_ns: u64,
    cpus: Option<HostCpu>,
    before: Option<(Instant, BTreeMap<Pid, Stat>)>,
}

impl Neighbours {
    /// Nobody is looked at yet.
    pub fn new() -> Neighbours {
        Neighbours { due_ns: FIRST_NS, cpus: None, before: None }
    }

    /// Looks at all processes, if it is time and no CPU is idle.
    pub fn tick(&mut self, now_ns: u64) {
        if self.before.is_some() || now_ns < self.due_ns {
            return;
        }
        self.due_ns = now_ns * 2;
        let cpus = HostCpu::read_beside(&machine::allowed_cpus(), Vec::new());
        let used = self.cpus.as_ref().zip(cpus.as_ref()).and_then(|(then, now)| now.since(then));
        self.cpus = cpus;
        // The first look at the CPUs has nothing to compare with.
        match used {
            Some(used) if used.idle_cpus < IDLE => self.before = Some((Instant::now(), all())),
            Some(_) => {}
            None => self.due_ns = now_ns + FIRST_NS / 4,
        }
    }

    /// Returns the programs outside of the run that used most CPU time since, the most first.
    pub fn busiest(&self, host: &Host, is_inside: impl Fn(Pid) -> bool) -> Vec<Neighbour> {
        let few = host.others_cpus.is_none_or(|cpus| cpus < MUCH_CPUS);
        let Some((at, before)) = self.before.as_ref().filter(|_| !few) else { return Vec::new() };
        let wall_ns = at.elapsed().as_nanos().max(1) as f64;
        let now = all();
        let mut programs: BTreeMap<String, u64> = BTreeMap::new();
        for (pid, used) in used(before, &now) {
            if !is_inside(pid) && !is_of_this(&now, pid) && used > 0 {
                let name = name(pid).unwrap_or_default();
                *programs.entry(name).or_default() += ticks_ns(used);
            }
        }
        let cpus = |(program, ns): (String, u64)| Neighbour { program, cpus: ns as f64 / wall_ns };
        let mut found: Vec<Neighbour> = programs.into_iter().map(cpus).collect();
        found.retain(|neighbour| neighbour.cpus >= MUCH_CPUS && !neighbour.program.is_empty());
        found.sort_by(|one, other| other.cpus.total_cmp(&one.cpus));
        found.truncate(MOST_NAMED);
        found
    }
}

/// Returns all processes that are shown here; none where there are too many.
fn all() -> BTreeMap<Pid, Stat> {
    let pids = processes();
    if pids.len() > MOST_PROCESSES {
        return BTreeMap::new();
    }
    pids.into_iter().filter_map(|pid| Some((pid, Stat::of(pid)?))).collect()
}

/// Returns the clock ticks that each process used between two looks, with those of the children that it
/// waited for.
fn used(before: &BTreeMap<Pid, Stat>, now: &BTreeMap<Pid, Stat>) -> Vec<(Pid, u64)> {
    let sum = |stat: &Stat| stat.own_ticks + stat.waited_ticks;
    let same = |pid: &Pid, stat: &Stat| {
        before.get(pid).filter(|then| then.started_ticks == stat.started_ticks)
    };
    // What a child had used before the first look is new to the parent that waits for it.
    let mut buried: BTreeMap<Pid, u64> = BTreeMap::new();
    for (pid, then) in before {
        if now.get(pid).is_none_or(|stat| stat.started_ticks != then.started_ticks) {
            *buried.entry(then.parent).or_default() += sum(then);
        }
    }
    let since = |(pid, stat): (&Pid, &Stat)| {
        let known = same(pid, stat).map_or(0, sum) + buried.get(pid).copied().unwrap_or(0);
        (*pid, sum(stat).saturating_sub(known))
    };
    now.iter().map(since).collect()
}

/// Whether a process is this one or was started by it.
fn is_of_this(all: &BTreeMap<Pid, Stat>, pid: Pid) -> bool {
    let own = std::process::id() as Pid;
    let parent = |pid: &Pid| all.get(pid).map(|stat| stat.parent);
    std::iter::successors(Some(pid), parent).take(all.len() + 1).any(|pid| pid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: Pid, own_ticks: u64, waited_ticks: u64) -> Stat {
        let this = Stat::of(std::process::id() as Pid).expect("it lives");
        Stat { parent, own_ticks, waited_ticks, ..this }
    }

    #[test]
    fn what_children_used_counts_for_the_parent_that_waited_for_them() {
        let before = BTreeMap::from([(1, process(0, 5, 0)), (2, process(1, 100, 0))]);
        // The compiler 2 has ended with 130 ticks, and another one used 70.
        let now = BTreeMap::from([(1, process(0, 6, 200)), (3, process(1, 9, 0))]);
        assert_eq!(used(&before, &now), [(1, 101), (3, 9)]);
    }

    #[test]
    fn this_process_and_its_children_are_no_neighbours() {
        let own = std::process::id() as Pid;
        let all =
            BTreeMap::from([(own + 1, process(own, 5, 0)), (own + 2, process(own + 1, 5, 0))]);
        assert!(is_of_this(&all, own + 2) && is_of_this(&all, own));
        assert!(!is_of_this(&all, 1));
    }
}
