//! The connection of an end with the other one: its lifeline, and what comes over it.

use crate::connect::board::ReaderSite;
use crate::connect::lifeline::Lifeline;
use crate::connect::site::{Inbox, ParkSite};
use crate::error::Result;
use crate::memory::Map;
use crate::park::peer_of;
use rustix::fd::BorrowedFd;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use weir_policy::pipe::PeerCpu;
use weir_ring::layout::{AccountLine, PipeHeader, SleepLine};
use weir_ring::primitive::{AtomicU32, Ordering};
use weir_ring::{RingMemory, sleep};
use weir_sys::forks::ParentOnly;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Writer,
    Reader,
}

impl Role {
    pub fn other(self) -> Role {
        if self == Role::Writer { Role::Reader } else { Role::Writer }
    }

    /// What this end does with the pipe, in errors.
    pub fn operation(self) -> &'static str {
        if self == Role::Writer { "write to" } else { "read from" }
    }

    /// The words on which this end sleeps.
    pub fn sleep(self, header: &PipeHeader) -> &SleepLine {
        if self == Role::Writer { &header.writer_sleep } else { &header.reader_sleep }
    }

    /// Where this end counts what it did.
    #[inline]
    pub fn account(self, header: &PipeHeader) -> &AccountLine {
        if self == Role::Writer { &header.writer_account } else { &header.reader_account }
    }

    /// Publishes that the end of this role has closed.
    pub fn close(self, header: &PipeHeader) {
        // Release: pairs with the Acquire in `has_closed`: what was published before is seen after.
        self.sleep(header).closed.store(1, Ordering::Release);
    }

    /// Whether the end of this role has closed.
    #[inline]
    pub fn has_closed(self, header: &PipeHeader) -> bool {
        // Acquire: pairs with the Release in `close`.
        self.sleep(header).closed.load(Ordering::Acquire) != 0
    }

    /// Publishes the CPU of the end of this role. Returns whether the other end runs there too.
    pub fn publish_cpu(self, header: &PipeHeader) -> PeerCpu {
        // Relaxed: a hint.
        let other = self.other().sleep(header).cpu.load(Ordering::Relaxed);
        peer_of(&self.sleep(header).cpu, other)
    }
}

/// The place where an end sleeps: in the memory of its pipe.
#[derive(Debug)]
struct EndSite {
    map: Arc<Map>,
    role: Role,
}

impl ParkSite for EndSite {
    fn sleep(&self) -> &SleepLine {
        self.role.sleep(self.map.header())
    }
}

/// The inbox of an end that sleeps in this memory.
pub fn inbox_in(map: &Arc<Map>, role: Role) -> Arc<Inbox> {
    Inbox::new(Arc::new(EndSite { map: map.clone(), role }))
}

/// A message that brings the next memory.
const MOVED: &[u8] = b"m";

#[derive(Debug)]
pub struct Connection {
    lifeline: Lifeline,
    role: Role,
    /// Where the reader waits, for a writer.
    site: ReaderSite,
}

impl Connection {
    /// Begins to watch the other side of `socket`. The end sleeps in this memory.
    pub fn new(socket: ParentOnly, role: Role, map: &Arc<Map>) -> Result<Connection> {
        let lifeline = Lifeline::start(socket, inbox_in(map, role), 0)?;
        Ok(Connection::over(lifeline, role, ReaderSite::Ring))
    }

    /// A connection over a lifeline, whose reader waits there.
    pub fn over(lifeline: Lifeline, role: Role, site: ReaderSite) -> Connection {
        Connection { lifeline, role, site }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// Follows the end to another memory.
    pub fn move_to(&self, map: Arc<Map>) {
        self.inbox().move_to(Arc::new(EndSite { map, role: self.role }));
    }

    /// Wakes the other end, which waits in the way `how` that it announced.
    pub fn wake(&self, word: &AtomicU32, how: u32) {
        self.lifeline.wake(word, how);
        if how & sleep::COLD != 0 {
            // The reader sent the board before it stopped looking at the ring.
            if let Some(slot) = self.latest_site().slot() {
                slot.ring(&self.lifeline);
            }
        }
    }

    /// Where the reader waits, as far as this end knows it.
    pub fn site(&self) -> &ReaderSite {
        &self.site
    }

    /// Where the reader waits, after its messages were taken.
    pub fn latest_site(&self) -> &ReaderSite {
        if self.site.is_unknown() {
            self.take_messages();
        }
        &self.site
    }

    /// Takes all messages off the socket, as far as this process has room for them.
    pub fn take_messages(&self) {
        let _ = self.take_next();
    }

    /// Takes all messages off the socket. Returns the next memory, if it came.
    ///
    /// # Errors
    /// `MFILE`: this process has no room for it. It stays in the socket.
    pub fn take_next(&self) -> rustix::io::Result<Option<ParentOnly>> {
        self.take_until(false, || true)
    }

    /// Takes messages up to the first doorbell, so that another one keeps the socket readable.
    pub fn take_bell(&self) {
        let _ = self.take_until(true, || true);
    }

    /// As [`Connection::take_bell`], up to the next memory if this end does not `go_on` there yet.
    /// Returns the next memory, if it was taken.
    pub fn take_bell_or_next(&self, continues: impl FnMut() -> bool) -> Option<ParentOnly> {
        self.take_until(true, continues).ok()?
    }

    fn take_until(
        &self,
        to_the_bell: bool,
        mut continues: impl FnMut() -> bool,
    ) -> rustix::io::Result<Option<ParentOnly>> {
        let mut moved = None;
        let takes = |text: &[u8]| text != MOVED || continues();
        let taken = self.lifeline.take_messages_if(to_the_bell, takes, |text, memory| {
            if text == MOVED {
                moved = Some(memory);
            } else {
                self.site.take(text, &memory);
            }
        });
        match taken {
            Err(cause) if moved.is_none() => Err(cause),
            _ => Ok(moved),
        }
    }

    /// Sends the memory that follows this one.
    ///
    /// # Errors
    /// `AGAIN` when the socket is full of doorbells.
    pub fn send_next(&self, memory: BorrowedFd) -> rustix::io::Result<()> {
        self.lifeline.send_memory(MOVED, memory)
    }
}

impl Deref for Connection {
    type Target = Lifeline;

    #[inline]
    fn deref(&self) -> &Lifeline {
        &self.lifeline
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Lifeline {
        &mut self.lifeline
    }
}
