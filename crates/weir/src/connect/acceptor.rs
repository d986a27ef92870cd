//! Accepts connections at a name, and keeps those that have not yet handed over their memory.
//! Nothing here waits, and no connection can hold up another.

use super::closing;
use super::name::{self, BoundName, Subject};
use super::passing::{self, turn_away};
use super::peer::Identity;
use super::site::Inbox;
use super::watcher::WatchedDescriptor;
use crate::error::{ErrorKind, Result};
use crate::memory::errno_of;
use crate::park::doorbell::Doorbell;
use crate::park::{Timeout, Until};
use rustix::event::epoll::EventFlags;
use rustix::fd::{BorrowedFd, OwnedFd};
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
/// Connections that have not handed over a memory, at most.
const MOST_PENDING: usize = 128;
/// How long such a connection is kept.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longer than anybody waits for a listener.
const FOR_EVER: Duration = Duration::from_secs(u32::MAX as u64);

/// An event each time that somebody connects, sends or hangs up.
const ARRIVALS: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// A connection that has handed over its memory.
#[derive(Debug)]
pub struct Arrival {
    /// The connection.
    pub socket: ParentOnly,
    /// The memory that came with its first message.
    pub memory: ParentOnly,
    /// The process.
    pub identity: Identity,
    /// What followed the first word of that message.
    pub word: HelloWord,
}

/// Up to 24 bytes that follow a hello, padded with zeros.
pub type HelloWord = [u8; 24];

/// The memory that came with a hello, who sent it, and the word behind it.
type Hello = std::result::Result<Option<(ParentOnly, Identity, HelloWord)>, &'static str>;

#[derive(Debug)]
struct PendingConnection {
    socket: WatchedDescriptor,
    since: Instant,
}

impl PendingConnection {
    /// Makes what it sends ring this doorbell. Where the kernel has no memory for that, it is looked at
    /// with the next.
    fn rings(&self, doorbell: Option<&Doorbell>) {
        let _ = doorbell.zip(self.socket.get()).map(|(bell, socket)| bell.add_own(socket));
    }

    /// Gives the socket up, which rings no more.
    fn stop(mut self, doorbell: Option<&Doorbell>) -> Option<ParentOnly> {
        let socket = self.socket.stop()?;
        doorbell.zip(socket.get()).into_iter().for_each(|(bell, socket)| bell.remove(socket));
        Some(socket)
    }
}

/// A socket that listens, and the connections of which the first message has not come.
#[derive(Debug)]
pub struct Acceptor {
    claim: BoundName,
    hello: &'static [u8],
    /// The longest word that may follow the hello.
    most_word_bytes: usize,
    inbox: Arc<Inbox>,
    pending: Vec<PendingConnection>,
    /// A copy of the listening socket. It is closed for a moment where no descriptor is left to
    /// accept a connection with, so that the connection can be refused.
    spare: Option<ParentOnly>,
    _watched: WatchedDescriptor,
    /// A connection waits that can be neither let in nor refused for now.
    held_up: bool,
}

impl Acceptor {
    /// Listens at a path for connections that begin with `hello`. The inbox is notified of them.
    pub fn new(
        what: &Subject,
        path: &Path,
        mode: Mode,
        hello: &'static [u8],
        inbox: &Arc<Inbox>,
    ) -> Result<Acceptor> {
        Acceptor::over(what, BoundName::new(what, path, mode, BACKLOG)?, hello, inbox)
    }

    /// Listens without a name. Returns the descriptor that others connect through as well.
    pub fn unnamed(
        what: &Subject,
        mode: Mode,
        hello: &'static [u8],
        inbox: &Arc<Inbox>,
    ) -> Result<(Acceptor, OwnedFd)> {
        let (claim, way) = BoundName::unnamed(what, mode, BACKLOG)?;
        Ok((Acceptor::over(what, claim, hello, inbox)?, way))
    }

