//! A copy of the beginning of a memory that others may change at any time. It is read once, and not
//! mapped.

use rustix::fd::OwnedFd;
use std::mem::offset_of;
use weir_ring::board::{self, Board};

pub struct HeaderCopy(Vec<u8>);

impl HeaderCopy {
    /// Copies a header of type `T`, if the file holds all of it and it begins with these numbers:
    /// offset and value of its magic number, offset and value of its version.
    pub fn of<T>(
        file: &OwnedFd,
        (magic_at, magic): (usize, u64),
        (version_at, version): (usize, u32),
    ) -> Option<HeaderCopy> {
        let mut copy = vec![0; size_of::<T>()];
        let count = rustix::io::pread(file, &mut copy, 0).ok()?;
        let copy = Some(HeaderCopy(copy)).filter(|copy| count == copy.0.len())?;
        (copy.u64(magic_at) == magic && copy.u32(version_at) == version).then_some(copy)
    }

    /// Copies the board of a port or an owner of an mpx.
    pub fn of_board(file: &OwnedFd) -> Option<HeaderCopy> {
        let magic = (offset_of!(Board, magic), board::MAGIC);
        HeaderCopy::of::<Board>(file, magic, (offset_of!(Board, version), board::VERSION))
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}
