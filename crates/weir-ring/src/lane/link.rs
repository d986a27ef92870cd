//! The header of a link's memory.
//!
//! Page 0 is the header. Pages 1 and 2 are two boards: what has come for the owner, and for the
//! peer. Two lanes of 256 bytes for each channel follow, and two arenas, the peer's first.

use super::LinkSide;
use crate::account::ParticipantLine;
use crate::primitive::{AtomicU32, AtomicU64};

/// "weirlink" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirlink");
/// The version of this layout; memory of another version is refused.
pub const VERSION: u32 = 1;
/// The name of its files in /proc.
pub const FILE: &str = "weir-link";

/// What the creator of the memory writes, and a side reads once when it opens.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct LinkFixed {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Channels that have lanes.
    pub channels: AtomicU32,
    /// Bytes of each of the two arenas.
    pub arena_bytes: AtomicU32,
}

/// What one side stores.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct SideLine {
    /// 1 once this side has closed the link.
    pub closed: AtomicU32,
    /// Whether this side, which has other links too, looks at the board of this one: see
    /// [`super::must_notify`].
    pub attention: AtomicU32,
}

/// The beginning of the memory of a link.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LinkHeader {
    /// Sizes.
    pub fixed: LinkFixed,
    owner: SideLine,
    peer: SideLine,
    /// What the peer counts.
    pub account: ParticipantLine,
}

impl LinkHeader {
    /// Returns the line of a side.
    pub fn side(&self, side: LinkSide) -> &SideLine {
        if side == LinkSide::Owner { &self.owner } else { &self.peer }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LinkHeader>() == 384 + 256);
