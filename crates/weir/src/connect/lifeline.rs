//! Whether the other end lives: the socket that dies with its last holder.
//!
//! Each end holds one side of a socket pair beside the memory. When the last descriptor of the
//! other side is closed, by its owner or by the kernel after a kill -9, this side hangs up; the
//! process's watcher sees it, and wakes whoever sleeps. The same socket carries doorbells for ends
//! that wait in poll, and the memory that follows when a pipe is resized.

use crate::connect::acceptor::REFUSED;
use crate::connect::closing;
use crate::connect::inbox::Inbox;
use crate::connect::watcher::{self, Watched};
use crate::error::{Error, Result};
use crate::memory::{Map, Page};
use crate::park::futex;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, TryLockError};
use weir_ring::board::Board;
use weir_ring::layout::{Header, SleepLine};
use weir_ring::primitive::{AtomicU32, Ordering, fence};
use weir_ring::rouse::{Heard, Rouse, Sleep};
use weir_ring::{Memory, sleep};
use weir_sys::forks::ParentOnly;

/// Which end of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub fn sleep(self, header: &Header) -> &SleepLine {
        if self == Role::Writer { &header.writer_sleep } else { &header.reader_sleep }
    }
}

/// A message that rings the doorbell of an end in poll.
const BELL: &[u8] = b"b";
/// A message that brings the next memory.
const MOVED: &[u8] = b"m";
/// What the message that brings a board begins with; the number of the ring follows.
const WELCOME: &[u8] = b"weir-in ";
/// Messages looked at in one go: a peer that sends without end holds nobody up.
const MOST_MESSAGES: usize = 64;

/// The lifeline of one end.
#[derive(Debug)]
pub struct Life {
    socket: ParentOnly,
    role: Role,
    /// How this end sleeps; its only news is that the other end is dead.
    sleep: Sleep,
    map: Mutex<Arc<Map>>,
    watched: OnceLock<Watched>,
    /// Of a writer of many: where to say that its ring has something.
    bell: OnceLock<Bell>,
    /// Why the reader did not take it, if it did not.
    refusal: OnceLock<String>,
    /// What its reader allows.
    limits: OnceLock<[u64; 2]>,
    /// Of the reader of many: who is to be told of a death.
    told: OnceLock<Told>,
    /// The other end is a process that connected, or was connected to: nobody shares this side.
    is_strange: AtomicBool,
    /// A descriptor came that is no memory.
    is_spoilt: AtomicBool,
    /// The epoll that knows the socket.
    polled: OnceLock<Arc<OwnedFd>>,
    /// The process at the other end, where it is watched too.
    process: Mutex<Option<Watched>>,
}

/// A place on the board of a reader of many rings.
#[derive(Debug)]
struct Bell {
    board: Page<Board>,
    ring: u32,
}

#[derive(Debug)]
struct Told {
    inbox: Arc<Inbox>,
    ring: u32,
    /// The watcher has said it.
    is_said: AtomicBool,
}

/// A pair of sockets for both ends of a pipe.
pub fn sockets() -> Result<(ParentOnly, ParentOnly)> {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let make = || socketpair(unix, kind, SocketFlags::CLOEXEC, None).map_err(std::io::Error::from);
    ParentOnly::make_two(make).map_err(|cause| Error::os("make", "a pair of sockets", cause))
}

impl Life {
    /// Begins to watch the other side of `socket`.
    pub fn start(socket: ParentOnly, role: Role, map: Arc<Map>) -> Result<Arc<Life>> {
        let map = Mutex::new(map);
        let life = Arc::new(Life {
            socket,
            role,
            sleep: Sleep::default(),
            map,
            watched: OnceLock::new(),
            bell: OnceLock::new(),
            refusal: OnceLock::new(),
            limits: OnceLock::new(),
            told: OnceLock::new(),
            is_strange: AtomicBool::new(false),
            is_spoilt: AtomicBool::new(false),
            polled: OnceLock::new(),
            process: Mutex::default(),
        });
        let _ = life.watched.set(watcher::watch(&life)?);
        Ok(life)
    }

