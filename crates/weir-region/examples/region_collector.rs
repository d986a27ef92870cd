//! A small collector of garbage over a heap of four times its memory. It marks what can be reached, and
//! sweeps the heap under `NoReference`, so that the sweep displaces little of what the program uses.
//!
//!     cargo run --release --example region_collector -- 64
//!
//! The number is the mebibytes of the heap. A cell is 64 bytes: whether it is marked and used, and two
//! references. Between collections the program walks a list that is an eighth of the heap, which fits
//! in the memory. What is counted are the faults of that walk after a sweep.

use weir_region::{Region, RegionAdvice, RegionOptions};

const CELL: u64 = 64;
const USED: u64 = 1;
const MARKED: u64 = 2;
const NOWHERE: u64 = u64::MAX;

struct Heap {
    region: Region,
    cells: u64,
}

impl Heap {
    fn word(&self, cell: u64, at: u64) -> weir::Result<u64> {
        self.region.read_array(cell * CELL + at * 8).map(u64::from_le_bytes)
    }

    fn set(&self, cell: u64, at: u64, word: u64) -> weir::Result<()> {
        self.region.write_at(cell * CELL + at * 8, &word.to_le_bytes())
    }

    /// Follows a list, and returns how many cells it has.
    fn walk(&self, from: u64, marks: u64) -> weir::Result<u64> {
        let (mut at, mut count) = (from, 0);
        while at != NOWHERE {
            if marks != 0 {
                let state = self.word(at, 0)?;
                self.set(at, 0, state | marks)?;
            }
            count += 1;
            at = self.word(at, 1)?;
        }
        Ok(count)
    }

    /// Frees what is not marked, and takes the marks off. Returns how many cells it freed.
    fn sweep(&self) -> weir::Result<u64> {
        let mut freed = 0;
        for cell in 0..self.cells {
            let state = self.word(cell, 0)?;
            if state & MARKED != 0 {
                self.set(cell, 0, USED)?;
            } else if state & USED != 0 {
                self.set(cell, 0, 0)?;
                freed += 1;
            }
        }
        Ok(freed)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mebibytes: u64 = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let bytes = mebibytes << 20;
    for advice in [RegionAdvice::Normal, RegionAdvice::NoReference] {
        let region = Region::new(bytes, &RegionOptions::new().memory_bytes(bytes / 4))?;
        let heap = Heap { region, cells: bytes / CELL };
        // The first eighth is a list, the rest is garbage.
        let live = heap.cells / 8;
        for cell in 0..heap.cells {
            heap.set(cell, 0, USED)?;
            heap.set(cell, 1, if cell + 1 < live { cell + 1 } else { NOWHERE })?;
        }
        let mut faults = 0;
        for collection in 0..3 {
            // The program uses its list.
            (0..3).try_for_each(|_| heap.walk(0, 0).map(drop))?;
            assert_eq!(heap.walk(0, MARKED)?, live);
            heap.region.advise(advice)?;
            let freed = heap.sweep()?;
            assert_eq!(freed, if collection == 0 { heap.cells - live } else { 0 });
            heap.region.advise(RegionAdvice::Normal)?;
            let before = heap.region.account().read_bytes;
            assert_eq!(heap.walk(0, 0)?, live);
            faults += (heap.region.account().read_bytes - before) / 1024;
        }
        println!(
            "swept as {advice:?}: after three sweeps the program read {faults} KiB of its {} KiB again",
            3 * live * CELL / 1024,
        );
    }
    Ok(())
}
