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
use crate::park::doorbell::Doorbell;
use crate::park::futex;
use crate::park::ready::is_ready;
use rustix::event::PollFlags;
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

/// A connection that hangs up when the other side closes or dies.
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
        let events = EventFlags::RDHUP | EventFlags::ONESHOT;
        if let Err(error) = lifeline.socket.start(events, &lifeline.fate) {
            // The caller may have kept a copy, to try again.
            if let Some(socket) = lifeline.socket.stop() {
                passing::close_shared_later(socket);
            }
            return Err(error);
        }
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

    /// Whether the other side has hung up.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.fate.is_dead()
    }

    /// Hangs up: the other side sees the end of this one.
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
    pub fn take_messages(&self, to_the_bell: bool, each: impl FnMut(&[u8], ParentOnly)) {
        // What could not be taken stays.
        let _ = self.take_messages_if(to_the_bell, |_| true, each);
    }

    /// As [`Lifeline::take_messages`], up to the first message that the caller does not take.
    ///
    /// # Errors
    /// `MFILE`: this process has no room for a memory. Its message stays.
    pub fn take_messages_if(
        &self,
        to_the_bell: bool,
        mut takes: impl FnMut(&[u8]) -> bool,
        mut each: impl FnMut(&[u8], ParentOnly),
    ) -> rustix::io::Result<()> {
        let Some(socket) = self.socket() else { return Ok(()) };
        let mut text = [0; 256];
        for _ in 0..MOST_MESSAGES {
            let (count, memory) = match passing::receive_memory_if(socket, &mut text, &mut takes) {
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if self.process.is_none() => return Ok(()),
                Err(Errno::AGAIN) => break,
                Err(Errno::BADMSG) => {
                    self.give_up();
                    return Ok(());
                }
                Err(cause) => return Err(cause),
            };
            match (&text[..count], memory) {
                (said, Some(memory)) => each(said, memory),
                (b"", None) => break,
                (BELL, None) if to_the_bell => break,
                (said, None) => {
                    if let Some(why) = passing::refusal_in(said) {
                        let _ = self.refusal.set(why);
                    }
                }
            }
        }
        self.check_hangup(socket);
        Ok(())
    }

    /// Notes that the other side has hung up, if it has. Who polls may see that before the watcher has
    /// told, and who asks for changes only (as tokio does) sees it once.
    fn check_hangup(&self, socket: BorrowedFd) {
        let process = self.process.as_ref().and_then(WatchedDescriptor::get);
        let has_ended = |process| is_ready(process, PollFlags::IN);
        if !self.is_dead() && (is_ready(socket, PollFlags::RDHUP) || process.is_some_and(has_ended))
        {
            self.fate.give_up();
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

    /// Makes what the other side sends ring this doorbell with a number, and its end.
    pub fn is_polled_by(&self, doorbell: &Doorbell, number: u64) -> Result<()> {
        for descriptor in self.descriptors() {
            let _ = self.polled.set(doorbell.add(descriptor, number)?);
        }
        Ok(())
    }

    /// Ends that, since a side that is gone would ring for ever.
    pub fn leaves(&self, doorbell: &Doorbell) {
        self.descriptors().for_each(|descriptor| doorbell.remove(descriptor));
    }

    /// Makes the end of the process at the other side, if that is watched too, ring a doorbell that
    /// knows the socket.
    pub fn its_end_rings(&self, doorbell: &Doorbell) -> Result<()> {
        self.descriptors().skip(1).try_for_each(|process| doorbell.add_own(process))
    }

    /// The socket, and the process if that is watched too.
    fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [Some(&self.socket), self.process.as_ref()]
            .into_iter()
            .flatten()
            .filter_map(|one| one.get())
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

    /// The descriptor of an end that is polled for changes only (as by tokio) says once that the other
    /// side was killed. An end that looked then, before the watcher had told, was never told.
    #[test]
    fn one_that_looks_at_its_socket_hears_of_the_end_before_the_watcher_has_told() {
        for bells in [0, 1, 3] {
            let (ours, theirs) = passing::sockets().expect("sockets");
            let site: Arc<dyn ParkSite> = Arc::new(SleepLine::default());
            let lifeline = Lifeline::start(ours, Inbox::new(site), 7).expect("started");
            let mut theirs = Some(theirs);
            let held = super::super::watcher::hold_up();
            for _ in 0..bells {
                let theirs = theirs.as_ref().and_then(ParentOnly::get).expect("open");
                passing::send(theirs, BELL, &[]).expect("sent");
            }
            lifeline.take_messages(true, |_, _| {});
            assert!(!lifeline.is_dead(), "it lives");
            // What it has not received makes the next call fail.
            let own = lifeline.socket().expect("open");
            passing::send(own, BELL, &[]).expect("sent");
            drop(theirs.take());
            // A child that another test starts has the other end too, until it executes.
            let begun = std::time::Instant::now();
            while !lifeline.is_dead() && begun.elapsed().as_secs() < 20 {
                lifeline.take_messages(true, |_, _| {});
            }
            assert!(lifeline.is_dead(), "after {bells} bells");
            assert_eq!(lifeline.inbox().take().gone, [7]);
            drop(held);
        }
    }

    #[test]
    fn one_that_looks_hears_of_the_end_of_a_process_whose_socket_stays_open() {
        let (ours, _theirs) = passing::sockets().expect("sockets");
        let site: Arc<dyn ParkSite> = Arc::new(SleepLine::default());
        let mut lifeline = Lifeline::start(ours, Inbox::new(site), 7).expect("started");
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("started");
        let pid = rustix::process::Pid::from_child(&child);
        let flags = rustix::process::PidfdFlags::empty();
        let pidfd = rustix::process::pidfd_open(pid, flags).expect("a descriptor");
        lifeline.watch_process(pidfd).expect("watched");
        lifeline.take_messages(true, |_, _| {});
        assert!(!lifeline.is_dead(), "it lives");
        let held = super::super::watcher::hold_up();
        child.kill().expect("killed");
        child.wait().expect("reaped");
        lifeline.take_messages(true, |_, _| {});
        assert!(lifeline.is_dead());
        drop(held);
    }
}
