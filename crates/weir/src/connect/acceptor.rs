//! Where writers come in: a name that listens, and connections that have not yet handed over their
//! memory. Nothing here waits, and no one who comes can hold up another.

use super::closing;
use super::name::{self, Claim, Subject};
use super::passing::{self, turn_away};
use super::peer::Identity;
use super::site::Inbox;
use super::watcher::Watched;
use crate::error::{ErrorKind, Result};
use crate::memory::errno_of;
use crate::park::{Timeout, Until};
use rustix::event::epoll::EventFlags;
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_sys::forks::ParentOnly;

/// Connections that may wait to be accepted (the kernel's bound is `net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Connections accepted in one go: each has two descriptors until it is let in.
const MOST_AT_ONCE: usize = 16;
/// Connections without a memory.
const MOST_PENDING: usize = 128;
/// How long one may stay so.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than anybody waits for a listener.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Each time that somebody connects, sends or goes.
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// One who came, and handed a memory over.
#[derive(Debug)]
pub struct Arrival {
    pub socket: ParentOnly,
    pub memory: ParentOnly,
    pub identity: Identity,
    /// What followed the hello.
    pub word: Word,
}

/// What may follow a hello: up to 24 bytes, filled up with zeros.
pub type Word = [u8; 24];

/// What a hello brings.
type Hello = (ParentOnly, Identity, Word);

#[derive(Debug)]
struct Pending {
    socket: Watched,
    since: Instant,
}

/// A name that listens.
#[derive(Debug)]
pub struct Acceptor {
    claim: Claim,
    hello: &'static [u8],
    /// How long a word may follow the hello.
    most_word_bytes: usize,
    inbox: Arc<Inbox>,
    pending: Vec<Pending>,
    /// A copy of the socket that listens, given up for a moment to refuse one for whom there is no
    /// descriptor.
    spare: Option<ParentOnly>,
    _watched: Watched,
    /// Somebody waits whom there are no means to let in, or to turn away.
    held_up: bool,
}

impl Acceptor {
    /// Listens at a path for those who begin with `hello`; the inbox hears of them.
    pub fn new(
        what: &Subject,
        path: &Path,
        mode: Mode,
        hello: &'static [u8],
        inbox: &Arc<Inbox>,
    ) -> Result<Acceptor> {
        let claim = Claim::new(what, path, mode, BACKLOG)?;
        let failed = |cause: Errno| what.os(path, cause);
        let socket = claim.socket().ok_or(Errno::BADF).map_err(failed)?;
        rustix::fs::fcntl_setfl(socket, OFlags::RDWR | OFlags::NONBLOCK).map_err(failed)?;
        let mut watched = Watched::copy_of(socket)?;
        watched.start(ARRIVALS, inbox)?;
        let spare = Some(passing::copy_of(socket).map_err(failed)?);
        let (inbox, pending) = (inbox.clone(), Vec::new());
        let most_word_bytes = 0;
        Ok(Acceptor {
            claim,
            hello,
            most_word_bytes,
            inbox,
            pending,
            spare,
            _watched: watched,
            held_up: false,
        })
    }

    /// Lets a word follow the hello.
    pub fn with_words(mut self) -> Acceptor {
        self.most_word_bytes = size_of::<Word>();
        self
    }

