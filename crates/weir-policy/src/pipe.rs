//! The decisions of a pipe: its sizes, when to wake the other end, how long to spin, when to let the
//! writer get ahead.
//!
//! Sizes follow Franke (2001): size = page << order, segment = size >> shift, and an atomic bound
//! that stays the same whatever they are. Positions are bytes since the pipe was made, and only grow.

mod backoff;
mod capacity;
mod fencing;
mod spin;
mod wishes;

pub use backoff::{BACKOFF_NS, Backoff};
pub use capacity::Caches;
pub use fencing::Fencing;
pub use spin::{PeerCpu, Spin};
pub use wishes::CapacityWishes;

/// The largest capacity of a pipe.
pub const MOST_BYTES: u64 = 1 << 30;
/// The largest shift from capacity to segment.
pub const MOST_SHIFT: u32 = 8;
/// The smallest segment.
pub const LEAST_SEGMENT_BYTES: u64 = 64;
/// The default atomic bound (`PIPE_BUF`): writes of up to this many bytes appear whole.
pub const ATOMIC_BYTES: u64 = 4096;

/// The sizes of a pipe in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sizes {
    /// How many bytes the pipe holds.
    pub capacity_bytes: u64,
    /// After how many bytes a longer write is published.
    pub segment_bytes: u64,
    /// The longest write that appears whole, in bytes.
    pub atomic_bytes: u64,
}

/// The sizes of a pipe, all within their ranges, and what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PipeShape(Sizes);

/// A size that was asked for, but is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// Which size: "capacity", "segment" or "atomic bound".
    pub what: &'static str,
    /// What was asked for.
    pub asked: u64,
    /// The least allowed.
    pub least: u64,
    /// The most allowed.
    pub most: u64,
}

impl PipeShape {
    /// Makes a shape of at least these sizes: capacity and segment are rounded up to a power of two.
    /// A segment that is `None` is an eighth of the capacity and at least a page, an atomic bound that is
    /// `None` 4096 bytes (or the capacity, with smaller pages).
    ///
    /// # Errors
    /// The first size out of its range: the capacity from 1 byte to 1 GiB, the segment from the
    /// 256th part of the capacity to the whole, the atomic bound from 1 byte to the capacity.
    pub fn new(
        page_bytes: u64,
        capacity: u64,
        segment: Option<u64>,
        atomic: Option<u64>,
    ) -> Result<PipeShape, OutOfRange> {
        let within = |what, asked: u64, least: u64, most: u64| {
            let inside = (least..=most).contains(&asked);
            inside.then_some(asked).ok_or(OutOfRange { what, asked, least, most })
        };
        within("capacity", capacity, 1, MOST_BYTES)?;
        let capacity_bytes = capacity.max(page_bytes).next_power_of_two();
        let least = (capacity_bytes >> MOST_SHIFT).max(LEAST_SEGMENT_BYTES);
        let segment = segment.unwrap_or((capacity_bytes >> 3).max(page_bytes));
        within("segment", segment, least, capacity_bytes)?;
        let segment_bytes = segment.next_power_of_two();
        let atomic_bytes = atomic.unwrap_or(ATOMIC_BYTES.min(capacity_bytes));
        within("atomic bound", atomic_bytes, 1, capacity_bytes)?;
        Ok(PipeShape(Sizes { capacity_bytes, segment_bytes, atomic_bytes }))
    }

    /// Makes a shape of this capacity. Segment and atomic bound are those `asked` for. Those not
    /// asked for stay as they are `now` if that fits, and otherwise follow from the others.
    pub fn fitted(
        page_bytes: u64,
        capacity: u64,
        asked: (Option<u64>, Option<u64>),
        now: (Option<u64>, Option<u64>),
    ) -> Result<PipeShape, OutOfRange> {
        let plain = PipeShape::new(page_bytes, capacity, asked.0, None)?;
        let segments = (plain.0.capacity_bytes >> MOST_SHIFT).max(LEAST_SEGMENT_BYTES)
            ..=plain.0.capacity_bytes;
        let segment = asked.0.or(now.0.filter(|bytes| segments.contains(bytes)));
        let plain = PipeShape::new(page_bytes, capacity, segment, None)?;
        let atomic = asked.1.or(now.1.filter(|bytes| (1..=plain.0.capacity_bytes).contains(bytes)));
        PipeShape::new(page_bytes, capacity, segment, atomic)
    }

    /// Returns the sizes.
    pub fn sizes(&self) -> Sizes {
        self.0
    }

