//! The socket of a link: it dies with its last holder, and carries what is said once.

use crate::connect::acceptor::REFUSED;
use crate::connect::closing;
use crate::connect::inbox::Inbox;
use crate::connect::lifeline::send_with;
use crate::connect::watcher::{self, Watched};
use crate::error::Result;
use crate::park::futex;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use weir_ring::primitive::AtomicU32;
use weir_ring::rouse::{Heard, Rouse};
use weir_ring::sleep;
use weir_sys::forks::ParentOnly;

/// What the message that brings the owner's board begins with; the link's number there follows.
const WELCOME: &[u8] = b"weir-in ";
/// A message that rings for one who polls.
const BELL: &[u8] = b"b";
/// Messages looked at in one go: a peer that sends without end holds nobody up.
const MOST_MESSAGES: usize = 64;

/// The lifeline of one side of a link.
#[derive(Debug)]
pub struct Line {
    socket: ParentOnly,
    inbox: Arc<Inbox>,
    /// The link's number with whom the inbox is.
    number: u32,
    dead: AtomicBool,
    /// The watcher has told the inbox.
    is_said: AtomicBool,
    watched: OnceLock<Watched>,
    refusal: OnceLock<String>,
    /// The epoll that knows the socket.
    polled: OnceLock<Arc<OwnedFd>>,
}

impl Line {
    /// Begins to watch the other side of `socket`; the inbox hears of its death.
    pub fn start(socket: ParentOnly, inbox: &Arc<Inbox>, number: u32) -> Result<Arc<Line>> {
        let (dead, is_said) = (AtomicBool::new(false), AtomicBool::new(false));
        let inbox = inbox.clone();
        let (watched, refusal, polled) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let line =
            Arc::new(Line { socket, inbox, number, dead, is_said, watched, refusal, polled });
        let _ = line.watched.set(watcher::watch_line(&line)?);
        Ok(line)
    }

    /// The socket, unless this is a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Ends the connection, from this side.
    pub fn hang_up(&self) {
        if let Some(socket) = self.socket() {
            // A connection that has ended already is as good.
            let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        }
    }

    /// Notes that the other side is gone. The watcher rouses this one afterwards.
    pub fn dies(&self) {
        // Release pairs with the acquire in `is_dead`; the inbox orders the rest.
        self.dead.store(true, Ordering::Release);
    }

    /// Whether the other side is known to be gone.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// After something was set on a board: wakes who said that it sleeps or polls there. Whether
    /// somebody did.
    pub fn wake(&self, word: &AtomicU32) -> bool {
        if !sleep::is_wanted(word) {
            return false;
        }
        let how = sleep::take(word);
        if how & sleep::ASLEEP != 0 {
            futex::wake(word, 1);
        }
        if how & sleep::POLLING != 0
            && let Some(socket) = self.socket()
        {
            // Never waits: a full socket has unread bells in it, or no reader.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(socket, BELL, flags);
        }
        how != 0
    }

    /// Sends a peer the board of its owner, and the number of its link.
    pub fn welcome(&self, board: BorrowedFd) -> rustix::io::Result<()> {
        let socket = self.socket().ok_or(Errno::BADF)?;
        let text = [WELCOME, self.number.to_string().as_bytes()].concat();
        send_with(socket, &text, &[board])
    }

    /// The socket is known to this epoll.
    pub fn is_polled_by(&self, epoll: Arc<OwnedFd>) {
        let _ = self.polled.set(epoll);
    }

    /// Takes what there is off the socket: the owner's board, if it came, and the link's number.
    pub fn take_messages(&self) -> Option<(ParentOnly, u32)> {
        self.take_until(false)
    }

    /// The same up to the first doorbell: while there is another, the socket stays readable.
    pub fn take_bell(&self) -> Option<(ParentOnly, u32)> {
        self.take_until(true)
    }

    fn take_until(&self, to_the_bell: bool) -> Option<(ParentOnly, u32)> {
        let socket = self.socket()?;
        let (mut text, mut welcome) = ([0; 256], None);
        for _ in 0..MOST_MESSAGES {
            let (count, file) = match closing::receive(socket, &mut text) {
                Ok(got) => got,
                Err(Errno::INTR) => continue,
                // It does not keep to the protocol: the watcher will see that it is gone.
                Err(Errno::BADMSG) => {
                    self.hang_up();
                    break;
                }
                Err(_) => break,
            };
            let said = &text[..count];
            if let Some(why) = said.strip_prefix(REFUSED) {
                let _ = self.refusal.set(why.escape_ascii().to_string());
            }
            let number = said.strip_prefix(WELCOME).and_then(number_in);
            match (number, file) {
                (Some(number), Some(file)) => welcome = Some((file, number)),
                _ if count == 0 || (to_the_bell && said == BELL) => break,
                _ => {}
            }
        }
        welcome
    }

    /// Why the owner did not take this peer, if it said so.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }
}

fn number_in(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Of one whose other side is dead.
impl Rouse for Line {
    fn rouse(&self) -> Heard {
        // Relaxed: only the watcher's thread uses it.
        if !self.is_said.load(Ordering::Relaxed) && !self.inbox.try_note_gone(self.number) {
            return Heard::Perhaps;
        }
        self.is_said.store(true, Ordering::Relaxed);
        self.inbox.rouse()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // In a forked child there is no socket, and the watcher is the parent's.
        if let (Some(watched), Some(_)) = (self.watched.get(), self.socket()) {
            watched.end();
        }
        if let Some(socket) = self.socket.pass_on() {
            closing::hang_up(socket, self.polled.get().map(Arc::as_ref));
        }
    }
}
