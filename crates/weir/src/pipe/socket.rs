//! Pipes between unrelated processes: one process listens at a path, the other connects, makes the
//! memory and sends it. Their connection becomes the lifeline of the pipe.

use crate::connect::acceptor::{Acceptor, Arrival, HelloWord, hand_over};
use crate::connect::name::Subject;
use crate::connect::passing::{hang_up, turn_away};
use crate::connect::site::Inbox;
use crate::error::{Error, ErrorKind, Result};
use crate::park::doorbell::Doorbell;
use crate::park::{Parked, Timeout, Until};
use crate::pipe::connection::Role;
use crate::pipe::end::End;
use crate::pipe::endpoint::Endpoint;
use crate::pipe::handle::Half;
use crate::pipe::options::{EndOptions, Options, ReaderOptions};
use crate::pipe::record::{RecordReader, RecordWriter};
use crate::pipe::storage::{copy_of, make_memory};
use crate::pipe::stream::{Reader, Writer};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use weir_ring::layout::{self, SleepLine};
use weir_sys::forks;

/// The beginning of the first message of a connection.
const HELLO: &[u8] = b"weir-open";
const LISTEN: Subject = Subject { operation: "listen at", noun: "path" };
const CONNECT: Subject = Subject { operation: "connect to", noun: "path" };
/// How often connections are checked that have not yet sent their memory.
const LOOK: Duration = Duration::from_millis(100);

/// Listens at a path for connections. Dropping it removes the path and a lock file beside it.
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
    pending: Mutex<AcceptQueue>,
    /// Notified when the thread that slept at `site` is awake. Only one thread sleeps there.
    awake: Condvar,
    inbox: Arc<Inbox>,
    /// The place where it sleeps: in private memory.
    site: Arc<SleepLine>,
    /// What errors name.
    object: Arc<str>,
    epoch: u32,
}

/// Connections that have come and are not yet accepted.
#[derive(Debug)]
struct AcceptQueue {
    acceptor: Acceptor,
    arrived: VecDeque<Arrival>,
    /// Directions of channels whose other direction has not come, and since when they wait.
    halves: Vec<(Arrival, Instant)>,
    /// A thread sleeps until somebody connects. It looks after all connections when it wakes up.
    is_watched: bool,
    /// The descriptor for who polls the listener.
    doorbell: Option<Doorbell>,
}

impl AcceptQueue {
    fn take(&mut self, inbox: &Inbox) -> Option<Arrival> {
        // Those that came go first. The others wait as well in the kernel's queue, where they take
        // no descriptors of this process.
        let admits = !self.is_watched && self.arrived.is_empty();
        // Who polls sees a connection before the watcher has told of it.
        let is_polled = self.doorbell.is_some();
        if admits && (inbox.take().notified || self.acceptor.is_busy() || is_polled) {
            self.arrived.extend(self.acceptor.admit(self.doorbell.as_ref()));
        }
        self.arrived.pop_front()
    }

    /// Whether [`AcceptQueue::take`] has something to do soon even if nobody connects.
    fn is_busy(&self) -> bool {
        self.acceptor.is_busy() || !self.halves.is_empty()
    }

    /// Makes the descriptor wait for the next connection, after a call has found none.
    fn arm(&self, inbox: &Inbox) {
        let Some(doorbell) = &self.doorbell else { return };
        doorbell.clear();
        if inbox.has_news() {
            // More have come than are taken off the kernel's queue at a time.
            doorbell.ring();
        }
        doorbell.ring_soon(self.is_busy());
    }

    /// Ends what has waited too long for its other direction.
    fn turn_old_away(&mut self) {
        while self.halves.first().is_some_and(|(_, since)| since.elapsed() > PATIENCE) {
            let why = "the other direction of the channel did not come in time";
            turn_away(self.halves.remove(0).0.socket, why);
        }
    }
}

impl Drop for AcceptQueue {
    fn drop(&mut self) {
        let halves = self.halves.drain(..).map(|(half, _)| half);
        halves.chain(self.arrived.drain(..)).for_each(|arrival| hang_up(arrival.socket, None));
    }
}

/// What connects: a pipe, or a direction of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connect {
    /// The pipe of a writer.
    Pipe,
    /// The direction in which the connecting side writes.
    There,
    /// The direction in which it reads, with the number of the direction [`Connect::There`].
    Back(u64),
}

/// The most directions that wait for the other one, and how long one waits.
const MOST_HALVES: usize = 128;
const PATIENCE: Duration = Duration::from_secs(5);

/// The word behind the hello of a direction: which one it is, and a number by which the listener
/// finds the two directions of a channel among those of one process.
fn word_of(mark: u8, number: u64) -> HelloWord {
    let mut word = HelloWord::default();
    word[0] = mark;
    word[1..9].copy_from_slice(&number.to_le_bytes());
    word
}

