//! Messages with descriptors over sockets, and the closing of sockets that may contain some.
//!
//! Taking a message, or closing its socket, closes the descriptors in it that nobody keeps, and
//! that can take as long as their sender likes. So each message is peeked at before it is taken,
//! and descriptors that are not wanted are closed by [`super::closing`].

pub use super::closing::{close_later, close_shared_later};
use crate::error::{Error, Result};
use crate::memory::errno_of;
use rustix::event::epoll;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recv, recvmsg, sendmsg,
    shutdown, socketpair, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use weir_sys::forks::{ParentOnly, hold_off};
use weir_sys::rights::{self, MOST_RIGHTS};

/// The descriptors of a channel: two for each direction.
const MOST_FILES: usize = 4;
/// The beginning of a refusal. Its reason follows.
const REFUSED: &[u8] = b"weir-no ";

/// Makes two sockets that are connected to each other.
pub fn sockets() -> Result<(ParentOnly, ParentOnly)> {
    let (unix, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let make = || socketpair(unix, kind, SocketFlags::CLOEXEC, None).map_err(io::Error::from);
    ParentOnly::make_two(make).map_err(|cause| Error::os("make", "a pair of sockets", cause))
}

/// Copies a descriptor. No forked child has the copy.
pub fn copy_of(descriptor: BorrowedFd) -> rustix::io::Result<ParentOnly> {
    let copy = || rustix::io::fcntl_dupfd_cloexec(descriptor, 3).map_err(io::Error::from);
    ParentOnly::make(copy).map_err(|cause| errno_of(&cause))
}

/// Sends a message with up to four descriptors, without waiting.
pub fn send(socket: BorrowedFd, text: &[u8], files: &[BorrowedFd]) -> rustix::io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    assert!(ancillary.push(SendAncillaryMessage::ScmRights(files)), "there is space for four");
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &[IoSlice::new(text)], &mut ancillary, flags).map(drop)
}

/// A message: its length, up to `N` descriptors, and whether there were more.
type Got<const N: usize> = (usize, [Option<OwnedFd>; N], bool);

/// Whether a descriptor is a side of a connection of this library: of no other kind is the other side
/// known to be gone, or the closing known to be quick. It is asked for what no sender can delay.
pub fn is_connection(socket: BorrowedFd) -> bool {
    sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
        && sockopt::socket_acceptconn(socket) == Ok(false)
}

/// Receives once more where the other side has closed with something unread. The kernel tells that
/// once, before what that side had sent.
fn despite_a_reset<T>(mut receive: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    match receive() {
        Err(Errno::CONNRESET) => receive(),
        received => received,
    }
}

/// Receives a message. There is room for `most` descriptors; those beyond `N` go to `rest`.
fn receive_up_to<const N: usize>(
    socket: BorrowedFd,
    text: &mut [u8],
    flags: RecvFlags,
    most: usize,
    rest: &mut dyn FnMut(OwnedFd),
) -> rustix::io::Result<Got<N>> {
    let (mut files, mut count) = ([const { None }; N], 0);
    let mut each = |file| {
        match files.get_mut(count) {
            Some(place) => *place = Some(file),
            None => rest(file),
        }
        count += 1;
    };
    let (bytes, is_cut) = despite_a_reset(|| {
        let got = rights::receive(socket, text, flags.bits() as i32, most, &mut each);
        got.map_err(|cause| errno_of(&cause))
    })?;
    Ok((bytes, files, is_cut || count > N))
}

/// Waits for a message with up to `N` descriptors, which forked children inherit; of a message with
/// more it returns none. Fails with `MFILE` if this process has no room for `N`. The message stays
/// then, unless another thread takes the last room at that moment.
pub fn receive_all<const N: usize>(
    socket: BorrowedFd,
    text: &mut [u8],
) -> rustix::io::Result<(usize, [Option<OwnedFd>; N])> {
    // Waits for the message, which others may receive first.
    despite_a_reset(|| retry_on_intr(|| recv(socket, &mut [0; 1][..], RecvFlags::PEEK)))?;
    for room in [(); N].map(|()| copy_of(socket)) {
        room?;
    }
    match receive_up_to(socket, text, RecvFlags::empty(), MOST_RIGHTS, &mut close_refused)? {
        (count, files, false) => Ok((count, files)),
        (count, files, true) if files.iter().all(Option::is_some) => {
            files.into_iter().flatten().for_each(close_refused);
            Ok((count, [const { None }; N]))
        }
        _ => Err(Errno::MFILE),
    }
}

/// Closes a descriptor that came in place of another, without waiting for that.
pub fn close_refused(file: OwnedFd) {
    let _ = ParentOnly::new(file).map(close_shared_later);
}

/// Receives a message, and its memory if it has one, without waiting. `BADMSG`: it brings several
/// descriptors, or one that is not memory; the caller has to end the connection, for the message
/// stays and blocks those behind it. `MFILE`: this process has no room for the memory; the message
/// stays as well.
pub fn receive(
    socket: BorrowedFd,
    text: &mut [u8],
) -> rustix::io::Result<(usize, Option<ParentOnly>)> {
    receive_one(socket, text, is_memory)
}

/// Only memory files have seals, and closing one never waits.
fn is_memory(file: &ParentOnly) -> bool {
    file.here().and_then(rustix::fs::fcntl_get_seals).is_ok()
}

