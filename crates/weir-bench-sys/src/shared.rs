//! Memory for measuring: shared with forked children, or private and page-aligned.

use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64};
use weir_sys::mapping::Mapping;

/// Bytes that travel between CPUs together. Words that two sides write are put this far apart
/// twice over, since some CPUs fetch lines in pairs.
pub const LINE_BYTES: usize = 64;

/// Memory shared with the children forked after it was made. Zeros at first.
#[derive(Debug)]
pub struct Shared {
    mapping: Mapping,
}

impl Shared {
    /// Maps `bytes` of shared memory.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize) -> io::Result<Shared> {
        Ok(Shared { mapping: Mapping::new(bytes, libc::MAP_SHARED)? })
    }

    /// The 64-bit word at the start of line `line`.
    ///
    /// # Panics
    /// When the line is beyond the end.
    pub fn word(&self, line: usize) -> &AtomicU64 {
        assert!((line + 1) * LINE_BYTES <= self.mapping.bytes(), "line {line} is beyond the end");
        // SAFETY: the place is inside of the mapping (asserted) and aligned to a line, lives as
        // long as `self`, and is only ever reached as an atomic or by the copies below.
        unsafe { &*self.mapping.start().wrapping_add(line * LINE_BYTES).cast::<AtomicU64>() }
    }

    /// The 32-bit word at the start of line `line`, as futexes need it.
    ///
    /// # Panics
    /// When the line is beyond the end.
    pub fn half(&self, line: usize) -> &AtomicU32 {
        assert!((line + 1) * LINE_BYTES <= self.mapping.bytes(), "line {line} is beyond the end");
        // SAFETY: as in `word`.
        unsafe { &*self.mapping.start().wrapping_add(line * LINE_BYTES).cast::<AtomicU32>() }
    }

    /// The 64-bit word at byte `at`.
    ///
    /// # Panics
    /// When it is not a multiple of eight, or beyond the end.
    #[inline]
    pub fn word_at(&self, at: usize) -> &AtomicU64 {
        let inside = at.checked_add(8).is_some_and(|end| end <= self.mapping.bytes());
        assert!(inside && at.is_multiple_of(8), "no word at {at}");
        // SAFETY: as in `word`, aligned to eight.
        unsafe { &*self.mapping.start().wrapping_add(at).cast::<AtomicU64>() }
    }

    /// Copies `bytes` in at `at`. The sides hand the range over by an atomic word; without that a
    /// reader may see any mixture.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.mapping.bytes() && bytes.len() <= self.mapping.bytes() - at);
        // SAFETY: the range is inside of the mapping (asserted); no reference to it exists.
        unsafe {
            libc::memcpy(
                self.mapping.start().wrapping_add(at).cast(),
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        };
    }

    /// Copies bytes out from `at`, under the same rule.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.mapping.bytes() && bytes.len() <= self.mapping.bytes() - at);
        // SAFETY: the range is inside of the mapping (asserted); no reference to it exists.
        unsafe {
            libc::memcpy(
                bytes.as_mut_ptr().cast(),
                self.mapping.start().wrapping_add(at).cast(),
                bytes.len(),
            )
        };
    }
}

/// Private memory that begins at a page, as `O_DIRECT` needs it. Zeros at first.
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
}

impl Buffer {
    /// Maps `bytes` of private memory.
    ///
    /// # Errors
    /// Those of mmap(2).
    pub fn new(bytes: usize) -> io::Result<Buffer> {
        Ok(Buffer { mapping: Mapping::new(bytes, libc::MAP_PRIVATE)? })
    }

    /// Keeps huge pages out of it, so that each page faults by itself.
    ///
    /// # Errors
    /// `EINVAL` on a kernel that has none.
    pub fn refuse_huge_pages(&self) -> io::Result<()> {
        self.advise(libc::MADV_NOHUGEPAGE)
    }

    /// Gives all pages back; they are zeros when touched again.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn give_back(&mut self) -> io::Result<()> {
        self.advise(libc::MADV_DONTNEED)
    }

    /// Tells the kernel that access will be in no order.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn advise_random(&self) -> io::Result<()> {
        self.advise(libc::MADV_RANDOM)
    }

    fn advise(&self, advice: libc::c_int) -> io::Result<()> {
        // SAFETY: the range is exactly the mapping. The callers' advice keeps it mapped; what
        // MADV_DONTNEED drops reads as zeros afterwards, which every byte may be.
        if unsafe {
            libc::madvise(self.mapping.start().cast(), self.mapping.bytes().max(1), advice)
        } != 0
        {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is private, readable, zeroed or written by this process, and as
        // long as said; it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.mapping.start(), self.mapping.bytes()) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed mutably, so no other reference exists.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start(), self.mapping.bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let shared = Shared::new(4096).expect("mapped");
        shared.word(1).store(7, Ordering::Relaxed);
        shared.copy_in(128, b"weir");
        let mut out = [0; 4];
        shared.copy_out(128, &mut out);
        assert_eq!((&out, shared.word(1).load(Ordering::Relaxed)), (b"weir", 7));
        assert_eq!(shared.half(2).load(Ordering::Relaxed), u32::from_ne_bytes(*b"weir"));
        assert_eq!(shared.word_at(64).load(Ordering::Relaxed), 7);
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn a_line_beyond_the_end_is_refused() {
        Shared::new(64).expect("mapped").word(1);
    }

    #[test]
    fn a_buffer_begins_at_a_page_and_forgets() {
        let mut buffer = Buffer::new(8192).expect("mapped");
        assert_eq!(buffer.as_ptr() as usize % rustix::param::page_size(), 0);
        buffer[5000] = 1;
        buffer.give_back().expect("given back");
        assert_eq!(buffer[5000], 0);
    }
}
