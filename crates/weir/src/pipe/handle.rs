//! Ends as two descriptors, to be sent to other processes.

use crate::connect::passing::{self, sockets};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::pipe::connection::Role;
use crate::pipe::options::{Options, Resolved};
use crate::pipe::storage::{copy_of, make_memory, open_kind};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use std::sync::Arc;
use weir_ring::layout;
use weir_sys::forks::ParentOnly;

/// An end that is not open: the descriptors of its memory and its socket. Forked children inherit
/// it, and executed programs do after [`Handle::keep_over_exec`].
///
/// ```
/// use weir::{Handle, Options, Reader, Writer};
/// // A socket between two processes; here both ends are in one.
/// let (here, there) = std::os::unix::net::UnixStream::pair()?;
/// let (writer, reader) = Handle::stream_pair(&Options::new())?;
/// reader.send(&here)?;
/// let mut reader = Reader::open(Handle::receive(&there)?)?;
/// let mut writer = Writer::open(writer)?;
/// writer.write(b"hello")?;
/// assert_eq!(reader.read(&mut [0; 16])?, 5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping it closes the pipe"]
pub struct Handle {
    role: Role,
    memory: OwnedFd,
    socket: OwnedFd,
}

/// The memory and socket of an end that is being made. No forked child has them.
#[derive(Debug)]
pub(crate) struct Half {
    pub memory: ParentOnly,
    pub socket: ParentOnly,
}

impl Half {
    fn give_up(mut self, role: Role) -> Result<Handle> {
        match (self.memory.take(), self.socket.take()) {
            (Some(memory), Some(socket)) => Ok(Handle::new(role, memory, socket)),
            _ => Err(forked_meanwhile()),
        }
    }

    /// Ends the connection, without closing here what its other end may have sent.
    pub fn refused(self, error: Error) -> Error {
        passing::hang_up(self.socket, None);
        error
    }
}

/// The error of who opens an end of this role with a handle of the other one.
fn other_role(role: Role) -> Error {
    let (object, why) = match role {
        Role::Writer => ("a writer", "the handle is a reader's"),
        Role::Reader => ("a reader", "the handle is a writer's"),
    };
    Error::new(ErrorKind::Invalid, "open", object, why)
}

fn no_connection() -> Error {
    let why = "its socket does not belong to a connection";
    Error::new(ErrorKind::Corrupt, "open", "the handle received", why)
}

fn no_channel(kind: ErrorKind, operation: &'static str) -> Error {
    Error::new(kind, operation, "a channel", "it is not a writer and a reader")
}

/// Fails if there was no message, but the end of the socket.
fn check_came(what: &'static str, count: usize) -> Result<()> {
    let why = "the other side has closed the socket or died";
    let ended = || Error::new(ErrorKind::Closed, "receive", what, why);
    (count > 0).then_some(()).ok_or_else(ended)
}

pub(crate) fn forked_meanwhile() -> Error {
    Error::new(ErrorKind::Forked, "hand on", "an end", "the process was forked meanwhile")
}

/// Both halves of a pipe, and its memory as it was mapped when it was made.
#[derive(Debug)]
pub(crate) struct Halves {
    pub writer: Half,
    pub reader: Half,
    pub map: Arc<Map>,
}

impl Halves {
    pub fn make(kind: u32, resolved: &Resolved) -> Result<Halves> {
        let (memory, map) = make_memory(kind, resolved)?;
        let (ours, theirs) = sockets()?;
        let copy = copy_of(&memory)?;
        let writer = Half { memory, socket: ours };
        Ok(Halves { writer, reader: Half { memory: copy, socket: theirs }, map })
    }
}

/// The text of a message that brings an end.
const WRITER: &[u8] = b"weir-writer";
const READER: &[u8] = b"weir-reader";
/// The text of a message that brings both ends of a side of a channel.
const CHANNEL: &[u8] = b"weir-channel";

impl Handle {
    pub(crate) fn new(role: Role, memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle { role, memory, socket }
    }

    /// Makes a stream whose ends are opened in any process. Returns the writer and the reader.
    ///
    /// # Errors
    /// Those of [`crate::pipe`].
    pub fn stream_pair(options: &Options) -> Result<(Handle, Handle)> {
        Handle::pair(layout::STREAM, options)
    }

    /// Makes a record pipe whose ends are opened in any process. Returns writer and reader.
    ///
    /// # Errors
    /// Those of [`crate::records`].
    pub fn record_pair(options: &Options) -> Result<(Handle, Handle)> {
        Handle::pair(layout::RECORD, options)
    }

    pub(crate) fn pair(kind: u32, options: &Options) -> Result<(Handle, Handle)> {
        let Halves { writer, reader, .. } = Halves::make(kind, &options.resolve()?)?;
        Ok((writer.give_up(Role::Writer)?, reader.give_up(Role::Reader)?))
    }

