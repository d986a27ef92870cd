//! The choice of the next process among 1 to 1000: a search of the process table, and Joy's run
//! queues, which are the queues in which weir chooses among channels.

use crate::kernel::loops::{Flags, Loop, LoopStep};
use crate::kernel::{Discipline, Queues, Sim, Step, V6};
use crate::machine::{Machine, MachineError};
use crate::outcome::{Cell, Outcome};

/// How many processes are runnable.
const RUNNABLE: [usize; 4] = [1, 10, 100, 1000];
/// Processes of which only two are runnable.
const ASLEEP: usize = 998;
/// Switches of a run, at least; each process has its turn twice or more.
const SWITCHES: usize = 1000;

/// Lets `runnable` processes give way to each other while `asleep` others sleep. Returns the mean
/// time of a switch once the others sleep.
fn switch_ns(discipline: Discipline, runnable: usize, asleep: usize, events: &mut u64) -> f64 {
    let mut sim = Sim::new(Flags(vec![false; 1]), 1, discipline);
    for _ in 0..asleep {
        sim.spawn(Loop::new(vec![LoopStep::Wait(0)], 1));
    }
    // They fall asleep in their first turns.
    sim.run(&[], 60_000_000_000);
    let turns = SWITCHES.div_ceil(runnable).max(2) as u64;
    let begun_ns = sim.sys.now_ns;
    let giving = || Loop::new(vec![LoopStep::Do(Step::Yield)], turns);
    let pids: Vec<_> = (0..runnable).map(|_| sim.spawn(giving())).collect();
    sim.run(&pids, u64::MAX / 4);
    *events += sim.sys.events();
    // The time until the last has ended, which it does in a turn more than it gives way.
    let ended_ns = pids.iter().filter_map(|&pid| sim.sys.procs[pid].ended_ns).max();
    let switches: u64 = pids.iter().map(|&pid| sim.sys.procs[pid].dispatched).sum();
    (ended_ns.unwrap_or(begun_ns) - begun_ns) as f64 / switches.max(1) as f64
}

/// Adds the rows: nothing of them was published, so they have no part in the score.
pub(super) fn rows(
    machine: &Machine,
    switch: u64,
    outcome: &mut Outcome,
) -> Result<(), MachineError> {
    let v6 = V6 { hz: 1, switch_ns: switch, scan_ns: machine.ns("search")?, wake_preempts: false };
    let loads = RUNNABLE.map(|runnable| (runnable, 0)).into_iter().chain([(2, ASLEEP)]);
    for (runnable, asleep) in loads {
        let row = match asleep {
            0 => format!("{runnable} runnable"),
            asleep => format!("{runnable} runnable, {asleep} asleep"),
        };
        for (column, discipline) in [
            ("search", Discipline::V6(v6.clone())),
            ("queues", Discipline::Queues(Queues::new(v6.clone()))),
        ] {
            let ns = switch_ns(discipline, runnable, asleep, &mut outcome.events);
            outcome.cells.push(Cell::new(row.clone(), column, None, ns / 1e3));
        }
    }
    outcome.notes.push(String::from(
        "rows by the number of runnable: choosing and resuming, without sleep and wakeup; what an entry of a search takes is assumed, only its growth with the table is shown",
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: V6 = V6 { hz: 1, switch_ns: 170_000, scan_ns: 10_000, wake_preempts: false };

    fn us(discipline: Discipline, runnable: usize, asleep: usize) -> f64 {
        switch_ns(discipline, runnable, asleep, &mut 0) / 1e3
    }

    #[test]
    fn a_search_grows_with_all_processes_and_queues_with_none() {
        for (runnable, asleep) in [(1, 0), (10, 0), (100, 0), (1000, 0), (2, ASLEEP)] {
            let searched = us(Discipline::V6(COSTS), runnable, asleep);
            let queued = us(Discipline::Queues(Queues::new(COSTS)), runnable, asleep);
            let all = (runnable + asleep) as f64;
            assert!((searched - (170.0 + 10.0 * all)).abs() < 1e-6, "{all}: {searched}");
            assert!((queued - 170.0).abs() < 1e-6, "{all}: {queued}");
        }
    }

    /// What the two choose differs in time only: users of the CPU get the same turns and ticks.
    #[test]
    fn queues_and_a_search_give_everybody_the_same_turns() {
        let costs = V6 { hz: 60, switch_ns: 0, scan_ns: 0, wake_preempts: true };
        let work = |discipline| {
            let mut sim = Sim::new(Flags(vec![false; 2]), 1, discipline);
            for count in 1..=5 {
                let user = LoopStep::Do(Step::User(count * 1_000_000));
                sim.spawn(Loop::new(vec![user, LoopStep::Do(Step::Yield)], 1_000));
            }
            let ended = sim.run(&[0, 1, 2, 3, 4], 60_000_000_000);
            let procs = sim.sys.procs.iter();
            (ended, procs.map(|proc| (proc.user_ns, proc.ended_ns.is_some())).collect::<Vec<_>>())
        };
        let queued = work(Discipline::Queues(Queues::new(costs.clone())));
        assert!(queued.0, "somebody starves: {queued:?}");
        assert_eq!(queued, work(Discipline::V6(costs)));
    }
}
