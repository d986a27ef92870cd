//! Memory files: how they are made, and what is checked of one that came from elsewhere.
//!
//! Memory is paid for by the memory cgroup of who first touches a page. So a file that came from
//! elsewhere must have all its pages when it is used, and must keep them: else its receiver would
//! make those that are missing, at its own cost.
//!
//! A file has its blocks from the start (fallocate, by its maker). That they are all there is asked
//! of the kernel by their number, after those that lie behind the end were taken off. That they
//! stay there only a seal can promise: once a file is sealed against new writers nobody can punch
//! holes into it, by fallocate or by madvise, and nobody can map it to write any more. So it is
//! given by the receiver, after both sides have mapped the file, and only where no side hands its
//! end on: to the rings of ports, and to links.

#[cfg(not(miri))]
use super::mapping::Access;
use super::mapping::{Mapping, page_bytes};
use crate::error::{Error, ErrorKind, Result, Text};
use rustix::fd::BorrowedFd;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use weir_sys::TMPFS_MAGIC;
use weir_sys::forks::ParentOnly;

/// What every memory file is sealed with by its maker: it cannot be cut off under a mapping.
pub(super) const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);
/// What one gets in addition that is used as it is from then on: no holes, no further writers.
const FOR_GOOD: SealFlags = SealFlags::FUTURE_WRITE.union(SealFlags::SEAL);
/// Bytes that `st_blocks` counts by.
const BLOCK_BYTES: u64 = 512;

/// Whether a memory may be mapped by others later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Its ends may be handed on: whoever gets one maps it.
    Movable,
    /// Both sides have mapped it, and nobody else will.
    ForGood,
}

/// As the number it began as.
pub fn errno_of(cause: &std::io::Error) -> Errno {
    Errno::from_io_error(cause).unwrap_or(Errno::IO)
}

/// Makes a memory file of so many bytes.
fn make_empty(name: &str, bytes: u64, flags: MemfdFlags) -> rustix::io::Result<ParentOnly> {
    let flags = flags | MemfdFlags::CLOEXEC;
    // Kernels before 6.3 do not know the flag.
    let make = || {
        rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL)
            .or_else(|_| rustix::fs::memfd_create(name, flags))
            .map_err(std::io::Error::from)
    };
    let made = ParentOnly::make(make).map_err(|cause| errno_of(&cause))?;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    if limit.is_some_and(|limit| bytes > limit) {
        // The kernel would send SIGXFSZ.
        return Err(Errno::FBIG);
    }
    rustix::fs::ftruncate(made.here()?, bytes)?;
    Ok(made)
}

/// Maps zeros that only this process has, and of which nothing is allocated yet. The mapping alone
/// keeps their file.
#[cfg(not(miri))]
pub(super) fn map_private(name: &str, bytes: usize) -> rustix::io::Result<Mapping> {
    let made = make_empty(name, bytes as u64, MemfdFlags::empty())?;
    Mapping::of_file(made.here()?, bytes, Access::Own)
}

/// Zeros on the heap.
#[cfg(miri)]
pub(super) fn map_private(_: &str, bytes: usize) -> rustix::io::Result<Mapping> {
    Mapping::of_zeros(bytes)
}

/// A memory file whose length cannot change.
#[derive(Debug)]
pub(super) struct SealedMemory<'a> {
    file: BorrowedFd<'a>,
    bytes: u64,
}

impl<'a> SealedMemory<'a> {
    /// Makes a file of so many bytes, all of them there, and seals it.
    pub(super) fn make(name: &str, bytes: u64, seals: SealFlags) -> rustix::io::Result<ParentOnly> {
        let made = make_empty(name, bytes, MemfdFlags::ALLOW_SEALING)?;
        let file = made.here()?;
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)?;
        rustix::fs::fcntl_add_seals(file, SEALS | seals)?;
        Ok(made)
    }

    /// Takes a file that came from elsewhere, if it is sealed memory of a page at least.
    pub(super) fn received(file: BorrowedFd<'a>) -> Result<SealedMemory<'a>> {
        let seals = rustix::fs::fcntl_get_seals(file)
            .map_err(|_| refused("it is no file that can be sealed"))?;
        if !seals.contains(SEALS) {
            return Err(refused("it is not sealed"));
        }
        // That of huge pages is another.
        let kind = rustix::fs::fstatfs(file).map_err(failed)?;
        if kind.f_type as u64 != TMPFS_MAGIC {
            return Err(refused("it is not made of ordinary pages"));
        }
        match u64::try_from(rustix::fs::fstat(file).map_err(failed)?.st_size) {
            Ok(bytes) if bytes >= page_bytes() => Ok(SealedMemory { file, bytes }),
            _ => Err(refused("it is too short")),
        }
    }

    /// How long it is.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A copy of its first words. It is read and not mapped: a page that is missing reads as zeros
    /// then, and is made by nobody.
    pub(super) fn beginning(&self) -> Result<Beginning> {
        let mut bytes = [0; BEGINNING_BYTES];
        let count = rustix::io::pread(self.file, &mut bytes, 0).map_err(failed)?;
        if count == bytes.len() { Ok(Beginning(bytes)) } else { Err(refused("it is too short")) }
    }

    /// Checks that all its pages are there, after it was mapped and before it is touched. One that
    /// is used for good keeps them.
    ///
    /// Where huge pages are in use for shared memory (which they are not unless the machine's owner
    /// wants it), one that reaches beyond the end may hide that up to 2 MiB are missing.
    pub(super) fn check_whole(&self, how: Use) -> Result<()> {
        let (file, bytes) = (self.file, self.bytes);
        if how == Use::ForGood {
            rustix::fs::fcntl_add_seals(file, FOR_GOOD)
                .map_err(|_| refused("it cannot be sealed, or was handed over before"))?;
        }
        // Blocks behind the end would be counted, too. They can be there only from before it was
        // sealed; to cut the file off where it ends is no change of its length.
        rustix::fs::ftruncate(file, bytes).map_err(failed)?;
        let blocks = rustix::fs::fstat(file).map_err(failed)?.st_blocks;
        let there = u64::try_from(blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES);
        if there < bytes {
            let why = format!("{there} of its {bytes} bytes are there, the rest are holes");
            return Err(refused(why));
        }
        Ok(())
    }
}

fn failed(cause: Errno) -> Error {
    Error::os("use", "the memory received", cause)
}

pub(super) fn refused(why: impl Into<Text>) -> Error {
    Error::new(ErrorKind::Corrupt, "use", "the memory received", why)
}

/// A copy of the first words of a file.
pub(super) struct Beginning([u8; BEGINNING_BYTES]);

/// What is written when a memory is made lies within.
const BEGINNING_BYTES: usize = 128;

impl Beginning {
    /// The word at a place.
    pub(super) fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    /// The long word at a place.
    pub(super) fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}
