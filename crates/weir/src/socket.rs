//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::end::{End, make_memory};
use crate::error::{Error, ErrorKind, Result};
use crate::life::{Role, receive_with, send_with};
use crate::options::Options;
use crate::pipe::{Reader, Writer, copy_of, open_kind};
use crate::record::{RecordReader, RecordWriter};
use crate::ring::layout;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, socket_with,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the first message of a connection begins with.
const HELLO: &[u8] = b"weir-open";
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;

/// A reader to be: listens at a path for writers.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    // Held as long as the listener lives: who wins it knows that the socket is stale.
    _lock: OwnedFd,
}

fn unix_socket(path: &Path, operation: &'static str) -> Result<(OwnedFd, SocketAddrUnix)> {
    let object = || path.display().to_string();
    let failed = |cause: Errno| Error::os(operation, object(), cause);
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(|_| {
        Error::new(ErrorKind::Invalid, operation, object(), "the path is longer than 107 bytes")
    })?;
    Ok((socket, address))
}

impl Listener {
    /// Listens at a path. What a listener that died has left there is removed.
    ///
    /// # Errors
    /// Somebody listens there; the directory cannot be written.
    pub fn bind(path: impl AsRef<Path>) -> Result<Listener> {
        let path = path.as_ref();
        let object = || path.display().to_string();
        let failed = |cause: Errno| Error::os("listen at", object(), cause);
        let (socket, address) = unix_socket(path, "listen at")?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = rustix::fs::open(Path::new(&beside), flags, Mode::RUSR | Mode::WUSR);
        let lock = lock.map_err(failed)?;
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            let why = "somebody listens there";
            return Err(Error::new(ErrorKind::Invalid, "listen at", object(), why));
        }
        let is_socket = rustix::fs::lstat(path)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_socket());
        if is_socket {
            rustix::fs::unlink(path).map_err(failed)?;
        }
        bind(&socket, &address).map_err(failed)?;
        listen(&socket, BACKLOG).map_err(failed)?;
        Ok(Listener { socket, path: path.to_owned(), _lock: lock })
    }

    /// Waits for a writer of a stream.
    ///
    /// # Errors
    /// What came is no stream's memory; those of accept(2).
    pub fn accept(&self, options: &Options) -> Result<Reader> {
        Reader::over(self.accept_end(layout::STREAM, options)?)
    }

    /// Waits for a writer of records.
    ///
    /// # Errors
    /// What came is no record pipe's memory; those of accept(2).
    pub fn accept_records(&self, options: &Options) -> Result<RecordReader> {
        RecordReader::over(self.accept_end(layout::RECORD, options)?)
    }

    fn accept_end(&self, kind: u32, options: &Options) -> Result<End> {
        let object = || format!("a writer at {}", self.path.display());
        let failed = |cause: Errno| Error::os("accept", object(), cause);
        let accepted = loop {
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Err(Errno::INTR) => {}
                accepted => break accepted.map_err(failed)?,
            }
        };
        let mut text = [0; 32];
        let got = receive_with(accepted.as_fd(), &mut text, RecvFlags::empty());
        let (count, mut files) = got.map_err(failed)?;
        let file = files.pop().filter(|_| &text[..count] == HELLO).ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "accept", object(), "what it sent is no pipe")
        })?;
        let map = open_kind(&file, kind)?;
        let resolved = options.resolve_over(&map)?;
        End::new(file, map, accepted, Role::Reader, &resolved)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Only this process removes it; the lock file stays, and is nobody's while it is unlocked.
        let _ = rustix::fs::unlink(&self.path);
    }
}

fn connect_end(path: &Path, kind: u32, options: &Options) -> Result<End> {
    let object = path.display().to_string();
    let (socket, address) = unix_socket(path, "connect to")?;
    connect(&socket, &address).map_err(|cause| match cause {
        Errno::CONNREFUSED | Errno::NOENT => {
            Error::new(ErrorKind::Closed, "connect to", &object, "no reader is listening")
        }
        cause => Error::os("connect to", &object, cause),
    })?;
    let resolved = options.resolve()?;
    let (file, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&file)?;
    send_with(socket.as_fd(), HELLO, &[copy.as_fd()])
        .map_err(|cause| Error::os("connect to", &object, cause))?;
    End::new(file, Arc::clone(&map), socket, Role::Writer, &resolved)
}

/// Connects to the reader that listens at a path, with a stream of these options.
///
/// # Errors
/// [`ErrorKind::Closed`]: nobody listens there.
pub fn connect_stream(path: impl AsRef<Path>, options: &Options) -> Result<Writer> {
    Writer::over(connect_end(path.as_ref(), layout::STREAM, options)?)
}

/// Connects to the reader that listens at a path, with a record pipe of these options.
///
/// # Errors
/// [`ErrorKind::Closed`]: nobody listens there.
pub fn connect_records(path: impl AsRef<Path>, options: &Options) -> Result<RecordWriter> {
    RecordWriter::over(connect_end(path.as_ref(), layout::RECORD, options)?)
}
