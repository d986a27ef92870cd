//! The header of a pipe's memory. Lines that different ends write are 128 bytes apart, because some
//! CPUs fetch lines in pairs.

use crate::primitive::{AtomicU32, AtomicU64};

/// "weirpipe" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirpipe");
/// The version of this layout; memory of another version is refused.
pub const VERSION: u32 = 1;
/// [`Fixed::kind`] of a stream.
pub const STREAM: u32 = 1;
/// [`Fixed::kind`] of a record pipe.
pub const RECORD: u32 = 2;
/// [`Fixed::kind`] of a ring of a port, whose records have headers.
pub const MESSAGE: u32 = 3;

/// [`SleepLine::drain`]: only the reader drains the ring.
pub const NO_DRAIN: u32 = 0;
/// [`SleepLine::drain`]: somebody else drains the ring once it is full.
pub const DRAIN_AWAKE: u32 = 1;
/// [`SleepLine::drain`]: somebody else does, and must be woken when the ring is full.
pub const DRAIN_ASLEEP: u32 = 2;

/// What the creator of the memory writes, and an end reads once when it opens.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Fixed {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// [`STREAM`], [`RECORD`] or [`MESSAGE`].
    pub kind: AtomicU32,
    /// Bytes of the ring.
    pub ring_bytes: AtomicU64,
    /// Bytes of the arena; 0 for a stream.
    pub arena_bytes: AtomicU64,
    /// How often the pipe has been given a new memory.
    pub generation: AtomicU64,
}

/// What one end writes.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct EndLine {
    /// Bytes of the ring written and published, or read and given back.
    pub position: AtomicU64,
    /// Bytes of the arena written and published, or read and given back.
    pub arena: AtomicU64,
    /// In the writer's line: the generation of the memory that follows this one; 0 for none.
    pub moved: AtomicU64,
}

/// How an end sleeps: see [`super::sleep`].
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct SleepLine {
    /// The futex: [`super::sleep::ASLEEP`], [`super::sleep::POLLING`].
    pub word: AtomicU32,
    /// 1 once the end has closed. It is here because the other end looks at this line anyway.
    pub closed: AtomicU32,
    /// 1 while the end passes a barrier on all CPUs before it sleeps, so the other need not fence.
    pub sleeper_fences: AtomicU32,
    /// One more than the CPU it last ran on; 0 until it has said that.
    pub cpu: AtomicU32,
    /// Room of the ring that a sleeping writer wants.
    pub wanted: AtomicU64,
    /// Room of the arena that it wants.
    pub wanted_arena: AtomicU64,
    /// In the reader's line, a futex: [`NO_DRAIN`], [`DRAIN_AWAKE`] or [`DRAIN_ASLEEP`].
    pub drain: AtomicU32,
    /// In the reader's line: why it cannot spill, as the number of the trouble and the error.
    pub trouble: AtomicU64,
}

/// Sizes that somebody outside asks for; the writer applies them.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct TuningLine {
    /// Counts changes.
    pub change: AtomicU32,
    /// Bytes of a segment.
    pub segment_bytes: AtomicU64,
    /// Bytes of the atomic bound.
    pub atomic_bytes: AtomicU64,
    /// Bytes of the capacity.
    pub capacity_bytes: AtomicU64,
    /// The largest capacity that the writer grants; it stores this once it is open.
    pub most_bytes: AtomicU64,
}

/// How an end waited. It alone writes this; anyone may read it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct WaitCounts {
    /// Times there was nothing to do.
    pub waits: AtomicU64,
    /// Waits that ended while the end still spun.
    pub spun: AtomicU64,
    /// Times asleep.
    pub slept: AtomicU64,
    /// Time asleep.
    pub slept_ns: AtomicU64,
    /// Wake-ups given.
    pub wakes_given: AtomicU64,
    /// Wake-ups taken.
    pub wakes_taken: AtomicU64,
}

/// What an end counts. It alone writes this; anyone may read it.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct AccountLine {
    /// Bytes moved.
    pub bytes: AtomicU64,
    /// Records moved, or calls that moved bytes.
    pub records: AtomicU64,
    /// How it waited.
    pub waiting: WaitCounts,
    /// Largest fill of the ring seen.
    pub largest_fill: AtomicU64,
    /// The process the end is in.
    pub pid: AtomicU32,
    /// Counted by an elastic reader: bytes chosen to be spilled.
    pub delayed: AtomicU64,
    /// Delayed bytes that were never written.
    pub cancelled: AtomicU64,
    /// Delayed bytes that were written.
    pub spilled: AtomicU64,
    /// Read back.
    pub read_back: AtomicU64,
    /// Set by a writer to a port: the inode of the port's socket.
    pub port_inode: AtomicU64,
    /// And its device.
    pub port_device: AtomicU64,
}

/// The beginning of a pipe's memory.
#[repr(C)]
#[derive(Debug, Default)]
pub struct PipeHeader {
    /// Sizes.
    pub fixed: Fixed,
    /// The writer's positions.
    pub writer: EndLine,
    /// The reader's positions.
    pub reader: EndLine,
    /// The reader's sleep; written by both.
    pub reader_sleep: SleepLine,
    /// The writer's sleep; written by both.
    pub writer_sleep: SleepLine,
    /// Wishes from outside.
    pub tuning: TuningLine,
    /// The writer's account.
    pub writer_account: AccountLine,
    /// The reader's account.
    pub reader_account: AccountLine,
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Fixed>() == 128 && size_of::<EndLine>() == 128);
    assert!(size_of::<SleepLine>() == 128 && size_of::<TuningLine>() == 128);
    assert!(size_of::<AccountLine>() == 128 && size_of::<PipeHeader>() == 1024);
};
