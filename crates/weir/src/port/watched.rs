//! Descriptors that tell a port's reader of what is in no ring.

use crate::connect::site::Inbox;
use crate::connect::watcher::WatchedDescriptor;
use crate::error::{Error, Result};
use crate::park::doorbell::Doorbell;
use crate::park::ready::is_ready;
use rustix::event::PollFlags;
use rustix::event::epoll::EventFlags;
use rustix::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use weir_sys::bell;
use weir_sys::forks::ParentOnly;

/// An event counter that many backlogs ring. The watcher of the process then notifies the port.
#[derive(Debug)]
pub struct Bell {
    /// The event counter.
    pub counter: Arc<OwnedFd>,
    _watched: WatchedDescriptor,
}

impl Bell {
    /// Makes one that notifies an end by its inbox.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn new(inbox: &Arc<Inbox>) -> Result<Bell> {
        let made = bell::make(0).map_err(|cause| Error::os("make", "an elastic port", cause));
        let counter = Arc::new(made?);
        let mut watched = WatchedDescriptor::copy_of(counter.as_fd())?;
        // An event for each ring, though nobody takes them off.
        watched.start(EventFlags::IN | EventFlags::ET, inbox)?;
        Ok(Bell { counter, _watched: watched })
    }

    /// Ends that its descriptor is readable.
    pub fn clear(&self) {
        bell::clear(self.counter.as_fd());
    }
}

/// The reader's side of the connection that all handles of its port share.
#[derive(Debug)]
pub struct HandleWatch {
    alive: WatchedDescriptor,
}

impl HandleWatch {
    pub fn start(alive: ParentOnly, inbox: &Arc<Inbox>) -> Result<HandleWatch> {
        let mut alive = WatchedDescriptor::new(alive);
        alive.start(EventFlags::RDHUP | EventFlags::ONESHOT, inbox)?;
        Ok(HandleWatch { alive })
    }

    /// Whether all handles are closed.
    pub fn is_over(&self) -> bool {
        self.alive.get().is_some_and(|alive| is_ready(alive, PollFlags::RDHUP))
    }

    /// Makes the doorbell ring when the last handle is closed.
    pub fn is_polled_by(&self, doorbell: &Doorbell) -> Result<()> {
        self.alive.get().map_or(Ok(()), |alive| doorbell.add_hangup(alive))
    }

    /// Ends that, since the doorbell would ring for ever.
    pub fn leave(&self, doorbell: &Doorbell) {
        if let Some(alive) = self.alive.get().filter(|_| self.is_over()) {
            doorbell.remove(alive);
        }
    }
}
