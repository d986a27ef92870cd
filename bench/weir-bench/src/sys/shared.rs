//! Memory for measuring: shared with forked children or with a file, or private and page-aligned.
//!
//! # Who may touch which bytes
//! Words are atomics, other bytes are copied plainly, and the same bytes may be both: a suite's
//! bare ring has words between its records, as the rings of a library have. Two threads of a
//! process could race so. Therefore [`SharedPages`] stays in the thread that mapped it, and no
//! reference to its bytes is handed out but to atomics. The other side is another process, as in
//! the crate `weir`: its stores are not part of this program, and a copy reads bytes that are old,
//! new, or some of each. So are the stores of a thread that has mapped the same file once more.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64};
use weir_sys::mapping::{Mapping, Sharing};

/// Bytes that move between CPUs together. Words that two sides write lie two of these apart, since
/// some CPUs fetch lines in pairs.
pub const LINE_BYTES: usize = 64;

/// The order in which pages will be touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessOrder {
    /// Unknown.
    Normal,
    /// Upwards.
    Sequential,
    /// None.
    Random,
}

/// Memory shared with children that are forked later; zeros at first, or the content of a file.
///
/// One thread has it: see [the module](self).
///
/// ```compile_fail,E0277
/// fn other_threads(shared: crate::sys::shared::SharedPages) -> impl Send { shared }
/// ```
/// ```compile_fail,E0277
/// fn two_threads(shared: &crate::sys::shared::SharedPages) -> impl Send { shared }
/// ```
#[derive(Debug)]
pub struct SharedPages {
    mapping: Mapping,
    _same_thread: PhantomData<*mut u8>,
}

impl SharedPages {
    /// Maps `bytes` of shared memory.
    pub fn new(bytes: usize) -> io::Result<SharedPages> {
        Mapping::new(bytes, Sharing::Shared).map(SharedPages::with)
    }

    /// Maps the first `bytes` of `file`. Callers map unnamed files that they made themselves, so
    /// nobody else can shorten them.
    ///
    /// Those of mmap(2); `InvalidInput` if the file is shorter.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<SharedPages> {
        Mapping::of_file(file, bytes).map(SharedPages::with)
    }

    fn with(mapping: Mapping) -> SharedPages {
        SharedPages { mapping, _same_thread: PhantomData }
    }

    /// Tells the kernel the order in which pages will be touched.
    pub fn advise(&self, order: AccessOrder) -> io::Result<()> {
        let advice = match order {
            AccessOrder::Normal => libc::MADV_NORMAL,
            AccessOrder::Sequential => libc::MADV_SEQUENTIAL,
            AccessOrder::Random => libc::MADV_RANDOM,
        };
        // SAFETY: each of the three changes no page.
        unsafe { self.mapping.advise(advice) }
    }

    /// The 64-bit word at the start of line `line`.
    ///
    /// # Panics
    /// When the line is beyond the end.
    pub fn word(&self, line: usize) -> &AtomicU64 {
        // SAFETY: the place is inside of the mapping (asserted) and aligned to a line, and lives as
        // long as `self`. In this process one thread reaches it, as an atomic or by the copies
        // below.
        unsafe { &*self.line(line).cast::<AtomicU64>() }
    }

    /// The 32-bit word at the start of line `line`, as futexes need it.
    ///
    /// # Panics
    /// When the line is beyond the end.
    pub fn half(&self, line: usize) -> &AtomicU32 {
        // SAFETY: as in `word`.
        unsafe { &*self.line(line).cast::<AtomicU32>() }
    }

    #[inline(always)]
    fn line(&self, line: usize) -> *mut u8 {
        assert!((line + 1) * LINE_BYTES <= self.mapping.bytes(), "line {line} is beyond the end");
        self.mapping.start().wrapping_add(line * LINE_BYTES)
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

    /// The 32-bit word at byte `at`.
    ///
    /// # Panics
    /// When it is not a multiple of four, or beyond the end.
    #[inline]
    pub fn half_at(&self, at: usize) -> &AtomicU32 {
        let inside = at.checked_add(4).is_some_and(|end| end <= self.mapping.bytes());
        assert!(inside && at.is_multiple_of(4), "no word at {at}");
        // SAFETY: as in `word`, aligned to four.
        unsafe { &*self.mapping.start().wrapping_add(at).cast::<AtomicU32>() }
    }

    /// Copies `bytes` to `at`. The sides hand the range over by an atomic word; otherwise a reader
    /// may see any mixture.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_in(&self, at: usize, bytes: &[u8]) {
        assert!(at <= self.mapping.bytes() && bytes.len() <= self.mapping.bytes() - at);
        // SAFETY: the range is inside of the mapping (asserted). No reference to it exists but to
        // atomics, and no other thread of this process has the mapping. `bytes` lie elsewhere.
        unsafe {
            libc::memcpy(
                self.mapping.start().wrapping_add(at).cast(),
                bytes.as_ptr().cast(),
                bytes.len(),
            )
        };
    }

    /// Copies bytes from `at`, under the same rule.
    ///
    /// # Panics
    /// When they reach beyond the end.
    #[inline]
    pub fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.mapping.bytes() && bytes.len() <= self.mapping.bytes() - at);
        // SAFETY: as in `copy_in`.
        unsafe {
            libc::memcpy(
                bytes.as_mut_ptr().cast(),
                self.mapping.start().wrapping_add(at).cast(),
                bytes.len(),
            )
        };
    }
}

