//! One sealed page of shared memory that holds a cluster of flags.

use super::{SEALS, page_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::primitive::Ordering;
use crate::ring::cluster::{self, Cluster};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
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
        let right = page.cluster().magic.load(Ordering::Acquire) == cluster::MAGIC
            && page.cluster().version.load(Ordering::Relaxed) == cluster::VERSION;
        if right { Ok(page) } else { Err(refused("they are none, or of another version")) }
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