    /// The socket that listens, unless this is a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.claim.socket()
    }

    /// Where.
    pub fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Whether [`Acceptor::admit`] is to be called again before long even if nobody connects: someone
    /// has come and not yet handed over a memory, or could not be let in.
    pub fn is_busy(&self) -> bool {
        self.held_up || !self.pending.is_empty()
    }

    /// Lets in who is there, and drops who has been there for too long.
    pub fn admit(&mut self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        self.look_at_pending(&mut arrivals);
        self.held_up = closing::is_held_up();
        if self.held_up {
            return arrivals;
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(socket) = self.claim.socket() else { return arrivals };
            match accept(socket) {
                Ok(socket) => self.receive(socket, Instant::now(), &mut arrivals),
                Err(Errno::AGAIN) => return arrivals,
                Err(Errno::MFILE | Errno::NFILE) if self.refuse_one() => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.held_up = true;
                    return arrivals;
                }
                // A connection that is gone again, or a signal.
                Err(_) => {}
            }
        }
        // There may be more: as if they had connected now.
        self.inbox.notify();
        arrivals
    }

    /// For want of descriptors: takes one who came only to say no. False if even that failed.
    fn refuse_one(&mut self) -> bool {
        if self.spare.take().is_none() {
            return false;
        }
        let Some(listening) = self.claim.socket() else { return false };
        let done = match accept(listening) {
            Ok(socket) => {
                turn_away(socket, "its reader has no descriptors left");
                true
            }
            Err(_) => false,
        };
        self.spare = passing::copy_of(listening).ok();
        done
    }

    /// Nobody new can come, and those who wait to be let in are sent away: what they have sent is
    /// not to be closed with the socket that listens.
    fn send_all_away(&self) {
        let Some(socket) = self.claim.socket() else { return };
        let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
        for _ in 0..2 * BACKLOG {
            match accept(socket) {
                Ok(socket) => passing::hang_up(socket, None),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn look_at_pending(&mut self, arrivals: &mut Vec<Arrival>) {
        for mut pending in std::mem::take(&mut self.pending) {
            let hello = self.hello_of(pending.socket.get());
            if matches!(hello, Ok(None)) && pending.since.elapsed() < PATIENCE {
                self.pending.push(pending);
                continue;
            }
            let Some(socket) = pending.socket.stop() else { continue };
            match hello {
                Ok(Some((memory, identity, word))) => {
                    arrivals.push(Arrival { socket, memory, identity, word });
                }
                Ok(None) => turn_away(socket, "no ring was handed over in time"),
                Err(why) => turn_away(socket, why),
            }
        }
    }

    fn receive(&mut self, socket: ParentOnly, since: Instant, arrivals: &mut Vec<Arrival>) {
        match self.hello_of(socket.get()) {
            Ok(Some((memory, identity, word))) => {
                arrivals.push(Arrival { socket, memory, identity, word });
            }
            Ok(None) => {
                if self.pending.len() >= MOST_PENDING
                    && let Some(oldest) = self.pending.remove(0).socket.stop()
                {
                    turn_away(oldest, "others came who also handed over no ring");
                }
                let mut socket = Watched::new(socket);
                // Where the kernel has no memory to watch it, it is looked at with the next.
                let _ = socket.start(ARRIVALS, &self.inbox);
                self.pending.push(Pending { socket, since });
            }
            Err(why) => turn_away(socket, why),
        }
    }

    /// The memory that was handed over, if it has come.
    fn hello_of(
        &self,
        socket: Option<BorrowedFd>,
    ) -> std::result::Result<Option<Hello>, &'static str> {
        let socket = socket.ok_or("its reader has gone")?;
        let mut text = [0; 64];
        let (count, memory) = match passing::receive(socket, &mut text) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::BADMSG) => return Err("what was handed over is no ring"),
            Err(Errno::MFILE) => return Err("its reader has no descriptors left"),
            Err(_) => return Err("its hand-over could not be received"),
            Ok(got) => got,
        };
        let rest = text[..count]
            .strip_prefix(self.hello)
            .filter(|rest| rest.len() <= self.most_word_bytes);
        let (Some(memory), Some(rest)) = (memory, rest) else {
            return Err("what was handed over is no ring");
        };
        let mut word = Word::default();
        word[..rest.len()].copy_from_slice(rest);
        let who =
            weir_sys::peer::credentials(socket).map_err(|_| "the kernel does not say who it is")?;
        let identity = Identity { pid: who.pid, uid: who.uid, gid: who.gid };
        Ok(Some((memory, identity, word)))
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if self.claim.socket().is_some() {
            let pending = self.pending.drain(..).filter_map(|mut pending| pending.socket.stop());
            pending.for_each(|socket| passing::hang_up(socket, None));
            self.send_all_away();
        }
    }
}

/// Until when [`hand_over`] waits for a listener, if it does.
pub fn wait_until(timeout: Timeout) -> Option<Instant> {
    match timeout.start() {
        Until::Now => None,
        Until::Then(then) => Some(then),
        Until::Ever => Instant::now().checked_add(FOR_EVER),
    }
}

/// Connects to the listener at a path and hands a memory over; waits for a listener until then. One
/// that goes meanwhile counts as one that was never there.
pub fn hand_over(
    what: &Subject,
    path: &Path,
    until: Option<Instant>,
    hello: &[u8],
    memory: &ParentOnly,
) -> Result<ParentOnly> {
    loop {
        let made = name::dial(what, path, until)?;
        let socket = made.here().map_err(|cause| what.os(path, cause))?;
        match memory.here().and_then(|memory| passing::send(socket, hello, &[memory])) {
            Ok(()) => return Ok(made),
            // It has ended already: refused, or with who listened.
            Err(Errno::PIPE | Errno::CONNRESET) => {}
            Err(cause) => return Err(what.os(path, cause)),
        }
        let mut text = [0; 256];
        let said = passing::receive(socket, &mut text).ok();
        if let Some(why) = said.and_then(|(count, _)| passing::refusal_in(&text[..count])) {
            return Err(what.error(ErrorKind::Refused, path, why));
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            return Err(what.error(ErrorKind::NoReader, path, "its reader has just gone"));
        }
    }
}

/// The next who connects. No forked child has the connection.
fn accept(listening: BorrowedFd) -> rustix::io::Result<ParentOnly> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    ParentOnly::make(|| accept_with(listening, flags).map_err(std::io::Error::from))
        .map_err(|cause| errno_of(&cause))
}
