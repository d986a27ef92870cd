//! A lane: one direction of a channel, a ring of frames that its writer can move to other memory.
//!
//! A frame is `length u16 | kind u8 | flags u8`, its bytes, and padding to a multiple of 4.
//! Positions only grow, as in a stream. The ring is 128 bytes beside the positions, or a block of
//! the writer's arena. The writer moves it only while it is empty, so all unread bytes are in one
//! place, and the writer stores that place before it publishes them.
//!
//! In the order of flow: [`LaneWriter::put`], [`LaneWriter::publish`], [`must_notify`] and a bit on
//! the reader's board; [`LaneReader::next_frame`], [`LaneReader::take`], [`LaneReader::give_back`],
//! [`stop_polling`], after which the reader looks once more.

use super::Corrupt;

mod attention;
#[cfg(any(test, loom, feature = "heap"))]
pub mod heap;
pub mod link;
mod memory;
mod reader;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;

pub use attention::{
    AWAY, POLLING, POLLING_WITH_BARRIER, attention_to, fence_before_last_poll,
    is_looking_with_barrier, must_notify, start_polling, stop_polling,
};
pub use memory::{
    LaneId, LaneMemory, LanePlace, LaneRing, LaneWords, LinkSide, ReaderLine, RingRange, WriterLine,
};
pub use reader::LaneReader;
pub use writer::LaneWriter;

/// Bytes of the ring beside the positions.
pub const INLINE_BYTES: usize = if cfg!(loom) { 16 } else { 128 };
/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 4;
/// Room that is kept for the one frame that ends a channel, so that it always fits.
const RESERVED_BYTES: usize = HEAD_BYTES;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// A channel begins; the bytes are its label.
    Open = 1,
    /// The channel is accepted.
    Accept = 2,
    /// The channel is refused, which ends it; the bytes are the reason.
    Refuse = 3,
    /// Bytes of the user.
    Data = 4,
    /// A mark of the user.
    End = 5,
    /// A number of the user.
    Signal = 6,
    /// The channel ends.
    Close = 7,
}

impl FrameKind {
    /// Whether such a frame is a record of the user.
    #[inline]
    pub fn is_record(self) -> bool {
        matches!(self, FrameKind::Data | FrameKind::End | FrameKind::Signal)
    }

    #[inline]
    fn from_byte(byte: u8) -> Result<FrameKind, Corrupt> {
        Ok(match byte {
            1 => FrameKind::Open,
            2 => FrameKind::Accept,
            3 => FrameKind::Refuse,
            4 => FrameKind::Data,
            5 => FrameKind::End,
            6 => FrameKind::Signal,
            7 => FrameKind::Close,
            _ => return Err(Corrupt("the kind of a frame")),
        })
    }
}

/// The flag of a frame that the next one continues.
const MORE: u8 = 1;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFrame {
    /// Its kind.
    pub kind: FrameKind,
    /// Whether the next frame continues it.
    pub more: bool,
    /// Bytes of it that have not been taken.
    pub left: usize,
}

/// What was taken of a frame of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataTaken {
    /// Whether it ends the frame.
    pub is_rest: bool,
    /// Whether what comes next continues it.
    pub more: bool,
}

/// Returns the bytes of a ring that a frame of `bytes` takes.
#[inline]
pub fn footprint(bytes: usize) -> usize {
    (HEAD_BYTES + 3 + bytes) & !3
}

/// Returns the bytes of a ring that would hold a frame of `bytes`, if the ring were empty.
#[inline]
pub fn needed(bytes: usize) -> usize {
    footprint(bytes) + RESERVED_BYTES
}

/// Returns the most bytes that a ring may hold when its writer is notified of room: half of a
/// block. The small ring must be empty, so that it can be moved to a larger place.
#[inline]
fn roomy_fill(place: LanePlace) -> u64 {
    if place.as_block().is_some() { place.bytes() as u64 / 2 } else { 0 }
}
