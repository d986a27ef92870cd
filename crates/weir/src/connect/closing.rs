//! Descriptors that others have sent, and connections in which some may lie.
//!
//! Closing a descriptor can take as long as whoever made it likes: a TCP socket that lingers, a
//! file of FUSE. One that came over a socket and is still in flight is closed by whoever takes the
//! message, or closes the socket. So weir takes no message with a descriptor off a socket before it
//! has looked at it, and what it does not want goes to threads that do nothing but close, for which
//! nobody waits.

use crate::connect::watcher;
use crate::memory::errno_of;
use rustix::event::epoll;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, Shutdown, recv, recvmsg,
    shutdown, sockopt,
};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weir_sys::forks::ParentOnly;

/// Most threads that close.
const MOST_THREADS: usize = 16;
/// Descriptors that wait for one of them, from which on nobody new is let in.
const MANY_WAITING: usize = 64;
/// Messages taken off a socket that is closed.
const MOST_LEFT: usize = 1024;
/// How long a thread that has nothing to close stays.
const STAY: Duration = Duration::from_secs(2);

/// The threads that close.
#[derive(Debug, Default)]
pub struct Closers {
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<ParentOnly>,
    threads: usize,
    idle: usize,
}

impl Closers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a descriptor over.
    pub fn take(self: &Arc<Closers>, descriptor: ParentOnly) {
        let mut state = self.state();
        state.waiting.push_back(descriptor);
        if state.idle >= state.waiting.len() {
            self.came.notify_one();
            return;
        }
        if state.threads < MOST_THREADS {
            let own = self.clone();
            let builder = std::thread::Builder::new().name("weir-closer".into());
            // Where there is none to be had, the next one that comes tries again.
            if builder.stack_size(64 << 10).spawn(move || own.run()).is_ok() {
                state.threads += 1;
            }
        }
    }

    /// Whether so many wait that nobody new is to be let in.
    pub fn are_held_up(&self) -> bool {
        self.state().waiting.len() >= MANY_WAITING
    }

    fn run(&self) {
        weir_sys::signals::block_all();
        let mut state = self.state();
        loop {
            if let Some(descriptor) = state.waiting.pop_front() {
                drop(state);
                // This is what may take its time.
                drain(&descriptor);
                drop(descriptor);
                state = self.state();
                continue;
            }
            state.idle += 1;
            let waited = self.came.wait_timeout(state, STAY);
            let (woken, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timed_out.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Takes what is left in a socket: the other side of one that is closed before that hears of a
/// broken connection, and not first of what it was told.
fn drain(socket: &ParentOnly) {
    let Some(socket) = socket.get() else { return };
    for _ in 0..MOST_LEFT {
        match recv(socket, &mut [0; 1][..], RecvFlags::DONTWAIT) {
            Ok(_) | Err(Errno::INTR) => {}
            // Nothing more; or it is no socket.
            Err(_) => return,
        }
    }
}

/// Closes a connection with a stranger, from whom nothing more is heard from now on. `polled` is
/// the epoll that knows the socket, if one does.
pub fn hang_up(socket: ParentOnly, polled: Option<&OwnedFd>) {
    // After this nothing more can come.
    let _ = socket.here().map(|socket| shutdown(socket, Shutdown::Both));
    leave(socket, polled);
}

/// Closes this side's descriptor of a connection that others may share.
pub fn leave(socket: ParentOnly, polled: Option<&OwnedFd>) {
    let Some(descriptor) = socket.get().filter(|socket| has_message(*socket)) else { return };
    if let Some(polled) = polled {
        let _ = epoll::delete(polled, descriptor);
    }
    watcher::put_away(socket);
}

/// Whether any message is left in a socket that is about to be closed.
fn has_message(socket: BorrowedFd) -> bool {
    // With this the kernel has something to say beside each message, be it empty, and says that
    // there was no space for it.
    let _ = sockopt::set_socket_passcred(socket, true);
    let (mut text, flags) = ([0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    let (mut parts, mut none) = ([IoSliceMut::new(&mut text)], RecvAncillaryBuffer::default());
    loop {
        match recvmsg(socket, &mut parts, &mut none, flags) {
            Err(Errno::INTR) => {}
            got => return got.is_ok_and(|got| got.flags.contains(ReturnFlags::CTRUNC)),
        }
    }
}

/// Receives a message without waiting, with its memory if it has one. `BADMSG`: it has another
/// descriptor, or several; it is still there, nothing behind it is received, and the connection is
/// to be ended. `MFILE`: there was no room for the memory; it is still there as well.
pub fn receive(
    socket: BorrowedFd,
    text: &mut [u8],
) -> rustix::io::Result<(usize, Option<ParentOnly>)> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let mut got = None;
    // One step for a fork: no child has what came. There is space for two where there is for one.
    let files = ParentOnly::make_all::<2, io::Error>(|| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(text)];
        got = Some(recvmsg(socket, &mut parts, &mut ancillary, flags)?);
        let mut files = [None, None];
        let rights = ancillary.drain().filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(rights) => Some(rights),
            _ => None,
        });
        for (place, file) in files.iter_mut().zip(rights.flatten()) {
            *place = Some(file);
        }
        Ok(files)
    });
    let mut files = files.map_err(|cause| errno_of(&cause))?;
    let got = got.ok_or(Errno::IO)?;
    let is_cut = got.flags.contains(ReturnFlags::CTRUNC);
    let count = files.iter().flatten().count();
    if is_cut && count == 0 {
        return Err(Errno::MFILE);
    }
    // Sealed memory is what is wanted, and its closing never waits; nothing else has seals.
    let is_memory = |file: &ParentOnly| file.here().and_then(rustix::fs::fcntl_get_seals).is_ok();
    if is_cut || count > 1 || !files.iter().flatten().all(is_memory) {
        files.into_iter().flatten().for_each(watcher::put_away);
        return Err(Errno::BADMSG);
    }
    // Of what is taken with the message another descriptor is held here: nothing is closed by it.
    recv(socket, &mut [0; 0][..], RecvFlags::DONTWAIT)?;
    Ok((got.bytes, files.iter_mut().find_map(Option::take)))
}
