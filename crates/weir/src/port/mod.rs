//! Ports: many writers, one reader, a name. [`Port`] is the reader, [`PortWriter`] a writer.
//!
//! Each writer makes a ring of its own and hands it over; no other writer can write to it. A ring
//! is *hot* while the reader looks at it. Otherwise it is *cold*, and its writer sets a bit on the
//! board with its next message. The modules, in the order of flow: [`writer`] sends; [`backlog`]
//! finds what comes next from a writer; [`partial`] is a message that came in several records;
//! [`slot`] is a writer as the reader sees it; [`unfinished`] bounds the memory of unfinished
//! messages; [`choice`] finds the next writer; [`counts`] is where all count; [`rings`] lets writers in,
//! and spins and sleeps when none has anything; [`reader`] is the port.

mod backlog;
mod choice;
mod counts;
mod elastic;
mod entrance;
mod handle;
mod lent;
mod options;
mod partial;
mod reader;
mod rings;
mod slot;
mod unfinished;
mod watched;
mod writer;

pub use crate::connect::peer::{Ending, Identity};
pub use elastic::ElasticPort;
pub use handle::PortHandle;
pub use lent::Lent;
pub use options::MODE_BITS;
pub use options::{PortOptions, PortWriterOptions};
pub use reader::Port;
pub use watched::Bell;
pub use writer::PortWriter;

use crate::connect::name::{self, Subject};
use crate::error::Result;
use std::fmt;
use std::path::{Path, PathBuf};

/// The first message of a writer, sent with its memory.
const HELLO: &[u8] = b"weir-port";
// The header of a record has two words. The first is the ring's: the record's length and place. The
// second holds a kind in the lowest byte, flags in the next, and zeros.
/// The kind of a record that holds part of a message.
const DATA: u32 = 1;
/// The record begins a message.
const FIRST: u32 = 1 << 8;
/// The record ends a message.
const LAST: u32 = 2 << 8;

/// The identity of one writer of a port. A process may have several writers.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let received = port.receive(&mut [0; 64])?;
/// assert_eq!(received.writer.number(), 1);
/// port.set_share(received.writer, 4)?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriterId {
    serial: u64,
    slot: u32,
}

impl WriterId {
    /// The writer's number. Writers are counted from 1, in the order in which they were let in.
    pub fn number(self) -> u64 {
        self.serial
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.serial)
    }
}

/// The number of a port's writers at one moment.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// assert_eq!(port.counts()?.open, 1);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortCounts {
    /// Open writers.
    pub open: usize,
    /// Open writers that wait for room.
    pub waiting: usize,
}

/// The state of one writer at one moment.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// port.receive(&mut [0; 64])?;
/// let stat = port.writers()?[0];
/// assert_eq!((stat.messages, stat.bytes), (1, 7));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterStat {
    /// The writer.
    pub id: WriterId,
    /// Its process and user.
    pub identity: Identity,
    /// Messages received from it, or pieces if the port shows pieces.
    pub messages: u64,
    /// Bytes in these messages.
    pub bytes: u64,
    /// Its share of the reader's turns.
    pub share: u32,
    /// Whether the reader has suspended it.
    pub suspended: bool,
    /// Whether it waits for room.
    pub waiting: bool,
}

/// What came from a writer.
///
/// ```
/// use weir::{Event, Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let mut buffer = [0; 64];
/// if let Event::Message { bytes } = port.receive(&mut buffer)?.event {
///     assert_eq!(&buffer[..bytes], b"started");
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A message, at the front of the buffer.
    Message {
        /// Its length.
        bytes: usize,
    },
    /// A part of a message, from a port that shows pieces.
    Piece {
        /// Its length.
        bytes: usize,
        /// It begins a message. If the writer's previous message has not ended, it never will.
        first: bool,
        /// It ends a message.
        last: bool,
    },
    /// The writer is gone, and all it sent was received.
    Closed(Ending),
}

impl Event {
    /// The length of the message or piece.
    pub(crate) fn bytes(self) -> usize {
        match self {
            Event::Message { bytes } | Event::Piece { bytes, .. } => bytes,
            Event::Closed(_) => 0,
        }
    }
}

/// Something that a port received from a writer.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// let received = port.receive(&mut [0; 64])?;
/// assert_eq!(received.sequence, 1);
/// assert_eq!(received.identity.pid, std::process::id() as i32);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The writer.
    pub writer: WriterId,
    /// Its process and user.
    pub identity: Identity,
    /// The number of this message (or piece) among the writer's, counted from 1. With `Closed`: how
    /// many there were.
    pub sequence: u64,
    /// What came.
    pub event: Event,
}

/// The name of a port in the file system.
///
/// ```
/// use weir::{Port, PortName, PortOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let _port = Port::create(&name, &PortOptions::new())?;
/// let names = PortName::list(Some(directory.path()))?;
/// assert_eq!(names[0].reader, Some(std::process::id() as i32));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortName {
    /// The path of its socket.
    pub path: PathBuf,
    /// The process that reads, or 0 if it is in another pid namespace. `None` if the reader is gone
    /// and has left the name behind.
    pub reader: Option<i32>,
}

const CREATE: Subject = Subject { operation: "make", noun: "port" };
const READ: Subject = Subject { operation: "read from", noun: "port" };
const LIST: Subject = Subject { operation: "list", noun: "ports in" };
const REMOVE: Subject = Subject { operation: "remove", noun: "port" };

impl PortName {
    /// Lists the ports in a directory, sorted by name. Other names, as of an mpx, are left out.
    /// Without a directory it lists the one that holds names without a `/`.
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
            let reader = match name::state_of_port(&path) {
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
    /// [`crate::ErrorKind::Invalid`]: the name cannot be a port's.
    pub fn path_of(name: impl AsRef<Path>) -> Result<PathBuf> {
        name::resolve(&Subject { operation: "name", noun: "port" }, name.as_ref())
    }
}

impl Port {
    /// Removes a port's name that a reader which is gone has left behind.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Taken`]: the port has a reader; [`crate::ErrorKind::Invalid`]: there is
    /// no port of that name.
    pub fn remove(name: impl AsRef<Path>) -> Result<()> {
        let path = name::resolve(&REMOVE, name.as_ref())?;
        name::remove(&REMOVE, &path)
    }
}
