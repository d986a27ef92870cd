//! A descriptor of an end for poll and epoll.
//!
//! It is an epoll descriptor over two others: the end's socket, where the other end rings, and a
//! private event counter that is set while the end may have something to do. It is readable until a
//! `try_` call has returned `WouldBlock`. The counter is never shared: a peer could make it block. That
//! of a listener is also over a timer, for what only time brings about.

use crate::error::{Error, Result};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::cell::Cell;
use std::sync::Arc;
use weir_sys::bell;

/// The number of a descriptor that is not a writer's socket.
const OWN: u64 = u64::MAX;
/// When a call is due that nobody asks for.
const SOON: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const NEVER: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A descriptor that the other end and this one can make readable.
#[derive(Debug)]
pub struct Doorbell {
    nested: Arc<OwnedFd>,
    counter: OwnedFd,
    is_set: Cell<bool>,
    timer: Option<OwnedFd>,
    is_due: Cell<bool>,
}

impl Doorbell {
    /// Makes a doorbell that a socket rings.
    pub fn new(socket: BorrowedFd) -> Result<Doorbell> {
        let failed = |cause: Errno| Error::os("make", "a descriptor to poll", cause);
        let nested = Arc::new(epoll::create(CreateFlags::CLOEXEC).map_err(failed)?);
        let counter = bell::make(1).map_err(failed)?;
        let events = EventFlags::IN | EventFlags::RDHUP;
        epoll::add(&*nested, socket, EventData::new_u64(OWN), events).map_err(failed)?;
        epoll::add(&*nested, &counter, EventData::new_u64(OWN), EventFlags::IN).map_err(failed)?;
        let (is_set, is_due) = (Cell::new(true), Cell::new(false));
        Ok(Doorbell { nested, counter, is_set, timer: None, is_due })
    }

    /// Makes one that can also ring by itself.
    pub fn timed(socket: BorrowedFd) -> Result<Doorbell> {
        let mut made = Doorbell::new(socket)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)
            .map_err(|cause| Error::os("make", "a descriptor to poll", cause))?;
        made.add_own(timer.as_fd())?;
        made.timer = Some(timer);
        Ok(made)
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

    /// Ends that a socket rings it.
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

    /// Makes the descriptor readable anew, for those who ask for changes only.
    pub fn ring_again(&self) {
        self.set();
    }

    /// Makes the descriptor of a [timed](Doorbell::timed) doorbell readable in a tenth of a second if
    /// a call `is_due` then that nobody asks for. To be called whenever nothing else is to be done.
    pub fn ring_soon(&self, is_due: bool) {
        let was_due = self.is_due.replace(is_due);
        let Some(timer) = self.timer.as_ref().filter(|_| is_due || was_due) else { return };
        let it_value = if is_due { SOON } else { NEVER };
        let time = Itimerspec { it_interval: NEVER, it_value };
        // It fails only for an invalid time.
        let _ = timerfd_settime(timer, TimerfdTimerFlags::empty(), &time);
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
