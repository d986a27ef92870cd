//! The rings: one writer, one reader and positions that only grow, in memory that both can write.
//!
//! - [`layout`] is what is in a pipe's memory, [`cluster`] what is in the memory of flags, and
//!   [`board`] what many rings with one reader share.
//! - [`stream`], [`record`] and [`lane`] are the kinds of ring.
//! - [`sleep`] is the protocol by which an end falls asleep and misses no wake-up. [`inbox`] and
//!   [`notify`] bring news that is in no ring to other threads of a process.
//!
//! `docs/layout.md` draws these bytes, and proves that no wake-up is lost.
//!
//! Nothing here waits or calls the kernel. The rings are written against [`RingMemory`]: a mapping, a
//! heap (tests and miri), or a model (loom).
//!
//! A peer is hostile. The rings load each word of the memory once, check it, and then use it.

#![forbid(unsafe_code)]
// This crate is the place for what clippy disallows elsewhere.
#![allow(clippy::disallowed_methods)]

pub mod account;
pub mod board;
pub mod cluster;
pub mod inbox;
pub mod lane;
pub mod layout;
pub mod notify;
pub mod paging;
pub mod primitive;
pub mod record;
pub mod sleep;
pub mod stream;

#[cfg(any(test, loom, feature = "heap"))]
pub mod heap;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, loom))]
mod model_lane;
#[cfg(all(test, loom))]
mod model_notify;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::primitive::AtomicU32;
use layout::PipeHeader;

/// Bytes of a cache line.
const LINE_BYTES: u64 = 64;

/// A part of a memory, beside the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The ring proper.
    Ring,
    /// Where large records lie.
    Arena,
}

/// The memory of a pipe. A place in an area is a position, which grows without end: the memory takes
/// the remainder by the size of the area. What reaches beyond the end of an area continues at its
/// beginning. No length is more than an area's.
///
/// Copies and `zero` are plain accesses: if two threads reach the same bytes at once and
/// one of them stores, that is a data race. So an end calls them for its own bytes only. The
/// writer's bytes begin at its position and are those that the reader has given back, except the
/// word at its position, which the reader may load. The reader's bytes begin at its position and
/// are those that the writer has published, and those that it has not given back. Each side learns
/// of the other's bytes by an Acquire load that pairs with the Release store after the last access.
/// Only the rings of this crate, and views of one record of theirs, call these methods.
pub trait RingMemory {
    /// The words that both ends use.
    fn header(&self) -> &PipeHeader;
    /// Bytes of an area, a power of two.
    fn bytes(&self, area: Area) -> u64;
    /// Whether a record begins with two words.
    #[inline]
    fn has_headers(&self) -> bool {
        false
    }
    /// A word of the ring, at a multiple of 4.
    fn word(&self, at: u64) -> &AtomicU32;
    /// Copies into an area.
    fn copy_in(&self, area: Area, at: u64, from: &[u8]);
    /// Copies out of an area.
    fn copy_out(&self, area: Area, at: u64, to: &mut [u8]);
    /// Sets a part of the ring to zeros; both numbers are multiples of 4.
    fn zero(&self, at: u64, bytes: usize);
}

/// Names what is invalid in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

/// Checks the position that the other end alleges: not beyond `own`, and at most `capacity` behind.
#[inline]
fn check_behind(own: u64, alleged: u64, capacity: u64, what: &'static str) -> Result<u64, Corrupt> {
    if own.wrapping_sub(alleged) <= capacity { Ok(alleged) } else { Err(Corrupt(what)) }
}
