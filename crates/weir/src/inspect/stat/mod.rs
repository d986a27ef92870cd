//! The accounts of pipes and ports in use, read from outside through `/proc/PID/fd`. That needs the
//! right to open what is there, as the owner and root have it. Reading changes nothing.

/// Fills the fields of an account from the words of the same names in a header.
macro_rules! fill {
    (
        $account:ident, $word:ident, $line:ident: $($field:ident)* $(; waiting: $($count:ident)*)?
    ) => {{
        let mut filled = $account;
        $(filled.$field = $word(offset_of!($line, $field));)*
        $($(filled.$count = $word(offset_of!($line, waiting.$count));)*)?
        filled
    }};
}

mod beginning;
mod ports;
mod regions;
mod shared;

pub use ports::{PortAccount, PortStat, PortWriterStat, port};
pub use regions::{RegionStat, regions};
pub use shared::{FlagsStat, MpxAccount, MpxStat, clusters, mpxes};

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, EndSnapshot, HeaderSnapshot};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_ring::account::Account;
use weir_ring::layout;
use weir_ring::sleep;
use weir_sys::proc::{ProcContents, Status, descriptors, link, path_of, processes};

/// The kind of a pipe.
///
/// ```
/// let (mut writer, _reader) = weir::records(&weir::Options::new())?;
/// writer.send(b"unread")?;
/// let pipes = weir::stat::pipes();
/// assert!(pipes.iter().any(|pipe| pipe.kind == weir::stat::PipeKind::Records));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipeKind {
    /// Bytes.
    Stream,
    /// Records.
    Records,
}

/// The state of one end of a pipe at one moment.
///
/// ```
/// let (mut writer, _reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"unread")?;
/// for pipe in weir::stat::pipes() {
///     let end: weir::stat::EndStat = pipe.writer;
///     println!("{} bytes written, closed: {}", end.account.bytes, end.closed);
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndStat {
    /// Its account.
    pub account: Account,
    /// Whether it has closed.
    pub closed: bool,
    /// Whether it sleeps, or waits in poll.
    pub waits: bool,
}

/// The state of one pipe at one moment.
///
/// ```
/// let (mut writer, _reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"unread")?;
/// for pipe in weir::stat::pipes() {
///     println!("pipe {}: {:?} of {} bytes", pipe.inode, pipe.fill_bytes, pipe.capacity_bytes);
/// }
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipeStat {
    /// The inode of its memory, which identifies it.
    pub inode: u64,
    /// What it carries.
    pub kind: PipeKind,
    /// Bytes that it holds.
    pub capacity_bytes: u64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Bytes of the atomic bound.
    pub atomic_bytes: u64,
    /// How often it was given a new memory.
    pub generation: u64,
    /// Bytes in it. `None` for records, where it is not known from outside.
    pub fill_bytes: Option<u64>,
    /// If it belongs to a writer of a port: device and inode of the port's socket, as the writer
    /// reports them.
    pub port: Option<(u64, u64)>,
    /// The writer's end.
    pub writer: EndStat,
    /// The reader's end.
    pub reader: EndStat,
    /// Processes that hold its memory, and the descriptor in each.
    pub holders: Vec<(i32, i32)>,
}

/// The memories that processes of this host hold, found by one walk over their descriptors.
///
/// Each function that lists one kind, such as [`pipes`], makes a walk of its own. Whoever lists several
/// kinds, or may not take long, makes one.
///
/// ```
/// let (mut writer, _reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"unread")?;
/// let found = weir::stat::Memories::find();
/// assert!(found.pipes().iter().any(|pipe| pipe.fill_bytes == Some(6)));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Memories {
    /// The name of each, with the process and the descriptor.
    named: Vec<(String, i32, i32)>,
    left_out: usize,
}

impl Memories {
    /// Looks at all processes.
    pub fn find() -> Memories {
        Memories::find_within(Duration::MAX)
    }

    /// Looks at as many processes as this time allows.
    pub fn find_within(time: Duration) -> Memories {
        let (begun, mut found) = (Instant::now(), Memories::default());
        let mut pids = processes();
        pids.sort();
        for (at, pid) in pids.iter().enumerate() {
            if begun.elapsed() >= time {
                found.left_out = pids.len() - at;
                break;
            }
            let held = held_by(*pid).map(|(name, descriptor)| (name, *pid, descriptor));
            found.named.extend(held);
        }
        found
    }

    /// Returns the number of processes at which there was no time to look.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// Lists the pipes whose memory this user may open, by inode.
    pub fn pipes(&self) -> Vec<PipeStat> {
        let found = self.each(&[memory::NAME], |file, _| read(file).ok());
        let seen = |(mut stat, holders): (PipeStat, Vec<(i32, i32)>)| {
            stat.writer.account.pid = as_seen(stat.writer.account.pid, &holders);
            if stat.port.is_none() {
                // The reader of a port does not hold the memory of its rings.
                stat.reader.account.pid = as_seen(stat.reader.account.pid, &holders);
            }
            PipeStat { holders, ..stat }
        };
        found.into_iter().map(seen).collect()
    }

