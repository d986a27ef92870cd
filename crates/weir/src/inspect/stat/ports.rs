//! Ports in use, read from outside: the board of the reader, and the rings of its writers.

use super::beginning::Beginning;
use super::{EndStat, is_named, numbers, pipes};
use crate::connect::name::{self, NameState, Subject};
use crate::error::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use std::mem::offset_of;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use weir_ring::board::{self, Board, BoardAccount};

/// One port at a moment. Names and processes are the kernel's word; every number is what the
/// reader or a writer says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortStat {
    /// The path of its socket.
    pub path: PathBuf,
    /// The process that reads, 0 for one of another pid namespace; none where that is gone and has
    /// left the name.
    pub reader: Option<i32>,
    /// What the reader says; none where it may not be looked at.
    pub account: Option<PortAccount>,
    /// Writers whose memory may be looked at, by process.
    pub writers: Vec<PortWriterStat>,
}

/// What the reader of a port says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortAccount {
    /// Writers that are open.
    pub open: u32,
    /// Messages received.
    pub messages: u64,
    /// Bytes in these.
    pub bytes: u64,
    /// Writers that have come.
    pub opened: u64,
    /// Writers that have closed.
    pub closed: u64,
    /// Writers that have died, or were shut out.
    pub died: u64,
    /// Times there was nothing to do.
    pub waits: u64,
    /// Times asleep.
    pub slept: u64,
    /// Time asleep, in nanoseconds.
    pub slept_ns: u64,
}

/// One writer to a port, seen from outside. A message longer than a piece is several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PortWriterStat {
    /// A process that has its end.
    pub pid: i32,
    /// The user of that.
    pub uid: u32,
    /// Whether the reader has let it in.
    pub let_in: bool,
    /// Pieces sent.
    pub pieces: u64,
    /// Bytes in these.
    pub bytes: u64,
    /// Pieces of these that the reader has received.
    pub received: u64,
    /// Bytes its ring holds.
    pub capacity_bytes: u64,
    /// Its end, as it says.
    pub end: EndStat,
}

const LOOK: Subject = Subject { operation: "look at", noun: "port" };

/// A port by its name.
///
/// # Errors
/// [`ErrorKind::Invalid`]: the name cannot be one, or there is none of that name that this user
/// may look at.
pub fn port(name: impl AsRef<Path>) -> Result<PortStat> {
    let path = name::resolve(&LOOK, name.as_ref())?;
    let reader = match name::state(&path) {
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
    numbers(format!("/proc/{reader}/fd").into()).into_iter().find_map(|descriptor| {
        if !is_named(reader, descriptor, crate::memory::BOARD) {
            return None;
        }
        let file = super::open(reader, descriptor, false).ok()?;
        let (account, of) = read_board(&file).ok()?;
        (of == socket).then_some(account)
    })
}

/// Reads a board as a file: nothing of it is mapped.
fn read_board(file: &OwnedFd) -> Result<(PortAccount, (u64, u64))> {
    let copy = Beginning::of(file, size_of::<Board>()).filter(|copy| {
        copy.u64(offset_of!(Board, magic)) == board::MAGIC
            && copy.u32(offset_of!(Board, version)) == board::VERSION
    });
    let copy =
        copy.ok_or_else(|| Error::new(ErrorKind::Corrupt, "look at", "a board", "it is none"))?;
    let begin = offset_of!(Board, account);
    let word = |offset: usize| copy.u64(begin + offset);
    let account = PortAccount {
        open: copy.u32(begin + offset_of!(BoardAccount, open)),
        messages: word(offset_of!(BoardAccount, records)),
        bytes: word(offset_of!(BoardAccount, bytes)),
        opened: word(offset_of!(BoardAccount, opened)),
        closed: word(offset_of!(BoardAccount, closed)),
        died: word(offset_of!(BoardAccount, died)),
        waits: word(offset_of!(BoardAccount, waits)),
        slept: word(offset_of!(BoardAccount, slept)),
        slept_ns: word(offset_of!(BoardAccount, slept_ns)),
    };
    let device = word(offset_of!(BoardAccount, socket_device));
    Ok((account, (device, word(offset_of!(BoardAccount, socket_inode)))))
}

fn writers_to(reader: i32, socket: (u64, u64)) -> Vec<PortWriterStat> {
    let mut writers = Vec::new();
    for ring in pipes() {
        // An inode that was used before: then another has read this ring.
        let by = ring.reader.account.pid;
        if ring.port != Some(socket) || (by != 0 && by != reader as u32) {
            continue;
        }
        let (sent, received) = (ring.writer.account, ring.reader.account);
        let mut holders = ring.holders.iter().map(|(pid, _)| *pid);
        let Some(first) = holders.next() else { continue };
        let pid = holders.find(|pid| *pid as u32 == sent.pid).unwrap_or(first);
        writers.push(PortWriterStat {
            pid,
            uid: std::fs::metadata(format!("/proc/{pid}")).map_or(0, |found| found.uid()),
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