impl Listener {
    /// Listens at a path that only this user may connect to. Replaces what a dead listener left.
    ///
    /// # Errors
    /// [`ErrorKind::Taken`]: another process listens there, or another file has the name. The
    /// directory cannot be written.
    pub fn bind(path: impl AsRef<Path>) -> Result<Listener> {
        let path = path.as_ref();
        let site = Arc::new(SleepLine::default());
        let inbox = Inbox::new(site.clone());
        let owner = Mode::RUSR | Mode::WUSR;
        let acceptor = Acceptor::new(&LISTEN, path, owner, HELLO, &inbox)?.with_words();
        let (arrived, halves) = (VecDeque::new(), Vec::new());
        let (is_watched, doorbell) = (false, None);
        let pending = AcceptQueue { acceptor, arrived, halves, is_watched, doorbell };
        let pending = Mutex::new(pending);
        let (awake, epoch) = (Condvar::new(), forks::epoch());
        let object = format!("a connection at '{}'", path.display()).into();
        Ok(Listener { pending, awake, inbox, site, object, epoch })
    }

    /// Waits for the next connection, as long as it takes, and returns its end: a [`Reader`] for
    /// [`Writer::connect`], a [`RecordReader`] for [`RecordWriter::connect`], a [`crate::Duplex`]
    /// for its own `connect`. A process that connects and sends no memory holds nobody up.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the connection is of another kind. [`ErrorKind::Corrupt`]: its
    /// memory is invalid. [`ErrorKind::Forked`].
    pub fn accept<E: Accept>(&self) -> Result<E> {
        self.accept_with(&E::Options::default(), Timeout::Never)
    }

    /// Waits for the next connection, or until the timeout passes.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::WouldBlock`]: nobody came in time. Those of
    /// [`Listener::accept`].
    pub fn accept_timeout<E: Accept>(&self, timeout: impl Into<Timeout>) -> Result<E> {
        self.accept_with(&E::Options::default(), timeout)
    }

    /// Waits for the next connection, and opens the end with options.
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

    /// Returns a descriptor for poll(2) and epoll(7), which the first call makes. It is readable
    /// until an accept with [`Timeout::Now`] has returned [`ErrorKind::WouldBlock`], and again once
    /// somebody connects.
    ///
    /// # Errors
    /// The kernel has no descriptors left. [`ErrorKind::Forked`].
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.check_here()?;
        let pending = self.pending.get_mut().unwrap_or_else(PoisonError::into_inner);
        let made = match pending.doorbell.take() {
            Some(made) => made,
            None => {
                let failed = || Error::os("poll", self.object.to_string(), Errno::BADF);
                let made = Doorbell::timed(pending.acceptor.socket().ok_or_else(failed)?)?;
                pending.acceptor.is_polled_by(&made);
                made
            }
        };
        let doorbell: &Doorbell = pending.doorbell.insert(made);
        Ok(doorbell.as_fd())
    }

    fn error(&self, kind: ErrorKind, why: &'static str) -> Error {
        Error::new(kind, "accept", &self.object, why)
    }

    fn check_here(&self) -> Result<()> {
        let is_here = self.epoch == forks::epoch();
        let why = "the listener belongs to the process that this one was forked from";
        is_here.then_some(()).ok_or_else(|| self.error(ErrorKind::Forked, why))
    }

    /// Waits for both directions of a channel, first the one in which the connecting side writes.
    pub(crate) fn next_pair(&self, until: Until) -> Result<[Half; 2]> {
        self.check_here()?;
        let (mut pending, mut in_vain) = (self.pending(), 0);
        loop {
            while let Some(arrival) = pending.take(&self.inbox) {
                if !matches!(arrival.word[0], b'>' | b'<') {
                    hang_up(arrival.socket, None);
                    return Err(self.error(ErrorKind::Invalid, "it is a pipe, not a channel"));
                }
                let is_other = |(half, _): &(Arrival, Instant)| {
                    half.identity == arrival.identity
                        && half.word[0] != arrival.word[0]
                        && half.word[1..] == arrival.word[1..]
                };
                let halves = &mut pending.halves;
                if let Some(place) = halves.iter().position(is_other) {
                    let other = halves.remove(place).0;
                    let is_there = arrival.word[0] == b'>';
                    let both = if is_there { [arrival, other] } else { [other, arrival] };
                    return Ok(both.map(|Arrival { socket, memory, .. }| Half { memory, socket }));
                }
                if halves.len() >= MOST_HALVES {
                    turn_away(halves.remove(0).0.socket, "too many channels are incomplete");
                }
                halves.push((arrival, Instant::now()));
                // They may come as fast as they are taken.
                in_vain += 1;
                if in_vain > MOST_HALVES && until.is_over() {
                    break;
                }
            }
            pending.turn_old_away();
            pending = self.park(pending, until)?;
        }
    }

    fn accept_end(&self, kind: u32, options: &EndOptions, until: Until) -> Result<End> {
        self.check_here()?;
        let Arrival { socket, memory, word, .. } = self.next_arrival(until)?;
        if word != HelloWord::default() {
            hang_up(socket, None);
            return Err(self.error(ErrorKind::Invalid, "it is half a channel, not a pipe"));
        }
        End::open(Half { memory, socket }, kind, Role::Reader, options)
    }

    fn pending(&self) -> MutexGuard<'_, AcceptQueue> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_arrival(&self, until: Until) -> Result<Arrival> {
        let mut pending = self.pending();
        loop {
            if let Some(arrival) = pending.take(&self.inbox) {
                return Ok(arrival);
            }
            pending = self.park(pending, until)?;
        }
    }

    /// Sleeps until somebody connects. Other threads that accept meanwhile sleep until this one is
    /// awake, and each for no longer than its own call may last.
    fn park<'a>(
        &'a self,
        mut pending: MutexGuard<'a, AcceptQueue>,
        until: Until,
    ) -> Result<MutexGuard<'a, AcceptQueue>> {
        if until == Until::Now {
            pending.arm(&self.inbox);
            return Err(self.error(ErrorKind::WouldBlock, "no process has connected"));
        }
        if until.is_over() {
            return Err(self.error(ErrorKind::TimedOut, "no process connected in time"));
        }
        if pending.is_watched {
            return Ok(match until.left() {
                Some(left) => {
                    self.awake.wait_timeout(pending, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.awake.wait(pending).unwrap_or_else(PoisonError::into_inner),
            });
        }
        let is_busy = pending.is_busy();
        let parked = Parked::announce(&self.site.word, &self.inbox);
        pending.is_watched = true;
        drop(pending);
        parked.sleep(until.at_most(is_busy.then_some(LOOK)));
        pending = self.pending();
        pending.is_watched = false;
        // What this thread leaves is for who polls.
        pending.doorbell.iter().for_each(Doorbell::ring);
        // One of the others has to sleep here if this thread leaves.
        self.awake.notify_all();
        Ok(pending)
    }
}

