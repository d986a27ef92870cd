//! A file mapped as words that several processes and threads read and write at once.
//!
//! Every access is atomic, and relaxed unless a comment says otherwise. So a race gives a mixture of
//! old and new words and nothing worse. If somebody shortens the file, touching the missing words
//! kills the process (SIGBUS), so only this user may have the right to write to the file.

use crate::mapping::Mapping;
use std::fs::File;
use std::io;
use std::sync::atomic::AtomicU64;

/// The mapping of a file, in words of 8 bytes.
#[derive(Debug)]
pub struct Words(Mapping);

// SAFETY: the mapping belongs to no thread; it is unmapped once, by the last owner.
unsafe impl Send for Words {}
// SAFETY: a shared reference gives atomic words only.
unsafe impl Sync for Words {}

impl Words {
    /// Maps the first `bytes` (a multiple of eight) of `file`, open for reading and writing.
    ///
    /// # Errors
    /// Those of mmap(2); `InvalidInput`: the file is shorter, or `bytes` is 0 or no multiple of eight.
    pub fn of_file(file: &File, bytes: usize) -> io::Result<Words> {
        if !bytes.is_multiple_of(8) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Mapping::of_file(file, bytes).map(Words)
    }

    /// The number of words.
    pub fn len(&self) -> usize {
        self.0.bytes() / 8
    }

    /// Whether there are no words. There always are some.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Word number `index`.
    ///
    /// # Panics
    /// If it is beyond the end.
    #[inline(always)]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.len(), "word {index} is beyond the end");
        // SAFETY: the word is inside of the mapping (asserted), aligned to eight since the mapping
        // begins at a page, lives as long as `self`, and is only accessed as an atomic.
        unsafe { &*self.0.start().wrapping_add(index * 8).cast::<AtomicU64>() }
    }

    /// Hints to the CPU that word `index` will be stored to, so that it fetches the cache line.
    #[inline]
    pub fn expect_store(&self, index: usize) {
        crate::rests::prefetch_to_write(self.word(index).as_ptr().cast());
    }

    /// Brings the pages of the words from `from` up to `to` into memory, ready to be stored to, so
    /// that the first store to each waits for nothing.
    ///
    /// # Errors
    /// Those of madvise(2): `EINVAL` before Linux 5.14.
    ///
    /// # Panics
    /// If they reach beyond the end.
    pub fn bring_in(&self, from: usize, to: usize) -> io::Result<()> {
        let (place, bytes) = self.pages(from, to);
        // SAFETY: the range lies inside of the mapping; the advice changes no content.
        crate::check(unsafe { libc::madvise(place, bytes, libc::MADV_POPULATE_WRITE) }).map(drop)
    }

    /// Waits until the words from `from` up to `to` are on the disk.
    pub fn sync(&self, from: usize, to: usize) -> io::Result<()> {
        let (place, bytes) = self.pages(from, to);
        // SAFETY: the range begins at a page of the mapping and ends inside of it.
        crate::check(unsafe { libc::msync(place, bytes, libc::MS_SYNC) }).map(drop)
    }

    /// Returns where the page of word `from` begins, and the bytes from there up to word `to`.
    fn pages(&self, from: usize, to: usize) -> (*mut libc::c_void, usize) {
        assert!(from <= to && to <= self.len(), "words {from} to {to} are beyond the end");
        let page = rustix::param::page_size();
        let begin = from * 8 / page * page;
        (self.0.start().wrapping_add(begin).cast(), to * 8 - begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapping::Sharing;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let mut path = std::env::temp_dir();
        path.push(format!("weir-words-{}", std::process::id()));
        let made = File::options().read(true).write(true).create_new(true).open(&path);
        let file = made.expect("a file");
        std::fs::remove_file(&path).expect("removed");
        assert!(Words::of_file(&file, 64).is_err(), "it is empty");
        file.set_len(4096).expect("made longer");
        let words = Words::of_file(&file, 4096).expect("mapped");
        words.word(2).store(u64::from_ne_bytes(*b"plumbing"), Ordering::Relaxed);
        words.word(8).store(7, Ordering::Relaxed);
        // A kernel before 5.14 cannot bring pages in, and changes nothing either.
        let _ = words.bring_in(0, 512);
        words.sync(0, 9).expect("synchronised");
        let mut read = [0; 72];
        file.read_exact_at(&mut read, 0).expect("read");
        assert_eq!((&read[16..24], read[64]), (&b"plumbing"[..], 7));
        file.write_all_at(b"W", 16).expect("written");
        assert_eq!(&words.word(2).load(Ordering::Relaxed).to_ne_bytes(), b"Wlumbing");
    }

    #[test]
    #[should_panic(expected = "beyond the end")]
    fn a_word_beyond_the_end_is_refused() {
        let file = File::options().read(true).write(true).open("/dev/zero").expect("opened");
        assert!(Words::of_file(&file, 8).is_err(), "it has no length");
        let words = Words(Mapping::new(0, Sharing::Shared).expect("mapped"));
        words.word(0);
    }
}
