//! Sorts numbers in a region of four times its memory, and beside it in an ordinary mapping.
//!
//!     cargo run --release --example region_sort -- 64 normal
//!
//! The number is the mebibytes to sort. The region may use a quarter of them. The sort is a radix sort
//! from the lowest four bits: each pass reads one half of the region upwards and writes 16 runs in the
//! other half. The word is the order of touches that the region, or the kernel, is told: `normal`,
//! `sequential` or `random`. The ordinary mapping is the same program with
//! `WEIR_REGION_PAGING=kernel`; for a fair comparison run both in a memory cgroup
//! (docs/design/region.md has the commands and what came out).

use std::time::Instant;
use weir_region::{MappedRegion, RegionAdvice, RegionOptions};

const NUMBER_BYTES: usize = 8;

fn number(bytes: &[u8], at: usize) -> u64 {
    let bytes = &bytes[at * NUMBER_BYTES..][..NUMBER_BYTES];
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}

fn set(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at * NUMBER_BYTES..][..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
}

/// Moves numbers to their places by four bits, which keeps the order of equal ones.
fn pass(from: &[u8], to: &mut [u8], shift: u32) {
    let count = from.len() / NUMBER_BYTES;
    let mut next = [0_usize; 16];
    for at in 0..count {
        next[(number(from, at) >> shift) as usize % 16] += 1;
    }
    let mut first = 0;
    for place in &mut next {
        first += std::mem::replace(place, first);
    }
    for at in 0..count {
        let moved = number(from, at);
        let place = &mut next[(moved >> shift) as usize % 16];
        set(to, *place, moved);
        *place += 1;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mebibytes: usize = std::env::args().nth(1).map_or(Ok(8), |text| text.parse())?;
    let advice = match std::env::args().nth(2).as_deref() {
        None | Some("normal") => RegionAdvice::Normal,
        Some("sequential") => RegionAdvice::Sequential,
        Some("random") => RegionAdvice::Random,
        Some(other) => return Err(format!("no order of touches is called '{other}'").into()),
    };
    let half = (mebibytes << 20) / 2;
    let memory = (2 * half / 4) as u64;
    let mut region = MappedRegion::new(2 * half, &RegionOptions::new().memory_bytes(memory))?;
    region.advise(advice)?;
    println!("{} MiB in {} MiB of memory: {}", mebibytes, memory >> 20, region.mechanism());
    let count = half / NUMBER_BYTES;
    let begun = Instant::now();
    let mut sum = 0_u64;
    let mut random = 1_u64;
    for at in 0..count {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Numbers of 16 bits: four passes sort them.
        let number = random >> 48;
        sum = sum.wrapping_add(number);
        set(&mut region, at, number);
    }
    let (one, other) = region.split_at_mut(half);
    pass(one, other, 0);
    pass(other, one, 4);
    pass(one, other, 8);
    pass(other, one, 12);
    let mut last = 0;
    for at in 0..count {
        let number = number(&region, at);
        assert!(last <= number, "number {at} is out of order");
        (last, sum) = (number, sum.wrapping_sub(number));
    }
    assert_eq!(sum, 0, "the numbers are those that went in");
    println!("sorted {count} numbers in {:.3} s", begun.elapsed().as_secs_f64());
    let account = region.account();
    println!(
        "{} faults, {} reads of {} MiB, {} writes of {} MiB, at most {} MiB in memory",
        account.hard_faults,
        account.reads,
        account.read_bytes >> 20,
        account.writes,
        account.written_bytes >> 20,
        account.most_memory_bytes >> 20,
    );
    Ok(())
}
