//! Franke 2001: larger pipes, and segments that wake the other side in the middle of a transfer.
//!
//! The pipe is that of Linux 2.4.9 (fs/pipe.c): one buffer, one semaphore that a reader or writer
//! holds while it copies, one queue of both, and a wake-up of the other side at the end. A write of
//! up to a page is whole. A writer without room wakes the reader by a synchronous wake-up: no CPU
//! is told, and the woken process runs where one becomes free. So does a reader that is short while
//! writers wait, and then it reads on (`do_more_read`). With segments (only if the kernel is built
//! for several CPUs and the pipe is larger than a page) the other side can go on after each of them.

mod cache;

use crate::kernel::{Discipline, Linux, Pid, Script, Sim, Step, Sys, World};
use crate::machine::{Machine, MachineError};
use crate::outcome::{Cell, Outcome, Scoring};
use crate::published::{FRANKE, Published};
use cache::{Caches, Misses};
use std::fmt::Write;
use weir_policy::random::Random;

const PAGE: u64 = 4096;
/// Bytes that a run of lmbench or grep moves.
const MOVED: u64 = 10 << 20;
/// How long pipeflex runs: a second is enough, its rate is steady.
const FLEX_NS: u64 = 2_000_000_000;

const NOTES: [&str; 3] = [
    "eight costs were fitted to signs and ranks of this table (examples/fit_franke.rs). Segments wake reader and \
     writer, and only in a kernel for several CPUs; who waits for the semaphore gets it between two segments, which \
     is our guess",
    "pipeflex writes in pieces of a kilobyte, one pair at a time: both are assumed. With a CPU at rest the end of a \
     small write starts the reader there at once, which finds no waiting writer and returns what there is. On one CPU \
     the writer goes on until the pipe is full, and the reader takes its whole transfer (do_more_read)",
    "tried without success: two pairs (pipeflex gains 3% at most), writers of whole transfers, a semaphore that goes \
     to whoever asks first between segments (lmbench gains nothing by them)",
];

/// A pipe of Linux 2.4.
#[derive(Default)]
struct Pipe {
    size: u64,
    segment: u64,
    /// Where the bytes begin: at 0 again in an empty pipe, whose first page so stays in the cache.
    start: u64,
    fill: u64,
    locked: bool,
    closed: bool,
    moved: u64,
    /// Writers that wait for room, and readers that wait for bytes.
    waiting: [u64; 2],
}

impl Pipe {
    fn room(&self) -> u64 {
        self.size - self.fill
    }
}

struct Pipes {
    pipes: Vec<Pipe>,
    caches: Caches,
}

impl World for Pipes {
    type Event = ();

    fn on(_: &mut Sys<Pipes>, (): ()) -> u64 {
        0
    }
}

/// What things cost.
#[derive(Clone, Copy)]
struct Costs {
    call_ns: u64,
    wake_ns: u64,
    /// A byte that is copied within the first cache.
    byte_ns: f64,
    misses: Misses,
    cache: u64,
    user_byte_ns: f64,
    flex_ns: u64,
    /// Pairs of pipeflex, and the bytes of a write.
    flex_pairs: usize,
    flex_piece: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Compute,
    Enter,
    /// It needs the semaphore.
    Down,
    Copied(u64),
    /// It holds the semaphore, has woken the other side, and waits.
    Wait,
    /// It holds the semaphore, has woken the other side, and is through.
    Up,
}

/// One side of a pipe.
struct Side {
    pipe: usize,
    writes: bool,
    chunk: u64,
    left: u64,
    total: u64,
    at: State,
    costs: Costs,
    /// Nanoseconds of user time for each byte that was read or written.
    user_byte_ns: f64,
    /// Whether it computes a random time after each read.
    flex: Option<Random>,
    moved: u64,
    /// Whether it is counted among those who wait.
    waits: bool,
}

fn channel(pipe: usize, kind: u64) -> u64 {
    pipe as u64 * 4 + kind
}

/// Those who wait for the semaphore.
const SEMAPHORE: u64 = 0;
/// The one queue on which both sides wait for bytes or room.
const QUEUE: u64 = 1;

