//! Descriptors among the things a [`Wait`] waits for: the watcher looks after them.

use super::watcher::watch_descriptor;
use crate::error::{Error, Result};
use crate::park::{Interest, Rung, Wait};
use rustix::event::epoll::EventFlags;
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::sync::Arc;

impl<'a> Wait<'a> {
    /// For a descriptor to be ready, or in error.
    ///
    /// # Errors
    /// There are too many already.
    pub fn descriptor(self, descriptor: BorrowedFd<'a>, interest: Interest) -> Result<Wait<'a>> {
        self.watched(descriptor, interest, watch)
    }
}

fn watch(fd: BorrowedFd, interest: Interest, rung: &Arc<Rung>) -> Result<Option<Box<dyn Send>>> {
    let events = match interest {
        Interest::Read => EventFlags::IN | EventFlags::RDHUP,
        Interest::Write => EventFlags::OUT,
    };
    match watch_descriptor(fd, events, rung) {
        Ok(watched) => Ok(Some(Box::new(watched))),
        // A file of a disk is always ready.
        Err(error) if is_no_event_source(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_no_event_source(error: &Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    cause.is_some_and(|cause: &std::io::Error| {
        cause.raw_os_error() == Some(Errno::PERM.raw_os_error())
    })
}