/// As [`receive`], for a message that may bring one descriptor, if it `is_right`. The caller does
/// not close another one: it may have been made to be slow to close.
pub fn receive_one(
    socket: BorrowedFd,
    text: &mut [u8],
    is_right: impl Fn(&ParentOnly) -> bool,
) -> rustix::io::Result<(usize, Option<ParentOnly>)> {
    receive_if(socket, text, is_right, |_| true)
}

/// As [`receive`], for a message that the caller `takes`. `AGAIN`: it does not, and the message
/// stays.
pub fn receive_memory_if(
    socket: BorrowedFd,
    text: &mut [u8],
    takes: impl FnOnce(&[u8]) -> bool,
) -> rustix::io::Result<(usize, Option<ParentOnly>)> {
    receive_if(socket, text, is_memory, takes)
}

fn receive_if(
    socket: BorrowedFd,
    text: &mut [u8],
    is_right: impl Fn(&ParentOnly) -> bool,
    takes: impl FnOnce(&[u8]) -> bool,
) -> rustix::io::Result<(usize, Option<ParentOnly>)> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let (mut bytes, mut is_cut) = (0, false);
    // A fork cannot come in between, so no child has what came.
    let files = ParentOnly::make_all::<2, io::Error>(|| {
        let files;
        // The message keeps its own copies: closing these never waits.
        (bytes, files, is_cut) = receive_up_to(socket, text, flags, 2, &mut drop)?;
        Ok(files)
    });
    let mut files = files.map_err(|cause| errno_of(&cause))?;
    let count = files.iter().flatten().count();
    if is_cut && count == 0 {
        return Err(Errno::MFILE);
    }
    if is_cut || count > 1 || !files.iter().flatten().all(is_right) {
        files.into_iter().flatten().for_each(close_later);
        return Err(Errno::BADMSG);
    }
    if !takes(&text[..bytes]) {
        return Err(Errno::AGAIN);
    }
    // As many bytes are taken, since the socket may be a stream.
    take(socket, &mut text[..bytes])?;
    Ok((bytes, files.iter_mut().find_map(Option::take)))
}

/// Takes a message that was looked at. The look keeps what came open, and so all that the message itself
/// holds can be closed. But where others share the socket, this may be another message.
fn take(socket: BorrowedFd, text: &mut [u8]) -> rustix::io::Result<()> {
    let mut slow = [const { None }; MOST_RIGHTS];
    let mut place = slow.iter_mut();
    let mut each = |file: OwnedFd| {
        let is_quick = rustix::fs::fcntl_get_seals(&file).is_ok();
        let _ = place.next().filter(|_| !is_quick).map(|place| *place = Some(file));
    };
    // A fork cannot come in between, so no child has copies of memory.
    let taken = hold_off(|| {
        let flags = RecvFlags::DONTWAIT.bits() as i32;
        rights::receive(socket, text, flags, MOST_RIGHTS, &mut each)
    });
    slow.into_iter().flatten().for_each(close_refused);
    taken.map(drop).map_err(|cause| errno_of(&cause))
}

/// Tells the other side that it is refused, and why.
pub fn refuse(socket: BorrowedFd, why: &str) {
    // If this fails, the other side sees only that the connection ends.
    let _ = send(socket, &[REFUSED, why.as_bytes()].concat(), &[]);
}

/// Refuses the process at the other end of a socket, for a reason, and closes the socket.
pub fn turn_away(socket: ParentOnly, why: &str) {
    if let Some(socket) = socket.get() {
        refuse(socket, why);
    }
    hang_up(socket, None);
}

/// The reason in a message, if that is a refusal.
pub fn refusal_in(text: &[u8]) -> Option<String> {
    Some(text.strip_prefix(REFUSED)?.escape_ascii().to_string())
}

/// Ends a connection and closes its socket. `polled` is the epoll that knows the socket, if any.
pub fn hang_up(socket: ParentOnly, polled: Option<&OwnedFd>) {
    // After this no message can come.
    let _ = socket.here().map(|socket| shutdown(socket, Shutdown::Both));
    leave(socket, polled);
}

/// Closes this process's descriptor of a connection that other processes may share.
pub fn leave(socket: ParentOnly, polled: Option<&OwnedFd>) {
    let Some(descriptor) = socket.get().filter(|socket| has_message(*socket)) else { return };
    if let Some(polled) = polled {
        let _ = epoll::delete(polled, descriptor);
    }
    close_later(socket);
}

/// Whether any message is left in a socket that is about to be closed.
fn has_message(socket: BorrowedFd) -> bool {
    // With this option every message, even an empty one, comes with credentials. They do not fit
    // the empty buffer below, which the kernel reports as CTRUNC.
    let _ = sockopt::set_socket_passcred(socket, true);
    // Whoever handed the socket over may have set it to peek behind its messages.
    rights::peek_from_the_first(socket);
    let (mut text, flags) = ([0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
    let (mut parts, mut none) = ([IoSliceMut::new(&mut text)], RecvAncillaryBuffer::default());
    let mut peek = || retry_on_intr(|| recvmsg(socket, &mut parts, &mut none, flags));
    let got = despite_a_reset(&mut peek);
    got.is_ok_and(|got| got.flags.contains(ReturnFlags::CTRUNC))
}