    /// Reads each memory of one of these names that this user may open, by inode. Each result comes with
    /// the processes that hold the memory, and the descriptor in each.
    fn each<T>(
        &self,
        names: &[&str],
        read: impl Fn(&OwnedFd, u64) -> Option<T>,
    ) -> Vec<(T, Vec<(i32, i32)>)> {
        let mut found: BTreeMap<u64, (T, Vec<(i32, i32)>)> = BTreeMap::new();
        for (name, pid, descriptor) in &self.named {
            if !names.iter().any(|wanted| name.starts_with(wanted)) {
                continue;
            }
            let Ok(file) = open(*pid, *descriptor, false) else { continue };
            let Ok(inode) = rustix::fs::fstat(&file).map(|found| found.st_ino) else { continue };
            if let Some((_, holders)) = found.get_mut(&inode) {
                holders.push((*pid, *descriptor));
            } else if let Some(stat) = read(&file, inode) {
                found.insert(inode, (stat, vec![(*pid, *descriptor)]));
            }
        }
        found.into_values().collect()
    }
}

/// Lists all pipes whose memory this user may open, by inode.
///
/// ```
/// let (mut writer, _reader) = weir::pipe(&weir::Options::new())?;
/// writer.write(b"unread")?;
/// let pipes = weir::stat::pipes();
/// assert!(pipes.iter().any(|pipe| pipe.fill_bytes == Some(6)));
/// # Ok::<(), weir::Error>(())
/// ```
pub fn pipes() -> Vec<PipeStat> {
    Memories::find().pipes()
}

/// The number that a process has here of which an account states `pid`: in another pid namespace that is
/// its number there. What no holder of the memory is called stays as it is stated.
fn as_seen(pid: u32, holders: &[(i32, i32)]) -> u32 {
    let is_called = |holder: i32| {
        let status = Status::of(holder);
        status.and_then(|status| status.ids("NSpid")?.last()) == Some(pid as i32)
    };
    if pid == 0 || holders.iter().any(|(holder, _)| *holder as u32 == pid) {
        return pid;
    }
    let found = holders.iter().find(|(holder, _)| is_called(*holder));
    found.map_or(pid, |(holder, _)| *holder as u32)
}

/// Returns the names of the memories that a process holds, and its descriptors of them.
fn held_by(pid: i32) -> impl Iterator<Item = (String, i32)> {
    let mut all: Vec<i32> = descriptors(pid).map_or_else(Vec::new, Iterator::collect);
    all.sort();
    all.into_iter().filter_map(move |descriptor| {
        let to = link(pid, descriptor)?;
        Some((to.to_str()?.strip_prefix("/memfd:")?.to_owned(), descriptor))
    })
}

/// Opens the memory of a pipe that another process holds.
///
/// # Errors
/// There is no such process or descriptor, or this user may not open it.
pub fn open(pid: i32, descriptor: i32, for_writing: bool) -> Result<OwnedFd> {
    let path = path_of(pid, descriptor)
        .ok_or_else(|| Error::os("open", format!("process {pid}"), Errno::SRCH))?;
    let access = if for_writing { OFlags::RDWR } else { OFlags::RDONLY };
    // NONBLOCK: the descriptor may be a FIFO by now.
    let flags = access | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    rustix::fs::open(path.as_str(), flags, Mode::empty())
        .map_err(|cause| Error::os("open", path, cause))
}

/// Reads the memory of a pipe.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: it is not the memory of a pipe.
pub fn read(file: &OwnedFd) -> Result<PipeStat> {
    let extent = memory::inspect(file.as_fd())?;
    let inode = rustix::fs::fstat(file).map_err(|cause| Error::os("look at", "a pipe", cause))?;
    let now = HeaderSnapshot::of(file.as_fd())?;
    let end = |end: EndSnapshot| EndStat {
        account: end.account,
        closed: end.closed,
        waits: end.sleep & (sleep::ASLEEP | sleep::POLLING) != 0,
    };
    let kind = match extent.kind {
        layout::STREAM => PipeKind::Stream,
        layout::RECORD | layout::MESSAGE => PipeKind::Records,
        _ => {
            return Err(Error::new(ErrorKind::Corrupt, "look at", "a pipe", "its kind is unknown"));
        }
    };
    let fill = now.written.wrapping_sub(now.read).min(extent.ring_bytes);
    Ok(PipeStat {
        inode: inode.st_ino,
        kind,
        capacity_bytes: extent.ring_bytes,
        segment_bytes: now.segment_bytes,
        atomic_bytes: now.atomic_bytes,
        generation: extent.generation,
        fill_bytes: (kind == PipeKind::Stream).then_some(fill),
        port: (now.port != (0, 0)).then_some(now.port),
        writer: end(now.writer),
        reader: end(now.reader),
        holders: Vec::new(),
    })
}
