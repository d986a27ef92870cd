//! An index of keys on disk, larger than its memory: a hash table in a region, and beside it in an
//! ordinary mapping.
//!
//!     cargo run --release --example region_index -- 64 20000 normal
//!
//! The numbers are the mebibytes of the table (a power of two) and the keys that are looked up afterwards. The region may
//! use a quarter of the table. Each key lies anywhere, so each look-up touches a page at random. The word
//! and `WEIR_REGION_PAGING=kernel` are as in `region_sort`.

use std::time::Instant;
use weir_region::{MappedRegion, RegionAdvice, RegionOptions};

/// A slot has a key and a value; the key 0 is none.
const SLOT_BYTES: usize = 16;

/// Knuth's multiplier, and its inverse modulo 2^64: a place tells its key, so no list of keys is kept.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = 0xf1de_83e1_9937_733d;

fn word(table: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(table[at..at + 8].try_into().expect("eight bytes"))
}

/// The place of a key, or of the free slot for it.
fn place(table: &[u8], key: u64) -> usize {
    let slots = table.len() / SLOT_BYTES;
    let mut slot = (key.wrapping_mul(SPREAD) >> (64 - slots.ilog2())) as usize;
    loop {
        let found = word(table, slot * SLOT_BYTES);
        if found == key || found == 0 {
            return slot * SLOT_BYTES;
        }
        slot = (slot + 1) % slots;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let mebibytes: usize = words.next().map_or(Ok(8), |text| text.parse())?;
    let looks: u64 = words.next().map_or(Ok(10_000), |text| text.parse())?;
    let advice = match words.next().as_deref() {
        None | Some("normal") => RegionAdvice::Normal,
        Some("random") => RegionAdvice::Random,
        Some(other) => return Err(format!("no order of touches is called '{other}'").into()),
    };
    let bytes = (mebibytes << 20).next_power_of_two();
    let memory = bytes as u64 / 4;
    let mut table = MappedRegion::new(bytes, &RegionOptions::new().memory_bytes(memory))?;
    println!("{mebibytes} MiB in {} MiB of memory: {}", memory >> 20, table.mechanism());

    // Half of the slots, in the order of their places: how an index is loaded.
    let slots = (bytes / SLOT_BYTES) as u64;
    let key_of = |slot: u64| (slot << (64 - slots.ilog2())).wrapping_mul(INVERSE);
    let begun = Instant::now();
    for slot in (2..slots).step_by(2) {
        let key = key_of(slot);
        let at = place(&table, key);
        table[at..at + 8].copy_from_slice(&key.to_le_bytes());
        table[at + 8..at + 16].copy_from_slice(&(!key).to_le_bytes());
    }
    println!("loaded {} keys in {:.3} s", slots / 2 - 1, begun.elapsed().as_secs_f64());

    table.advise(advice)?;
    let begun = Instant::now();
    let mut random = 1_u64;
    for _ in 0..looks {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let key = key_of(((random >> 33) % (slots / 2 - 1) + 1) * 2);
        let at = place(&table, key);
        assert_eq!((word(&table, at), word(&table, at + 8)), (key, !key));
    }
    println!("looked up {looks} keys in {:.3} s", begun.elapsed().as_secs_f64());
    Ok(())
}
