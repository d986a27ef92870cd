//! An end on its way to another process: two descriptors.

use crate::connect::passing::{self, sockets};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Map;
use crate::pipe::connection::Role;
use crate::pipe::options::{Options, Resolved};
use crate::pipe::storage::{copy_of, make_memory, open_kind};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use std::sync::Arc;
use weir_ring::layout;
use weir_sys::forks::ParentOnly;

/// An end that is not open: its memory and its socket. Inherited by children that are forked;
/// by programs that are executed after [`Handle::keep_over_exec`].
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

/// Memory and socket of an end that is being made. No forked child has them.
#[derive(Debug)]
pub(crate) struct Half {
    pub memory: ParentOnly,
    pub socket: ParentOnly,
}

impl Half {
    /// As a handle, which forked children inherit.
    fn give_up(mut self, role: Role) -> Result<Handle> {
        match (self.memory.take(), self.socket.take()) {
            (Some(memory), Some(socket)) => Ok(Handle::new(role, memory, socket)),
            _ => Err(Error::new(ErrorKind::Forked, "hand on", "an end", "forked meanwhile")),
        }
    }
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

/// What precedes the descriptors when they are sent.
const WRITER: &[u8] = b"weir-writer";
const READER: &[u8] = b"weir-reader";

impl Handle {
    pub(crate) fn new(role: Role, memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle { role, memory, socket }
    }

    /// Makes a stream whose ends are opened elsewhere: the writer, the reader.
    ///
    /// # Errors
    /// Those of [`crate::pipe`].
    pub fn stream_pair(options: &Options) -> Result<(Handle, Handle)> {
        Handle::pair(layout::STREAM, options)
    }

    /// Makes a record pipe whose ends are opened elsewhere: the writer, the reader.
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

    /// Makes a writer's handle out of descriptors that were inherited.
    pub fn writer(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Writer, memory, socket)
    }

    /// Makes a reader's handle out of descriptors that were inherited.
    pub fn reader(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Reader, memory, socket)
    }

    /// Takes the handle apart: the memory and the socket.
    pub fn into_descriptors(self) -> (OwnedFd, OwnedFd) {
        (self.memory, self.socket)
    }

    /// Lets a program that is executed inherit both descriptors, and returns their numbers: of the
    /// memory and of the socket.
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

    /// Sends it over a connected unix socket. The handle goes with it.
    ///
    /// # Errors
    /// Those of sendmsg(2); the socket is full.
    pub fn send(self, over: impl AsFd) -> Result<()> {
        let text = if self.role == Role::Writer { WRITER } else { READER };
        passing::send(over.as_fd(), text, &[self.memory.as_fd(), self.socket.as_fd()])
            .map_err(|cause| Error::os("hand on", "an end", cause))
    }

    /// Receives one that was sent.
    ///
    /// # Errors
    /// Those of recvmsg(2); what came is no handle.
    pub fn receive(over: impl AsFd) -> Result<Handle> {
        let mut text = [0; 32];
        let (count, files) = passing::receive_two(over.as_fd(), &mut text)
            .map_err(|cause| Error::os("receive", "an end", cause))?;
        let refused = || Error::new(ErrorKind::Corrupt, "receive", "an end", "what came is none");
        let role = match &text[..count] {
            WRITER => Role::Writer,
            READER => Role::Reader,
            _ => return Err(refused()),
        };
        let [Some(memory), Some(socket)] = files else { return Err(refused()) };
        Ok(Handle::new(role, memory, socket))
    }

    /// The descriptors, which forked children have no more, and the memory, mapped.
    pub(crate) fn open_as(self, role: Role, kind: u32) -> Result<(Half, Arc<Map>)> {
        if self.role != role {
            let (object, why) = match role {
                Role::Writer => ("a writer", "the handle is a reader's"),
                Role::Reader => ("a reader", "the handle is a writer's"),
            };
            return Err(Error::new(ErrorKind::Invalid, "open", object, why));
        }
        let keep = |file| ParentOnly::new(file).map_err(|cause| Error::os("keep", "an end", cause));
        let half = Half { memory: keep(self.memory)?, socket: keep(self.socket)? };
        let map = open_kind(&half.memory, kind)?;
        // Who opens a handle wants its memory.
        map.populate();
        Ok((half, map))
    }
}
