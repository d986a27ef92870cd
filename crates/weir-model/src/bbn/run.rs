//! Runs the tests and gives their times.

use super::cache::{Cache, Rules};
use super::pipe::{Reader, Test, Writer};
use super::{Bbn, Costs, Pipe};
use crate::disk::{Disk, Geometry};
use crate::kernel::{Discipline, Sim};

/// A machine for the tests.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The costs.
    pub costs: Costs,
    /// How processes are chosen.
    pub discipline: Discipline,
    /// The disk.
    pub disk: Geometry,
    /// Buffers that pipes can have.
    pub buffers: usize,
    /// Where the file's blocks are.
    pub blocks: Vec<u64>,
}

/// The times of a run, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// By the clock on the wall.
    pub real_s: f64,
    /// In user mode.
    pub user_s: f64,
    /// In the kernel.
    pub system_s: f64,
    /// Blocks read from and written to the disk.
    pub disk: (u64, u64),
}

/// Runs one test.
pub fn run(setup: &Setup, rules: Rules, test: Test) -> Times {
    let cache = Cache::new(setup.buffers, Disk::new(&setup.disk), rules);
    let pipe = Pipe { blocks: setup.blocks.clone(), ..Pipe::default() };
    let world = Bbn { cache, pipe, costs: setup.costs, rules };
    let mut sim = Sim::new(world, 1, setup.discipline.clone());
    let pids = [sim.spawn(Writer::new(test)), sim.spawn(Reader::new(test))];
    let ended = sim.run(&pids, u64::MAX / 4);
    assert!(ended, "a test of the model hangs: {test:?}");
    let sum = |of: fn(&crate::kernel::Proc) -> u64| {
        sim.sys.procs.iter().map(of).sum::<u64>() as f64 / 1e9
    };
    Times {
        real_s: (sim.sys.now_ns + setup.costs.start_ns) as f64 / 1e9,
        user_s: sum(|proc| proc.user_ns),
        system_s: sum(|proc| proc.system_ns),
        disk: sim.sys.world.cache.disk.done,
    }
}