    /// Returns the bytes that the pipe holds.
    pub fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes
    }

    /// Returns the bytes after which a longer write is published.
    pub fn segment_bytes(&self) -> u64 {
        self.0.segment_bytes
    }

    /// Returns the bytes of the longest write that appears whole.
    pub fn atomic_bytes(&self) -> u64 {
        self.0.atomic_bytes
    }

    /// Returns how much of a write to copy and publish now: 0 if there is too little room.
    ///
    /// `left` bytes of a write of `whole` remain, and `room` bytes are free.
    pub fn step_bytes(&self, whole: u64, left: u64, room: u64) -> u64 {
        if whole <= self.0.atomic_bytes {
            return if room >= left { left } else { 0 };
        }
        left.min(room).min(self.0.segment_bytes)
    }

    /// Returns how much of a read of `left` bytes to take before their room is given back: a segment,
    /// so that a writer continues while a long read copies.
    pub fn read_step_bytes(&self, left: u64) -> u64 {
        left.min(self.0.segment_bytes)
    }

    /// Returns the room that a writer without room waits for, with `left` of `whole` bytes to write.
    pub fn wanted_bytes(&self, whole: u64, left: u64) -> u64 {
        if whole <= self.0.atomic_bytes { left.max(1) } else { 1 }
    }

    /// Whether the reader wakes a sleeping writer that wants `wanted` bytes of room.
    ///
    /// It waits for a segment even if less is wanted, so that the two do not take turns over every
    /// small chunk, and for what is wanted if that is more.
    pub fn wakes_writer(&self, room: u64, wanted: u64) -> bool {
        room >= self.0.segment_bytes.max(wanted).min(self.0.capacity_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(capacity: u64) -> PipeShape {
        PipeShape::new(4096, capacity, None, None).expect("in range")
    }

    #[test]
    fn sizes_are_rounded_up_and_follow_from_the_capacity() {
        let made = shape(100_000);
        assert_eq!(
            (made.capacity_bytes(), made.segment_bytes(), made.atomic_bytes()),
            (131_072, 16_384, 4096)
        );
        let small = shape(1);
        assert_eq!(
            (small.capacity_bytes(), small.segment_bytes(), small.atomic_bytes()),
            (4096, 4096, 4096)
        );
    }

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let refused = |c, s, a| PipeShape::new(4096, c, s, a).expect_err("refused");
        assert_eq!((refused(0, None, None).what, refused(0, None, None).least), ("capacity", 1));
        assert_eq!(refused(MOST_BYTES + 1, None, None).most, MOST_BYTES);
        let segment = refused(1 << 20, Some(1 << 21), None);
        assert_eq!((segment.what, segment.least, segment.most), ("segment", 4096, 1 << 20));
        let atomic = refused(16_384, Some(8192), Some(16_385));
        assert_eq!((atomic.what, atomic.asked, atomic.most), ("atomic bound", 16_385, 16_384));
    }

    #[test]
    fn what_was_not_asked_for_gives_way_to_another_capacity() {
        let sizes = |capacity, asked, now| {
            let shape = PipeShape::fitted(4096, capacity, asked, now).expect("in range");
            (shape.segment_bytes(), shape.atomic_bytes())
        };
        let now = (Some(8192), Some(1000));
        assert_eq!(sizes(65_536, (None, None), now), (8192, 1000), "it fits");
        assert_eq!(
            sizes(4 << 20, (None, None), now),
            (512 << 10, 1000),
            "the segment is too small"
        );
        assert_eq!(sizes(MOST_BYTES, (None, None), now), (128 << 20, 1000));
        assert_eq!(sizes(4096, (None, None), now), (4096, 1000), "the segment is too large");
        assert_eq!(sizes(4096, (None, None), (None, Some(5000))), (4096, 4096), "so is the bound");
        assert_eq!(sizes(65_536, (Some(512), None), now), (512, 1000));
        assert_eq!(sizes(65_536, (None, Some(9)), now), (8192, 9));
        assert_eq!(sizes(65_536, (None, None), (None, Some(0))), (8192, 4096));
        let asked = (Some(8192), None);
        let refused =
            PipeShape::fitted(4096, 4 << 20, asked, now).expect_err("asked for, and no fit");
        assert_eq!((refused.what, refused.least), ("segment", 16_384));
    }

    /// Franke kept PIPE_BUF at 4 kB for pipes of 4 to 32 kB; his segments were as large or larger.
    #[test]
    fn the_atomic_bound_is_4096_at_any_capacity() {
        for capacity in [1, 4096, 8192, 16_384, 32_768, 1 << 20, MOST_BYTES] {
            assert_eq!(shape(capacity).atomic_bytes(), 4096, "{capacity}");
        }
        let small = shape(4096);
        assert_eq!(
            (small.step_bytes(4096, 4096, 4095), small.step_bytes(4096, 4096, 4096)),
            (0, 4096)
        );
        assert!(!small.wakes_writer(4095, 4096) && small.wakes_writer(4096, 4096));
    }

    #[test]
    fn a_long_read_gives_room_back_by_segments() {
        let made = shape(65_536);
        assert_eq!(
            [1, 8192, 8193, 65_536].map(|left| made.read_step_bytes(left)),
            [1, 8192, 8192, 8192]
        );
    }

    #[test]
    fn a_short_write_is_whole_and_a_long_one_goes_by_segments() {
        let made = shape(65_536);
        assert_eq!(made.step_bytes(4096, 4096, 4095), 0);
        assert_eq!(made.step_bytes(4096, 4096, 4096), 4096);
        assert_eq!(made.step_bytes(20_000, 20_000, 65_536), 8192);
        assert_eq!(made.step_bytes(20_000, 20_000, 100), 100);
        assert_eq!((made.wanted_bytes(4096, 4096), made.wanted_bytes(5000, 5000)), (4096, 1));
    }

    #[test]
    fn a_writer_is_woken_by_a_segment_of_room() {
        let made = shape(65_536);
        assert!(!made.wakes_writer(8191, 1));
        assert!(made.wakes_writer(8192, 1));
        assert!(!made.wakes_writer(8192, 30_000), "a record needs its whole room");
        assert!(made.wakes_writer(65_536, 70_000), "never more than there can be");
    }
}