impl Side {
    fn me(&self) -> usize {
        usize::from(!self.writes)
    }

    /// `up`: the semaphore is free, and one who wants it is woken.
    fn up(&self, sys: &mut Sys<Pipes>) {
        sys.world.pipes[self.pipe].locked = false;
        sys.wake_one(channel(self.pipe, SEMAPHORE));
    }

    /// `down`, and after a wait the end of that.
    fn down(&mut self, sys: &mut Sys<Pipes>, pid: Pid) -> Step {
        if sys.world.pipes[self.pipe].locked {
            return Step::Sleep(channel(self.pipe, SEMAPHORE), 0);
        }
        sys.world.pipes[self.pipe].locked = true;
        if std::mem::take(&mut self.waits) {
            sys.world.pipes[self.pipe].waiting[self.me()] -= 1;
        }
        let pipe = &sys.world.pipes[self.pipe];
        if !self.writes && pipe.fill == 0 {
            if pipe.closed {
                self.up(sys);
                return Step::Exit;
            }
            return self.wait(sys);
        }
        // A write of up to a page (PIPE_BUF) is not begun before all of it has room.
        let is_whole = self.left == self.chunk && self.chunk <= PAGE;
        if self.writes && pipe.room() < if is_whole { self.chunk } else { 1 } {
            return self.wait(sys);
        }
        self.copy(sys, pid)
    }

    /// `pipe_wait`: it lets the semaphore go and sleeps.
    fn wait(&mut self, sys: &mut Sys<Pipes>) -> Step {
        sys.world.pipes[self.pipe].waiting[self.me()] += 1;
        self.waits = true;
        self.at = State::Down;
        self.up(sys);
        Step::Sleep(channel(self.pipe, QUEUE), 0)
    }

    fn copy(&mut self, sys: &mut Sys<Pipes>, pid: Pid) -> Step {
        let pipe = &sys.world.pipes[self.pipe];
        let (can, at) = match self.writes {
            true => (pipe.room(), (pipe.start + pipe.fill) % pipe.size),
            false => (pipe.fill, pipe.start),
        };
        let bytes = can.min(self.left).min(pipe.segment).min(pipe.size - at);
        self.at = State::Copied(bytes);
        let number = 3 * self.pipe as u64;
        let own = (number + 1 + self.me() as u64, self.chunk - self.left);
        let shared = (number, at);
        let (from, to) = if self.writes { (own, shared) } else { (shared, own) };
        let cpu = sys.procs[pid].last_cpu;
        let missed_ns = sys.world.caches.copy(cpu, from, to, bytes);
        Step::Kernel((bytes as f64 * self.costs.byte_ns + missed_ns) as u64)
    }

    fn copied(&mut self, sys: &mut Sys<Pipes>, pid: Pid, bytes: u64) -> Step {
        let pipe = &mut sys.world.pipes[self.pipe];
        if self.writes {
            pipe.fill += bytes;
        } else {
            pipe.fill -= bytes;
            pipe.start = if pipe.fill == 0 { 0 } else { (pipe.start + bytes) % pipe.size };
            pipe.moved += bytes;
        }
        self.left -= bytes;
        self.moved += bytes;
        let more = if self.writes { pipe.room() } else { pipe.fill };
        let others_wait = pipe.waiting[1 - self.me()] > 0;
        let by_segments = pipe.segment < pipe.size;
        let queue = channel(self.pipe, QUEUE);
        if self.left > 0 && more > 0 {
            return if by_segments { self.between(sys) } else { self.copy(sys, pid) };
        }
        // A writer without room waits. So does a reader that is short while writers wait
        // (do_more_read). Either wakes the other side, which does not take a CPU before this one
        // is free.
        if self.left > 0 && (self.writes || others_wait) {
            let woken = sys.wake_sync(queue) as u64;
            self.at = State::Wait;
            return Step::Kernel(woken * self.costs.wake_ns);
        }
        let woken = sys.wake(queue) as u64;
        self.at = State::Up;
        Step::Kernel(woken * self.costs.wake_ns)
    }

