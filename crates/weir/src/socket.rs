//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::end::{End, make_memory};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::Half;
use crate::life::{Role, receive_with, send_with};
use crate::name::{self, Claim, What};
use crate::options::Options;
use crate::pipe::{Reader, Writer, copy_of, open_kind};
use crate::record::{RecordReader, RecordWriter};
use crate::ring::layout;
use rustix::fd::AsFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketFlags, accept_with};
use std::path::Path;
use std::sync::Arc;
use weir_sys::forks::ParentOnly;

/// What the first message of a connection begins with.
const HELLO: &[u8] = b"weir-open";
/// Connections that may wait to be accepted.
const BACKLOG: i32 = 16;
const LISTEN: What = What { operation: "listen at", noun: "path" };
const CONNECT: What = What { operation: "connect to", noun: "path" };

/// A reader to be: listens at a path for writers. The path, and a lock file beside it, go with it.
#[derive(Debug)]
pub struct Listener {
    claim: Claim,
}

impl Listener {
    /// Listens at a path, for this user alone. What a listener that died has left there is removed.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: somebody listens there, or another file has the name; the directory
    /// cannot be written.
    pub fn bind(path: impl AsRef<Path>) -> Result<Listener> {
        let owner = Mode::RUSR | Mode::WUSR;
        Ok(Listener { claim: Claim::new(&LISTEN, path.as_ref(), owner, BACKLOG)? })
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
        let object = || format!("a writer at {}", self.claim.path().display());
        let failed = |cause: Errno| Error::os("accept", object(), cause);
        let accepted = loop {
            let forked = || Error::new(ErrorKind::Forked, "accept", object(), "forked meanwhile");
            let socket = self.claim.socket().ok_or_else(forked)?;
            match accept_with(socket, SocketFlags::CLOEXEC) {
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
        let map = open_kind(file.as_fd(), kind)?;
        let resolved = options.resolve_over(&map)?;
        let keep = |file| ParentOnly::new(file).map_err(|cause| Error::os("keep", object(), cause));
        let half = Half { memory: keep(file)?, socket: keep(accepted)? };
        End::of(half, map, Role::Reader, &resolved)
    }
}

fn connect_end(path: &Path, kind: u32, options: &Options) -> Result<End> {
    let socket = name::dial(&CONNECT, path, None)?;
    let resolved = options.resolve()?;
    let (file, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&file)?;
    let (over, memory) = (socket.here(), copy.here());
    let sent = over.and_then(|over| send_with(over, HELLO, &[memory?]));
    sent.map_err(|cause| CONNECT.os(path, cause))?;
    End::new(Some(file), Arc::clone(&map), socket, Role::Writer, &resolved)
}

/// Connects to the reader that listens at a path, with a stream of these options.
///
/// # Errors
/// [`ErrorKind::NoReader`]: nobody listens there.
pub fn connect_stream(path: impl AsRef<Path>, options: &Options) -> Result<Writer> {
    Writer::over(connect_end(path.as_ref(), layout::STREAM, options)?)
}

/// Connects to the reader that listens at a path, with a record pipe of these options.
///
/// # Errors
/// [`ErrorKind::NoReader`]: nobody listens there.
pub fn connect_records(path: impl AsRef<Path>, options: &Options) -> Result<RecordWriter> {
    RecordWriter::over(connect_end(path.as_ref(), layout::RECORD, options)?)
}
