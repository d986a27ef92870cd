//! How much of the ring and of the arena a record takes, and where it lies.

use super::{HEADER_BYTES, INLINE_BYTES, LINE_BYTES, WORD_BYTES};
use crate::layout::EndLine;
use crate::primitive::Ordering;
use crate::{Area, Corrupt, RingMemory};

/// Returns the bytes that a record takes of the ring and of the arena.
#[cfg(any(test, loom))]
#[inline]
pub fn footprint(bytes: usize) -> (u64, u64) {
    footprint_after(WORD_BYTES, bytes)
}

/// Returns these bytes for a record with a head of this size. Small records of one size never
/// straddle lines.
#[inline]
pub fn footprint_after(head: u64, bytes: usize) -> (u64, u64) {
    if bytes > INLINE_BYTES {
        // No arena has room for a length that has no next multiple.
        return (8, (bytes as u64).checked_next_multiple_of(LINE_BYTES).unwrap_or(u64::MAX));
    }
    let needed = (head + bytes as u64).max(8);
    let ring = if needed <= LINE_BYTES {
        needed.next_power_of_two()
    } else {
        needed.next_multiple_of(LINE_BYTES)
    };
    (ring, 0)
}

/// The footprint of the last record, and how to find that of another.
///
/// Records of one size often follow each other. Then the next place is known before the length of
/// this record is: the CPU predicts that the length is the same. Were it computed each time, each
/// record would wait for the load of the length before it.
#[derive(Debug)]
pub struct LastFootprint {
    head: u64,
    bytes: usize,
    pub footprint: (u64, u64),
    /// `bytes`, if such a record is in the ring; otherwise [`NO_LENGTH`].
    pub inline_bytes: usize,
}

/// No record is that long.
const NO_LENGTH: usize = usize::MAX;

impl LastFootprint {
    pub fn new(head: u64) -> LastFootprint {
        LastFootprint { head, bytes: 0, footprint: footprint_after(head, 0), inline_bytes: 0 }
    }

    #[inline(always)]
    pub fn of(&mut self, bytes: usize) -> (u64, u64) {
        if bytes != self.bytes {
            self.measure(bytes);
        }
        self.footprint
    }

    /// A call, so that the compiler keeps the branch.
    #[inline(never)]
    fn measure(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.footprint = footprint_after(self.head, bytes);
        self.inline_bytes = if bytes > INLINE_BYTES { NO_LENGTH } else { bytes };
    }
}

/// A position in both areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordPosition {
    pub ring: u64,
    pub arena: u64,
}

impl RecordPosition {
    /// Reads a line's position, and checks that a record can begin there.
    #[inline]
    pub fn alleged(line: &EndLine) -> Result<RecordPosition, Corrupt> {
        // Acquire: an end that was handed on finds what its former owner did.
        let ring = line.position.load(Ordering::Acquire);
        let arena = line.arena.load(Ordering::Acquire);
        let right = ring.is_multiple_of(8) && arena.is_multiple_of(LINE_BYTES);
        if right {
            Ok(RecordPosition { ring, arena })
        } else {
            Err(Corrupt("the position of an end"))
        }
    }

    #[inline]
    pub fn after(self, (ring, arena): (u64, u64)) -> RecordPosition {
        RecordPosition { ring: self.ring.wrapping_add(ring), arena: self.arena.wrapping_add(arena) }
    }
}

/// The sizes of both areas, and of a record's head.
#[derive(Clone, Copy, Debug)]
pub struct RingSizes {
    pub ring: u64,
    pub arena: u64,
    pub head: u64,
}

impl RingSizes {
    pub fn of(memory: &impl RingMemory) -> RingSizes {
        let head = if memory.has_headers() { HEADER_BYTES } else { WORD_BYTES };
        RingSizes { ring: memory.bytes(Area::Ring), arena: memory.bytes(Area::Arena), head }
    }

    /// Returns where the bytes of a record at a position lie.
    #[inline]
    pub fn payload(self, place: RecordPosition, bytes: usize) -> (Area, u64) {
        if bytes > INLINE_BYTES {
            (Area::Arena, place.arena)
        } else {
            (Area::Ring, place.ring.wrapping_add(self.head))
        }
    }
}