    /// Between two segments the other side can go on: it is woken if it waits for bytes or room,
    /// and gets the semaphore if it waits for that.
    fn between(&mut self, sys: &mut Sys<Pipes>) -> Step {
        self.at = State::Down;
        let woken = sys.wake(channel(self.pipe, QUEUE)) as u64;
        sys.world.pipes[self.pipe].locked = false;
        if sys.wake_one(channel(self.pipe, SEMAPHORE)) && woken == 0 {
            return Step::Sleep(channel(self.pipe, SEMAPHORE), 0);
        }
        Step::Kernel(woken * self.costs.wake_ns)
    }
}

impl Script<Pipes> for Side {
    fn step(&mut self, sys: &mut Sys<Pipes>, pid: Pid) -> Step {
        match self.at {
            State::Compute => {
                if self.moved >= self.total {
                    sys.world.pipes[self.pipe].closed = true;
                    sys.wake(channel(self.pipe, QUEUE));
                    return Step::Exit;
                }
                self.at = State::Enter;
                let bytes = self.chunk - self.left;
                let flex_ns = self.costs.flex_ns;
                let random =
                    self.flex.as_mut().map_or(0, |random| flex_ns / 2 + random.below(flex_ns));
                let first = if self.moved == 0 { 0 } else { random };
                Step::User((bytes as f64 * self.user_byte_ns) as u64 + first)
            }
            State::Enter => {
                self.left = self.chunk;
                self.at = State::Down;
                Step::Kernel(self.costs.call_ns)
            }
            State::Down => self.down(sys, pid),
            State::Copied(bytes) => self.copied(sys, pid, bytes),
            State::Wait => self.wait(sys),
            State::Up => {
                self.up(sys);
                self.at = State::Compute;
                Step::Kernel(0)
            }
        }
    }
}

/// A kernel on a number of CPUs.
#[derive(Clone, Copy)]
struct Kernel {
    cpus: usize,
    /// Built for several CPUs: locks cost, segments are used.
    smp: bool,
}

struct Machinery {
    costs: Costs,
    linux: Linux,
    lock_ns: u64,
}

fn machinery(machine: &Machine) -> Result<Machinery, MachineError> {
    Ok(Machinery {
        costs: Costs {
            call_ns: machine.ns("call")?,
            wake_ns: machine.ns("wake")?,
            byte_ns: machine.get("byte")?,
            misses: Misses {
                cold_byte_ns: machine.get("cold_byte")?,
                remote_byte_ns: machine.get("remote_byte")?,
            },
            cache: machine.ns("cache")?,
            user_byte_ns: machine.get("grep_byte")?,
            flex_ns: machine.ns("flex")?,
            flex_pairs: machine.ns("flex_pairs")? as usize,
            flex_piece: machine.ns("flex_piece")?,
        },
        linux: Linux {
            switch_ns: machine.ns("switch")?,
            scan_ns: 0,
            rouse_ns: machine.ns("rouse")?,
            slice_ticks: 6,
            margin: machine.ns("margin")? as i64,
        },
        lock_ns: machine.ns("lock")?,
    })
}

/// Returns bytes a second.
fn rate(
    of: &Machinery,
    kernel: Kernel,
    benchmark: &str,
    chunk: u64,
    size: u64,
    segments: bool,
) -> (f64, u64) {
    let mut costs = of.costs;
    if kernel.smp {
        costs.call_ns += of.lock_ns;
    }
    let segment = if segments && kernel.smp && size > PAGE { PAGE } else { size };
    let flex = benchmark == "pipeflex";
    let pairs = if flex { costs.flex_pairs } else { 1 };
    let pipe = || Pipe { size, segment, ..Pipe::default() };
    let caches = Caches::new(kernel.cpus, costs.cache, costs.misses);
    let world = Pipes { pipes: (0..pairs).map(|_| pipe()).collect(), caches };
    let mut sim = Sim::new(world, kernel.cpus, Discipline::Linux(of.linux.clone()));
    let mut pids = Vec::new();
    let grep = benchmark == "grep";
    for pipe in 0..pairs {
        for writes in [true, false] {
            let side = Side {
                pipe,
                writes,
                chunk: if grep && !writes {
                    8 * PAGE
                } else if grep {
                    PAGE
                } else if flex && writes {
                    chunk.min(costs.flex_piece)
                } else {
                    chunk
                },
                left: 0,
                total: if flex { u64::MAX } else { MOVED },
                at: State::Compute,
                costs,
                user_byte_ns: if grep && !writes { costs.user_byte_ns } else { 0.0 },
                flex: (flex && !writes).then(|| Random::new(2001 + pipe as u64)),
                moved: 0,
                waits: false,
            };
            pids.push(sim.spawn(side));
        }
    }
    // The reader reads all there is to read; the writer's last chunk may be beyond that.
    let reader = [pids[1]];
    sim.run(&reader, if flex { FLEX_NS } else { u64::MAX / 4 });
    let moved: u64 = sim.sys.world.pipes.iter().map(|pipe| pipe.moved).sum();
    (moved as f64 / (sim.sys.now_ns as f64 / 1e9), sim.sys.events())
}

