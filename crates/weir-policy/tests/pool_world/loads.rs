//! The four loads by which rules are compared, and the fewest writes any rule could do.

use super::{Load, Step};
use std::collections::BTreeSet;

/// Streams of each load.
pub const STREAMS: u32 = 16;
/// The default number of blocks of each stream.
pub const BLOCKS: u64 = 3_000;
/// Mean time between two blocks of a stream.
const MEAN_NS: u64 = 2_000_000;

/// Length of a stall, in mean times between blocks.
const STALL: u64 = 500;
/// Blocks from one to the next.
const STALL_EVERY: u64 = 1_000;

/// One load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writers in bursts, steady readers.
    Bursty,
    /// Steady writers, readers that stall now and then and catch up.
    Stalled,
    /// Streams whose rates differ by 1 to 16, and whose readers start late.
    Heterogeneous,
    /// Readers that are on and off.
    OnOff,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 4] = [Kind::Bursty, Kind::Stalled, Kind::Heterogeneous, Kind::OnOff];

    /// Whether rates are steady enough to be foreseen.
    pub fn is_steady(self) -> bool {
        self != Kind::OnOff
    }
}

/// Numbers from a seed (SplitMix64), the same everywhere.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    pub fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns an exponentially distributed time of this mean.
    pub fn wait_ns(&mut self, mean_ns: u64) -> u64 {
        (-(1.0 - self.share()).ln() * mean_ns as f64) as u64 + 1
    }
}

/// Makes a load of this kind, with this many blocks a stream.
pub fn make(kind: Kind, seed: u64, blocks: u64) -> Load {
    let mut load = Load::new();
    for stream in 0..STREAMS {
        let mut random = Random(seed ^ (u64::from(stream) << 32) ^ ((kind as u64) << 48));
        let (writes, reads) = match kind {
            Kind::Bursty => bursty(&mut random, blocks),
            Kind::Stalled => stalled(&mut random, blocks),
            Kind::Heterogeneous => heterogeneous(&mut random, blocks, stream),
            Kind::OnOff => on_off(&mut random, blocks),
        };
        load.extend(writes.iter().map(|&at_ns| (at_ns, Step::Write(stream))));
        load.extend(in_time(&writes, &reads).map(|at_ns| (at_ns, Step::Read(stream))));
    }
    load.sort_by_key(|&(at_ns, step)| (at_ns, std::cmp::Reverse(step)));
    load
}

/// Delays reads so that nothing is read before it was written.
fn in_time<'a>(writes: &'a [u64], reads: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    let mut last_ns = 0;
    writes.iter().zip(reads).map(move |(written_ns, read_ns)| {
        last_ns = (*read_ns).max(written_ns + 1).max(last_ns + 1);
        last_ns
    })
}

fn times(blocks: u64, mut next_ns: impl FnMut(u64) -> u64) -> Vec<u64> {
    let mut at_ns = 0;
    (0..blocks)
        .map(|block| {
            at_ns += next_ns(block);
            at_ns
        })
        .collect()
}

fn bursty(random: &mut Random, blocks: u64) -> (Vec<u64>, Vec<u64>) {
    let mut left = 0;
    let writes = times(blocks, |_| {
        if left == 0 {
            left = random.wait_ns(150);
            return random.wait_ns(150 * MEAN_NS);
        }
        left -= 1;
        20_000
    });
    let reads = times(blocks, |_| MEAN_NS * 9 / 10 + random.wait_ns(MEAN_NS / 20));
    (writes, reads)
}

fn stalled(random: &mut Random, blocks: u64) -> (Vec<u64>, Vec<u64>) {
    let writes = times(blocks, |_| random.wait_ns(MEAN_NS));
    let phase = (random.share() * STALL_EVERY as f64) as u64;
    let reads = times(blocks, |block| {
        let stalls = block % STALL_EVERY == phase;
        MEAN_NS / 4 + if stalls { STALL * MEAN_NS } else { 0 }
    });
    (writes, reads)
}

fn heterogeneous(random: &mut Random, blocks: u64, stream: u32) -> (Vec<u64>, Vec<u64>) {
    let mean_ns = MEAN_NS * u64::from(stream + 1) / 8;
    let writes = times(blocks, |_| random.wait_ns(mean_ns));
    let late_ns = random.wait_ns(200 * MEAN_NS);
    let slow_ns = mean_ns + mean_ns / 5;
    let reads = times(blocks, |block| if block == 0 { late_ns } else { slow_ns });
    (writes, reads)
}

fn on_off(random: &mut Random, blocks: u64) -> (Vec<u64>, Vec<u64>) {
    let writes = times(blocks, |_| random.wait_ns(MEAN_NS));
    let mut left_ns = 0;
    let reads = times(blocks, |_| {
        let gap_ns = MEAN_NS / 3;
        if left_ns < gap_ns {
            left_ns = random.wait_ns(100 * MEAN_NS);
            return gap_ns + random.wait_ns(150 * MEAN_NS);
        }
        left_ns -= gap_ns;
        gap_ns
    });
    (writes, reads)
}

/// Returns the most blocks that exist at once.
pub fn peak(load: &Load) -> u32 {
    let (mut now, mut most) = (0_i64, 0);
    for (_, step) in load {
        now += if matches!(step, Step::Write(_)) { 1 } else { -1 };
        most = most.max(now);
    }
    most as u32
}

/// Returns the fewest blocks that must be written with this many frames if the time of each read is
/// known: whenever a block too many comes, the one that is read last is written. Each is read once,
/// so no other choice can be better.
pub fn fewest_writes(load: &Load, frames: u32) -> u64 {
    let mut reads = vec![Vec::new(); STREAMS as usize];
    for &(at_ns, step) in load {
        if let Step::Read(stream) = step {
            reads[stream as usize].push(at_ns);
        }
    }
    let (mut written, mut next) = (0, vec![(0, 0); STREAMS as usize]);
    let mut memory = BTreeSet::new();
    for &(_, step) in load {
        match step {
            Step::Write(stream) => {
                let number: &mut (usize, usize) = &mut next[stream as usize];
                memory.insert((reads[stream as usize][number.0], stream, number.0));
                number.0 += 1;
                if memory.len() > frames as usize {
                    memory.pop_last();
                    written += 1;
                }
            }
            Step::Read(stream) => {
                let number = &mut next[stream as usize];
                memory.remove(&(reads[stream as usize][number.1], stream, number.1));
                number.1 += 1;
            }
        }
    }
    written
}
