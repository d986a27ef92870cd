//! The reader of a record pipe.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, View};
use crate::park::{Timeout, Until};
use crate::pipe::connection::Role;
use crate::pipe::end::{End, WaitOutcome};
use crate::pipe::endpoint::{Endpoint, Ring};
use crate::pipe::options::ReaderOptions;
use crate::pipe::storage::corrupt;
use weir_ring::account::add;
use weir_ring::layout::RECORD;
use weir_ring::primitive::Ordering;
use weir_ring::{Corrupt, record};

/// The reader of a record pipe. Dropping it closes the pipe.
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// writer.send(b"one")?;
/// writer.send(b"another")?;
/// let mut buffer = [0; 16];
/// assert_eq!(reader.receive(&mut buffer)?, Some(3));
/// assert_eq!(reader.receive(&mut buffer)?, Some(7));
/// drop(writer);
/// assert_eq!(reader.receive(&mut buffer)?, None);
/// # Ok::<(), weir::Error>(())
/// ```
pub type RecordReader = Endpoint<record::RecordReader>;

impl Endpoint<record::RecordReader> {
    /// Receives the next record into `buffer`, waiting for it as long as it takes. Returns its
    /// length, or `None` once the writer is gone and every record is received.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer is too small; the record stays, and
    /// [`Error::needed_bytes`] is its length. [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receive_within(buffer, Timeout::Never)
    }

    /// Receives the next record, if there is one.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is none. Those of [`RecordReader::receive`].
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<Option<usize>> {
        self.receive_within(buffer, Timeout::Now)
    }

    /// Receives the next record, if one comes in time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: none came. Those of [`RecordReader::receive`].
    pub fn receive_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<Option<usize>> {
        self.receive_within(buffer, timeout.into())
    }

    #[inline]
    fn receive_within(&mut self, buffer: &mut [u8], timeout: Timeout) -> Result<Option<usize>> {
        let Some(bytes) = self.next(timeout)? else { return Ok(None) };
        let Endpoint { end, ring } = self;
        if bytes > buffer.len() {
            return Err(too_small(end, bytes, buffer.len()));
        }
        ring.copy_out(&*end.map, bytes, 0, &mut buffer[..bytes]);
        ring.consume(&*end.map, bytes, end.dirties);
        settle(end, ring, 1, bytes);
        Ok(Some(bytes))
    }

    /// Receives the next record as [`RecordReader::receive`] does, and then those that are there
    /// already. Copies each into `buffer` and shows it to `see`. Returns how many they were, which
    /// is 0 once the writer is gone and every record is received. For many small records this is
    /// cheaper than receiving them one by one.
    ///
    /// It stops before a record longer than the buffer, and after an eighth of the capacity, so
    /// that the writer does not have to wait for room.
    ///
    /// # Errors
    /// Those of [`RecordReader::receive`].
    pub fn receive_each(&mut self, buffer: &mut [u8], mut see: impl FnMut(&[u8])) -> Result<usize> {
        let Some(mut next) = self.next(Timeout::Never)? else { return Ok(0) };
        let Endpoint { end, ring } = self;
        if next > buffer.len() {
            return Err(too_small(end, next, buffer.len()));
        }
        let (mut records, mut bytes) = (0, 0);
        loop {
            ring.copy_out(&*end.map, next, 0, &mut buffer[..next]);
            ring.consume(&*end.map, next, end.dirties);
            records += 1;
            bytes += next;
            see(&buffer[..next]);
            // The next call reports what is corrupt: these records have been received.
            match ring.look(&*end.map) {
                Ok(Some(more)) if more <= buffer.len() && !ring.owes_much() => next = more,
                _ => break,
            }
        }
        settle(end, ring, records, bytes);
        Ok(records)
    }

    /// Lends the next record to be read in place, waiting for it as long as it takes.
    /// [`Loan::consume`] consumes the record; dropping the loan leaves it there. Returns `None`
    /// once the writer is gone and every record is consumed.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn lend(&mut self) -> Result<Option<Loan<'_>>> {
        self.lend_timeout(Timeout::Never)
    }

    /// Lends the next record, if one comes in time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`], [`ErrorKind::WouldBlock`], [`ErrorKind::Corrupt`].
    pub fn lend_timeout(&mut self, timeout: impl Into<Timeout>) -> Result<Option<Loan<'_>>> {
        let bytes = self.next(timeout.into())?;
        Ok(bytes.map(|bytes| Loan { reader: self, bytes }))
    }

    #[inline]
    pub(crate) fn settle(&mut self, records: usize, bytes: usize) -> Result<()> {
        let (end, ring) = self.parts()?;
        settle(end, ring, records, bytes);
        Ok(())
    }

    /// The length of the next record, once there is one.
    #[inline]
    fn next(&mut self, timeout: Timeout) -> Result<Option<usize>> {
        let (end, ring) = self.parts()?;
        match ring.look(&*end.map).map_err(|c| corrupt(Role::Reader, c))? {
            Some(bytes) => Ok(Some(bytes)),
            None => self.wait_for_next(timeout),
        }
    }

    #[cold]
    fn wait_for_next(&mut self, timeout: Timeout) -> Result<Option<usize>> {
        let Endpoint { end, ring } = self;
        let until = timeout.start();
        let next = |ring: &record::RecordReader, map: &Map| {
            ring.look(map).map_err(|c| corrupt(Role::Reader, c))
        };
        if until == Until::Now {
            give_back(end, ring);
            end.arm();
            let gone = end.is_gone();
            // Looked at after `is_gone`: what the writer sent before it went counts.
            let found = next(ring, &end.map)?;
            if found.is_some() || gone {
                return Ok(found);
            }
            return Err(end.error(ErrorKind::WouldBlock, "it is empty"));
        }
        let dry = std::mem::take(&mut end.since_dry);
        end.pause(dry);
        if end.spin(until, |map: &Map| Ok(next(ring, map)?.is_some()))? {
            return next(ring, &end.map);
        }
        give_back(end, ring);
        match end.sleep(until, &mut |map| Ok(next(ring, map)?.is_some()))? {
            WaitOutcome::Ready => next(ring, &end.map),
            WaitOutcome::Gone => Ok(None),
            WaitOutcome::TimedOut => Err(end.error(ErrorKind::TimedOut, "it stayed empty")),
        }
    }
}

