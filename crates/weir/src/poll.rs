//! A descriptor by which an end can be put into poll, epoll and the like.
//!
//! It is an epoll descriptor over the end's socket, where the other end rings, and a private event
//! counter that is set while the end may have something to do. It is readable until a `try_` call
//! has answered `WouldBlock`. The counter is never shared: a peer could make it block.

use crate::error::{Error, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::Cell;

/// The descriptor, and what makes it readable from this side.
#[derive(Debug)]
pub struct Doorbell {
    nested: OwnedFd,
    counter: OwnedFd,
    is_set: Cell<bool>,
}

impl Doorbell {
    /// Over the socket of an end.
    pub fn new(socket: BorrowedFd) -> Result<Doorbell> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        let nested = epoll::create(CreateFlags::CLOEXEC).map_err(failed)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let counter = eventfd(1, flags).map_err(failed)?;
        let events = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&nested, socket, EventData::new_u64(0), events).map_err(failed)?;
        epoll::add(&nested, &counter, EventData::new_u64(1), EventFlags::IN).map_err(failed)?;
        Ok(Doorbell { nested, counter, is_set: Cell::new(true) })
    }

    /// Makes it readable.
    pub fn ring(&self) {
        if !self.is_set.replace(true) {
            let _ = rustix::io::write(&self.counter, &1_u64.to_ne_bytes());
        }
    }

    /// Makes it unreadable from this side.
    pub fn clear(&self) {
        if self.is_set.replace(false) {
            let _ = rustix::io::read(&self.counter, &mut [0; 8]);
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nested.as_fd()
    }
}
