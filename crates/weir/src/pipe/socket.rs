//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::connect::acceptor::{Acceptor, Arrival, Word, hand_over};
use crate::connect::name::Subject;
use crate::connect::passing::turn_away;
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::park::Parked;
use crate::pipe::connection::Role;
use crate::pipe::end::End;
use crate::pipe::handle::Half;
use crate::pipe::options::{Habits, Options, ReaderOptions};
use crate::pipe::record::{RecordReader, RecordWriter};
use crate::pipe::storage::{copy_of, make_memory, open_kind};
use crate::pipe::stream::{Reader, Writer};
use rustix::fs::Mode;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_ring::layout::{self, SleepLine};
use weir_sys::forks;

/// What the first message of a connection begins with.
const HELLO: &[u8] = b"weir-open";
const LISTEN: Subject = Subject { operation: "listen at", noun: "path" };
const CONNECT: Subject = Subject { operation: "connect to", noun: "path" };
/// How often those are looked at who have come and sent no memory.
const LOOK: Duration = Duration::from_millis(100);

/// A reader to be: listens at a path for writers. The path, and a lock file beside it, go with it.
#[derive(Debug)]
pub struct Listener {
    pending: Mutex<Pending>,
    inbox: Arc<Inbox>,
    /// Where it sleeps: in memory of its own.
    site: Arc<SleepLine>,
    path: PathBuf,
    epoch: u32,
}

/// Who has come.
#[derive(Debug)]
struct Pending {
    acceptor: Acceptor,
    arrived: VecDeque<Arrival>,
    /// One direction of a channel each, whose other one has not come, and since when.
    halves: Vec<(Arrival, Instant)>,
}

/// A direction of a channel, as who connects sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// By which it writes.
    There,
    /// By which it reads.
    Back,
}

/// Directions of channels that wait for the other one, at most, and how long.
const MOST_HALVES: usize = 128;
const PATIENCE: Duration = Duration::from_secs(5);

/// What follows the hello of a direction: which one it is, and a number by which the two of a channel
/// find each other, among those of one process.
fn word_of(direction: Direction, number: u64) -> Word {
    let mut word = Word::default();
    word[0] = if direction == Direction::There { b'>' } else { b'<' };
    word[1..9].copy_from_slice(&number.to_le_bytes());
    word
}

impl Listener {
    /// Listens at a path, for this user alone. What a listener that died has left there is removed.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: somebody listens there, or another file has the name; the directory
    /// cannot be written.
    pub fn bind(path: impl AsRef<Path>) -> Result<Listener> {
        let path = path.as_ref().to_owned();
        let site = Arc::new(SleepLine::default());
        let inbox = Inbox::new(site.clone());
        let owner = Mode::RUSR | Mode::WUSR;
        let acceptor = Acceptor::new(&LISTEN, &path, owner, HELLO, &inbox)?.with_words();
        let pending =
            Mutex::new(Pending { acceptor, arrived: VecDeque::new(), halves: Vec::new() });
        Ok(Listener { pending, inbox, site, path, epoch: forks::epoch() })
    }

    /// Waits for a writer of a stream. One that connects and hands no memory over holds up nobody.
    ///
    /// # Errors
    /// What came is no stream's memory. [`ErrorKind::Forked`].
    pub fn accept_stream(&self) -> Result<Reader> {
        self.accept_stream_with(&ReaderOptions::new())
    }

    /// Waits for a writer of a stream, to read it with these options.
    ///
    /// # Errors
    /// Those of [`Listener::accept_stream`].
    pub fn accept_stream_with(&self, options: &ReaderOptions) -> Result<Reader> {
        Reader::over(self.accept_end(layout::STREAM, options.as_ref())?)
    }

    /// Waits for a writer of records, as [`Listener::accept_stream`] does for one of a stream.
    ///
    /// # Errors
    /// What came is no record pipe's memory. [`ErrorKind::Forked`].
    pub fn accept_records(&self) -> Result<RecordReader> {
        self.accept_records_with(&ReaderOptions::new())
    }

    /// Waits for a writer of records, to receive them with these options.
    ///
    /// # Errors
    /// Those of [`Listener::accept_records`].
    pub fn accept_records_with(&self, options: &ReaderOptions) -> Result<RecordReader> {
        RecordReader::over(self.accept_end(layout::RECORD, options.as_ref())?)
    }