    fn over(
        what: &Subject,
        claim: BoundName,
        hello: &'static [u8],
        inbox: &Arc<Inbox>,
    ) -> Result<Acceptor> {
        let failed = |cause: Errno| what.os(claim.path(), cause);
        let socket = claim.socket().ok_or(Errno::BADF).map_err(failed)?;
        rustix::fs::fcntl_setfl(socket, OFlags::RDWR | OFlags::NONBLOCK).map_err(failed)?;
        let mut watched = WatchedDescriptor::copy_of(socket)?;
        watched.start(ARRIVALS, inbox)?;
        Ok(Acceptor {
            hello,
            most_word_bytes: 0,
            inbox: inbox.clone(),
            pending: Vec::new(),
            spare: Some(passing::copy_of(socket).map_err(failed)?),
            _watched: watched,
            held_up: false,
            claim,
        })
    }

    /// Allows a word behind the hello.
    pub fn with_words(mut self) -> Acceptor {
        self.most_word_bytes = size_of::<HelloWord>();
        self
    }

    /// The socket that listens; `None` in a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.claim.socket()
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.claim.path()
    }

    /// Whether [`Acceptor::admit`] has to be called again soon even if nobody connects: a
    /// connection has not yet handed over a memory, or could not be let in.
    pub fn is_busy(&self) -> bool {
        self.held_up || !self.pending.is_empty()
    }

    /// As if those that have sent nothing had come so much earlier.
    #[cfg(test)]
    pub fn make_older(&mut self, by: Duration) {
        self.pending.iter_mut().for_each(|pending| pending.since -= by);
    }

    /// Makes a doorbell ring that knows the listening socket, whenever there is something to admit.
    pub fn is_polled_by(&self, doorbell: &Doorbell) {
        self.claim.socket().filter(|_| self.held_up).into_iter().for_each(|it| doorbell.remove(it));
        self.pending.iter().for_each(|pending| pending.rings(Some(doorbell)));
    }

    /// Accepts what has come, and drops connections that have been pending for too long. What those
    /// send that are pending rings the doorbell.
    pub fn admit(&mut self, doorbell: Option<&Doorbell>) -> Vec<Arrival> {
        let was_held_up = self.held_up;
        let arrivals = self.take_in(doorbell);
        if self.held_up != was_held_up
            && let Some((doorbell, socket)) = doorbell.zip(self.claim.socket())
        {
            if self.held_up {
                // One who waits and cannot be let in would ring without end.
                doorbell.remove(socket);
            } else {
                // Where that fails, it is tried again.
                self.held_up = doorbell.add_own(socket).is_err();
            }
        }
        arrivals
    }

    fn take_in(&mut self, doorbell: Option<&Doorbell>) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        self.check_pending(&mut arrivals, doorbell);
        self.held_up = closing::is_held_up();
        if self.held_up {
            return arrivals;
        }
        for _ in 0..MOST_AT_ONCE {
            let Some(socket) = self.claim.socket() else { return arrivals };
            if self.spare.is_none() {
                // The one that was used could not be replaced: the refused one was not closed yet.
                self.spare = passing::copy_of(socket).ok();
            }
            match accept(socket) {
                Ok(socket) => self.receive(socket, &mut arrivals, doorbell),
                Err(Errno::AGAIN) => return arrivals,
                Err(Errno::MFILE | Errno::NFILE) if self.refuse_one() => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.held_up = true;
                    return arrivals;
                }
                // The connection is gone again, or a signal came.
                Err(_) => {}
            }
        }
        // There may be more: come back for them.
        self.inbox.notify();
        arrivals
    }

    /// Refuses one connection where no descriptor is left. Returns false if even that failed.
    fn refuse_one(&mut self) -> bool {
        if self.spare.take().is_none() {
            return false;
        }
        let Some(listening) = self.claim.socket() else { return false };
        let done = match accept(listening) {
            Ok(socket) => {
                turn_away(socket, NO_DESCRIPTORS);
                true
            }
            Err(_) => false,
        };
        self.spare = passing::copy_of(listening).ok();
        done
    }

    /// Closes the name to new connections and hangs up on those that wait to be accepted. Closing
    /// the listening socket would close what they have sent, which can take long.
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

    fn check_pending(&mut self, arrivals: &mut Vec<Arrival>, doorbell: Option<&Doorbell>) {
        for pending in std::mem::take(&mut self.pending) {
            let hello = self.hello_of(pending.socket.get());
            if matches!(hello, Ok(None)) && pending.since.elapsed() < PATIENCE {
                self.pending.push(pending);
                continue;
            }
            let Some(socket) = pending.stop(doorbell) else { continue };
            if let Some(socket) = settle(socket, hello, arrivals) {
                turn_away(socket, "its reader received no ring in time");
            }
        }
    }

    fn receive(
        &mut self,
        socket: ParentOnly,
        arrivals: &mut Vec<Arrival>,
        doorbell: Option<&Doorbell>,
    ) {
        let hello = self.hello_of(socket.get());
        let Some(socket) = settle(socket, hello, arrivals) else { return };
        if self.pending.len() >= MOST_PENDING
            && let Some(oldest) = self.pending.remove(0).stop(doorbell)
        {
            turn_away(oldest, "its reader has too many connections without a ring");
        }
        let mut socket = WatchedDescriptor::new(socket);
        // Where the kernel has no memory to watch it, it is looked at with the next.
        let _ = socket.start(ARRIVALS, &self.inbox);
        let pending = PendingConnection { socket, since: Instant::now() };
        pending.rings(doorbell);
        self.pending.push(pending);
    }

    /// The first message of a connection, if it has come.
    fn hello_of(&self, socket: Option<BorrowedFd>) -> Hello {
        let socket = socket.ok_or("its reader has gone")?;
        let mut text = [0; 64];
        let (count, memory) = match passing::receive(socket, &mut text) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Err(Errno::BADMSG) => return Err(NO_RING),
            Err(Errno::MFILE) => return Err(NO_DESCRIPTORS),
            Err(_) => return Err("its reader could not receive the ring"),
            Ok(got) => got,
        };
        let rest = text[..count]
            .strip_prefix(self.hello)
            .filter(|rest| rest.len() <= self.most_word_bytes);
        let (Some(memory), Some(rest)) = (memory, rest) else {
            return Err(NO_RING);
        };
        let mut word = HelloWord::default();
        word[..rest.len()].copy_from_slice(rest);
        let who = weir_sys::peer::credentials(socket)
            .map_err(|_| "the kernel does not identify this process")?;
        let identity = Identity { pid: who.pid, uid: who.uid, gid: who.gid };
        Ok(Some((memory, identity, word)))
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        if self.claim.socket().is_some() {
            let pending = self.pending.drain(..).filter_map(|pending| pending.stop(None));
            pending.for_each(|socket| passing::hang_up(socket, None));
            self.send_all_away();
        }
    }
}

