//! Ports in use, read from outside: the board of the reader and the rings of its writers.

use super::beginning::copy_of_board;
use super::{EndStat, held_by, pipes};
use crate::connect::name::{self, NameState, Subject};
use crate::error::{ErrorKind, Result};
use rustix::fd::OwnedFd;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use weir_ring::board::{Board, BoardAccount};

/// The state of one port at one moment. Names and processes come from the kernel. All other numbers
/// are what the reader or a writer reports about itself.
///
/// ```
/// use weir::{Port, PortOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let _port = Port::create(&name, &PortOptions::new())?;
/// let stat = weir::stat::port(&name)?;
/// assert_eq!(stat.reader, Some(std::process::id() as i32));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStat {
    /// The path of its socket.
    pub path: PathBuf,
    /// The process that reads, or 0 if it is in another pid namespace. `None` if the reader is gone
    /// and has left the name behind.
    pub reader: Option<i32>,
    /// The reader's account. `None` if this user may not look at it.
    pub account: Option<PortAccount>,
    /// The writers whose memory this user may look at, by process.
    pub writers: Vec<PortWriterStat>,
}

/// The account that the reader of a port keeps about itself.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// port.receive(&mut [0; 64])?;
/// let account = weir::stat::port(&name)?.account.expect("this process may look");
/// assert_eq!((account.messages, account.bytes), (1, 7));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortAccount {
    /// Writers that are open.
    pub open: u32,
    /// Messages received.
    pub messages: u64,
    /// Bytes in these messages.
    pub bytes: u64,
    /// Writers that were let in.
    pub opened: u64,
    /// Writers that have closed.
    pub closed: u64,
    /// Writers that have died, or were shut out.
    pub died: u64,
    /// How often there was nothing to receive.
    pub waits: u64,
    /// Waits that ended while the reader still spun.
    pub spun: u64,
    /// How often the reader slept.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
    /// Wake-ups that the reader got while it slept.
    pub wakes_taken: u64,
}

/// The state of one writer to a port. A message longer than a piece counts as several pieces.
///
/// ```
/// use weir::{Port, PortOptions, PortWriter, PortWriterOptions};
/// # let directory = tempfile::tempdir().expect("a directory");
/// # let name = directory.path().join("log");
/// let mut port = Port::create(&name, &PortOptions::new())?;
/// let mut writer = PortWriter::connect(&name, &PortWriterOptions::new())?;
/// writer.send(b"started")?;
/// port.receive(&mut [0; 64])?;
/// let stat = weir::stat::port(&name)?.writers[0];
/// assert_eq!((stat.pieces, stat.received), (1, 1));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortWriterStat {
    /// A process that has the writer's end.
    pub pid: i32,
    /// The user of that process.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether the reader has let it in.
    pub let_in: bool,
    /// Pieces sent.
    pub pieces: u64,
    /// Bytes in these pieces.
    pub bytes: u64,
    /// Pieces that the reader has received.
    pub received: u64,
    /// Bytes that its ring holds.
    pub capacity_bytes: u64,
    /// The state of its end, as it reports.
    pub end: EndStat,
}

const LOOK: Subject = Subject { operation: "look at", noun: "port" };

/// Reads the state of a port with this name.
///
/// # Errors
/// [`ErrorKind::Invalid`]: the name cannot be a port's, or there is no port of that name that this
/// user may look at.
pub fn port(name: impl AsRef<Path>) -> Result<PortStat> {
    let path = name::resolve(&LOOK, name.as_ref())?;
    let reader = match name::state_of_port(&path) {
        Some(NameState::Held(holder)) => holder.pid().unwrap_or_default(),
        Some(NameState::Stale) => {
            return Ok(PortStat { path, reader: None, account: None, writers: Vec::new() });
        }
        None => {
            let why = "there is no port of that name that this user may look at";
            return Err(LOOK.error(ErrorKind::Invalid, &path, why));
        }
    };
    let id = name::socket_id(&path);
    let account = id.and_then(|id| board_of(reader, id));
    let writers = id.map_or_else(Vec::new, |id| writers_to(reader, id));
    Ok(PortStat { path, reader: Some(reader), account, writers })
}

fn board_of(reader: i32, socket: (u64, u64)) -> Option<PortAccount> {
    let mut boards = held_by(reader).filter(|(name, _)| name.starts_with(crate::memory::BOARD));
    boards.find_map(|(_, descriptor)| {
        let file = super::open(reader, descriptor, false).ok()?;
        let (account, of) = read_board(&file)?;
        (of == socket).then_some(account)
    })
}

/// Reads a board: the account, and the socket that it belongs to.
fn read_board(file: &OwnedFd) -> Option<(PortAccount, (u64, u64))> {
    let copy = copy_of_board(file)?;
    let begin = offset_of!(Board, account);
    let word = |offset: usize| copy.u64(begin + offset);
    let account = PortAccount {
        open: copy.u32(begin + offset_of!(BoardAccount, open)),
        messages: word(offset_of!(BoardAccount, records)),
        ..PortAccount::default()
    };
    let account = fill!(account, word, BoardAccount: bytes opened closed died;
        waiting: waits spun slept slept_ns wakes_taken);
    let device = word(offset_of!(BoardAccount, socket_device));
    Some((account, (device, word(offset_of!(BoardAccount, socket_inode)))))
}

fn writers_to(reader: i32, socket: (u64, u64)) -> Vec<PortWriterStat> {
    let mut writers = Vec::new();
    for ring in pipes() {
        // If the inode was used before by another socket, another process has read this ring. A
        // reader in another pid namespace has a number there only.
        let by = ring.reader.account.pid;
        let is_anothers = by != 0 && reader != 0 && by != reader as u32;
        if ring.port != Some(socket) || is_anothers {
            continue;
        }
        let (sent, received) = (ring.writer.account, ring.reader.account);
        let mut holders = ring.holders.iter().map(|(pid, _)| *pid);
        let Some(first) = holders.next() else { continue };
        let pid = holders.find(|pid| *pid as u32 == sent.pid).unwrap_or(first);
        let (uid, gid) = weir_sys::proc::owner(pid).unwrap_or_default();
        writers.push(PortWriterStat {
            pid,
            uid,
            gid,
            let_in: by != 0,
            pieces: sent.records,
            bytes: sent.bytes,
            received: received.records,
            capacity_bytes: ring.capacity_bytes,
            end: ring.writer,
        });
    }
    writers.sort_by_key(|writer| writer.pid);
    writers
}
