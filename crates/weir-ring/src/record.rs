//! A ring of records. A record is there once the word at its place is not zero. That word is its
//! length and its commit at once, so a small record moves one line between the CPUs.
//!
//! The memory begins as zeros. The reader sets what it has read to zeros again before it gives the
//! room back, so the word at the next place is zero until it is committed. The reader gives room
//! back when an eighth of the ring has gathered, the writer waits for it, or the reader rests.
//!
//! Messages of ports have a second word that says what they are; it is written before the first.
//!
//! Records above [`INLINE_BYTES`] are in the arena, in the order of the ring; their word says so.

mod reader;
mod sizes;
mod writer;

use crate::LINE_BYTES;

pub use reader::{NextRecord, RecordRingReader};
#[cfg(any(test, loom))]
pub use sizes::footprint;
pub use writer::RecordRingWriter;

/// Longest record that is in the ring itself.
pub const INLINE_BYTES: usize = 1024;
/// Bytes before a record: the word.
const WORD_BYTES: u64 = 4;
/// Bytes before a message of a port: the word, and a second that says what the message is.
const HEADER_BYTES: u64 = 8;
const COMMITTED: u32 = 1 << 31;
const IN_ARENA: u32 = 1 << 30;
/// The bits of a record's length. In the arena, where no record is empty, 0 stands for the length of
/// one more bit: that of the longest arena.
const LENGTH: u32 = IN_ARENA - 1;
