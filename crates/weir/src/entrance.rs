//! Where writers come in: a name that listens, and connections that have not yet handed over their
//! memory. Nothing here waits, and no one who comes can hold up another.

use crate::error::Result;
use crate::gathering::Inbox;
use crate::life::{receive_with, send_with};
use crate::name::{Claim, What};
use crate::watcher::{self, Watched};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections that may wait to be accepted (the kernel's bound is `net.core.somaxconn`).
const BACKLOG: i32 = 4096;
/// Connections accepted in one go: each has two descriptors until it is let in.
const MOST_AT_ONCE: usize = 16;
/// Connections without a memory.
const MOST_PENDING: usize = 128;
/// How long one may stay so.
const PATIENCE: Duration = Duration::from_secs(5);
/// What a refusal begins with; its reason follows.
pub const REFUSED: &[u8] = b"weir-no ";

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The process that connected; 0 where it is of a pid namespace that this process does not see,
    /// in which it has no number here.
    pub pid: i32,
    /// Its user; one of a user namespace that has no number here is the kernel's overflow user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
}

/// One who came, and handed a memory over.
#[derive(Debug)]
pub struct Arrival {
    pub socket: OwnedFd,
    pub memory: OwnedFd,
    pub identity: Identity,
}

#[derive(Debug)]
struct Pending {
    socket: OwnedFd,
    since: Instant,
    watched: Option<Watched>,
}

impl Pending {
    /// Waits no longer.
    fn end(self) -> OwnedFd {
        if let Some(watched) = &self.watched {
            watched.end();
        }
        self.socket
    }
}

/// A name that listens.
#[derive(Debug)]
pub struct Entrance {
    claim: Claim,
    hello: &'static [u8],
    inbox: Arc<Inbox>,
    pending: Vec<Pending>,
    // Given up for a moment to refuse those for whom there are no descriptors.
    spare: Option<OwnedFd>,
    watched: Watched,
    /// Somebody waits whom there are no means to let in, or to turn away.
    held_up: bool,
    epoch: u32,
}

impl Entrance {
    /// Listens at a path for those who begin with `hello`; the inbox hears of them.
    pub fn new(
        what: &What,
        path: &Path,
        mode: Mode,
        hello: &'static [u8],
        inbox: &Arc<Inbox>,
    ) -> Result<Entrance> {
        let claim = Claim::new(what, path, mode, BACKLOG)?;
        let failed = |cause: Errno| what.os(path, cause);
        let socket = claim.socket().ok_or(Errno::BADF).map_err(failed)?;
        rustix::fs::fcntl_setfl(socket, OFlags::RDWR | OFlags::NONBLOCK).map_err(failed)?;
        let watched = watcher::watch_knocks(socket, inbox)?;
        let spare = Some(rustix::io::fcntl_dupfd_cloexec(socket, 3).map_err(failed)?);
        let (inbox, pending) = (inbox.clone(), Vec::new());
        let epoch = weir_sys::forks::epoch();
        Ok(Entrance { claim, hello, inbox, pending, spare, watched, held_up: false, epoch })
    }

    /// The socket that listens, unless this is a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.claim.socket()
    }

    /// Where.
    pub fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Whether [`Entrance::admit`] is to be called again before long even if nobody knocks: someone
    /// has come and not yet handed over a memory, or could not be let in.
    pub fn is_busy(&self) -> bool {
        self.held_up || !self.pending.is_empty()
    }

    /// Lets in who is there, and drops who has been there for too long.
    pub fn admit(&mut self) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        self.look_at_pending(&mut arrivals);
        self.held_up = false;
        for _ in 0..MOST_AT_ONCE {
            let Some(socket) = self.claim.socket() else { return arrivals };
            match accept_with(socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => self.receive(socket, Instant::now(), &mut arrivals),
                Err(Errno::AGAIN) => return arrivals,
                Err(Errno::MFILE | Errno::NFILE) if self.turn_away() => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.held_up = true;
                    return arrivals;
                }
                // A connection that is gone again, or a signal.
                Err(_) => {}
            }
        }
        // There may be more: as if they had knocked now.
        self.inbox.knock();
        arrivals
    }

    /// For want of descriptors: takes one who came only to say no. False if even that failed.
    fn turn_away(&mut self) -> bool {
        if self.spare.take().is_none() {
            return false;
        }
        let Some(listening) = self.claim.socket() else { return false };
        let done = match accept_with(listening, SocketFlags::CLOEXEC) {
            Ok(socket) => {
                refuse(socket.as_fd(), "its reader has no descriptors left");
                true
            }
            Err(_) => false,
        };
        self.spare = rustix::io::fcntl_dupfd_cloexec(listening, 3).ok();
        done
    }

    fn look_at_pending(&mut self, arrivals: &mut Vec<Arrival>) {
        for pending in std::mem::take(&mut self.pending) {
            match self.hello_of(pending.socket.as_fd()) {
                Ok(Some((memory, identity))) => {
                    arrivals.push(Arrival { socket: pending.end(), memory, identity });
                }
                Ok(None) if pending.since.elapsed() < PATIENCE => self.pending.push(pending),
                Ok(None) => refuse(pending.end().as_fd(), "no ring was handed over in time"),
                Err(why) => refuse(pending.end().as_fd(), why),
            }
        }
    }

    fn receive(&mut self, socket: OwnedFd, since: Instant, arrivals: &mut Vec<Arrival>) {
        match self.hello_of(socket.as_fd()) {
            Ok(Some((memory, identity))) => arrivals.push(Arrival { socket, memory, identity }),
            Ok(None) => {
                if self.pending.len() >= MOST_PENDING {
                    let oldest = self.pending.remove(0).end();
                    refuse(oldest.as_fd(), "others came who also handed over no ring");
                }
                // Not watched for want of descriptors: then it is looked at with the next.
                let watched = watcher::watch_knocks(socket.as_fd(), &self.inbox).ok();
                self.pending.push(Pending { socket, since, watched });
            }
            Err(why) => refuse(socket.as_fd(), why),
        }
    }

    /// The memory that was handed over, if it has come.
    fn hello_of(
        &self,
        socket: BorrowedFd,
    ) -> std::result::Result<Option<(OwnedFd, Identity)>, &'static str> {
        let mut text = [0; 32];
        let (count, mut files) = match receive_with(socket, &mut text, RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::MFILE) => return Err("its reader has no descriptors left"),
            Err(_) => return Err("its hand-over could not be received"),
            Ok(got) => got,
        };
        let memory = files.pop().filter(|_| &text[..count] == self.hello);
        let memory = memory.ok_or("what was handed over is no ring")?;
        let who =
            weir_sys::peer::credentials(socket).map_err(|_| "the kernel does not say who it is")?;
        let identity = Identity { pid: who.pid, uid: who.uid, gid: who.gid };
        Ok(Some((memory, identity)))
    }
}

impl Drop for Entrance {
    fn drop(&mut self) {
        if self.epoch == weir_sys::forks::epoch() {
            self.watched.end();
            self.pending.drain(..).for_each(|pending| drop(pending.end()));
        }
    }
}

/// Says no, and why; the connection is then dropped.
pub fn refuse(socket: BorrowedFd, why: &str) {
    let text = [REFUSED, why.as_bytes()].concat();
    // One who does not read it will see that the connection ends.
    let _ = send_with(socket, &text, &[]);
}
