//! Descriptors that a forked child does not keep.
//!
//! `O_CLOEXEC` closes descriptors at exec. A child that is forked and goes on without exec would
//! keep its parent's ends of channels open, so that nobody sees the parent die. A handler of
//! `pthread_atfork(3)` closes them in the child; [`epoch`] tells both apart.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

/// Descriptors of one link of the table.
const LINK: usize = 256;
const FREE: RawFd = -1;

/// How often this process was forked from one that used this module.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static TABLE: Link = Link::new();
static HANDLER: OnceLock<Result<(), i32>> = OnceLock::new();

/// The table only grows: the handler walks it without a lock, as a handler must.
struct Link {
    descriptors: [AtomicI32; LINK],
    next: OnceLock<Box<Link>>,
}

impl Link {
    const fn new() -> Link {
        Link { descriptors: [const { AtomicI32::new(FREE) }; LINK], next: OnceLock::new() }
    }

    fn add(&'static self, descriptor: RawFd) -> &'static AtomicI32 {
        for place in &self.descriptors {
            // AcqRel: the place is this caller's from here on.
            let taken =
                place.compare_exchange(FREE, descriptor, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return place;
            }
        }
        self.next.get_or_init(|| Box::new(Link::new())).add(descriptor)
    }
}

extern "C" fn in_the_child() {
    // Relaxed: the child has one thread.
    EPOCH.fetch_add(1, Ordering::Relaxed);
    let mut link = Some(&TABLE);
    while let Some(here) = link {
        for place in &here.descriptors {
            let descriptor = place.swap(FREE, Ordering::Relaxed);
            if descriptor != FREE {
                // SAFETY: the table holds descriptors of living `ParentOnly`s; those know by the
                // epoch that they own nothing in this process any more. close(2) may be called in
                // a forked child.
                unsafe { libc::close(descriptor) };
            }
        }
        link = here.next.get().map(Box::as_ref);
    }
}

/// How often this process was forked since the first descriptor was kept here.
#[inline]
pub fn epoch() -> u32 {
    // Relaxed: it changes only while a process has a single thread, at its start.
    EPOCH.load(Ordering::Relaxed)
}

/// A descriptor that is closed in forked children.
#[derive(Debug)]
pub struct ParentOnly {
    descriptor: Option<OwnedFd>,
    place: &'static AtomicI32,
    epoch: u32,
}

impl ParentOnly {
    /// Keeps a descriptor from children forked from now on.
    ///
    /// # Errors
    /// `ENOMEM`: the handler could not be installed.
    pub fn new(descriptor: OwnedFd) -> io::Result<ParentOnly> {
        let installed = HANDLER.get_or_init(|| {
            // SAFETY: the handler is a function of this module that does what a forked child may.
            match unsafe { libc::pthread_atfork(None, None, Some(in_the_child)) } {
                0 => Ok(()),
                error => Err(error),
            }
        });
        installed.map_err(io::Error::from_raw_os_error)?;
        let place = TABLE.add(descriptor.as_raw_fd());
        Ok(ParentOnly { descriptor: Some(descriptor), place, epoch: epoch() })
    }

    /// The descriptor, unless this is a forked child.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        if self.epoch != epoch() {
            return None;
        }
        self.descriptor.as_ref().map(OwnedFd::as_fd)
    }

    /// Gives the descriptor up, so that children inherit it again; none in a forked child.
    pub fn take(&mut self) -> Option<OwnedFd> {
        let descriptor = self.descriptor.take()?;
        if self.epoch == epoch() {
            self.place.store(FREE, Ordering::Release);
            return Some(descriptor);
        }
        // The handler has closed it; its number may be another file's by now.
        let _ = descriptor.into_raw_fd();
        None
    }
}

impl Drop for ParentOnly {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_forked_child_does_not_keep_it() {
        let (mut read, write) = io::pipe().expect("a pipe");
        let kept = ParentOnly::new(OwnedFd::from(write)).expect("kept");
        let (mut go, mut gone) = (io::pipe().expect("a pipe"), io::pipe().expect("a pipe"));
        // SAFETY: the child makes system calls only, and ends by one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let closed = kept.get().is_none() && epoch() == 1;
            let _ = gone.1.write(&[u8::from(closed)]);
            let _ = go.0.read(&mut [0]);
            // SAFETY: ends the child without running what the parent's exit would run.
            unsafe { libc::_exit(0) };
        }
        let mut said = [0];
        gone.0.read_exact(&mut said).expect("said");
        assert_eq!(said, [1], "the child has it no more");
        assert!(kept.get().is_some());
        drop(kept);
        assert_eq!(read.read(&mut [0]).expect("read"), 0, "the end is seen while the child lives");
        go.1.write_all(b".").expect("told");
        // SAFETY: waits for the child above.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }

    #[test]
    fn what_is_given_up_can_be_used_and_its_place_again() {
        let (read, write) = io::pipe().expect("a pipe");
        let mut kept = ParentOnly::new(OwnedFd::from(write)).expect("kept");
        let write = kept.take().expect("mine");
        io::PipeWriter::from(write).write_all(b"x").expect("written");
        let mut byte = [0];
        io::PipeReader::from(OwnedFd::from(read)).read_exact(&mut byte).expect("read");
        assert_eq!(&byte, b"x");
    }
}
