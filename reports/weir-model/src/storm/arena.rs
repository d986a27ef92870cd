//! Random owners of blocks of an arena: they take, give back, and die with all that they have.
//!
//! No byte belongs to two owners, each block lies at a multiple of its size, a block is refused only
//! if there is no place for it, and in the end all has become one again.

use super::{Ended, Trace};
use weir_policy::arena::{Arena, LARGEST_BYTES, SMALLEST_BYTES, block_for};
use weir_policy::random::Random;

const STEPS: u64 = 200;
const OWNERS: u64 = 6;

#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "it is read by being printed")]
enum Traced {
    Taken { owner: u64, most: u32, least: u32, got: Option<(u32, u32)> },
    Given { owner: u64, offset: u32, bytes: u32 },
    Died(u64),
}

/// A block: whose it is, where it lies, how large it is.
type Block = (u64, u32, u32);

struct Storm {
    arena: Arena,
    used: Vec<bool>,
    blocks: Vec<Block>,
    random: Random,
    trace: Trace<Traced>,
}

/// Runs the storm of a seed.
pub(super) fn storm(seed: u64) -> Ended {
    let mut random = Random::new(seed ^ 0xa3e4a);
    let bytes = LARGEST_BYTES * random.below(6) as u32 + random.below(9) as u32 * SMALLEST_BYTES;
    let arena = Arena::new(bytes);
    let used = vec![false; (arena.bytes() / SMALLEST_BYTES) as usize];
    let mut storm = Storm { arena, used, blocks: Vec::new(), random, trace: Trace::new() };
    let ran = storm.run();
    storm.trace.ended(ran)
}

fn pages(offset: u32, bytes: u32) -> std::ops::Range<usize> {
    (offset / SMALLEST_BYTES) as usize..((offset + bytes) / SMALLEST_BYTES) as usize
}

impl Storm {
    fn run(&mut self) -> Result<(), String> {
        for _ in 0..STEPS {
            match self.random.below(8) {
                0..=4 => self.take()?,
                5 | 6 if !self.blocks.is_empty() => {
                    let which = self.random.below(self.blocks.len() as u64) as usize;
                    self.give(which);
                }
                _ if self.random.once_in(4) => self.die(),
                _ => {}
            }
            let free = self.used.iter().filter(|used| !**used).count() as u32 * SMALLEST_BYTES;
            if self.arena.free_bytes() != free {
                return Err(format!("{} bytes are free, and {free} are", self.arena.free_bytes()));
            }
        }
        while !self.blocks.is_empty() {
            self.give(self.blocks.len() - 1);
        }
        let whole = std::iter::from_fn(|| self.arena.take(LARGEST_BYTES)).count() as u32;
        match whole * LARGEST_BYTES == self.arena.bytes() {
            true => Ok(()),
            false => Err(format!("all is given back, and only {whole} large blocks are free")),
        }
    }

    fn has_place(&self, bytes: u32) -> bool {
        let count = (bytes / SMALLEST_BYTES) as usize;
        self.used.chunks_exact(count).any(|chunk| !chunk.contains(&true))
    }

    fn take(&mut self) -> Result<(), String> {
        let owner = self.random.below(OWNERS);
        let most = block_for(self.random.below(100_000) as usize);
        let least = (most >> self.random.below(5)).max(SMALLEST_BYTES);
        let got = self.arena.take_down_to(most, least);
        self.trace.push(Traced::Taken { owner, most, least, got });
        let sizes = std::iter::successors(Some(most), |bytes| Some(bytes / 2));
        let best = sizes.take_while(|bytes| *bytes >= least).find(|bytes| self.has_place(*bytes));
        if got.map(|(_, bytes)| bytes) != best {
            return Err(format!("{most} to {least} bytes: got {got:?}, and there is {best:?}"));
        }
        let Some((offset, bytes)) = got else { return Ok(()) };
        let range = pages(offset, bytes);
        if !offset.is_multiple_of(bytes) || range.end > self.used.len() {
            return Err(format!("a block of {bytes} bytes at {offset}"));
        }
        if self.used[range.clone()].contains(&true) {
            return Err(format!("the block of {bytes} bytes at {offset} belongs to two"));
        }
        self.used[range].fill(true);
        self.blocks.push((owner, offset, bytes));
        Ok(())
    }

    fn give(&mut self, which: usize) {
        let (owner, offset, bytes) = self.blocks.swap_remove(which);
        self.trace.push(Traced::Given { owner, offset, bytes });
        self.arena.give(offset, bytes);
        self.used[pages(offset, bytes)].fill(false);
    }

    fn die(&mut self) {
        let owner = self.random.below(OWNERS);
        self.trace.push(Traced::Died(owner));
        while let Some(which) = self.blocks.iter().position(|block| block.0 == owner) {
            self.give(which);
        }
    }
}
