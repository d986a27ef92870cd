//! Code that the examples share: bytes that are computed from a seed, and their checksum.

#![allow(dead_code, reason = "each example uses a part")]

use std::time::Duration;

/// Bytes that are computed from a seed and their place, however they are cut into chunks.
pub struct Bytes {
    seed: u64,
    place: u64,
}

impl Bytes {
    /// Starts at the first byte.
    pub fn new(seed: u64) -> Bytes {
        Bytes { seed, place: 0 }
    }

    fn word(&self, index: u64) -> [u8; 8] {
        let mixed = (index ^ self.seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed ^ (mixed >> 29)).to_le_bytes()
    }

    /// The next bytes.
    pub fn fill(&mut self, to: &mut [u8]) {
        let mut done = 0;
        while done < to.len() {
            let (index, offset) = (self.place / 8, (self.place % 8) as usize);
            let count = (8 - offset).min(to.len() - done);
            to[done..done + count].copy_from_slice(&self.word(index)[offset..offset + count]);
            done += count;
            self.place += count as u64;
        }
    }
}

/// FNV-1a over all bytes: slow, but well known.
#[derive(Clone, Copy)]
pub struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Checksum {
        Checksum(0xCBF2_9CE4_8422_2325)
    }
}

impl Checksum {
    /// The checksum so far.
    pub fn value(self) -> u64 {
        self.0
    }

    /// Adds bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// Parses sizes such as "64K".
pub fn size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| String::from("not a size; write 65536, 64K or 1G"))
}

/// Prints the bytes and the rate.
pub fn report(what: &str, bytes: u64, sum: Option<Checksum>, time: Duration) {
    let rate = bytes as f64 / time.as_nanos().max(1) as f64;
    let sum = sum.map_or_else(String::new, |sum| format!(" checksum {:016x}", sum.0));
    println!("{what} {bytes} bytes{sum} in {:.3} s, {rate:.2} GB/s", time.as_secs_f64());
}
