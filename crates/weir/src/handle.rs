//! An end on its way to another process: two descriptors.

use crate::end::make_memory;
use crate::error::{Error, ErrorKind, Result};
use crate::life::{Role, receive_with, send_with, sockets};
use crate::options::Options;
use crate::pipe::copy_of;
use crate::ring::layout;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use rustix::io::FdFlags;
use rustix::net::RecvFlags;

/// An end that is not open: its memory and its socket. Inherited by children that are forked;
/// by programs that are executed after [`Handle::keep_over_exec`].
#[derive(Debug)]
pub struct Handle {
    role: Role,
    memory: OwnedFd,
    socket: OwnedFd,
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

    fn pair(kind: u32, options: &Options) -> Result<(Handle, Handle)> {
        let (file, _map) = make_memory(kind, &options.resolve()?)?;
        let (ours, theirs) = sockets()?;
        let copy = copy_of(&file)?;
        Ok((Handle::writer(file, ours), Handle::reader(copy, theirs)))
    }

    /// A handle out of descriptors that were inherited.
    pub fn writer(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Writer, memory, socket)
    }

    /// The same, of a reader.
    pub fn reader(memory: OwnedFd, socket: OwnedFd) -> Handle {
        Handle::new(Role::Reader, memory, socket)
    }

    /// The memory and the socket.
    pub fn into_descriptors(self) -> (OwnedFd, OwnedFd) {
        (self.memory, self.socket)
    }

    /// Lets a program that is executed inherit both descriptors: their numbers.
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
    pub fn send(self, over: BorrowedFd) -> Result<()> {
        let text = if self.role == Role::Writer { WRITER } else { READER };
        send_with(over, text, &[self.memory.as_fd(), self.socket.as_fd()])
            .map_err(|cause| Error::os("hand on", "an end", cause))
    }

    /// Receives one that was sent.
    ///
    /// # Errors
    /// Those of recvmsg(2); what came is no handle.
    pub fn receive(over: BorrowedFd) -> Result<Handle> {
        let mut text = [0; 32];
        let (count, mut files) = receive_with(over, &mut text, RecvFlags::empty())
            .map_err(|cause| Error::os("receive", "an end", cause))?;
        let refused = || Error::new(ErrorKind::Corrupt, "receive", "an end", "what came is none");
        let role = match &text[..count] {
            WRITER => Role::Writer,
            READER => Role::Reader,
            _ => return Err(refused()),
        };
        let (Some(socket), Some(memory)) = (files.pop(), files.pop()) else {
            return Err(refused());
        };
        Ok(Handle::new(role, memory, socket))
    }

    pub(crate) fn open_as(self, role: Role) -> Result<(OwnedFd, OwnedFd)> {
        if self.role != role {
            let (object, why) = match role {
                Role::Writer => ("a writer", "the handle is a reader's"),
                Role::Reader => ("a reader", "the handle is a writer's"),
            };
            return Err(Error::new(ErrorKind::Invalid, "open", object, why));
        }
        Ok((self.memory, self.socket))
    }
}
