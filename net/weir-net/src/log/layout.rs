//! The layout of a log's file: a page of header, then the ring, in words of 8 bytes.
//!
//! The ring is a power of two of *units* of 32 bytes. A unit is a tag and three words; a record is
//! one unit, or several in a row. A *position* counts units since the log was created; a unit lies
//! at its position modulo the length of the ring. All words are in the machine's byte order: a log
//! is read on the machine that wrote it.
//!
//! A tag holds its own position, the code of the unit, and a check over the other three words:
//!
//! | bits | |
//! |---|---|
//! | 36 to 63 | the low 28 bits of the position |
//! | 20 to 35 | check over the three words and the 20 bits below, changed by the rest of the
//! position |
//! | 16 to 19 | code: 0 nothing, 1 to 8 the first unit of a record, 15 a further one |
//! | 0 to 15 | detail of the code |

/// Magic bytes at the start of the file, as its first word.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"weirlog\n");
/// Version of this layout; the upper half holds the bytes of a unit.
pub const VERSION: u64 = 1 | (UNIT_BYTES as u64) << 32;
pub const HEADER_BYTES: usize = 4096;
pub const UNIT_BYTES: usize = 32;
pub const UNIT_WORDS: usize = UNIT_BYTES / 8;
/// Bytes of a unit beside its tag.
pub const PAYLOAD_BYTES: usize = UNIT_BYTES - 8;
/// Fewest units of a ring.
pub const LEAST_UNITS: u64 = 128;
/// Most units of a ring: 1 GiB, fewer than the positions that a tag can distinguish.
pub const MOST_UNITS: u64 = 1 << 25;

/// Words of the header. Words that change are on separate cache lines: those that every event
/// reads, those that count errors, and the head, to which every event adds.
pub mod word {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// Units of the ring.
    pub const UNITS: usize = 2;
    /// When the log was created, in ns since 1970.
    pub const CREATED_NS: usize = 3;
    /// Kinds that are logged; in the upper half, those that wait for the disk.
    pub const MASKS: usize = 8;
    /// Events whose msync failed.
    pub const UNSYNCED: usize = 16;
    /// The position of the next unit.
    pub const HEAD: usize = 64;
    /// Where the ring begins.
    pub const RING: usize = super::HEADER_BYTES / 8;
}

/// Bits of a position that a tag holds.
const POSITION_BITS: u32 = 28;
const _: () = assert!(MOST_UNITS < 1 << POSITION_BITS);

/// Code of a unit that continues a record.
pub const CONTINUED: u8 = 15;

/// A unit that passed its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogUnit {
    pub code: u8,
    /// Detail of the code.
    pub detail: u16,
    /// The other words.
    pub payload: [u64; 3],
}

impl LogUnit {
    /// The low half of the tag and the check: the part that does not depend on the position.
    #[inline(always)]
    pub fn seal(&self) -> u64 {
        let meaning = u64::from(self.code & 15) << 16 | u64::from(self.detail);
        u64::from(check(self.payload, meaning)) << 20 | meaning
    }

    /// Returns the unit at `position`, if these words were written there.
    pub fn read(words: [u64; UNIT_WORDS], position: u64) -> Option<LogUnit> {
        let [tag, payload @ ..] = words;
        let unit = LogUnit { code: (tag >> 16 & 15) as u8, detail: tag as u16, payload };
        (unit.code != 0 && tag_at(unit.seal(), position) == tag).then_some(unit)
    }
}

/// Returns the tag of a sealed unit at `position`.
#[inline(always)]
pub fn tag_at(seal: u64, position: u64) -> u64 {
    let rest = (position >> POSITION_BITS) & 0xffff;
    seal ^ rest << 20 | position << (64 - POSITION_BITS)
}