/// Private memory that begins at a page, as `O_DIRECT` needs it; zeros at first.
#[derive(Debug)]
pub struct PageBuffer {
    mapping: Mapping,
}

impl PageBuffer {
    /// Maps `bytes` of private memory.
    pub fn new(bytes: usize) -> io::Result<PageBuffer> {
        Ok(PageBuffer { mapping: Mapping::new(bytes, Sharing::Private)? })
    }

    /// Keeps huge pages out of the memory, so that each page faults by itself.
    ///
    /// # Errors
    /// `EINVAL` on a kernel that has none.
    pub fn refuse_huge_pages(&self) -> io::Result<()> {
        // SAFETY: MADV_NOHUGEPAGE changes no byte.
        unsafe { self.mapping.advise(libc::MADV_NOHUGEPAGE) }
    }

    /// Returns all pages to the kernel; they are zeros when touched again.
    pub fn give_back(&mut self) -> io::Result<()> {
        // SAFETY: the pages stay mapped and read as zeros, which every byte may be; nobody else
        // borrows from them.
        unsafe { self.mapping.advise(libc::MADV_DONTNEED) }
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is private, readable, zeroed or written by this process, and `bytes`
        // long; it lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.mapping.start(), self.mapping.bytes()) }
    }
}

impl DerefMut for PageBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed mutably, so no other reference exists.
        unsafe { std::slice::from_raw_parts_mut(self.mapping.start(), self.mapping.bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let shared = SharedPages::new(4096).expect("mapped");
        shared.word(1).store(7, Ordering::Relaxed);
        shared.copy_in(128, b"weir");
        let mut out = [0; 4];
        shared.copy_out(128, &mut out);
        assert_eq!((&out, shared.word(1).load(Ordering::Relaxed)), (b"weir", 7));
        assert_eq!(shared.half(2).load(Ordering::Relaxed), u32::from_ne_bytes(*b"weir"));
        assert_eq!(shared.word_at(64).load(Ordering::Relaxed), 7);
        assert_eq!(shared.half_at(132).load(Ordering::Relaxed), 0);
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn a_line_beyond_the_end_is_refused() {
        SharedPages::new(64).expect("mapped").word(1);
    }

    #[test]
    fn the_file_and_the_memory_are_one() {
        let path = std::env::temp_dir().join(format!("weir-filemap-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a file");
        std::fs::remove_file(&path).expect("unlinked");
        assert!(SharedPages::of_file(&file, 4096).is_err(), "too short");
        file.set_len(4096).expect("longer");
        let map = SharedPages::of_file(&file, 4096).expect("mapped");
        map.advise(AccessOrder::Random).expect("advised");
        map.copy_in(9, &[5]);
        let (mut byte, mut read) = ([0], [0]);
        file.read_exact_at(&mut byte, 9).expect("read");
        map.copy_out(9, &mut read);
        assert_eq!((byte, read), ([5], [5]));
    }

    #[test]
    fn a_buffer_begins_at_a_page_and_forgets() {
        let mut buffer = PageBuffer::new(8192).expect("mapped");
        assert_eq!(buffer.as_ptr() as usize % rustix::param::page_size(), 0);
        buffer[5000] = 1;
        buffer.give_back().expect("given back");
        assert_eq!(buffer[5000], 0);
    }
}