    fn error(&self, kind: ErrorKind, why: &'static str) -> Error {
        Error::new(kind, "accept", format!("a connection at {}", self.path.display()), why)
    }

    fn check_here(&self) -> Result<()> {
        let is_here = self.epoch == forks::epoch();
        is_here.then_some(()).ok_or_else(|| self.error(ErrorKind::Forked, "forked meanwhile"))
    }

    /// Waits for both directions of a channel: by which who connects writes, and reads.
    pub(crate) fn next_pair(&self) -> Result<[Half; 2]> {
        self.check_here()?;
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { acceptor, arrived, halves } = &mut *pending;
        loop {
            while let Some(arrival) = self.take_arrival(acceptor, arrived) {
                if !matches!(arrival.word[0], b'>' | b'<') {
                    let why = "what came is a pipe, not a channel";
                    return Err(self.error(ErrorKind::Invalid, why));
                }
                let is_other = |(half, _): &(Arrival, Instant)| {
                    half.identity == arrival.identity
                        && half.word[0] != arrival.word[0]
                        && half.word[1..] == arrival.word[1..]
                };
                if let Some(place) = halves.iter().position(is_other) {
                    let other = halves.remove(place).0;
                    let is_there = arrival.word[0] == b'>';
                    let both = if is_there { [arrival, other] } else { [other, arrival] };
                    return Ok(both.map(|Arrival { socket, memory, .. }| Half { memory, socket }));
                }
                if halves.len() >= MOST_HALVES {
                    turn_away(halves.remove(0).0.socket, "others came with half a channel");
                }
                halves.push((arrival, Instant::now()));
            }
            while halves.first().is_some_and(|(_, since)| since.elapsed() > PATIENCE) {
                turn_away(halves.remove(0).0.socket, "the other direction did not come in time");
            }
            self.park(acceptor.is_busy() || !halves.is_empty());
        }
    }

    fn accept_end(&self, kind: u32, options: &Habits) -> Result<End> {
        self.check_here()?;
        let Arrival { socket, memory, word, .. } = self.next_arrival();
        if word != Word::default() {
            return Err(self.error(ErrorKind::Invalid, "what came is half a channel, not a pipe"));
        }
        let map = open_kind(&memory, kind)?;
        let resolved = options.resolve_over(&map)?;
        End::of(Half { memory, socket }, map, Role::Reader, &resolved)
    }

    /// Who comes next. Several that wait for it wait for each other.
    fn next_arrival(&self) -> Arrival {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { acceptor, arrived, .. } = &mut *pending;
        loop {
            if let Some(arrival) = self.take_arrival(acceptor, arrived) {
                return arrival;
            }
            self.park(acceptor.is_busy());
        }
    }

    fn take_arrival(
        &self,
        acceptor: &mut Acceptor,
        arrived: &mut VecDeque<Arrival>,
    ) -> Option<Arrival> {
        if self.inbox.take().notified || acceptor.is_busy() {
            arrived.extend(acceptor.admit());
        }
        arrived.pop_front()
    }

    fn park(&self, is_busy: bool) {
        Parked::announce(&self.site.word, &self.inbox).sleep(is_busy.then_some(LOOK));
    }
}

fn connect_end(path: &Path, kind: u32, options: &Options) -> Result<End> {
    let resolved = options.resolve()?;
    let (file, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&file)?;
    let socket = hand_over(&CONNECT, path, None, HELLO, &copy)?;
    End::of(Half { memory: file, socket }, map, Role::Writer, &resolved)
}

/// Connects one direction of a channel, and returns the number by which the other one is known with
/// it: that of the first memory.
pub fn connect_way(
    path: &Path,
    kind: u32,
    options: &Options,
    direction: Direction,
    number: Option<u64>,
) -> Result<(End, u64)> {
    let resolved = options.resolve()?;
    let (memory, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&memory)?;
    let inode = memory.here().and_then(rustix::fs::fstat).map(|stat| stat.st_ino);
    let inode = inode.map_err(|cause| Error::os("look at", "a memory", cause))?;
    let number = number.unwrap_or(inode);
    let hello = [HELLO, &word_of(direction, number)].concat();
    let socket = hand_over(&CONNECT, path, None, &hello, &copy)?;
    let role = if direction == Direction::There { Role::Writer } else { Role::Reader };
    Ok((End::of(Half { memory, socket }, map, role, &resolved)?, number))
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
