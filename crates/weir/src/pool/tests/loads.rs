//! The loads of the policy's simulation through the real driver: its frames, its file, its engine
//! and its thread, with the clock set to the times of the load. Both must write as much.
//!
//! In the simulation the disk takes virtual time. A real disk takes real time, while a clock that is
//! set by hand stands still. To make the two comparable, the real engine does the transfers, but the
//! pool hears of each only when the simulation's disk would have done it: one after the other, in the
//! order they were begun, each at its virtual end. The clock continues only when the pool's thread
//! has dealt with what it heard.
//!
//! The table of all rules, with loads as long as the simulation's own:
//! `WEIR_POOL_LOADS=full cargo test -p weir-pipes --release --lib pool::tests::loads -- --nocapture`

use super::*;
use pool_world::loads::{self, Kind, STREAMS};
use pool_world::{Load, Step, World, disk_ns};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use weir_policy::pool::Rule;

#[path = "../../../../weir-policy/tests/pool_world/mod.rs"]
mod pool_world;

/// The most blocks in the file.
const SLOTS: u32 = 100_000;
/// Blocks of a transfer.
const CLUSTER: u32 = 4;
const SEED: u64 = 1;

/// Blocks written in the simulation.
fn simulated(load: &Load, frames: u32, rule: Rule) -> u64 {
    let settings = PoolSettings { frames, slots: SLOTS, cluster: CLUSTER, transfers: 32, rule };
    let mut world = World::new(settings, STREAMS);
    world.run(load);
    world.finished().spilled
}

/// Fills a block with its number and that of its stream.
fn block_of(stream: u32, number: u64) -> [u8; PAGE] {
    let word = (u64::from(stream) << 32 | number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut block = [0; PAGE];
    block.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&word.to_ne_bytes()));
    block
}

/// One stream of a load.
struct Ends {
    writer: BacklogWriter,
    reader: BacklogReader,
    to_write: u64,
    written: u64,
    to_read: u64,
    read: u64,
}

impl Ends {
    fn new((writer, reader): (BacklogWriter, BacklogReader)) -> Ends {
        Ends { writer, reader, to_write: 0, written: 0, to_read: 0, read: 0 }
    }

    /// Does what the ends of this stream can do now.
    fn go_on(&mut self, stream: u32) {
        while self.to_write > 0 {
            match self.writer.try_write(&block_of(stream, self.written)) {
                Ok(bytes) => assert_eq!(bytes, PAGE),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            (self.to_write, self.written) = (self.to_write - 1, self.written + 1);
        }
        let mut came = [0; PAGE];
        while self.to_read > 0 && self.read < self.written {
            match self.reader.try_read(&mut came) {
                Ok(bytes) => assert_eq!(bytes, PAGE),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}"),
            }
            assert!(came == block_of(stream, self.read), "stream {stream}, {}", self.read);
            (self.to_read, self.read) = (self.to_read - 1, self.read + 1);
        }
    }
}

/// The driver, its streams, and the virtual times of its disk.
struct Driven {
    made: Made,
    now_ns: Arc<AtomicU64>,
    ends: Vec<Ends>,
    /// When each transfer ends, in the order they were begun.
    under_way: VecDeque<u64>,
    disk_free_ns: u64,
}

impl Driven {
    fn new(frames: u32, rule: Rule) -> Driven {
        let now_ns = Arc::new(AtomicU64::new(0));
        let mut options = options(frames as usize, SLOTS as usize)
            .cluster_bytes(u64::from(CLUSTER) * PAGE as u64)
            .rule(rule);
        options.clock = PoolClock::Set(now_ns.clone());
        let made = make(options);
        made.faults.hold(TransferDirection::ToDisk, true);
        made.faults.hold(TransferDirection::FromDisk, true);
        let ends = (0..STREAMS).map(|_| Ends::new(made.pool.backlog().expect("backlog"))).collect();
        Driven { made, now_ns, ends, under_way: VecDeque::new(), disk_free_ns: 0 }
    }