const NO_DESCRIPTORS: &str = "its reader has no descriptors left";
const NO_RING: &str = "its reader received no valid ring";

/// Takes a connection with its hello in, or refuses it. Returns it if the hello has not come.
fn settle(socket: ParentOnly, hello: Hello, arrivals: &mut Vec<Arrival>) -> Option<ParentOnly> {
    match hello {
        Ok(Some((memory, identity, word))) => {
            arrivals.push(Arrival { socket, memory, identity, word });
        }
        Ok(None) => return Some(socket),
        Err(why) => turn_away(socket, why),
    }
    None
}

/// Until when [`hand_over`] waits for a listener; `None` if it does not wait.
pub fn wait_until(timeout: Timeout) -> Option<Instant> {
    match timeout.start() {
        Until::Now => None,
        Until::Then(then) => Some(then),
        Until::Ever => Instant::now().checked_add(FOR_EVER),
    }
}

/// Connects to the listener at a path and hands a memory over. Waits for a listener until `until`;
/// a listener that goes meanwhile counts as one that was never there.
pub fn hand_over(
    what: &Subject,
    path: &Path,
    until: Option<Instant>,
    hello: &[u8],
    memory: &ParentOnly,
) -> Result<ParentOnly> {
    loop {
        let made = name::dial(what, path, until)?;
        let here = made.here().and_then(|socket| Ok((socket, memory.here()?)));
        let why = match here.and_then(|(socket, memory)| passing::send(socket, hello, &[memory])) {
            Ok(()) => return Ok(made),
            // The listener has refused it or is gone.
            Err(Errno::PIPE | Errno::CONNRESET) => last_words(made),
            Err(cause) => {
                passing::hang_up(made, None);
                return Err(what.os(path, cause));
            }
        };
        if let Some(why) = why {
            return Err(what.error(ErrorKind::Refused, path, why));
        }
        if until.is_none_or(|until| Instant::now() >= until) {
            return Err(what.error(ErrorKind::NoReader, path, "its reader has just gone"));
        }
        // One that ends each connection at once is asked no more often than one that is not there.
        std::thread::sleep(name::LOOK);
    }
}