    /// The socket, unless this is a forked child.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.socket.get()
    }

    /// Gives up watching and returns the socket.
    pub fn into_socket(self: Arc<Life>) -> Option<OwnedFd> {
        // The watcher holds it for a moment only, while it wakes an end.
        let mut shared = self;
        loop {
            match Arc::try_unwrap(shared) {
                Ok(mut life) => {
                    life.stop_watching();
                    return life.socket.take();
                }
                Err(still) => shared = still,
            }
            std::thread::yield_now();
        }
    }

    fn stop_watching(&self) {
        // In a forked child there is no socket, and the watcher is the parent's.
        if let (Some(watched), Some(_)) = (self.watched.get(), self.socket()) {
            watched.end();
            self.forget_process();
        }
    }

    /// Of the reader of many: has `inbox` told of the other end's death, or its process's where
    /// there are descriptors enough to watch that too.
    pub fn tell(
        self: &Arc<Life>,
        inbox: &Arc<Inbox>,
        ring: u32,
        pidfd: Option<OwnedFd>,
    ) -> Result<()> {
        self.is_strange.store(true, Ordering::Relaxed);
        let is_said = AtomicBool::new(false);
        let _ = self.told.set(Told { inbox: inbox.clone(), ring, is_said });
        // Pairs with the fence in `Sleep::note`: the watcher sees whom to tell, or this sees the
        // death.
        fence(Ordering::SeqCst);
        if let Some(pidfd) = pidfd {
            self.keep_process(watcher::watch_process(self, pidfd)?);
        }
        // Who died before that has told nobody.
        if self.is_dead() {
            inbox.note_gone(ring);
        }
        Ok(())
    }

    /// Of a writer: watches the reader's process as well, whose socket a child may have kept.
    pub fn watch_process(self: &Arc<Life>) -> Result<()> {
        let Some(socket) = self.socket() else { return Ok(()) };
        self.is_strange.store(true, Ordering::Relaxed);
        if let Ok(pidfd) = weir_sys::peer::pidfd(socket) {
            self.keep_process(watcher::watch_process(self, pidfd)?);
        }
        Ok(())
    }

    fn keep_process(&self, watched: Watched) {
        *self.process.lock().unwrap_or_else(PoisonError::into_inner) = Some(watched);
    }

    /// Gives the descriptor of the other end's process up: the socket must do.
    pub fn forget_process(&self) {
        if let Some(process) = self.process.lock().unwrap_or_else(PoisonError::into_inner).take() {
            process.end();
        }
    }

    /// Sends a writer the board of its reader, and the number of its ring.
    pub fn welcome(
        &self,
        board: BorrowedFd,
        ring: u32,
        limits: [u64; 2],
    ) -> rustix::io::Result<()> {
        let socket = self.socket().ok_or(Errno::BADF)?;
        let text = format!("{ring} {} {}", limits[0], limits[1]);
        send_with(socket, &[WELCOME, text.as_bytes()].concat(), &[board])
    }

    /// Whether the other end is known to be gone.
    pub fn is_dead(&self) -> bool {
        self.sleep.has_news()
    }

    /// Notes that the other end is gone. The watcher rouses this one afterwards.
    pub fn dies(&self) {
        self.sleep.note();
    }

    /// The end is about to sleep. Whether it may: the other is not known to be gone.
    pub fn falls_asleep(&self) -> bool {
        self.sleep.falls_asleep()
    }

    /// The end sleeps no more.
    pub fn wakes_up(&self) {
        self.sleep.wakes_up();
    }

    /// The end has moved to another memory.
    pub fn move_to(&self, map: Arc<Map>) {
        *self.map.lock().unwrap_or_else(PoisonError::into_inner) = map;
    }

    /// Wakes the other end, which said how it waits.
    pub fn wake(&self, word: &AtomicU32, how: u32) {
        if how & sleep::ASLEEP != 0 {
            futex::wake(word, 1);
        }
        if how & sleep::COLD != 0 {
            self.ring_bell();
        }
        if how & sleep::POLLING != 0
            && let Some(socket) = self.socket()
        {
            // Never waits: a full socket has unread bells in it, or no reader.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(socket, BELL, flags);
        }
    }

    /// Says on the board of the reader of many that this ring has something, and wakes it.
    fn ring_bell(&self) {
        if self.bell.get().is_none() {
            // The board was sent before the reader stopped looking at the ring.
            self.take_messages();
        }
        let Some(Bell { board, ring }) = self.bell.get() else { return };
        let board = board.words();
        board.set(*ring);
        if sleep::is_wanted(&board.sleep.word) {
            let how = sleep::take(&board.sleep.word);
            // Nobody is cold on a board.
            self.wake(&board.sleep.word, how & !sleep::COLD);
        }
    }

    /// The most a message to the reader of many may have, and other limits it gave; none before
    /// it has taken this writer in.
    pub fn limits(&self) -> Option<[u64; 2]> {
        self.limits.get().copied()
    }

    /// Why the reader did not take this writer, if it said so.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Whether the reader of many has taken this writer in.
    pub fn is_welcome(&self) -> bool {
        self.bell.get().is_some()
    }

    /// The socket is known to this epoll.
    pub fn is_polled_by(&self, epoll: Arc<OwnedFd>) {
        let _ = self.polled.set(epoll);
    }

    /// Takes doorbells and the like off the socket; the next memory, if one came.
    pub fn take_messages(&self) -> Option<ParentOnly> {
        self.take_until(false)
    }

    /// The same up to the first doorbell: while there is another, the socket stays readable.
    pub fn take_bell(&self) -> Option<ParentOnly> {
        self.take_until(true)
    }

    fn take_until(&self, to_the_bell: bool) -> Option<ParentOnly> {
        let socket = self.socket()?;
        let mut moved = None;
        for _ in 0..MOST_MESSAGES {
            match receive(socket) {
                Ok(Message::Memory(file)) => moved = Some(file),
                Ok(Message::Welcome(file, numbers)) => self.is_let_in(&file, numbers),
                Ok(Message::Refused(why)) => {
                    let _ = self.refusal.set(why);
                }
                Ok(Message::Bell) if to_the_bell => break,
                Ok(Message::Bell) | Err(Errno::INTR) => {}
                Err(Errno::BADMSG) => {
                    self.give_up();
                    break;
                }
                Ok(Message::End) | Err(_) => break,
            }
        }
        moved
    }

    /// Whether a descriptor came that is no memory.
    pub fn is_spoilt(&self) -> bool {
        self.is_spoilt.load(Ordering::Relaxed)
    }

    /// The other end does not keep to the protocol of the socket: it is as good as dead.
    fn give_up(&self) {
        self.is_spoilt.store(true, Ordering::Relaxed);
        match self.socket() {
            // The watcher sees that, and tells whom it would tell of a death.
            Some(socket) if self.is_strange.load(Ordering::Relaxed) => {
                let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
            }
            _ => self.dies(),
        }
    }

    /// A writer was let in: keeps the board, if it is one.
    fn is_let_in(&self, file: &ParentOnly, [ring, limits @ ..]: [u64; 3]) {
        // What is no board is as if none had come: its sender is told of nothing.
        let Some(file) = file.get() else { return };
        if let (Ok(board), Ok(ring)) = (Page::open(file), u32::try_from(ring)) {
            let _ = self.limits.set(limits);
            let _ = self.bell.set(Bell { board, ring });
        }
    }

    /// Sends the memory that follows this one.
    ///
    /// # Errors
    /// `AGAIN` when the socket is full of doorbells.
    pub fn send_memory(&self, file: BorrowedFd) -> rustix::io::Result<()> {
        let socket = self.socket().ok_or(Errno::BADF)?;
        send_with(socket, MOVED, &[file])
    }
}

