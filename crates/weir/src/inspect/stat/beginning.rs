//! The header of a memory that others may change at any time. It is copied once, and not mapped.

use crate::memory::FirstWords;
use rustix::fd::OwnedFd;
use std::mem::offset_of;
use weir_ring::board::{self, Board};

/// Copies a header of type `T`, if the file holds all of it and it begins with these numbers: offset
/// and value of its magic number, offset and value of its version.
pub fn copy_of<T>(
    file: &OwnedFd,
    (magic_at, magic): (usize, u64),
    (version_at, version): (usize, u32),
) -> Option<FirstWords> {
    let copy = FirstWords::of(file, size_of::<T>()).ok()??;
    (copy.u64(magic_at) == magic && copy.u32(version_at) == version).then_some(copy)
}

/// Copies the board of a port or an owner of an mpx.
pub fn copy_of_board(file: &OwnedFd) -> Option<FirstWords> {
    let magic = (offset_of!(Board, magic), board::MAGIC);
    copy_of::<Board>(file, magic, (offset_of!(Board, version), board::VERSION))
}
