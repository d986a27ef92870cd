//! Words in static memory that can be replaced by a mapped file, so that other processes see them.
//!
//! The address stays the same, so using the words costs no pointer and no test. A forked child gets
//! zeros of its own in their place and cannot write into its parent's file. If somebody shortens the
//! file, touching the missing words kills the process (SIGBUS), so only this user may have the right
//! to write to the file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The only page size that overlays support. They are aligned to it.
const PAGE: usize = 4096;
/// The most overlays of a process.
const OVERLAYS: usize = 4;

/// The overlays that are kept from children.
static KEPT: [OnceLock<Kept>; OVERLAYS] = [const { OnceLock::new() }; OVERLAYS];

#[derive(Debug)]
struct Kept {
    /// The address of a static.
    start: usize,
    bytes: usize,
}

/// `WORDS` words for a static. Their number is a multiple of 512.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Overlay<const WORDS: usize> {
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Overlay<WORDS> {
    const BYTES: usize = {
        assert!(WORDS > 0 && (WORDS * 8).is_multiple_of(PAGE), "not whole pages");
        WORDS * 8
    };

    /// Makes words that are 0.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Overlay<WORDS> {
        Overlay { words: [const { AtomicU64::new(0) }; WORDS] }
    }

    /// Word number `index`.
    ///
    /// # Panics
    /// If it is beyond the end.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.words[index]
    }

    /// Gives children that are forked from now on zeros in place of the words. It cannot do so for
    /// children that are not made by fork(3) but, for example, by a bare clone(2).
    ///
    /// # Errors
    /// `ENOMEM`: the handler could not be installed, or there are too many overlays.
    pub fn keep_from_children(&'static self) -> io::Result<()> {
        crate::forks::in_children(in_the_child)?;
        let start = self.start() as usize;
        for place in &KEPT {
            let kept = place.get_or_init(|| Kept { start, bytes: Self::BYTES });
            if kept.start == start {
                return Ok(());
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENOMEM))
    }

    /// Writes the words to the beginning of `file` and maps it in their place. What other threads
    /// store meanwhile may be lost. An earlier file keeps its contents.
    ///
    /// # Errors
    /// Those of fallocate(2), pwrite(2) and mmap(2); `EFBIG`: this process may not make files so
    /// long; `Unsupported`: pages are not of 4 KiB.
    pub fn share(&'static self, file: &File) -> io::Result<()> {
        if rustix::param::page_size() != PAGE {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "pages here are not 4 KiB"));
        }
        if !crate::may_reach(Self::BYTES as u64) {
            return Err(rustix::io::Errno::FBIG.into());
        }
        // Allocates all blocks now, so that a full disk is an error here and not a signal later.
        let none = rustix::fs::FallocateFlags::empty();
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, none, 0, Self::BYTES as u64))?;
        // Relaxed: no word says anything about another.
        let words = self.words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
        file.write_all_at(&words.collect::<Vec<u8>>(), 0)?;
        self.lay(libc::MAP_SHARED, file.as_raw_fd()).inspect_err(|_| {
            // The place may be unmapped now, and other threads are about to use it.
            if self.lay(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).is_err() {
                std::process::abort();
            }
        })
    }

    fn start(&'static self) -> *mut libc::c_void {
        self.words.as_ptr().cast_mut().cast()
    }

    fn lay(&'static self, flags: libc::c_int, fd: libc::c_int) -> io::Result<()> {
        // SAFETY: the range holds exactly the words of an overlay that lives for ever.
        unsafe { lay(self.start(), Self::BYTES, flags, fd) }
    }
}

/// Replaces the pages of an overlay.
///
/// # Safety
/// The range holds exactly the words of an [`Overlay`] that lives for ever. It consists of whole
/// pages and is only accessed as atomics. To these it is as if another thread had stored the
/// contents of the new pages.
unsafe fn lay(
    start: *mut libc::c_void,
    bytes: usize,
    flags: libc::c_int,
    fd: libc::c_int,
) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | libc::MAP_FIXED;
    // SAFETY: as the caller promises.
    let place = unsafe { libc::mmap(start, bytes, protection, flags, fd, 0) };
    if place == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn in_the_child() {
    for kept in KEPT.iter().map_while(OnceLock::get) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let start = std::ptr::with_exposed_provenance_mut(kept.start);
        // SAFETY: `keep_from_children` has stored the range of an overlay that lives for ever.
        if unsafe { lay(start, kept.bytes, flags, -1) }.is_err() {
            // The kernel has no memory for another mapping. A child that continued would write into
            // its parent's file.
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORDS: Overlay<512> = Overlay::new();

    fn made(name: &str) -> File {
        let mut path = std::env::temp_dir();
        path.push(format!("weir-overlay-{name}-{}", std::process::id()));
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        std::fs::remove_file(&path).expect("removed");
        made.expect("a file")
    }

    /// The kernel would kill a process that makes a file longer than its limit.
    #[test]
    fn a_file_that_may_not_be_so_long_is_an_error_and_no_signal() {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        static OTHERS: Overlay<512> = Overlay::new();
        let file = made("long");
        // SAFETY: the child only makes system calls, and ends by one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let limit = Rlimit { current: Some(4095), ..getrlimit(Resource::Fsize) };
            let limited = setrlimit(Resource::Fsize, limit).is_ok();
            let refused = OTHERS.share(&file).map_err(|error| error.raw_os_error());
            let right = limited && refused == Err(Some(libc::EFBIG));
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child above, into a live local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "it is refused, and the child lives");
        OTHERS.share(&file).expect("laid where it may be so long");
    }

    #[test]
    fn a_file_laid_over_them_is_the_words_but_not_a_child_s() {
        WORDS.word(3).store(7, Ordering::Relaxed);
        WORDS.keep_from_children().expect("installed");
        WORDS.keep_from_children().expect("once is enough");
        let (file, mut eight) = (made("first"), [0; 8]);
        WORDS.share(&file).expect("laid");
        file.read_exact_at(&mut eight, 24).expect("read");
        assert_eq!(u64::from_ne_bytes(eight), 7, "what was there before is in the file");
        WORDS.word(3).store(8, Ordering::Relaxed);
        file.read_exact_at(&mut eight, 24).expect("read");
        assert_eq!(u64::from_ne_bytes(eight), 8);
        file.write_all_at(&9_u64.to_ne_bytes(), 24).expect("written");
        assert_eq!(WORDS.word(3).load(Ordering::Relaxed), 9);
        // SAFETY: the child loads and stores words, and ends by a system call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let clean = WORDS.word(3).load(Ordering::Relaxed) == 0;
            WORDS.word(3).store(1, Ordering::Relaxed);
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(i32::from(!clean)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child above, into a live local.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0, "a child has zeros");
        assert_eq!(WORDS.word(3).load(Ordering::Relaxed), 9, "and cannot write the parent's");
        let second = made("second");
        WORDS.share(&second).expect("laid over the first");
        WORDS.word(3).store(10, Ordering::Relaxed);
        file.read_exact_at(&mut eight, 24).expect("read");
        assert_eq!(u64::from_ne_bytes(eight), 9, "the first keeps what it had");
    }
}
