//! Ports: many writers, one reader, a name. [`Port`] is the reader, [`PortWriter`] a writer.
//!
//! Each writer has a ring of its own, which it makes and hands over; nobody else can write to it.
//! A ring is *hot* while the reader looks at it, or *cold*: then its writer says on the board, at
//! its next message, that it has something. The modules, in the order of flow: [`writer`] sends;
//! [`slot`] is a writer as its reader sees it; [`unfinished`] bounds the memory of messages that are
//! not whole; [`choice`] finds the next writer; [`rings`] lets writers in, and spins and sleeps when
//! none has anything; [`reader`] is the port.

mod choice;
mod lent;
mod options;
mod reader;
mod rings;
mod slot;
mod unfinished;
mod writer;

pub use crate::connect::peer::{Ending, Identity};
pub use lent::Lent;
pub use options::{PortOptions, PortWriterOptions};
pub use reader::Port;
pub use writer::PortWriter;

use crate::connect::name::{self, Subject};
use crate::error::Result;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a writer says first, with its memory.
const HELLO: &[u8] = b"weir-port";
// The header of a record is the ring's own word, which says its length and where it lies, and a
// second word: kind in the lowest byte, flags in the next, the rest zeros.
/// The kind of a record that holds part of a message.
const DATA: u32 = 1;
/// The record begins a message.
const FIRST: u32 = 1 << 8;
/// The record ends a message.
const LAST: u32 = 2 << 8;

/// One open of a port: the same process may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterId {
    /// Writers are counted from 1, in the order in which they were let in.
    serial: u64,
    slot: u32,
}

impl WriterId {
    /// Its number: writers are counted from 1, in the order in which they were let in.
    pub fn number(self) -> u64 {
        self.serial
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.serial)
    }
}

/// Writers at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// That are open.
    pub open: usize,
    /// Of these, that wait for room.
    pub waiting: usize,
}

/// One writer at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterStat {
    /// Which.
    pub id: WriterId,
    /// Its process and user.
    pub identity: Identity,
    /// Messages (or pieces, where those are shown) received from it.
    pub messages: u64,
    /// Bytes in these.
    pub bytes: u64,
    /// Its share of the reader's turns.
    pub share: u32,
    /// Whether the reader has suspended it.
    pub suspended: bool,
    /// Whether it waits for room.
    pub waiting: bool,
}

/// What came from a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message, so many bytes of the buffer.
    Message {
        /// Its length.
        bytes: usize,
    },
    /// Of ports that show pieces: part of a message.
    Piece {
        /// Its length.
        bytes: usize,
        /// It begins a message. If the writer's last did not end before, it never will.
        first: bool,
        /// It ends a message.
        last: bool,
    },
    /// The writer is gone; all it sent was received.
    Closed(Ending),
}

impl Event {
    /// Bytes of the message or piece.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Event::Message { bytes } | Event::Piece { bytes, .. } => bytes,
            Event::Closed(_) => 0,
        }
    }
}

/// What was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// From whom.
    pub writer: WriterId,
    /// Its process and user.
    pub identity: Identity,
    /// Which message (or piece) of this writer's, counted from 1; of `Closed` how many there were.
    pub sequence: u64,
    /// What.
    pub event: Event,
}

/// The name of a port as it is found outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortName {
    /// The path of its socket.
    pub path: PathBuf,
    /// The process that reads, 0 for one of another pid namespace; none where that is gone and has
    /// left the name.
    pub reader: Option<i32>,
}

const READ: Subject = Subject { operation: "read from", noun: "port" };
const LIST: Subject = Subject { operation: "list", noun: "ports in" };
const REMOVE: Subject = Subject { operation: "remove", noun: "port" };

impl PortName {
    /// Lists the ports in a directory by name; where none is given, in that of names without a `/`.
    ///
    /// ```
    /// use weir::{Port, PortName, PortOptions};
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// let port = Port::create(directory.path().join("log"), &PortOptions::new())?;
    /// let names = PortName::list(Some(directory.path()))?;
    /// assert_eq!(names[0].path, port.path());
    /// # Ok::<(), weir::Error>(())
    /// ```
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn list(directory: Option<&Path>) -> Result<Vec<PortName>> {
        let directory = directory.map_or_else(name::directory, |path| Ok(path.to_owned()))?;
        let failed = |cause: std::io::Error| {
            crate::Error::os(LIST.operation, LIST.object(&directory), cause)
        };
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            if path.extension().is_none_or(|extension| extension != "lock") {
                continue;
            }
            let path = path.with_extension("");
            let reader = match name::state(&path) {
                Some(name::NameState::Held(holder)) => Some(holder.pid().unwrap_or_default()),
                Some(name::NameState::Stale) => None,
                None => continue,
            };
            names.push(PortName { path, reader });
        }
        names.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(names)
    }

    /// Finds the path of a port's socket.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Invalid`]: the name cannot be one.
    pub fn path_of(name: impl AsRef<Path>) -> Result<PathBuf> {
        name::resolve(&Subject { operation: "name", noun: "port" }, name.as_ref())
    }
}

impl Port {
    /// Removes what a reader that is gone has left of a port.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Taken`]: it has a reader; [`crate::ErrorKind::Invalid`]: there is none of
    /// that name.
    pub fn remove(name: impl AsRef<Path>) -> Result<()> {
        let path = name::resolve(&REMOVE, name.as_ref())?;
        name::remove(&REMOVE, &path)
    }
}
