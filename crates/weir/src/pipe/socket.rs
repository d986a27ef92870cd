//! How two processes that are no relatives get a pipe: one listens at a path, the other connects,
//! makes the memory and sends it along. The connection stays as the lifeline of the pipe.

use crate::connect::acceptor::{Arrival, Entrance, hand_over};
use crate::connect::inbox::Inbox;
use crate::connect::lifeline::Role;
use crate::connect::name::What;
use crate::error::{Error, ErrorKind, Result};
use crate::park::futex;
use crate::pipe::end::{End, make_memory};
use crate::pipe::handle::Half;
use crate::pipe::options::Options;
use crate::pipe::record::{RecordReader, RecordWriter};
use crate::pipe::stream::{Reader, Writer, copy_of, open_kind};
use rustix::fs::Mode;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_ring::layout::{self, SleepLine};
use weir_ring::sleep;
use weir_sys::forks;

/// What the first message of a connection begins with.
const HELLO: &[u8] = b"weir-open";
const LISTEN: What = What { operation: "listen at", noun: "path" };
const CONNECT: What = What { operation: "connect to", noun: "path" };
/// How often those are looked at who have come and sent no memory.
const LOOK: Duration = Duration::from_millis(100);

/// A reader to be: listens at a path for writers. The path, and a lock file beside it, go with it.
#[derive(Debug)]
pub struct Listener {
    hall: Mutex<Hall>,
    inbox: Arc<Inbox>,
    /// Where it sleeps: in memory of its own.
    bed: Arc<SleepLine>,
    path: PathBuf,
    epoch: u32,
}

/// Who has come.
#[derive(Debug)]
struct Hall {
    entrance: Entrance,
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
        let bed = Arc::new(SleepLine::default());
        let inbox = Inbox::new(bed.clone());
        let owner = Mode::RUSR | Mode::WUSR;
        let entrance = Entrance::new(&LISTEN, &path, owner, HELLO, &inbox)?;
        let hall = Mutex::new(Hall { entrance, arrived: VecDeque::new() });
        Ok(Listener { hall, inbox, bed, path, epoch: forks::epoch() })
    }

    /// Waits for a writer of a stream. Who connects and hands no memory over holds up nobody.
    ///
    /// # Errors
    /// What came is no stream's memory. [`ErrorKind::Forked`].
    pub fn accept(&self, options: &Options) -> Result<Reader> {
        Reader::over(self.accept_end(layout::STREAM, options)?)
    }

    /// Waits for a writer of records, likewise.
    ///
    /// # Errors
    /// What came is no record pipe's memory. [`ErrorKind::Forked`].
    pub fn accept_records(&self, options: &Options) -> Result<RecordReader> {
        RecordReader::over(self.accept_end(layout::RECORD, options)?)
    }

    fn accept_end(&self, kind: u32, options: &Options) -> Result<End> {
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
        let mut hall = self.hall.lock().unwrap_or_else(PoisonError::into_inner);
        let Hall { entrance, arrived } = &mut *hall;
        loop {
            if self.inbox.take().knocked || entrance.is_busy() {
                arrived.extend(entrance.admit());
            }
            if let Some(arrival) = arrived.pop_front() {
                return arrival;
            }
            let word = &self.bed.word;
            let said = sleep::announce(word, sleep::ASLEEP);
            if self.inbox.falls_asleep() {
                futex::wait(word, said, entrance.is_busy().then_some(LOOK));
            }
            self.inbox.wakes_up();
            sleep::retract(word, sleep::ASLEEP);
        }
    }
}

fn connect_end(path: &Path, kind: u32, options: &Options) -> Result<End> {
    let resolved = options.resolve()?;
    let (file, map) = make_memory(kind, &resolved)?;
    let copy = copy_of(&file)?;
    let socket = hand_over(&CONNECT, path, None, HELLO, &copy)?;
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
