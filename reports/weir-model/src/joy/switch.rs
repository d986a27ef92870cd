//! A context switch, as the kernel was changed step by step, and Kashtan's four rates.

use super::{queues, syscall};
use crate::kernel::loops::{Flags, Loop, LoopStep};
use crate::kernel::{Discipline, Sim, Step, V6};
use crate::machine::{Machine, MachineError};
use crate::outcome::{Basis, Cell, Outcome};
use crate::published::{JOY_SWITCH, Published};

/// A kernel's way from one process to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Going to sleep.
    block_ns: u64,
    /// Choosing and resuming, all detours included.
    switch_ns: u64,
    /// Waking the other.
    unblock_ns: u64,
}

impl Way {
    /// Returns what all of it takes.
    pub(super) fn whole_ns(&self) -> u64 {
        self.block_ns + self.switch_ns + self.unblock_ns
    }
}

/// Returns the ways in the order of Joy's table.
pub(super) fn ways(machine: &Machine) -> Result<[(&'static str, Way); 4], MachineError> {
    let ns = |name: &str| machine.ns(name);
    let unblock_ns = ns("unblock")?;
    let (choose, call) = (ns("choose")?, ns("block_call")?);
    let direct = choose + ns("resume_old")?;
    // Process 0 is resumed first, looks for the next process, and resumes that.
    let detour = ns("process0")? + ns("resume_old")? + direct;
    let way = |block_ns, switch_ns| Way { block_ns, switch_ns, unblock_ns };
    let inline = ns("block_inline")?;
    Ok([
        ("original", way(call, detour)),
        ("without the detour through process 0", way(call, direct)),
        ("resume primitive and stack in P0/P1", way(call, choose + ns("resume")?)),
        ("sleep expanded inline", way(inline, choose + ns("resume")?)),
    ])
}

const EXCHANGES: u64 = 1000;

/// Lets two processes wake each other in turn. Each does `call_ns` of work to wake and to wait.
/// Returns the time of an exchange, which is two switches.
pub(super) fn exchange_ns(way: Way, calls_ns: [u64; 2], events: &mut u64) -> f64 {
    let discipline =
        Discipline::V6(V6 { hz: 1, switch_ns: way.switch_ns, scan_ns: 0, wake_preempts: false });
    let mut sim = Sim::new(Flags(vec![false; 2]), 1, discipline);
    let kernel = |ns| LoopStep::Do(Step::Kernel(ns));
    let turn = |own: u64, other: u64| {
        vec![
            LoopStep::Wait(own),
            kernel(calls_ns[0] + way.unblock_ns),
            LoopStep::Wake(other),
            kernel(calls_ns[1] + way.block_ns),
        ]
    };
    sim.sys.world.0[0] = true;
    let pids =
        [sim.spawn(Loop::new(turn(0, 1), EXCHANGES)), sim.spawn(Loop::new(turn(1, 0), EXCHANGES))];
    sim.run(&pids, u64::MAX / 4);
    *events += sim.sys.events();
    sim.sys.now_ns as f64 / EXCHANGES as f64
}

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let mut outcome = Outcome::new("joy-switch", &machine.name, "us a switch");
    let published = Published::read(JOY_SWITCH);
    let mut last_us = 0.0;
    let mut shares = Vec::new();
    for (name, way) in ways(machine)? {
        last_us = exchange_ns(way, [0, 0], &mut outcome.events) / 2e3;
        let told = published.named(name, "us");
        outcome.cells.push(Cell::new(name, "switch", told, last_us).on(Basis::Identity));
        shares.push(last_us);
    }
    let [.., (_, way)] = ways(machine)?;
    let choose = machine.ns("choose")?;
    for (name, ns) in [
        ("part: block in sleep", way.block_ns),
        ("part: choose in swtch", choose),
        ("part: resume", way.switch_ns - choose),
        ("part: unblock in wakeup", way.unblock_ns),
    ] {
        let (told, us) = (published.named(name, "us"), ns as f64 / 1e3);
        outcome.cells.push(Cell::new(name, "switch", told, us).on(Basis::Identity));
    }
    // 50 switches a second, in percent of the machine.
    for (name, us, told) in
        [("original", shares[0], 10.0), ("second", shares[1], 4.0), ("last", last_us, 1.3)]
    {
        let row = format!("50 switches a second, % of the machine: {name}");
        let share = us * 50.0 / 1e4;
        outcome.cells.push(Cell::new(row, "share", Some(told), share).on(Basis::Identity));
    }
    queues::rows(machine, way.switch_ns, &mut outcome)?;
    kashtan(machine, &mut outcome)?;
    outcome.notes.push(String::from(
        "the four states, the parts and the shares are identities: each state replaces one constant of the one before",
    ));
    Ok(outcome)
}

/// Kashtan's rates: exchanges by event flag in VMS and by `kill` in UNIX, and the basic rates.
fn kashtan(machine: &Machine, outcome: &mut Outcome) -> Result<(), MachineError> {
    let [(_, original), ..] = ways(machine)?;
    let call_ns = syscall::phases(machine, 0)?.iter().sum::<u64>();
    let vms = Way { block_ns: 0, switch_ns: machine.ns("vms_switch")?, unblock_ns: 0 };
    let flag_ns = machine.ns("flag_call")?;
    // To set a flag and to wait for one are a call each; an exchange is one of each.
    let flags = 1e9 / exchange_ns(vms, [flag_ns / 2, flag_ns / 2], &mut outcome.events);
    let kills = 1e9 / exchange_ns(original, [call_ns / 2, call_ns / 2], &mut outcome.events);
    let basic = 1e9 / machine.get("vms_switch")?;
    let whole = exchange_ns(original, [0, call_ns], &mut outcome.events) / 2.0;
    for (name, told, model, basis) in [
        ("exchanges a second, event flags (VMS)", 2000.0, flags, Basis::Predicted),
        ("exchanges a second, kill (UNIX)", 210.0, kills, Basis::Predicted),
        ("switches a second (VMS)", 5600.0, basic, Basis::Identity),
        ("switches a second (UNIX)", 425.0, 1e9 / whole, Basis::Predicted),
    ] {
        outcome.cells.push(Cell::new(name, "rate", Some(told), model).on(basis));
    }
    Ok(())
}