/// Returns the improvement over pipes of a page, in percent, for each column of the published table.
fn row(of: &Machinery, kernel: Kernel, benchmark: &str, chunk: u64, events: &mut u64) -> Vec<f64> {
    let mut found = |size, segments| {
        let (rate, more) = rate(of, kernel, benchmark, chunk, size, segments);
        *events += more;
        rate
    };
    let base = found(PAGE, false);
    let all =
        [false, true].into_iter().flat_map(|segments| [1, 2, 4, 8].map(|pages| (pages, segments)));
    all.map(|(pages, segments)| (found(pages * PAGE, segments) / base - 1.0) * 100.0).collect()
}

fn chunk(row: &[&str]) -> u64 {
    row.get(1).and_then(|kb| kb.parse::<u64>().ok()).map_or(PAGE, |kb| kb * 1024)
}

/// Runs the experiment.
pub fn run(machine: &Machine) -> Result<Outcome, MachineError> {
    let of = machinery(machine)?;
    let mut outcome = Outcome::new("franke", &machine.name, "% over pipes of 4 KiB");
    outcome.scoring = Scoring::SignAndRank;
    let published = Published::read(FRANKE);
    let kernel = kernel(machine)?;
    for (index, told) in published.rows.iter().enumerate() {
        let found = row(&of, kernel, told[0], chunk(told), &mut outcome.events);
        for (column, model) in published.columns[2..].iter().zip(found) {
            let name = format!("{} {}", told[0], told[1]);
            outcome.cells.push(Cell::new(
                name.trim(),
                *column,
                published.figure(index, column),
                model,
            ));
        }
    }
    outcome.notes = NOTES.map(String::from).to_vec();
    Ok(outcome)
}

fn kernel(machine: &Machine) -> Result<Kernel, MachineError> {
    Ok(Kernel { cpus: machine.get("cpus")? as usize, smp: machine.get("smp")? != 0.0 })
}

/// Predicts the table for a machine whose figures were not given.
pub fn predict(machine: &Machine) -> Result<String, MachineError> {
    let (of, kernel) = (machinery(machine)?, kernel(machine)?);
    let published = Published::read(FRANKE);
    let mut text = published.columns.join(",") + "\n";
    for told in &published.rows {
        let found = row(&of, kernel, told[0], chunk(told), &mut 0);
        let _ = write!(text, "{},{}", told[0], told[1]);
        for model in found {
            // No negative zero: it would be another byte.
            let rounded = (model * 100.0).round() / 100.0 + 0.0;
            let _ = write!(text, ",{rounded:.2}");
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without do_more_read a reader's transfers were short on one CPU too, and larger pipes gained
    /// hundreds of per cent where they made no sense.
    #[test]
    fn a_larger_pipe_serves_a_slow_reader_beside_an_idle_cpu_only() {
        let of = Machine::named("pentium2-2way").and_then(|machine| machinery(&machine));
        let of = of.expect("a whole machine");
        let gain = |cpus| {
            let kernel = Kernel { cpus, smp: true };
            row(&of, kernel, "pipeflex", 16 << 10, &mut 0)[2]
        };
        assert!(gain(2) > 50.0, "{}", gain(2));
        assert!(gain(1).abs() < 10.0, "{}", gain(1));
    }
}