impl Ring for record::RecordReader {
    const ROLE: Role = Role::Reader;
    const KIND: u32 = RECORD;
    type Options = ReaderOptions;

    fn resume(map: &Map) -> std::result::Result<record::RecordReader, Corrupt> {
        record::RecordReader::resume(map)
    }

    fn leave(&mut self, map: &Map) {
        self.give_back(map);
    }

    fn is_ready(&mut self, end: &End, _: u64) -> Result<bool> {
        let gone = end.is_gone();
        let next = self.look(&*end.map).map_err(|c| corrupt(Role::Reader, c))?;
        if next.is_none() {
            give_back(end, self);
        }
        Ok(next.is_some() || gone)
    }
}

/// Counts what was received, and gives its room back if it is time.
#[inline]
pub(crate) fn settle(end: &mut End, ring: &mut record::RecordReader, records: usize, bytes: usize) {
    let line = end.account_line();
    add(&line.bytes, bytes as u64);
    add(&line.records, records as u64);
    end.moved(records as u32);
    // Relaxed: before this end sleeps, it looks again, with a fence, whether the writer waits.
    if ring.owes_much() || end.header().writer_sleep.word.load(Ordering::Relaxed) != 0 {
        give_back(end, ring);
    }
    end.acted();
}

/// Gives the room of received records back, and wakes a writer that waits for it.
pub(crate) fn give_back(end: &End, ring: &mut record::RecordReader) {
    if ring.owes() {
        ring.give_back(&*end.map);
    }
    let shape = end.shape;
    end.wake_other(|header| {
        // Acquire: pairs with the Release in `say_position`. A wrong value can only cause a wake-up
        // or prevent one.
        let position = header.writer.position.load(Ordering::Acquire);
        let (room, arena_room) = ring.room(position, header.writer.arena.load(Ordering::Acquire));
        let wanted = header.writer_sleep.wanted.load(Ordering::Relaxed);
        let wanted_arena = header.writer_sleep.wanted_arena.load(Ordering::Relaxed);
        let arena_will_do = wanted_arena == 0 || shape.wakes_writer(arena_room, wanted_arena);
        shape.wakes_writer(room, wanted) && arena_will_do
    });
}

/// A record that is being read in place. Dropping it leaves the record where it is.
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// writer.send(&[7; 100_000])?;
/// let mut loan = reader.lend()?.expect("a record");
/// let mut first = [0; 4];
/// loan.view()?.copy_to(0, &mut first);
/// assert_eq!((loan.len(), first), (100_000, [7; 4]));
/// loan.consume()?;
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a record that is not consumed stays"]
pub struct Loan<'a> {
    reader: &'a mut RecordReader,
    bytes: usize,
}

impl Loan<'_> {
    /// Returns the length of the record.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether the record is empty.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the bytes of the record.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn view(&mut self) -> Result<View<'_>> {
        let bytes = self.bytes;
        let (end, ring) = self.reader.parts()?;
        Ok(View::new(&end.map, ring.place(bytes), bytes))
    }

    /// Consumes the record, and gives its room back.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn consume(self) -> Result<()> {
        let (end, ring) = self.reader.parts()?;
        ring.consume(&*end.map, self.bytes, false);
        settle(end, ring, 1, self.bytes);
        Ok(())
    }
}

#[cold]
fn too_small(end: &End, record: usize, buffer: usize) -> Error {
    let why = format!("the record has {record} bytes, the buffer {buffer}");
    end.error(ErrorKind::TooSmall, why).with_bytes(record)
}