/// Ends a connection that a listener has ended. Returns why, if it said that it refuses it.
fn last_words(socket: ParentOnly) -> Option<String> {
    let mut text = [0; 256];
    let said = socket.here().and_then(|socket| passing::receive(socket, &mut text));
    // Closing what else the listener has sent could take long.
    passing::hang_up(socket, None);
    passing::refusal_in(&text[..said.ok()?.0])
}

/// Accepts the next connection, which no forked child has.
fn accept(listening: BorrowedFd) -> rustix::io::Result<ParentOnly> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    ParentOnly::make(|| accept_with(listening, flags).map_err(std::io::Error::from))
        .map_err(|cause| errno_of(&cause))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::ready::wait_ready;
    use rustix::event::PollFlags;
    use rustix::fd::AsFd;
    use rustix::process::setpriority_process;
    use rustix::thread::{CpuSet, sched_setaffinity};
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const LINGER: Duration = Duration::from_secs(12);
    const WHAT: Subject = Subject { operation: "open", noun: "port" };

    /// A listener accepts and closes at once. Whoever waited for it connected without a pause.
    #[test]
    fn one_that_ends_all_connections_is_not_asked_without_a_pause() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ends");
        let claim = BoundName::new(&WHAT, &path, Mode::RUSR | Mode::WUSR, 4).expect("bound");
        let socket = claim.socket().expect("mine");
        rustix::fs::fcntl_setfl(socket, OFlags::RDWR | OFlags::NONBLOCK).expect("set");
        let file =
            ParentOnly::new(tempfile::tempfile().expect("a file").into()).expect("taken over");
        let (mut sent, until) = (0, Instant::now() + Duration::from_millis(500));
        let ended = std::thread::scope(|scope| {
            let asks = || {
                // The listener goes first whenever it can, on the one CPU of both.
                let _ = setpriority_process(Some(rustix::thread::gettid()), 19);
                // Some send before they are ended, and so do not ask again.
                while Instant::now() < until {
                    sent += u32::from(hand_over(&WHAT, &path, Some(until), b"", &file).is_ok());
                }
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            };
            let mut cpu = CpuSet::new();
            cpu.set(rustix::thread::sched_getcpu());
            sched_setaffinity(None, &cpu).expect("pinned, and those that are started here");
            scope.spawn(asks);
            let next = || {
                wait_ready(socket, PollFlags::IN, None).expect("polled");
                accept(socket).ok()
            };
            std::iter::from_fn(next).map(drop).count()
        });
        let pauses = 500 / name::LOOK.as_millis() as usize;
        let again = ended.saturating_sub(sent as usize);
        assert!(again <= pauses + 1, "it asked {again} times more, with room for {pauses} pauses");
    }

    /// A listener sends a socket that takes long to close, keeps no copy, and hangs up.
    #[test]
    fn what_a_listener_sends_holds_up_nobody_whom_it_refuses() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut slow = TcpStream::connect(listener.local_addr().expect("one")).expect("connected");
        let _never_reads = listener.accept().expect("accepted");
        rustix::net::sockopt::set_socket_linger(&slow, Some(LINGER)).expect("set");
        slow.set_nonblocking(true).expect("set");
        while slow.write(&[0; 65_536]).is_ok() {}
        slow.set_nonblocking(false).expect("set");
        let (mut ours, mut theirs) = passing::sockets().expect("made");
        let (ours, theirs) = (ours.take().expect("mine"), theirs.take().expect("mine"));
        passing::refuse(theirs.as_fd(), "it is full");
        passing::send(theirs.as_fd(), b"more", &[slow.as_fd()]).expect("sent");
        drop((slow, theirs));
        let begun = Instant::now();
        let socket = ParentOnly::new(ours).expect("taken over");
        assert_eq!(last_words(socket).as_deref(), Some("it is full"));
        assert!(begun.elapsed() < LINGER / 3, "it took {:?}", begun.elapsed());
    }
}
