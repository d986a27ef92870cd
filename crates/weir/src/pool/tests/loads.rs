//! The loads of the policy's simulation, through the real driver: its frames, its file, its engine
//! and its thread, with the clock set by hand to the times of the load. Both must write as much.
//!
//! In the simulation a disk can take its time, in virtual time; a real one takes real time, during
//! which a clock that is set by hand stands still. So that the two are comparable the simulation
//! runs with a disk that takes no time, and the driver's clock goes on to the next step only when
//! nothing is under way any more: every transfer ends at the moment it began, in both. What is left
//! is the order in which transfers of one moment end, and a frame's way through threads. The
//! simulation with a disk that takes its time is beside it in the table, and must agree as well.
//!
//! The table of all rules, with loads as long as the simulation's own:
//! `WEIR_POOL_LOADS=full cargo test -p weir --release --lib pool::tests::loads -- --nocapture`

use super::*;
use pool_world::loads::{self, Kind, STREAMS};
use pool_world::{Load, Step, World};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_policy::pool::Rule;

#[path = "../../../../weir-policy/tests/pool_world/mod.rs"]
mod pool_world;

/// Blocks that the file may hold.
const SLOTS: u32 = 100_000;
/// Blocks of a transfer.
const CLUSTER: u32 = 4;
const SEED: u64 = 1;

/// Blocks written in the simulation.
fn simulated(load: &Load, frames: u32, rule: Rule, disk_takes_time: bool) -> u64 {
    let settings = Settings { frames, slots: SLOTS, cluster: CLUSTER, transfers: 32, rule };
    let mut world = World::new(settings, STREAMS);
    world.disk_takes_time = disk_takes_time;
    world.run(load);
    world.finished().spilled
}

/// The number of a block and its stream, all over it.
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
    written: u64,
    read: u64,
}

/// Blocks written by the driver.
fn driven(load: &Load, frames: u32, rule: Rule) -> u64 {
    let now_ns = Arc::new(AtomicU64::new(0));
    let directory = tempfile::tempdir().expect("a directory");
    let mut options = options(frames as usize, SLOTS as usize)
        .cluster_bytes(u64::from(CLUSTER) * PAGE as u64)
        .rule(rule)
        .spill_directory(directory.path());
    options.clock = Clock::Set(now_ns.clone());
    let pool = Pool::new(&options).expect("pool");
    let mut all: Vec<_> = (0..STREAMS)
        .map(|_| {
            let (writer, reader) = pool.backlog().expect("backlog");
            Ends { writer, reader, written: 0, read: 0 }
        })
        .collect();
    let mut came = [0; PAGE];
    for &(at_ns, step) in load {
        // Relaxed: a number; who reads it takes the pool's lock after us.
        now_ns.store(at_ns, Ordering::Relaxed);
        match step {
            Step::Write(stream) => {
                let ends = &mut all[stream as usize];
                let block = block_of(stream, ends.written);
                assert_eq!(ends.writer.put_for(&block, PATIENCE).expect("put"), PAGE);
                ends.written += 1;
            }
            Step::Read(stream) => {
                let ends = &mut all[stream as usize];
                assert_eq!(ends.reader.take_for(&mut came, PATIENCE).expect("taken"), PAGE);
                assert!(came == block_of(stream, ends.read), "stream {stream}, {}", ends.read);
                ends.read += 1;
            }
        }
        rest(&pool);
    }
    assert!(all.iter().all(|ends| ends.read == ends.written));
    all_is_given_back(&pool);
    let account = pool.account();
    assert!(account.most_memory_bytes <= u64::from(frames) * PAGE as u64);
    account.spilled_bytes / PAGE as u64
}

fn agree(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= 0.05 * a.max(b) as f64
}

fn compare(kind: Kind) {
    let full = std::env::var("WEIR_POOL_LOADS").is_ok_and(|word| word == "full");
    let (blocks, rules) = match full {
        true => (loads::BLOCKS, &Rule::ALL[..]),
        false => (700, &[Rule::LongestDrain, Rule::OldestFirst][..]),
    };
    let load = loads::make(kind, SEED, blocks);
    for share in [0.25, 0.6] {
        let frames = (f64::from(loads::peak(&load)) * share) as u32;
        let fewest = loads::fewest_writes(&load, frames);
        for &rule in rules {
            let [timeless, timed] = [false, true].map(|time| simulated(&load, frames, rule, time));
            let driver = driven(&load, frames, rule);
            let times = |blocks: u64| blocks as f64 / fewest as f64;
            println!(
                "| {kind:?} | {share} | {frames} | {} | {fewest} | {timed} ({:.3}) | {timeless} \
                 ({:.3}) | {driver} ({:.3}) |",
                rule.name(),
                times(timed),
                times(timeless),
                times(driver),
            );
            assert!(agree(driver, timeless), "{kind:?} {share} {rule:?}: {driver}, {timeless}");
            assert!(agree(driver, timed), "{kind:?} {share} {rule:?}: {driver}, {timed}");
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
