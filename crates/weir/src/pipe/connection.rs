//! What an end has of the other one beside the memory: its lifeline, and what comes over that.

use crate::connect::board::BoardSlot;
use crate::connect::lifeline::Lifeline;
use crate::connect::site::{Inbox, ParkSite};
use crate::error::Result;
use crate::memory::Map;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::cell::OnceCell;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use weir_ring::layout::{PipeHeader, SleepLine};
use weir_ring::primitive::AtomicU32;
use weir_ring::{RingMemory, sleep};
use weir_sys::forks::ParentOnly;

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The end that writes.
    Writer,
    /// The end that reads.
    Reader,
}

impl Role {
    /// The other one.
    pub fn other(self) -> Role {
        if self == Role::Writer { Role::Reader } else { Role::Writer }
    }

    /// Where this end sleeps.
    pub fn sleep(self, header: &PipeHeader) -> &SleepLine {
        if self == Role::Writer { &header.writer_sleep } else { &header.reader_sleep }
    }
}

/// Where an end sleeps: in the memory of its pipe.
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
fn own_inbox(map: &Arc<Map>, role: Role) -> Arc<Inbox> {
    Inbox::new(Arc::new(EndSite { map: map.clone(), role }))
}

/// A message that brings the next memory.
const MOVED: &[u8] = b"m";

/// The connection of one end with the other.
#[derive(Debug)]
pub struct Connection {
    lifeline: Lifeline,
    role: Role,
    /// Of a writer of many: where to say that its ring has something.
    board: OnceCell<BoardSlot>,
}

impl Connection {
    /// Begins to watch the other side of `socket`. The end sleeps in this memory.
    pub fn new(socket: ParentOnly, role: Role, map: &Arc<Map>) -> Result<Connection> {
        Ok(Connection::over(Lifeline::start(socket, own_inbox(map, role), 0)?, role))
    }

    /// Of a port's writer: watches the reader's process as well, where the kernel can.
    pub fn of_port_writer(socket: ParentOnly, map: &Arc<Map>) -> Result<Connection> {
        let pidfd = socket.get().and_then(|socket| weir_sys::peer::pidfd(socket).ok());
        let inbox = own_inbox(map, Role::Writer);
        let mut lifeline = Lifeline::start(socket, inbox, 0)?.exclusive();
        pidfd.map_or(Ok(()), |pidfd| lifeline.watch_process(pidfd))?;
        Ok(Connection::over(lifeline, Role::Writer))
    }

    /// Of a ring of a port, whose reader hears of the writer's death by its inbox, or of its
    /// process's.
    pub fn of_port_ring(
        socket: ParentOnly,
        inbox: &Arc<Inbox>,
        ring: u32,
        pidfd: Option<OwnedFd>,
    ) -> Result<Connection> {
        let mut lifeline = Lifeline::start(socket, inbox.clone(), ring)?.exclusive();
        pidfd.map_or(Ok(()), |pidfd| lifeline.watch_process(pidfd))?;
        Ok(Connection::over(lifeline, Role::Reader))
    }

    fn over(lifeline: Lifeline, role: Role) -> Connection {
        Connection { lifeline, role, board: OnceCell::new() }
    }

    pub fn role(&self) -> Role {
        self.role
    }

    /// The end of a pipe has moved to another memory.
    pub fn move_to(&self, map: Arc<Map>) {
        self.inbox().move_to(Arc::new(EndSite { map, role: self.role }));
    }

    /// Wakes the other end, which said how it waits.
    pub fn wake(&self, word: &AtomicU32, how: u32) {
        self.lifeline.wake(word, how);
        if how & sleep::COLD != 0 {
            // The board was sent before the reader stopped looking at the ring.
            if let Some(board) = self.board() {
                board.ring(&self.lifeline);
            }
        }
    }

    /// The place on the board of the reader of many, once that has taken this writer in.
    pub fn board(&self) -> Option<&BoardSlot> {
        if self.board.get().is_none() {
            self.take_messages();
        }
        self.board.get()
    }

    /// Of a port's writer: how many there are, as the board says. Of other ends 0.
    pub fn rivals(&self) -> u32 {
        self.board.get().map_or(0, BoardSlot::open_writers)
    }

    /// Takes doorbells and the like off the socket; the next memory, if one came.
    pub fn take_messages(&self) -> Option<ParentOnly> {
        self.take_until(false)
    }

    /// Does so up to the first doorbell: while there is another, the socket stays readable.
    pub fn take_bell(&self) -> Option<ParentOnly> {
        self.take_until(true)
    }

    fn take_until(&self, to_the_bell: bool) -> Option<ParentOnly> {
        let mut moved = None;
        self.lifeline.take_messages(to_the_bell, |text, memory| {
            if text == MOVED {
                moved = Some(memory);
            } else if let Some(board) = BoardSlot::open(text, &memory) {
                let _ = self.board.set(board);
            }
        });
        moved
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
