//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::connect::acceptor::{Acceptor, Arrival, hand_over};
use crate::connect::name::Subject;
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
use std::time::Duration;
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
        let acceptor = Acceptor::new(&LISTEN, &path, owner, HELLO, &inbox)?;
        let pending = Mutex::new(Pending { acceptor, arrived: VecDeque::new() });
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

    fn accept_end(&self, kind: u32, options: &Habits) -> Result<End> {
        if self.epoch != forks::epoch() {
            let object = format!("a writer at {}", self.path.display());
            return Err(Error::new(ErrorKind::Forked, "accept", object, "forked meanwhile"));
        }
        let Arrival { socket, memory, .. } = self.next_arrival();
        let map = open_kind(&memory, kind)?;
        let resolved = options.resolve_over(&map)?;
        End::of(Half { memory, socket }, map, Role::Reader, &resolved)
    }

    /// Who comes next. Several that wait for it wait for each other.
    fn next_arrival(&self) -> Arrival {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let Pending { acceptor, arrived } = &mut *pending;
        loop {
            if self.inbox.take().notified || acceptor.is_busy() {
                arrived.extend(acceptor.admit());
            }
            if let Some(arrival) = arrived.pop_front() {
                return arrival;
            }
            let parked = Parked::announce(&self.site.word, &self.inbox);
            parked.sleep(acceptor.is_busy().then_some(LOOK));
        }
    }
}

fn connect_end(path: &Path, kind: u32, options: &Options) -> Result<End> {
    let resolved = options.resolve()?;
    let (file, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&file)?;
    let socket = hand_over(&CONNECT, path, None, HELLO, &copy)?;
    End::of(Half { memory: file, socket }, map, Role::Writer, &resolved)
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
