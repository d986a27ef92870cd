//! Memory files: how they are made, and how those that other processes made are checked.
//!
//! The kernel charges a page to the memory cgroup of the process that first touches it. So a file
//! from another process must have all its pages when it is used, and must keep them: otherwise its
//! receiver would make the missing ones at its own cost.
//!
//! The maker allocates all blocks of a file (fallocate). The receiver first cuts off blocks behind
//! the end, then asks the kernel for the number of blocks. Only a seal can promise that the blocks
//! stay: once a file is sealed against new writers, nobody can punch holes into it, by fallocate or
//! by madvise, and nobody can map it for writing. The receiver adds that seal after both sides have
//! mapped the file, and only where no side hands its end on: to the rings of ports, and to links.

#[cfg(not(miri))]
use super::mapping::MapAccess;
use super::mapping::{Mapping, page_bytes};
use crate::error::{Error, ErrorKind, Result, Text};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use weir_sys::forks::ParentOnly;
use weir_sys::{TMPFS_MAGIC, may_reach};

/// The seals of every memory file: it cannot be cut off under a mapping.
pub const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// The additional seals of [`Use::ForGood`]: no holes, no further writers.
const FOR_GOOD: SealFlags = SealFlags::FUTURE_WRITE.union(SealFlags::SEAL);
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

/// Whether other processes may map a memory later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its ends may be handed on, and whoever gets one maps it.
    Movable,
    /// Both sides have mapped it, and nobody else will.
    ForGood,
}

/// The number of an error of the kernel.
pub fn errno_of(cause: &std::io::Error) -> Errno {
    Errno::from_io_error(cause).unwrap_or(Errno::IO)
}

/// The longest part that is allocated in one call.
const STEP_BYTES: u64 = 4 << 20;

/// Allocates all blocks of a part of a file. A signal ends a call of the kernel, which then gives back
/// all that this call has allocated. So the steps after that are shorter.
pub fn allocate(file: BorrowedFd, at: u64, bytes: u64) -> rustix::io::Result<()> {
    let (mut at, end, mut most) = (at, at + bytes, STEP_BYTES);
    while at < end {
        let step = most.min(end - at);
        match rustix::fs::fallocate(file, FallocateFlags::empty(), at, step) {
            Ok(()) => at += step,
            Err(Errno::INTR) => most = (most / 2).max(page_bytes()),
            Err(cause) => return Err(cause),
        }
    }
    Ok(())
}

/// Makes a memory file without blocks.
pub fn make_empty(name: &str, bytes: u64, flags: MemfdFlags) -> rustix::io::Result<ParentOnly> {
    let flags = flags | MemfdFlags::CLOEXEC;
    // Kernels before 6.3 do not know NOEXEC_SEAL.
    let make = || {
        rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(name, flags))
            .map_err(std::io::Error::from)
    };
    let made = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
    if !may_reach(bytes) {
        return Err(Errno::FBIG);
    }
    rustix::fs::ftruncate(made.here()?, bytes)?;
    Ok(made)
}

/// Maps zeros that only this process has, and that are allocated as they are touched.
#[cfg(not(miri))]
pub(super) fn map_private(name: &str, bytes: usize) -> rustix::io::Result<Mapping> {
    let made = make_empty(name, bytes as u64, MemfdFlags::empty())?;
    Mapping::of_file(made.here()?, bytes, MapAccess::Own)
}

#[cfg(miri)]
pub(super) fn map_private(_: &str, bytes: usize) -> rustix::io::Result<Mapping> {
    Mapping::of_zeros(bytes)
}

/// A memory file whose length cannot change.
#[derive(Debug)]
pub struct SealedMemory<'a> {
    file: BorrowedFd<'a>,
    bytes: u64,
}

impl<'a> SealedMemory<'a> {
    /// Makes a file with all its blocks, and seals it.
    pub fn make(name: &str, bytes: u64, seals: SealFlags) -> rustix::io::Result<ParentOnly> {
        let made = make_empty(name, bytes, MemfdFlags::ALLOW_SEALING)?;
        let file = made.here()?;
        allocate(file, 0, bytes)?;
        rustix::fs::fcntl_add_seals(file, SEALS | seals)?;
        Ok(made)
    }

    /// Checks that a file from another process is sealed memory of at least a page.
    pub fn received(file: BorrowedFd<'a>) -> Result<SealedMemory<'a>> {
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|_| refused("it is not a file that can be sealed"))?;
        if !seals.contains(SEALS) {
            return Err(refused("it is not sealed"));
        }
        // Memory of huge pages is on another file system.
        let kind = rustix::fs::fstatfs(file).map_err(failed)?;
        if kind.f_type as u64 != TMPFS_MAGIC {
            return Err(refused("it is not made of ordinary pages"));
        }
        match u64::try_from(rustix::fs::fstat(file).map_err(failed)?.st_size) {
            Ok(bytes) if bytes >= page_bytes() => Ok(SealedMemory { file, bytes }),
            _ => Err(refused("it is too short")),
        }
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies its first words. They are read, not mapped: a missing page then reads as zeros, and
    /// is not made.
    pub fn beginning(&self) -> Result<FirstWords> {
        let words = FirstWords::of(self.file, BEGINNING_BYTES).map_err(failed)?;
        words.ok_or_else(|| refused("it is too short"))
    }

    /// Checks that all its pages are there, after it was mapped and before it is touched. With
    /// [`Use::ForGood`] it keeps them.
    ///
    /// If the machine's owner has turned on huge pages for shared memory, one that reaches beyond
    /// the end may hide that up to 2 MiB are missing.
    pub fn check_whole(&self, how: Use) -> Result<()> {
        let (file, bytes) = (self.file, self.bytes);
        if how == Use::ForGood {
            rustix::fs::fcntl_add_seals(file, FOR_GOOD)
                .map_err(|_| refused("it cannot be sealed, or was handed over before"))?;
        }
        // Blocks behind the end, from before it was sealed, would be counted too. Cutting the file
        // off where it ends removes them and does not change its length.
        rustix::fs::ftruncate(file, bytes).map_err(failed)?;
        let blocks = rustix::fs::fstat(file).map_err(failed)?.st_blocks;
        let there = u64::try_from(blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES);
        if there < bytes {
            let why = format!("{there} of its {bytes} bytes are allocated, the rest are holes");
            return Err(refused(why));
        }
        Ok(())
    }
}

fn failed(cause: Errno) -> Error {
    Error::os("use", "the memory received", cause)
}

/// The error of memory that another process sent, and that is not what it should be.
pub fn refused(why: impl Into<Text>) -> Error {
    Error::new(ErrorKind::Corrupt, "use", "the memory received", why)
}

/// A private copy of the first words of a file, which others may change at any time.
pub struct FirstWords(Vec<u8>);

/// The words that are written when a memory is made are within these bytes.
const BEGINNING_BYTES: usize = 128;

impl FirstWords {
    /// Copies so many bytes; `None` if the file has fewer.
    pub fn of(file: impl AsFd, bytes: usize) -> rustix::io::Result<Option<FirstWords>> {
        let mut copy = vec![0; bytes];
        let count = rustix::io::pread(file, &mut copy, 0)?;
        Ok((count == bytes).then_some(FirstWords(copy)))
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}