    /// Makes a writer's handle from inherited descriptors.
    pub fn writer(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Writer, memory, socket)
    }

    /// Makes a reader's handle from inherited descriptors.
    pub fn reader(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Reader, memory, socket)
    }

    /// Returns the descriptors of the memory and of the socket.
    pub fn into_descriptors(self) -> (OwnedFd, OwnedFd) {
        (self.memory, self.socket)
    }

    /// Lets executed programs inherit the descriptors. Returns the memory's and the socket's.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn keep_over_exec(&self) -> Result<(RawFd, RawFd)> {
        for descriptor in [&self.memory, &self.socket] {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())
                .map_err(|cause| Error::os("hand on", "an end", cause))?;
        }
        Ok((self.memory.as_raw_fd(), self.socket.as_raw_fd()))
    }

    /// Sends the handle over a connected unix socket, without waiting.
    ///
    /// # Errors
    /// Those of sendmsg(2), also if the socket is full. The end is closed then.
    pub fn send(self, over: impl AsFd) -> Result<()> {
        let text = if self.role == Role::Writer { WRITER } else { READER };
        passing::send(over.as_fd(), text, &[self.memory.as_fd(), self.socket.as_fd()])
            .map_err(|cause| Error::os("hand on", "an end", cause))
    }

    /// Receives a handle from a connected unix socket.
    ///
    /// # Errors
    /// Those of recvmsg(2); the message is not a handle. [`ErrorKind::Closed`]: the other side has
    /// closed the socket or died.
    pub fn receive(over: impl AsFd) -> Result<Handle> {
        let mut text = [0; 32];
        let (count, files) = passing::receive_all(over.as_fd(), &mut text)
            .map_err(|cause| Error::os("receive", "a handle", cause))?;
        check_came("a handle", count)?;
        let why = "the message is not a handle";
        let refused = || Error::new(ErrorKind::Corrupt, "receive", "a handle", why);
        let role = match &text[..count] {
            WRITER => Some(Role::Writer),
            READER => Some(Role::Reader),
            _ => None,
        };
        match (role, files) {
            (Some(role), [Some(memory), Some(socket)]) => Ok(Handle::new(role, memory, socket)),
            (_, files) => {
                files.into_iter().flatten().for_each(passing::close_refused);
                Err(refused())
            }
        }
    }

    /// Sends the writer and the reader of one side of a channel, in one message: a message of each
    /// would leave the other side with one of them where there is room for one only.
    pub(crate) fn send_both(writer: Handle, reader: Handle, over: BorrowedFd) -> Result<()> {
        let Handle { role: Role::Writer, memory: to, socket: there } = &writer else {
            return Err(no_channel(ErrorKind::Invalid, "hand on"));
        };
        let Handle { role: Role::Reader, memory: from, socket: back } = &reader else {
            return Err(no_channel(ErrorKind::Invalid, "hand on"));
        };
        passing::send(over, CHANNEL, &[to, there, from, back].map(AsFd::as_fd))
            .map_err(|cause| Error::os("hand on", "a channel", cause))
    }

    /// Receives what [`Handle::send_both`] has sent.
    pub(crate) fn receive_both(over: BorrowedFd) -> Result<(Handle, Handle)> {
        let mut text = [0; 32];
        let (count, files) = passing::receive_all(over, &mut text)
            .map_err(|cause| Error::os("receive", "a channel", cause))?;
        check_came("a channel", count)?;
        match files {
            [Some(to), Some(there), Some(from), Some(back)] if &text[..count] == CHANNEL => {
                Ok((Handle::writer(to, there), Handle::reader(from, back)))
            }
            files => {
                files.into_iter().flatten().for_each(passing::close_refused);
                Err(no_channel(ErrorKind::Corrupt, "receive"))
            }
        }
    }

    /// Takes the descriptors away from forked children, and maps the memory.
    pub(crate) fn open_as(self, role: Role, kind: u32) -> Result<(Half, Arc<Map>)> {
        let keep = |file: OwnedFd| {
            // One that was kept over an exec is to be in no program that is executed from here on.
            let set = rustix::io::fcntl_setfd(&file, FdFlags::CLOEXEC).map_err(Into::into);
            set.and_then(|()| ParentOnly::new(file))
                .map_err(|cause: std::io::Error| Error::os("keep", "an end", cause))
        };
        let half = Half { memory: keep(self.memory)?, socket: keep(self.socket)? };
        let is_right = if self.role == role { Ok(()) } else { Err(other_role(role)) };
        let map = is_right.and_then(|()| open_kind(&half.memory, kind));
        let is_connection = half.socket.get().is_some_and(passing::is_connection);
        match map.and_then(|map| is_connection.then_some(map).ok_or_else(no_connection)) {
            Ok(map) => {
                map.populate();
                Ok((half, map))
            }
            Err(error) => {
                // They may be anything, and slow to close.
                passing::close_shared_later(half.memory);
                passing::close_shared_later(half.socket);
                Err(error)
            }
        }
    }
}