/// Connects a pipe or a direction of a channel. Returns the end and the number of its memory, by
/// which the other direction is matched with it.
///
/// Waits for a listener until that time.
pub fn connect_end(
    path: &Path,
    kind: u32,
    (options, until): (&Options, Option<Instant>),
    what: Connect,
) -> Result<(End, u64)> {
    let resolved = options.resolve()?;
    let (memory, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&memory)?;
    let inode = memory.here().and_then(rustix::fs::fstat).map(|stat| stat.st_ino);
    let inode = inode.map_err(|cause| Error::os("look at", "a memory", cause))?;
    let (role, word) = match what {
        Connect::Pipe => (Role::Writer, None),
        Connect::There => (Role::Writer, Some(word_of(b'>', inode))),
        Connect::Back(number) => (Role::Reader, Some(word_of(b'<', number))),
    };
    let hello = [HELLO, word.as_ref().map_or(&[][..], |word| word)].concat();
    let socket = hand_over(&CONNECT, path, until, &hello, &copy)?;
    Ok((End::of(Half { memory, socket }, map, role, &resolved)?, inode))
}

/// An end that a [`Listener`] accepts: a [`Reader`], a [`RecordReader`], a [`crate::Duplex`]. Other
/// crates cannot implement it.
///
/// ```
/// use weir::{Accept, Listener, Options, RecordReader, RecordWriter};
/// fn first<E: Accept>(path: &std::path::Path) -> weir::Result<(Listener, E)> {
///     let listener = Listener::bind(path)?;
///     let end = listener.accept()?;
///     Ok((listener, end))
/// }
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("records");
///
/// std::thread::scope(|scope| {
///     let accepting = scope.spawn(|| first::<RecordReader>(&path));
///     // Perhaps nobody listens yet.
///     let options = Options::new().connect_timeout(std::time::Duration::from_secs(10));
///     let mut writer = RecordWriter::connect(&path, &options)?;
///     writer.send(b"hello")?;
///     let (_listener, mut reader) = accepting.join().expect("no panic")?;
///     assert_eq!(reader.receive(&mut [0; 16])?, Some(5));
///     Ok::<(), weir::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Accept: Sized {
    /// The options of such an end.
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
            #[doc = concat!("Connects to the reader that listens at a path, by ", $what)]
            /// with these options. Waits for a reader as [`Options::connect_timeout`] says.
            ///
            /// # Errors
            /// [`ErrorKind::NoReader`]: nobody listens there.
            pub fn connect(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
                let options = (options, options.connect_until());
                Endpoint::over(connect_end(path.as_ref(), $kind, options, Connect::Pipe)?.0)
            }
        }
    };
}

accept_and_connect!(Reader, Writer, layout::STREAM, "a stream");
accept_and_connect!(RecordReader, RecordWriter, layout::RECORD, "a pipe of records");
