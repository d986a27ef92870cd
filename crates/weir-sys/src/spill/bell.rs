//! An eventfd of this process that is readable from the first ring until it is cleared.

use crate::forks::ParentOnly;
use rustix::event::EventfdFlags;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;

#[derive(Debug)]
pub(super) struct Bell(ParentOnly);

impl Bell {
    pub(super) fn new() -> io::Result<Bell> {
        let descriptor = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell(ParentOnly::new(descriptor)?))
    }

    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.0.get()
    }

    pub(super) fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // Any other error is EAGAIN, after 2^64 rings.
        while self.get().is_some_and(|bell| rustix::io::write(bell, &one) == Err(Errno::INTR)) {}
    }

    /// Clears the bell. To be called before a look for what it was rung for.
    pub(super) fn clear(&self) {
        let mut count = [0; 8];
        while self
            .get()
            .is_some_and(|bell| rustix::io::read(bell, &mut count[..]) == Err(Errno::INTR))
        {
        }
    }
}
