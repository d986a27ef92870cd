//! Ports without a name, and the handles through which writers reach them.

use super::rings::Rings;
use super::{CREATE, Port, PortOptions, PortWriter, PortWriterOptions};
use crate::connect::{name, passing};
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use rustix::io::FdFlags;

/// The text of a message that brings a handle.
const PORT: &[u8] = b"weir-port-handle";
/// What errors call a handle.
const HANDLE: &str = "the handle of a port";

/// A way to a port without a name, made by [`Port::unnamed`]: two descriptors, of which any number of
/// writers can be opened. Forked children inherit it, and executed programs do after
/// [`PortHandle::keep_over_exec`].
///
/// Such a port ends once all its handles are closed, in all processes, and its last writer is gone.
///
/// ```
/// use weir::{ErrorKind, Event, Port, PortOptions, PortWriter, PortWriterOptions};
/// let (mut port, handle) = Port::unnamed(&PortOptions::new())?;
/// let mut writer = PortWriter::open(&handle, &PortWriterOptions::new())?;
/// writer.send(b"hello")?;
/// drop((writer, handle));
/// let mut buffer = [0; 64];
/// assert_eq!(port.receive(&mut buffer)?.event, Event::Message { bytes: 5 });
/// assert!(matches!(port.receive(&mut buffer)?.event, Event::Closed(_)));
/// // The end of file.
/// assert_eq!(port.receive(&mut buffer).expect_err("the end").kind(), ErrorKind::Closed);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a port without a name ends once its handles and writers are gone"]
pub struct PortHandle {
    /// The file of the listening socket.
    way: OwnedFd,
    /// One side of a connection. The reader sees when all its descriptors are closed.
    alive: OwnedFd,
}

impl PortHandle {
    /// Makes a handle from inherited descriptors, in the order of [`PortHandle::into_descriptors`].
    pub fn new(way: OwnedFd, alive: OwnedFd) -> PortHandle {
        PortHandle { way, alive }
    }

    /// Returns its two descriptors: the way to the port, and the one that keeps it from ending.
    pub fn into_descriptors(self) -> (OwnedFd, OwnedFd) {
        (self.way, self.alive)
    }

    /// Copies the handle.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn try_clone(&self) -> Result<PortHandle> {
        let copy = |of: &OwnedFd| of.try_clone().map_err(|cause| failed("copy", cause));
        Ok(PortHandle { way: copy(&self.way)?, alive: copy(&self.alive)? })
    }

    /// Lets executed programs inherit the descriptors, and returns their numbers.
    ///
    /// # Errors
    /// Those of fcntl(2).
    pub fn keep_over_exec(&self) -> Result<(RawFd, RawFd)> {
        for descriptor in [&self.way, &self.alive] {
            rustix::io::fcntl_setfd(descriptor, FdFlags::empty())
                .map_err(|cause| failed("hand on", cause))?;
        }
        Ok((self.way.as_raw_fd(), self.alive.as_raw_fd()))
    }

    /// Sends a copy of the handle over a connected unix socket, without waiting.
    ///
    /// # Errors
    /// Those of sendmsg(2), also if the socket is full.
    pub fn send(&self, over: impl AsFd) -> Result<()> {
        passing::send(over.as_fd(), PORT, &[self.way.as_fd(), self.alive.as_fd()])
            .map_err(|cause| failed("hand on", cause))
    }

    /// Receives a handle from a connected unix socket.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the other side has closed the socket. [`ErrorKind::Corrupt`]: the message
    /// is not a port's handle. Those of recvmsg(2).
    pub fn receive(over: impl AsFd) -> Result<PortHandle> {
        let mut text = [0; 32];
        let (count, files) = passing::receive_all(over.as_fd(), &mut text)
            .map_err(|cause| failed("receive", cause))?;
        match files {
            [Some(way), Some(alive)] if &text[..count] == PORT => Ok(PortHandle { way, alive }),
            files => {
                files.into_iter().flatten().for_each(passing::close_refused);
                let (kind, why) = match count {
                    0 => (ErrorKind::Closed, "the other side has closed the socket"),
                    _ => (ErrorKind::Corrupt, "the message is another one"),
                };
                Err(Error::new(kind, "receive", HANDLE, why))
            }
        }
    }
}

fn failed(operation: &'static str, cause: impl Into<std::io::Error>) -> Error {
    Error::os(operation, HANDLE, cause.into())
}

impl Port {
    /// Makes a port without a name, and a handle through which any process that gets it can open
    /// writers. Unlike a named port, it ends: [`Port::receive`] fails with [`ErrorKind::Closed`] once
    /// all handles are closed, the last writer is gone, and everything was received.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: an option is not valid; those of the kernel.
    pub fn unnamed(options: &PortOptions) -> Result<(Port, PortHandle)> {
        let (ours, mut theirs) = passing::sockets()?;
        let (rings, way) = Rings::unnamed(&CREATE, options, ours)?;
        let lost = || Error::new(ErrorKind::Forked, "make", "a port", "the process was forked");
        let alive = theirs.take().ok_or_else(lost)?;
        Ok((Port { rings }, PortHandle { way, alive }))
    }
}

impl PortWriter {
    /// Opens a writer to a port without a name, as [`PortWriter::connect`] does to one with a name.
    ///
    /// # Errors
    /// Those of [`PortWriter::connect`].
    pub fn open(handle: &PortHandle, options: &PortWriterOptions) -> Result<PortWriter> {
        let path = weir_sys::proc::path_of_own(&handle.way);
        PortWriter::connect_by(path.as_ref(), name::SHOWN.into(), options)
    }
}