/// Of one whose other end is dead.
impl Rouse for Life {
    fn rouse(&self) -> Heard {
        let mut heard = Heard::Yes;
        if let Some(Told { inbox, ring, is_said }) = self.told.get() {
            // Relaxed: only the watcher's thread uses it.
            if is_said.load(Ordering::Relaxed) || inbox.try_note_gone(*ring) {
                is_said.store(true, Ordering::Relaxed);
                heard = inbox.rouse();
            } else {
                heard = Heard::Perhaps;
            }
        }
        if !self.sleep.is_unheard() {
            return heard;
        }
        // Where the end moves to another memory just now, it is awake, or will be looked at again.
        let map = match self.map.try_lock() {
            Ok(map) => map.clone(),
            Err(TryLockError::Poisoned(map)) => map.into_inner().clone(),
            Err(TryLockError::WouldBlock) => return Heard::Perhaps,
        };
        let word = &self.role.sleep(map.header()).word;
        sleep::take(word);
        futex::wake(word, u32::MAX);
        Heard::Perhaps
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.stop_watching();
        let polled = self.polled.get().map(Arc::as_ref);
        match self.socket.pass_on() {
            Some(socket) if self.is_strange.load(Ordering::Relaxed) => {
                closing::hang_up(socket, polled)
            }
            Some(socket) => closing::leave(socket, polled),
            None => {}
        }
    }
}

enum Message {
    Bell,
    Memory(ParentOnly),
    Welcome(ParentOnly, [u64; 3]),
    Refused(String),
    End,
}

fn receive(socket: BorrowedFd) -> rustix::io::Result<Message> {
    let mut text = [0; 256];
    let (count, file) = closing::receive(socket, &mut text)?;
    match (&text[..count], file) {
        (b"", None) => Ok(Message::End),
        (MOVED, Some(file)) => Ok(Message::Memory(file)),
        (text, Some(file)) if text.starts_with(WELCOME) => {
            Ok(match numbers_in(&text[WELCOME.len()..]) {
                Some(numbers) => Message::Welcome(file, numbers),
                None => Message::Bell,
            })
        }
        (text, None) if text.starts_with(REFUSED) => {
            let why = &text[REFUSED.len()..];
            Ok(Message::Refused(why.escape_ascii().to_string()))
        }
        _ => Ok(Message::Bell),
    }
}

fn numbers_in(text: &[u8]) -> Option<[u64; 3]> {
    let mut words = std::str::from_utf8(text).ok()?.split(' ').map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

/// Most descriptors of a message.
const MOST_FILES: usize = 2;

/// Receives a message with its descriptors. `MFILE`: those did not all come, for there was no room
/// for them.
pub fn receive_with(
    socket: BorrowedFd,
    text: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(text)];
    let got = recvmsg(socket, &mut parts, &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            files.extend(rights);
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE);
    }
    Ok((got.bytes, files))
}

/// Sends a message with descriptors, without waiting.
pub fn send_with(socket: BorrowedFd, text: &[u8], files: &[BorrowedFd]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)), "there is space for two");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(text)], &mut ancillary, flags).map(drop)
}
