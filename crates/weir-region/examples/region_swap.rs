//! Eight regions in one pool whose working sets do not fit together: with and without whole regions
//! that go out in turn.
//!
//!     cargo run --release --example region_swap -- 8 3 5
//!
//! The numbers are the mebibytes of each region, how many regions the pool could hold, and the
//! seconds of each run. Each region has a thread that writes all of its pages again and again, in an
//! order that is not the file's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weir::{Pool, PoolOptions};
use weir_region::{Region, RegionOptions};

const PAGE: u64 = 4096;
const REGIONS: usize = 8;

/// Touches pages until it is over, and returns how many.
fn touch(region: &Region, over: &AtomicBool) -> u64 {
    let pages = region.len() / PAGE;
    let mut touched = 0;
    while !over.load(Ordering::Relaxed) {
        let at = touched * 37 % pages * PAGE;
        let round: [u8; 8] = region.read_array(at).expect("read");
        let expected = touched / pages;
        assert_eq!(u64::from_le_bytes(round), expected, "the page at {at}");
        region.write_at(at, &(expected + 1).to_le_bytes()).expect("written");
        touched += 1;
    }
    touched
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let mut next = |usual| numbers.next().unwrap_or(Ok(usual));
    let (mebibytes, fit, seconds) = (next(2)?, next(3)?, next(1)?);
    let bytes = mebibytes << 20;
    for swaps in [false, true] {
        let pool = PoolOptions::new().memory_bytes(fit * bytes).swap_regions(swaps);
        let pool = Pool::new(&pool)?;
        let options = RegionOptions::new().pool(&pool).memory_bytes(bytes);
        let regions: Vec<Region> =
            (0..REGIONS).map(|_| Region::new(bytes, &options)).collect::<Result<_, _>>()?;
        let over = AtomicBool::new(false);
        let touched: Vec<u64> = std::thread::scope(|scope| {
            let over = &over;
            let touch = |region| scope.spawn(move || touch(region, over));
            let touchers: Vec<_> = regions.iter().map(touch).collect();
            // sleep: the time of the run.
            std::thread::sleep(Duration::from_secs(seconds));
            over.store(true, Ordering::Relaxed);
            touchers.into_iter().map(|one| one.join().expect("right")).collect()
        });
        let sum: u64 = touched.iter().sum();
        let (least, most) = (touched.iter().min(), touched.iter().max());
        let accounts = regions.iter().map(Region::account);
        let (faults, out) =
            accounts.fold((0, 0), |(faults, out), of| (faults + of.hard_faults, out + of.swapped));
        println!(
            "{}: {sum} pages in {seconds} s, {} to {} for each region; {faults} faults, out {out} \
             times, at most {} of {} MiB in memory",
            if swaps { "whole regions go out" } else { "pages alone go out" },
            least.unwrap_or(&0),
            most.unwrap_or(&0),
            pool.account().most_memory_bytes >> 20,
            fit * mebibytes,
        );
    }
    Ok(())
}
