//! What lies at the beginning of the memory of a link.
//!
//! Page 0 is the header, pages 1 and 2 are two boards: what has come for the owner, and for the
//! peer. Then come two lanes of 256 bytes for each channel, and two arenas, the peer's first.

use super::Side;
use crate::account::ParticipantLine;
use crate::primitive::{AtomicU32, AtomicU64};

/// "weirlink" as a little-endian number.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weirlink");
/// Of this layout. Another is refused.
pub const VERSION: u32 = 2;

/// Written when the memory is made and read once when it is opened.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct LinkFixed {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: AtomicU32,
    /// Channels there are lanes for.
    pub channels: AtomicU32,
    /// Bytes of each of the two arenas.
    pub arena_bytes: AtomicU32,
}

/// What concerns one side.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct SideLine {
    /// 1 once the side has closed the link.
    pub closed: AtomicU32,
    /// Whether the side, which has other links too, looks at the board of this one: see
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
    /// The line of a side.
    pub fn side(&self, side: Side) -> &SideLine {
        if side == Side::Owner { &self.owner } else { &self.peer }
    }
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LinkHeader>() == 384 + 256);
