//! A file mapped into memory, for measuring what touching its pages costs.
//!
//! The file must not be shortened while it is mapped: touching a page beyond its end kills the
//! process (SIGBUS). Callers map files that they made themselves and that have no name any more.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What the kernel is told of the order of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    Normal,
    /// In order.
    Sequential,
    /// In no order.
    Random,
}

/// A shared mapping of a whole file.
#[derive(Debug)]
pub struct FileMap {
    start: *mut u8,
    bytes: usize,
}

impl FileMap {
    /// Maps the first `bytes` of `file`, which must be open for reading and writing.
    ///
    /// # Errors
    /// Those of mmap(2); `InvalidInput` when the file is shorter.
    pub fn new(file: &File, bytes: usize) -> io::Result<FileMap> {
        if file.metadata()?.len() < bytes as u64 || bytes == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let (fd, nowhere) = (file.as_raw_fd(), std::ptr::null_mut());
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe { libc::mmap(nowhere, bytes, protection, libc::MAP_SHARED, fd, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(FileMap { start: start.cast(), bytes })
    }

    /// Tells the kernel the order of access.
    ///
    /// # Errors
    /// Those of madvise(2).
    pub fn advise(&self, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Normal => libc::MADV_NORMAL,
            Advice::Sequential => libc::MADV_SEQUENTIAL,
            Advice::Random => libc::MADV_RANDOM,
        };
        // SAFETY: the range is exactly this mapping, and none of this advice unmaps or clears.
        if unsafe { libc::madvise(self.start.cast(), self.bytes, advice) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// How many bytes are mapped.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the byte at `at`.
    ///
    /// # Panics
    /// When that is beyond the end.
    pub fn read(&self, at: usize) -> u8 {
        assert!(at < self.bytes, "{at} is beyond the end");
        // SAFETY: the place is mapped (asserted); volatile, since others may write the file.
        unsafe { self.start.wrapping_add(at).read_volatile() }
    }

    /// Writes the byte at `at`.
    ///
    /// # Panics
    /// When that is beyond the end.
    pub fn write(&mut self, at: usize, byte: u8) {
        assert!(at < self.bytes, "{at} is beyond the end");
        // SAFETY: the place is mapped for writing (asserted) and no reference to it exists.
        unsafe { self.start.wrapping_add(at).write_volatile(byte) };
    }

    /// Copies bytes out from `at`.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at);
        // SAFETY: the range is mapped (asserted), and no reference to it exists.
        unsafe {
            libc::memcpy(bytes.as_mut_ptr().cast(), self.start.wrapping_add(at).cast(), bytes.len())
        };
    }

    /// Copies bytes in at `at`.
    ///
    /// # Panics
    /// When they reach beyond the end.
    pub fn copy_in(&mut self, at: usize, bytes: &[u8]) {
        assert!(at <= self.bytes && bytes.len() <= self.bytes - at);
        // SAFETY: the range is mapped for writing (asserted), and no reference to it exists.
        unsafe {
            libc::memcpy(self.start.wrapping_add(at).cast(), bytes.as_ptr().cast(), bytes.len())
        };
    }
}

impl Drop for FileMap {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping, and nothing borrows from it.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_file_and_the_memory_are_one() {
        let path = std::env::temp_dir().join(format!("weir-filemap-{}", std::process::id()));
        let file = File::options().read(true).write(true).create_new(true).open(&path);
        let file = file.expect("a file");
        std::fs::remove_file(&path).expect("unlinked");
        assert!(FileMap::new(&file, 4096).is_err(), "too short");
        file.set_len(4096).expect("longer");
        let mut map = FileMap::new(&file, 4096).expect("mapped");
        map.advise(Advice::Random).expect("advised");
        map.write(9, 5);
        let mut byte = [0];
        file.read_exact_at(&mut byte, 9).expect("read");
        assert_eq!((byte, map.read(9), map.bytes()), ([5], 5, 4096));
    }
}
