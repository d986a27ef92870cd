//! The socket of a connection, which hangs up when the other side is gone.
//!
//! Each side of a connection holds one of a pair of sockets. When the last descriptor of the other
//! side is closed, by its owner or by the kernel after a kill -9, this socket hangs up. The watcher
//! of this process sees that and notifies the inbox of the end. The socket also carries doorbells
//! for ends that wait in poll, and memory that is handed over later.

use super::passing;
use super::site::{Fate, Inbox};
use super::watcher::WatchedDescriptor;
use crate::error::{Error, Result};
use crate::park::futex;
use rustix::event::epoll::EventFlags;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SendFlags, Shutdown, shutdown};
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use weir_ring::primitive::AtomicU32;
use weir_ring::sleep;
use weir_sys::forks::ParentOnly;

/// A message that rings the doorbell of an end in poll.
const BELL: &[u8] = b"b";
/// Messages taken in one go, so that a peer that keeps sending holds nobody up.
const MOST_MESSAGES: usize = 64;

#[derive(Debug)]
pub struct Lifeline {
    socket: WatchedDescriptor,
    /// The process at the other side, if it is watched too.
    process: Option<WatchedDescriptor>,
    fate: Arc<Fate>,
    /// No other process holds this side of the connection.
    is_exclusive: bool,
    /// The other side broke the protocol of the socket.
    is_broken: Cell<bool>,
    refusal: OnceCell<String>,
    /// The epoll that knows the socket.
    polled: OnceCell<Arc<OwnedFd>>,
}

impl Lifeline {
    /// Begins to watch the other side of `socket`. The inbox's owner knows it by the number `peer`.
    pub fn start(socket: ParentOnly, inbox: Arc<Inbox>, peer: u32) -> Result<Lifeline> {
        let mut lifeline = Lifeline {
            socket: WatchedDescriptor::new(socket),
            process: None,
            fate: Arc::new(Fate::new(inbox, peer)),
            is_exclusive: false,
            is_broken: Cell::new(false),
            refusal: OnceCell::new(),
            polled: OnceCell::new(),
        };
        lifeline.socket.start(EventFlags::RDHUP | EventFlags::ONESHOT, &lifeline.fate)?;
        Ok(lifeline)
    }

    /// Declares that no other process holds this side: dropping it ends the connection.
    pub fn exclusive(mut self) -> Lifeline {
        self.is_exclusive = true;
        self
    }

    /// Watches the process at the other side as well: a child of it may keep its socket open.
    pub fn watch_process(&mut self, pidfd: OwnedFd) -> Result<()> {
        let pidfd = ParentOnly::new(pidfd);
        let pidfd = pidfd.map_err(|cause| Error::os("watch", "a process", cause))?;
        let process = self.process.insert(WatchedDescriptor::new(pidfd));
        process.start(EventFlags::IN | EventFlags::ONESHOT, &self.fate)
    }

    /// Stops watching that process, which frees a descriptor.
    pub fn forget_process(&mut self) {
        self.process = None;
    }

    /// The socket; `None` in a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Stops watching and returns the socket; `None` in a forked child.
    pub fn take_socket(&mut self) -> Option<OwnedFd> {
        self.socket.stop()?.take()
    }

    /// The inbox that is notified of the other side's death.
    pub fn inbox(&self) -> &Inbox {
        self.fate.inbox()
    }

    #[inline]
    pub fn is_dead(&self) -> bool {
        self.fate.is_dead()
    }

    pub fn hang_up(&self) {
        if let Some(socket) = self.socket() {
            // This fails only if it has ended already.
            let _ = shutdown(socket, Shutdown::Both);
        }
    }

    /// Wakes the other side, which waits in the way `how` that it announced at this word.
    pub fn wake(&self, word: &AtomicU32, how: u32) {
        if how & sleep::ASLEEP != 0 {
            futex::wake(word, 1);
        }
        if how & sleep::POLLING != 0
            && let Some(socket) = self.socket()
        {
            // Does not wait: a full socket holds unread bells, or nobody reads it.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(socket, BELL, flags);
        }
    }

    /// Wakes the other side, after something was published, if it waits at this word. Returns
    /// whether it did.
    pub fn wake_if_wanted(&self, word: &AtomicU32) -> bool {
        let how = if sleep::is_wanted(word) { sleep::take(word) } else { 0 };
        self.wake(word, how);
        how != 0
    }

    /// Sends a message that brings memory.
    ///
    /// # Errors
    /// `AGAIN` when the socket is full of doorbells.
    pub fn send_memory(&self, text: &[u8], memory: BorrowedFd) -> rustix::io::Result<()> {
        passing::send(self.socket().ok_or(Errno::BADF)?, text, &[memory])
    }

    /// Takes messages off the socket, and shows each that brings memory. With `to_the_bell` it
    /// stops after the first doorbell, so that another one keeps the socket readable.
    pub fn take_messages(&self, to_the_bell: bool, mut each: impl FnMut(&[u8], ParentOnly)) {
        let Some(socket) = self.socket() else { return };
        let mut text = [0; 256];
        for _ in 0..MOST_MESSAGES {
            let (count, memory) = match passing::receive(socket, &mut text) {
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(Errno::BADMSG) => return self.give_up(),
                Err(_) => return,
            };
            match (&text[..count], memory) {
                (said, Some(memory)) => each(said, memory),
                (b"", None) => return,
                (BELL, None) if to_the_bell => return,
                (said, None) => {
                    if let Some(why) = passing::refusal_in(said) {
                        let _ = self.refusal.set(why);
                    }
                }
            }
        }
    }

    /// Treats the other side as dead, because it broke the protocol of the socket.
    fn give_up(&self) {
        self.is_broken.set(true);
        if self.is_exclusive {
            // The watcher sees this.
            self.hang_up();
        } else {
            self.fate.give_up();
        }
    }

    /// Whether a descriptor came that is not memory.
    pub fn is_broken(&self) -> bool {
        self.is_broken.get()
    }

    /// Why the other side refused this one, if it told.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    pub fn is_polled_by(&self, epoll: Arc<OwnedFd>) {
        let _ = self.polled.set(epoll);
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        // In a forked child there is no socket: the connection is the parent's.
        let Some(socket) = self.socket.stop() else { return };
        let polled = self.polled.get().map(Arc::as_ref);
        if self.is_exclusive {
            passing::hang_up(socket, polled);
        } else {
            passing::leave(socket, polled);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::site::ParkSite;
    use weir_ring::layout::SleepLine;

    /// The watcher holds a `Fate` while it wakes an end. A lifeline that gave its socket up
    /// meanwhile used to spin until the watcher was done.
    #[test]
    fn one_that_gives_its_socket_up_does_not_wait_for_the_watcher() {
        let (ours, _theirs) = passing::sockets().expect("sockets");
        let site: Arc<dyn ParkSite> = Arc::new(SleepLine::default());
        let mut lifeline = Lifeline::start(ours, Inbox::new(site), 0).expect("started");
        let held = lifeline.fate.clone();
        assert!(lifeline.take_socket().is_some());
        assert!(!held.is_dead());
    }
}
