//! A copy of the beginning of a memory that others may change at any time: nothing of it is mapped,
//! and what is looked at is read once.

use rustix::fd::OwnedFd;

/// The copy.
pub struct Beginning(Vec<u8>);

impl Beginning {
    /// Of so many bytes; none where there are not so many, or they cannot be read.
    pub fn of(file: &OwnedFd, bytes: usize) -> Option<Beginning> {
        let mut copy = vec![0; bytes];
        let count = rustix::io::pread(file, &mut copy, 0).ok()?;
        (count == bytes).then_some(Beginning(copy))
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }

    pub fn u64(&self, at: usize) -> u64 {
        u64::from_ne_bytes(std::array::from_fn(|byte| self.0[at + byte]))
    }
}