/// Computes a 16-bit check of the words: each word times an odd constant (those of splitmix64 and
/// of Knuth), so that no single change is lost, rotated against each other and folded.
#[inline(always)]
fn check(words: [u64; 3], meaning: u64) -> u16 {
    let first = words[0].wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let second = words[1].wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(24);
    let third = words[2].wrapping_mul(0x94d0_49bb_1331_11eb).rotate_left(48);
    let mixed = first ^ second ^ third ^ meaning.wrapping_mul(0x5851_f42d_4c95_7f2d);
    ((mixed ^ mixed >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as u16
}

/// The constant fields of the header, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// Units of the ring: a power of two.
    pub units: u64,
    /// When the log was made, in ns since 1970.
    pub created_ns: u64,
}

impl LogShape {
    /// Returns the size of the whole file in bytes.
    pub fn file_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.units * UNIT_BYTES as u64
    }

    /// Returns the most units a record may have: a quarter of the ring at most.
    pub fn most_units(&self) -> usize {
        (self.units / 4) as usize
    }

    /// Checks the first words of the header of a file of `file_bytes`.
    ///
    /// # Errors
    /// The reason why it is not a log.
    pub fn read(header: &[u64; 4], file_bytes: u64) -> Result<LogShape, String> {
        let [magic, version, units, created_ns] = *header;
        if magic != MAGIC {
            return Err(String::from("it is not a log of weir net"));
        }
        if version != VERSION {
            return Err(format!("its version is {:#x}; this weir knows {VERSION:#x}", version));
        }
        let fits = units.is_power_of_two() && (LEAST_UNITS..=MOST_UNITS).contains(&units);
        if !fits {
            return Err(format!("its header is corrupt: a ring of {units} units"));
        }
        let shape = LogShape { units, created_ns };
        if file_bytes != shape.file_bytes() {
            let expected = shape.file_bytes();
            return Err(format!("it has {file_bytes} bytes, but its header says {expected}"));
        }
        Ok(shape)
    }
}

/// Converts the bytes that a further unit holds to words.
#[inline(always)]
pub fn payload_of(bytes: &[u8; PAYLOAD_BYTES]) -> [u64; 3] {
    // No loop: this runs for each 24 bytes of a dump.
    let word = |at: usize| {
        let mut whole = [0; 8];
        whole.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(whole)
    };
    [word(0), word(8), word(16)]
}

/// Converts bytes of a file to words.
#[inline(always)]
pub fn words_of<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = [0; N];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        let mut whole = [0; 8];
        whole.copy_from_slice(chunk);
        *word = u64::from_ne_bytes(whole);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_unit_is_found_where_it_was_written_and_nowhere_else(
            payload: [u64; 3], code in 1_u8..=15, detail: u16, position: u64, other: u64,
        ) {
            let unit = LogUnit { code, detail, payload };
            let tag = tag_at(unit.seal(), position);
            let words = [tag, payload[0], payload[1], payload[2]];
            prop_assert_eq!(LogUnit::read(words, position), Some(unit));
            if other & 0xfff_ffff != position & 0xfff_ffff {
                prop_assert_eq!(LogUnit::read(words, other), None);
            }
        }
    }

    #[test]
    fn one_changed_bit_is_noticed() {
        // As below: hardly more than a few of 262,144.
        let mut passed = 0;
        for number in 0..1_u64 << 18 {
            let word = number.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let payload = [word, word.rotate_left(9) ^ 3, number];
            let unit = LogUnit { code: 2, detail: number as u16, payload };
            let mut words = [tag_at(unit.seal(), number), payload[0], payload[1], payload[2]];
            let bit = (word >> 40) as usize % 256;
            words[bit / 64] ^= 1 << (bit % 64);
            passed += u32::from(LogUnit::read(words, number).is_some());
        }
        assert!(passed < 40, "{passed}");
    }

    #[test]
    fn words_of_two_records_are_no_record() {
        // One in 65,536 passes by chance: of 262,144 mixtures hardly more than a few.
        let mut passed = 0;
        for number in 0..1_u64 << 18 {
            let (a, b) = (number.wrapping_mul(0x9e37_79b9), number + 1);
            let of = |word| LogUnit { code: 1, detail: 0, payload: [word, word ^ 5, word << 3] };
            let tag = tag_at(of(a).seal(), number);
            let mixed = [tag, of(a).payload[0], of(b).payload[1], of(b).payload[2]];
            passed += u32::from(LogUnit::read(mixed, number).is_some());
        }
        assert!(passed < 40, "{passed}");
    }

    #[test]
    fn an_empty_file_holds_no_unit() {
        assert_eq!(LogUnit::read([0; 4], 0), None);
    }

    #[test]
    fn headers_out_of_range_are_refused() {
        let good = [MAGIC, VERSION, 128, 7];
        let bytes = 4096 + 128 * 32;
        assert_eq!(LogShape::read(&good, bytes), Ok(LogShape { units: 128, created_ns: 7 }));
        let spoilt = |index: usize, value| {
            let mut words = good;
            words[index] = value;
            LogShape::read(&words, bytes).expect_err("refused")
        };
        assert!(spoilt(0, 0).contains("not a log"));
        assert!(spoilt(1, 2).contains("version"));
        for units in [0, 1, 64, 129, 1 << 26, u64::MAX] {
            assert!(spoilt(2, units).contains("units"), "{units}");
        }
        assert!(spoilt(2, 256).contains("bytes"));
        assert!(LogShape::read(&good, bytes - 1).is_err());
    }
}
