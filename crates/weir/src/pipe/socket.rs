//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::connect::acceptor::{Acceptor, Arrival, Word, hand_over};
use crate::connect::name::Subject;
use crate::connect::passing::turn_away;
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::park::{Parked, Timeout, Until};
use crate::pipe::connection::Role;
use crate::pipe::end::End;
use crate::pipe::endpoint::Endpoint;
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

/// Listens at a path for those who connect. The path, and a lock file beside it, go with it.
///
/// ```
/// use weir::{Listener, Options, Reader, Writer};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("numbers");
/// let listener = Listener::bind(&path)?;
/// std::thread::scope(|scope| {
///     // Usually another process.
///     scope.spawn(|| Writer::connect(&path, &Options::new())?.write(b"hello"));
///     let mut reader: Reader = listener.accept()?;
///     assert_eq!(reader.read(&mut [0; 16])?, 5);
///     Ok::<(), weir::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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

    /// Waits for the next that connects, as long as it takes: a [`Reader`] for one by
    /// [`Writer::connect`], a [`RecordReader`] for one by [`RecordWriter::connect`], a
    /// [`crate::Duplex`] for one by its own `connect`. One that connects and hands nothing over holds
    /// up nobody.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: what came is of another kind. [`ErrorKind::Corrupt`]: its memory is not
    /// what it must be. [`ErrorKind::Forked`].
    pub fn accept<E: Accept>(&self) -> Result<E> {
        self.accept_with(&E::Options::default(), Timeout::Never)
    }

    /// Waits for the next that connects, or until the timeout is over.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::WouldBlock`]: nobody came in time. Those of
    /// [`Listener::accept`].
    pub fn accept_timeout<E: Accept>(&self, timeout: impl Into<Timeout>) -> Result<E> {
        self.accept_with(&E::Options::default(), timeout)
    }

    /// Waits for the next that connects, and opens the end with options.
    ///
    /// # Errors
    /// Those of [`Listener::accept_timeout`].
    pub fn accept_with<E: Accept>(
        &self,
        options: &E::Options,
        timeout: impl Into<Timeout>,
    ) -> Result<E> {
        E::accept(self, options, timeout.into().start())
    }

    fn error(&self, kind: ErrorKind, why: &'static str) -> Error {
        Error::new(kind, "accept", format!("a connection at {}", self.path.display()), why)
    }

    fn check_here(&self) -> Result<()> {
        let is_here = self.epoch == forks::epoch();
        is_here.then_some(()).ok_or_else(|| self.error(ErrorKind::Forked, "forked meanwhile"))
    }

    /// Waits for both directions of a channel: by which who connects writes, and reads.
    pub(crate) fn next_pair(&self, until: Until) -> Result<[Half; 2]> {
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
            self.park(acceptor.is_busy() || !halves.is_empty(), until)?;
        }
    }

    fn accept_end(&self, kind: u32, options: &Habits, until: Until) -> Result<End> {
        self.check_here()?;
        let Arrival { socket, memory, word, .. } = self.next_arrival(until)?;
        if word != Word::default() {
            return Err(self.error(ErrorKind::Invalid, "what came is half a channel, not a pipe"));
        }
        let map = open_kind(&memory, kind)?;
        let resolved = options.resolve_over(&map)?;
        End::of(Half { memory, socket }, map, Role::Reader, &resolved)
    }

    /// Who comes next. Several that wait for it wait for each other.
    fn next_arrival(&self, until: Until) -> Result<Arrival> {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { acceptor, arrived, .. } = &mut *pending;
        loop {
            if let Some(arrival) = self.take_arrival(acceptor, arrived) {
                return Ok(arrival);
            }
            self.park(acceptor.is_busy(), until)?;
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

    fn park(&self, is_busy: bool, until: Until) -> Result<()> {
        if until == Until::Now {
            return Err(self.error(ErrorKind::WouldBlock, "nobody has come"));
        }
        if until.is_over() {
            return Err(self.error(ErrorKind::TimedOut, "nobody came in time"));
        }
        let parked = Parked::announce(&self.site.word, &self.inbox);
        parked.sleep(until.at_most(is_busy.then_some(LOOK)));
        Ok(())
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

/// What a [`Listener`] accepts: a [`Reader`], a [`RecordReader`], a [`crate::Duplex`]. No other crate
/// can implement it.
pub trait Accept: Sized {
    /// What such an end can be asked to do.
    type Options: Default;

    #[doc(hidden)]
    fn accept(listener: &Listener, options: &Self::Options, until: Until) -> Result<Self>;
}

macro_rules! accept_and_connect {
    ($reader:ty, $writer:ty, $kind:expr, $what:literal) => {
        impl Accept for $reader {
            type Options = ReaderOptions;

            fn accept(listener: &Listener, options: &ReaderOptions, until: Until) -> Result<Self> {
                Endpoint::over(listener.accept_end($kind, options.as_ref(), until)?)
            }
        }

        impl $writer {
            #[doc = concat!("Connects to the reader that listens at a path, with ", $what)]
            /// of these options.
            ///
            /// # Errors
            /// [`ErrorKind::NoReader`]: nobody listens there.
            pub fn connect(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
                Endpoint::over(connect_end(path.as_ref(), $kind, options)?)
            }
        }
    };
}

accept_and_connect!(Reader, Writer, layout::STREAM, "a stream");
accept_and_connect!(RecordReader, RecordWriter, layout::RECORD, "a pipe of records");
