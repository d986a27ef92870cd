//! Runs the tests and gives their times.

use super::cache::{Cache, Rules};
use super::pipe::{Copier, Reader, Test, Writer};
use super::{Bbn, Costs, PipeFile};
use crate::disk::{Disk, Geometry};
use crate::kernel::{Discipline, Proc, Sim};

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
    /// Events that were simulated.
    pub events: u64,
}

/// No test takes longer: ten hours.
const MOST_NS: u64 = 36_000_000_000_000;

/// Makes a world with a pipe for each list of blocks.
fn world(setup: &Setup, rules: Rules, pipes: Vec<PipeFile>) -> Sim<Bbn> {
    let cache = Cache::new(setup.buffers, Disk::new(&setup.disk), rules);
    Sim::new(Bbn { cache, pipes, costs: setup.costs, rules }, 1, setup.discipline.clone())
}

fn times(setup: &Setup, sim: &Sim<Bbn>, pids: &[usize]) -> Times {
    let procs = || pids.iter().map(|&pid| &sim.sys.procs[pid]);
    let sum = |of: fn(&Proc) -> u64| procs().map(of).sum::<u64>() as f64 / 1e9;
    let ended_ns = procs().filter_map(|proc| proc.ended_ns).max().unwrap_or(sim.sys.now_ns);
    Times {
        real_s: (ended_ns + setup.costs.start_ns) as f64 / 1e9,
        user_s: sum(|proc| proc.user_ns),
        system_s: sum(|proc| proc.system_ns),
        disk: sim.sys.world.cache.disk.done,
        events: sim.sys.events(),
    }
}

/// Runs one test on an idle machine.
pub fn run(setup: &Setup, rules: Rules, test: Test) -> Times {
    let pipe = PipeFile { blocks: setup.blocks.clone(), ..PipeFile::default() };
    let mut sim = world(setup, rules, vec![pipe]);
    let pids = [sim.spawn(Writer::new(test)), sim.spawn(Reader::new(test))];
    sim.run(&pids, MOST_NS);
    times(setup, &sim, &pids)
}

/// Blocks of the file that is copied.
const COPIED: u64 = 600;

/// Runs two tests at once beside a process that copies a file. Runs differ by the block at which the
/// copying begins. Returns the times of each test.
pub fn loaded(setup: &Setup, rules: Rules, test: Test, run: usize) -> [Times; 2] {
    let shifted = |by: u64| PipeFile {
        blocks: setup.blocks.iter().map(|block| block + by).collect(),
        ..PipeFile::default()
    };
    let plain = |first: u64| PipeFile {
        plain: true,
        blocks: (first..first + COPIED).collect(),
        allocated: COPIED as usize,
        ..PipeFile::default()
    };
    let files = vec![shifted(0), shifted(5), plain(3000), plain(3800)];
    let mut sim = world(setup, rules, files);
    let pair = |sim: &mut Sim<Bbn>, pipe: usize| {
        let test = Test { pipe, ..test };
        [sim.spawn(Writer::new(test)), sim.spawn(Reader::new(test))]
    };
    sim.spawn(Copier::new(2, 3, 37 * run));
    let pairs = [pair(&mut sim, 0), pair(&mut sim, 1)];
    sim.run(&pairs.concat(), MOST_NS);
    pairs.map(|pids| times(setup, &sim, &pids))
}
