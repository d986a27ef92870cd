//! What lies at the beginning of the memory of a link, and on the page of an owner.
//!
//! Page 0 is the header, pages 1 and 2 are two boards: what has come for the owner, and for the
//! peer. Then come two lanes of 256 bytes for each channel, and two arenas, the peer's first.

use super::Side;
use crate::board::Board;
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
    pub account: AccountLine,
}

impl LinkHeader {
    /// The line of a side.
    pub fn side(&self, side: Side) -> &SideLine {
        if side == Side::Owner { &self.owner } else { &self.peer }
    }
}

/// "weir-mpx" as a little-endian number.
pub const OWNER_MAGIC: u64 = u64::from_le_bytes(*b"weir-mpx");
/// Of the layout of [`OwnerPage`].
pub const OWNER_VERSION: u32 = 1;

/// The page of an owner, which its peers map too.
#[repr(C)]
#[derive(Debug, Default)]
pub struct OwnerPage {
    /// The links of which something has come; it begins with [`OWNER_MAGIC`].
    pub board: Board,
    /// What the owner counts.
    pub account: AccountLine,
}

/// What an owner or a peer counts; written by it alone, read by anyone.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct AccountLine {
    /// The process it is in.
    pub pid: AtomicU32,
    /// Bytes of all the arenas it disposes of: as many as the other sides chose to allow.
    pub arena_bytes: AtomicU64,
    /// Of these, bytes of blocks that lanes have.
    pub arena_used: AtomicU64,
    /// Peers that are connected.
    pub peers: AtomicU64,
    /// Channels that have a place in the table: also those that are being opened or closed.
    pub channels: AtomicU64,
    /// Records received or moved: data, marks and numbers.
    pub records_in: AtomicU64,
    /// Bytes of data in these.
    pub bytes_in: AtomicU64,
    /// Records sent or moved.
    pub records_out: AtomicU64,
    /// Bytes of data in these.
    pub bytes_out: AtomicU64,
    /// Sends that were not taken whole.
    pub blocked: AtomicU64,
    /// Times a call found nothing and waited.
    pub waits: AtomicU64,
    /// Of these, ended by spinning.
    pub spun: AtomicU64,
    /// Times asleep.
    pub slept: AtomicU64,
    /// Time asleep.
    pub slept_ns: AtomicU64,
    /// Wake-ups given.
    pub wakes_given: AtomicU64,
    /// Wake-ups taken.
    pub wakes_taken: AtomicU64,
    /// The inode of the mpx's socket, by which its participants belong together.
    pub socket_inode: AtomicU64,
    /// And its device.
    pub socket_device: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<LinkHeader>() == 384 + 256 && size_of::<OwnerPage>() <= 4096);
