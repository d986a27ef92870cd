//! A descriptor of an end for poll and epoll.
//!
//! It is an epoll descriptor over two others: the end's socket, where the other end rings, and a
//! private event counter that is set while the end may have something to do. It is readable until a
//! `try_` call has returned `WouldBlock`. The counter is never shared: a peer could make it block.

use crate::error::{Error, Result};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::cell::Cell;
use std::sync::Arc;
use weir_sys::bell;

/// The number of a descriptor that is not a writer's socket.
const OWN: u64 = u64::MAX;

/// A descriptor that the other end and this one can make readable.
#[derive(Debug)]
pub struct Doorbell {
    nested: Arc<OwnedFd>,
    counter: OwnedFd,
    is_set: Cell<bool>,
}

impl Doorbell {
    pub fn new(socket: BorrowedFd) -> Result<Doorbell> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        let nested = Arc::new(epoll::create(CreateFlags::CLOEXEC).map_err(failed)?);
        let counter = bell::make(1).map_err(failed)?;
        let events = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&*nested, socket, EventData::new_u64(OWN), events).map_err(failed)?;
        epoll::add(&*nested, &counter, EventData::new_u64(OWN), EventFlags::IN).map_err(failed)?;
        Ok(Doorbell { nested, counter, is_set: Cell::new(true) })
    }

    /// Adds the socket of a port's writer under a number. Returns the epoll, from which the socket
    /// has to be removed if another process may keep it open.
    pub fn add(&self, socket: BorrowedFd, number: u64) -> Result<Arc<OwnedFd>> {
        let events = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&*self.nested, socket, EventData::new_u64(number), events)
            .map_err(|cause| Error::os("poll", "a writer", cause))?;
        Ok(self.nested.clone())
    }

    /// Adds a socket at which only a hang-up counts. It has to be removed once it has hung up.
    pub fn add_hangup(&self, socket: BorrowedFd) -> Result<()> {
        epoll::add(&*self.nested, socket, EventData::new_u64(OWN), EventFlags::RDHUP)
            .map_err(|cause| Error::os("poll", "the handles of a port", cause))
    }

    /// Adds another descriptor of this end that is readable while there is something to do.
    pub fn add_own(&self, descriptor: BorrowedFd) -> Result<()> {
        epoll::add(&*self.nested, descriptor, EventData::new_u64(OWN), EventFlags::IN)
            .map_err(|cause| Error::os("poll", "the descriptors of channels", cause))
    }

    pub fn remove(&self, socket: BorrowedFd) {
        let _ = epoll::delete(&*self.nested, socket);
    }

    /// The numbers of sockets at which a writer has rung, at most 64 in one call.
    pub fn rung(&self) -> Vec<u64> {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(OWN) }; 64];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let count = epoll::wait(&*self.nested, &mut events[..], Some(&now)).unwrap_or(0);
        let numbers = events[..count].iter().map(|event| event.data.u64());
        numbers.filter(|number| *number != OWN).collect()
    }

    /// Makes the descriptor readable.
    #[inline]
    pub fn ring(&self) {
        if !self.is_set.get() {
            self.set();
        }
    }

    #[cold]
    #[inline(never)]
    fn set(&self) {
        self.is_set.set(true);
        bell::ring(self.counter.as_fd());
    }

    /// Takes [`Doorbell::ring`] back: only the other end's bell makes the descriptor readable now.
    pub fn clear(&self) {
        if self.is_set.replace(false) {
            bell::clear(self.counter.as_fd());
        }
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nested.as_fd()
    }
}
