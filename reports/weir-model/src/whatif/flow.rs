//! A pipeline in virtual time: its stages as scripts on Linux, and what a run of it gives.

mod plan;
mod worker;

pub(super) use plan::{Plan, Stage};

use super::Shares;
use crate::kernel::{Discipline, Linux, Sim, Sys, WaitChannel, World};
use worker::{Hog, Worker};

/// A page: a writer that sleeps is woken for room of one.
const PAGE: f64 = 4096.0;

/// What calls cost.
#[derive(Clone, Copy, Debug)]
struct Costs {
    call_ns: u64,
    wake_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Pipe {
    capacity: f64,
    fill: f64,
    /// The writer has ended.
    closed: bool,
    /// The reader has ended.
    gone: bool,
}

/// What the workers of a stage share.
#[derive(Clone, Debug, Default)]
struct StageProgress {
    /// Workers that have not ended.
    alive: usize,
    /// Workers that still read, or compute what comes after the last byte.
    reading: usize,
    /// Bytes of input, or of output where there is no input, that are left to do.
    left: f64,
    /// Time asleep for bytes, and for room.
    asleep_ns: [u64; 2],
    /// CPU time that is calls and wake-ups.
    overhead_ns: u64,
}

/// What the stages share.
struct Flow {
    pipes: Vec<Pipe>,
    stages: Vec<StageProgress>,
    costs: Costs,
}

/// The channels: bytes and room of the pipes; and one for each process that waits for time.
fn bytes(pipe: usize) -> WaitChannel {
    2 * pipe as WaitChannel
}

fn room(pipe: usize) -> WaitChannel {
    2 * pipe as WaitChannel + 1
}

fn timer(pid: usize) -> WaitChannel {
    1_000_000 + pid as WaitChannel
}

impl World for Flow {
    type Event = WaitChannel;

    fn on(sys: &mut Sys<Flow>, channel: WaitChannel) -> u64 {
        sys.wake(channel);
        0
    }
}

/// What a run of the model gave.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) wall_ns: u64,
    pub(super) shares: Vec<Shares>,
    /// CPU time of each stage that is calls, wake-ups and switches.
    pub(super) overhead_ns: Vec<u64>,
    pub(super) events: u64,
}

impl Plan {
    /// Runs the pipeline.
    pub(super) fn run(&self) -> Ran {
        let pipes = self.pipes.iter().map(|&capacity| Pipe { capacity, ..Pipe::default() });
        let progress = self.stages.iter().map(|stage| StageProgress {
            alive: stage.workers,
            reading: stage.workers,
            left: stage.todo,
            ..StageProgress::default()
        });
        let world = Flow { pipes: pipes.collect(), stages: progress.collect(), costs: self.costs };
        let discipline = Discipline::Linux(Linux { scan_ns: 0, ..self.linux.clone() });
        let mut sim = Sim::new(world, self.cpus, discipline);
        let mut pids = Vec::new();
        let mut owners = Vec::new();
        for (number, stage) in self.stages.iter().enumerate() {
            for _ in 0..stage.workers {
                pids.push(sim.spawn(Worker::new(stage, number)));
                owners.push(number);
            }
        }
        for _ in 0..self.others.ceil() as usize {
            sim.spawn(Hog::new(self.others / self.others.ceil()));
        }
        sim.run(&pids, u64::MAX / 4);
        let wall_ns = sim.sys.now_ns.max(1);
        let mut cpu_ns = vec![0; self.stages.len()];
        let mut overhead_ns: Vec<u64> =
            sim.sys.world.stages.iter().map(|progress| progress.overhead_ns).collect();
        for (&pid, &owner) in pids.iter().zip(&owners) {
            let proc = &sim.sys.procs[pid];
            cpu_ns[owner] += proc.user_ns + proc.system_ns;
            overhead_ns[owner] += proc.dispatched * self.linux.switch_ns;
        }
        let share = |ns: u64| ns as f64 / wall_ns as f64;
        let shares = self.stages.iter().enumerate().map(|(number, stage)| {
            let asleep_ns = sim.sys.world.stages[number].asleep_ns;
            let each = |ns: u64| share(ns) / stage.workers as f64;
            Shares {
                cpu: share(cpu_ns[number]),
                waits_in: each(asleep_ns[0]),
                waits_out: each(asleep_ns[1]),
            }
        });
        Ran { wall_ns, shares: shares.collect(), overhead_ns, events: sim.sys.events() }
    }
}
