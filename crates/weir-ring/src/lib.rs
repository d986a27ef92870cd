//! The ring: one writer, one reader, free-running positions, in memory both can write.
//!
//! - [`layout`] is what lies in a pipe's memory, [`cluster`] what lies in that of flags, [`board`]
//!   what many rings with one reader share.
//! - [`stream`], [`record`] and [`lane`] are the kinds of ring over it.
//! - [`sleep`] is the protocol by which an end falls asleep without missing what the other does
//!   meanwhile; [`inbox`] and [`notify`] are how one thread of a process tells another what lies in
//!   no ring.
//!
//! `docs/layout.md` draws these bytes, and proves that no wake-up is lost.
//!
//! None of it waits or calls the kernel. [`Memory`] is what the rings are written against: a
//! mapping, a heap (tests, miri), or a model (loom).
//!
//! A peer is hostile: whatever is loaded from the memory is loaded once, checked and then used.

#![forbid(unsafe_code)]
// The rings are here.
#![allow(clippy::disallowed_methods)]

pub mod account;
pub mod board;
pub mod cluster;
pub mod inbox;
pub mod lane;
pub mod layout;
pub mod notify;
pub mod primitive;
pub mod record;
pub mod sleep;
pub mod stream;

#[cfg(any(test, loom, fuzzing))]
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
use layout::Header;

/// Part of a memory beside the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The ring proper.
    Ring,
    /// Where large records lie.
    Arena,
}

/// Memory of a pipe. Offsets lie within an area; lengths are at most an area's, and what reaches
/// beyond its end goes on at its beginning.
///
/// Copies, `zero` and `dirty` are plain: two threads that reach the same bytes at once, one of which
/// stores, are a data race. So an end calls them for its own bytes only. The writer's are those from
/// its position on that the reader has given back, but for the word at its position, which the
/// reader may load; the reader's are those from its position on that the writer has published, and
/// what it has not given back. Each side learns of the other's bytes by an Acquire load that pairs
/// with the Release store after the last access. Nothing but the rings of this crate, and views of
/// one record of theirs, calls these methods.
pub trait Memory {
    /// The words both ends use.
    fn header(&self) -> &Header;
    /// Bytes of an area, a power of two.
    fn bytes(&self, area: Area) -> u64;
    /// Whether records have headers of two words.
    #[inline]
    fn has_headers(&self) -> bool {
        false
    }
    /// A word of the ring, at a multiple of 4.
    fn word(&self, at: usize) -> &AtomicU32;
    /// Copies into an area.
    fn copy_in(&self, area: Area, at: usize, from: &[u8]);
    /// Copies out of an area.
    fn copy_out(&self, area: Area, at: usize, to: &mut [u8]);
    /// Sets part of the ring to zeros; both at multiples of 4.
    fn zero(&self, at: usize, bytes: usize);
    /// Stores into each line of a part, so that the lines are this CPU's.
    fn dirty(&self, area: Area, at: usize, bytes: usize);
}

/// Names what is invalid in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt(pub &'static str);

/// How far the other end has come, from what it alleges: no further than `own`, no more than
/// `capacity` behind.
#[inline]
fn check_behind(own: u64, alleged: u64, capacity: u64, what: &'static str) -> Result<u64, Corrupt> {
    if own.wrapping_sub(alleged) <= capacity { Ok(alleged) } else { Err(Corrupt(what)) }
}
