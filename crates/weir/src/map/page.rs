//! One page of shared memory that holds a cluster of flags: sealed, or a file with a name.

use super::{SEALS, page_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::primitive::Ordering;
use crate::ring::cluster::{self, Cluster};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FileType, MemfdFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::NonNull;

/// A mapping of such a page. Forked children have it too: flags have no ends.
#[derive(Debug)]
pub struct Page {
    start: NonNull<Cluster>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is reached as atomics only.
unsafe impl Send for Page {}
// SAFETY: as for Send.
unsafe impl Sync for Page {}

impl Page {
    /// Makes a page and its file.
    pub fn create() -> Result<(OwnedFd, Page)> {
        let failed = |cause: Errno| Error::os("make", "a cluster of flags", cause);
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("weir-flags", flags).map_err(failed)?;
        rustix::fs::ftruncate(&file, page_bytes()).map_err(failed)?;
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, page_bytes()).map_err(failed)?;
        rustix::fs::fcntl_add_seals(&file, SEALS).map_err(failed)?;
        let page = Page::map(file.as_fd())?;
        page.cluster().version.store(cluster::VERSION, Ordering::Relaxed);
        // Release: whoever finds the name finds the rest.
        page.cluster().magic.store(cluster::MAGIC, Ordering::Release);
        Ok((file, page))
    }

    /// Maps one that came from elsewhere, after checking it.
    pub fn open(file: BorrowedFd) -> Result<Page> {
        let refused = |why| Error::new(ErrorKind::Corrupt, "use", "the flags received", why);
        let seals = rustix::fs::fcntl_get_seals(file);
        if !seals.is_ok_and(|seals| seals.contains(SEALS)) {
            return Err(refused("they are not sealed memory"));
        }
        let size = rustix::fs::fstat(file).map(|stat| stat.st_size as u64);
        if size != Ok(page_bytes()) {
            return Err(refused("they are not one page"));
        }
        let page = Page::map(file)?;
        if page.is_sound() {
            Ok(page)
        } else {
            Err(refused("they are none, or of another version"))
        }
    }

    /// Opens the file of this name, or makes it, for this user alone.
    pub fn named(path: &Path) -> Result<(OwnedFd, Page)> {
        let object = || format!("flags '{}'", path.display());
        let failed = |cause: Errno| Error::os("open", object(), cause);
        // Twice, for a name that goes or comes between the two.
        for _ in 0..2 {
            match Page::find(path) {
                Err(Errno::NOENT) => {}
                Err(cause) => return Err(failed(cause)),
                Ok(file) => return Page::check_named(&file, &object).map(|page| (file, page)),
            }
            match Page::make(path) {
                Err(Errno::EXIST) => {}
                made => {
                    let file = made.map_err(failed)?;
                    return Page::map(file.as_fd()).map(|page| (file, page));
                }
            }
        }
        Err(failed(Errno::AGAIN))
    }

    fn find(path: &Path) -> rustix::io::Result<OwnedFd> {
        // NONBLOCK: a FIFO of that name must not hold this up.
        let how = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        rustix::fs::open(path, how, Mode::empty())
    }

    fn check_named(file: &OwnedFd, object: &dyn Fn() -> String) -> Result<Page> {
        let refused = |why| Error::new(ErrorKind::Corrupt, "open", object(), why);
        let found = rustix::fs::fstat(file).map_err(|cause| Error::os("open", object(), cause))?;
        let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if !is_file || found.st_size as u64 != page_bytes() {
            return Err(refused("it is another file, not a cluster of flags"));
        }
        let page = Page::map(file.as_fd())?;
        if page.is_sound() {
            Ok(page)
        } else {
            Err(refused("it is another file, or of another version"))
        }
    }

    /// Makes the file whole before it has its name, so that nobody finds half of it.
    fn make(path: &Path) -> rustix::io::Result<OwnedFd> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let how = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let owner = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::open(directory.unwrap_or(Path::new(".")), how, owner)?;
        let mut bytes = vec![0; page_bytes() as usize];
        bytes[..8].copy_from_slice(&cluster::MAGIC.to_ne_bytes());
        bytes[8..12].copy_from_slice(&cluster::VERSION.to_ne_bytes());
        let mut left = &bytes[..];
        while !left.is_empty() {
            left = &left[rustix::io::write(&file, left)?..];
        }
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?;
        Ok(file)
    }

    fn is_sound(&self) -> bool {
        self.cluster().magic.load(Ordering::Acquire) == cluster::MAGIC
            && self.cluster().version.load(Ordering::Relaxed) == cluster::VERSION
    }

    fn map(file: BorrowedFd) -> Result<Page> {
        let (bytes, how) = (page_bytes() as usize, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at a place of the kernel's choice overlaps nothing.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), bytes, how, MapFlags::SHARED, file, 0)
        };
        let start = start.map_err(|cause| Error::os("map", "a cluster of flags", cause))?;
        NonNull::new(start.cast())
            .map(|start| Page { start })
            .ok_or_else(|| Error::os("map", "a cluster of flags", Errno::NOMEM))
    }

    /// The words.
    pub fn cluster(&self) -> &Cluster {
        // SAFETY: the page is mapped as long as `self`, longer than a cluster and aligned; a
        // cluster is atomics, for which any bytes are a value.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: exactly what `map` mapped; what borrowed from it borrowed `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), page_bytes() as usize) };
    }
}