    fn set(&self, now_ns: u64) {
        // Relaxed: a number; its reader takes the pool's lock after this.
        self.now_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Waits until the thread has begun its transfers, and notes when they will end.
    fn settle(&mut self, now_ns: u64) {
        until("transfers are begun", || {
            for (direction, pieces) in self.made.faults.take_begun() {
                let begun_ns = self.disk_free_ns.max(now_ns);
                self.disk_free_ns =
                    begun_ns + disk_ns(direction == TransferDirection::ToDisk, pieces);
                self.under_way.push_back(self.disk_free_ns);
            }
            let state = self.made.pool.core().lock();
            state.policy.transfers_under_way() as usize == self.under_way.len()
        });
    }

    /// Completes the transfers that end before then.
    fn pass_until(&mut self, until_ns: u64) {
        while let Some(&at_ns) = self.under_way.front().filter(|at_ns| **at_ns <= until_ns) {
            self.set(at_ns);
            self.under_way.pop_front();
            self.made.faults.let_one_go();
            self.settle(at_ns);
            for stream in 0..STREAMS {
                self.ends[stream as usize].go_on(stream);
            }
            self.settle(at_ns);
        }
    }

    fn run(&mut self, load: &Load) {
        for &(at_ns, step) in load {
            self.pass_until(at_ns);
            self.set(at_ns);
            let stream = match step {
                Step::Write(stream) => {
                    self.ends[stream as usize].to_write += 1;
                    stream
                }
                Step::Read(stream) => {
                    self.ends[stream as usize].to_read += 1;
                    stream
                }
            };
            self.ends[stream as usize].go_on(stream);
            self.settle(at_ns);
        }
        self.pass_until(u64::MAX);
    }
}

/// Blocks written by the driver.
fn driven(load: &Load, frames: u32, rule: Rule) -> u64 {
    let mut driven = Driven::new(frames, rule);
    driven.run(load);
    let left = |ends: &Ends| ends.to_write + ends.to_read + ends.written - ends.read;
    assert_eq!(driven.ends.iter().map(left).sum::<u64>(), 0, "blocks were left");
    all_is_given_back(&driven.made.pool);
    let account = driven.made.pool.account();
    assert!(account.most_memory_bytes <= u64::from(frames) * PAGE as u64);
    account.spilled_bytes / PAGE as u64
}

fn agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= 0.05 * a.max(b) as f64
}

/// These tests wait by polling, so running one after the other is faster.
static ALONE: Mutex<()> = Mutex::new(());

fn compare(kind: Kind) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let full = std::env::var("WEIR_POOL_LOADS").is_ok_and(|word| word == "full");
    let (blocks, rules) = match full {
        true => (loads::BLOCKS, &Rule::ALL[..]),
        false => (300, &[Rule::LongestDrain, Rule::OldestFirst][..]),
    };
    let load = loads::make(kind, SEED, blocks);
    for share in [0.25, 0.6] {
        let frames = (f64::from(loads::peak(&load)) * share) as u32;
        let fewest = loads::fewest_writes(&load, frames);
        for &rule in rules {
            let (simulated, driver) = (simulated(&load, frames, rule), driven(&load, frames, rule));
            let times = |blocks: u64| blocks as f64 / fewest as f64;
            println!(
                "| {kind:?} | {share} | {} | {fewest} | {simulated} ({:.3}) | {driver} ({:.3}) |",
                rule.name(),
                times(simulated),
                times(driver),
            );
            assert!(agree(driver, simulated), "{kind:?} {share} {rule:?}: {driver}, {simulated}");
        }
    }
}

#[test]
fn the_driver_writes_what_the_simulation_writes_of_bursts() {
    compare(Kind::Bursty);
}

#[test]
fn the_driver_writes_what_the_simulation_writes_when_readers_stall() {
    compare(Kind::Stalled);
}

#[test]
fn the_driver_writes_what_the_simulation_writes_of_different_rates() {
    compare(Kind::Heterogeneous);
}

#[test]
fn the_driver_writes_what_the_simulation_writes_when_readers_are_on_and_off() {
    compare(Kind::OnOff);
}
