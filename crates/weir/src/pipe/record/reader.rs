//! The reader of a record pipe.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, MapHere, View};
use crate::park::{Timeout, poll_quickly};
use crate::pipe::connection::Role;
use crate::pipe::end::{End, WaitOutcome, account_taken};
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
pub type RecordReader = Endpoint<record::RecordRingReader>;

impl Endpoint<record::RecordRingReader> {
    /// Receives the next record into `buffer`, waiting for it as long as it takes. Returns its
    /// length, or `None` once the writer is gone and every record is received.
    ///
    /// # Errors
    /// [`ErrorKind::TooSmall`]: the buffer is too small; the record stays, and
    /// [`Error::needed_bytes`] is its length. [`ErrorKind::Corrupt`]: the memory is invalid.
    // A part of the caller's code, where the length of the buffer is often known.
    #[inline(always)]
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

    /// Receives the next record. Most come by [`receive_fast`](RecordReader::receive_fast), the others
    /// by [`receive_slow`](RecordReader::receive_slow).
    #[inline(always)]
    fn receive_within(&mut self, buffer: &mut [u8], timeout: Timeout) -> Result<Option<usize>> {
        if self.receive_fast(buffer, timeout) {
            return Ok(Some(buffer.len()));
        }
        self.receive_slow(buffer, timeout)
    }

    /// Receives the next record in as few instructions as can be, if it is as long as the last one and
    /// as the buffer, and is there or comes within the quick looks: whether it did.
    #[inline(always)]
    fn receive_fast(&mut self, buffer: &mut [u8], timeout: Timeout) -> bool {
        let Endpoint { end, ring } = self;
        let wanted = ring.fast_word(buffer.len());
        let Some(map) = end.map.here() else { return false };
        let is_time = match ring.find(&map) {
            Some(word) if word == wanted => {
                let is_time = take_fast(ring, map, buffer);
                end.count_taken(1);
                is_time
            }
            None if timeout != Timeout::Now => match spin_for_record(end, ring) {
                Some((word, map)) if word == wanted => take_fast(ring, map, buffer),
                _ => return false,
            },
            _ => return false,
        };
        settled(end, ring, is_time);
        true
    }

    /// Receives the next record as [`receive_fast`](RecordReader::receive_fast) does, if it is there.
    #[inline(always)]
    pub(crate) fn receive_there(&mut self, buffer: &mut [u8]) -> bool {
        let Endpoint { end, ring } = self;
        let wanted = ring.fast_word(buffer.len());
        let Some(map) = end.map.here() else { return false };
        if ring.find(&map) != Some(wanted) {
            return false;
        }
        let is_time = take_fast(ring, map, buffer);
        end.count_taken(1);
        settled(end, ring, is_time);
        true
    }

    /// Receives the next record, of any length, and waits for it after the quick looks.
    #[inline(never)]
    fn receive_slow(&mut self, buffer: &mut [u8], timeout: Timeout) -> Result<Option<usize>> {
        let found = self.ring.find(&self.end.here()?);
        let bytes = match found.and_then(|word| self.ring.length(word)) {
            Some(bytes) => bytes,
            None => match self.wait_for_next(timeout)? {
                Some(bytes) => bytes,
                None => return Ok(None),
            },
        };
        let Endpoint { end, ring } = self;
        if bytes > buffer.len() {
            return Err(too_small(end, bytes, buffer.len()));
        }
        take(ring, &end.here()?, &mut buffer[..bytes]);
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
        let shown = &mut Shown { end, ring, records: 0, bytes: 0 };
        let mut map = shown.end.here()?;
        loop {
            take(shown.ring, &map, &mut buffer[..next]);
            shown.records += 1;
            shown.bytes += next;
            see(&buffer[..next]);
            // What was called may have forked.
            map = shown.end.here()?;
            // The next call reports what is corrupt: these records have been received.
            match shown.ring.peek(&map) {
                Ok(Some(more)) if more <= buffer.len() && !shown.ring.owes_much() => next = more,
                _ => return Ok(shown.records),
            }
        }
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

    pub(crate) fn settle(&mut self, records: usize, bytes: usize) -> Result<()> {
        let (end, ring) = self.parts()?;
        settle(end, ring, records, bytes);
        Ok(())
    }

    /// The length of the next record, once there is one.
    #[inline]
    fn next(&mut self, timeout: Timeout) -> Result<Option<usize>> {
        match self.find_soon(timeout).and_then(|word| self.ring.length(word)) {
            Some(bytes) => Ok(Some(bytes)),
            None => self.wait_for_next(timeout),
        }
    }

    /// The word of the next record, if that is there or comes within the quick looks.
    ///
    /// What goes wrong is found by [`RecordReader::wait_for_next`]. So a word is all that comes from
    /// here, in a register, and the record is received at once.
    #[inline(always)]
    fn find_soon(&mut self, timeout: Timeout) -> Option<u32> {
        let Endpoint { end, ring } = self;
        let found = ring.find(&end.map.here()?);
        if found.is_some() || timeout == Timeout::Now {
            return found;
        }
        spin_for_record(end, ring).map(|(word, _)| word)
    }

    /// Looks again for a call that does not wait and found nothing.
    fn try_next(&mut self) -> Result<Option<usize>> {
        let Endpoint { end, ring } = self;
        give_back(end, ring);
        end.arm();
        let gone = end.is_gone();
        // Looked at after `is_gone`: what the writer sent before it went counts.
        let found = ring.peek(&*end.map).map_err(|c| corrupt(Role::Reader, c))?;
        if found.is_some() || gone {
            return Ok(found);
        }
        Err(end.error(ErrorKind::WouldBlock, "it is empty"))
    }

    /// Goes on waiting after the quick looks.
    #[cold]
    #[inline(never)]
    fn wait_for_next(&mut self, timeout: Timeout) -> Result<Option<usize>> {
        let (end, ring) = self.parts()?;
        if timeout == Timeout::Now {
            return self.try_next();
        }
        let until = timeout.start();
        let fail = |c| corrupt(Role::Reader, c);
        if end.spinner.only_spins() {
            // It looks at nothing but the next record until that is there, and its writer may wait
            // for this room.
            give_back(end, ring);
        }
        if let Some(found) = end.spin_after(0, until, |map| ring.peek(&map).map_err(fail))? {
            return Ok(Some(found));
        }
        give_back(end, ring);
        match end.sleep(until, &mut |map| Ok(ring.peek(map).map_err(fail)?.is_some()))? {
            WaitOutcome::Ready => ring.peek(&*end.map).map_err(fail),
            WaitOutcome::Gone => Ok(None),
            WaitOutcome::TimedOut => Err(end.error(ErrorKind::TimedOut, "it stayed empty")),
        }
    }
}

impl Ring for record::RecordRingReader {
    const ROLE: Role = Role::Reader;
    const KIND: u32 = RECORD;
    type Options = ReaderOptions;

    fn resume(map: &Map) -> std::result::Result<record::RecordRingReader, Corrupt> {
        record::RecordRingReader::resume(map)
    }

    fn leave(&mut self, map: &Map) {
        self.give_back(map);
    }

    fn is_ready(&mut self, end: &mut End, _: u64) -> Result<bool> {
        let gone = end.is_gone();
        let next = self.peek(&*end.map).map_err(|c| corrupt(Role::Reader, c))?;
        if next.is_none() {
            give_back(end, self);
        }
        Ok(next.is_some() || gone)
    }
}

/// The records that a call has shown to its caller. Dropping it counts them as received, also where
/// that panicked.
struct Shown<'a> {
    end: &'a mut End,
    ring: &'a mut record::RecordRingReader,
    records: usize,
    bytes: usize,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        // A forked child has received nothing.
        if self.end.check_here().is_ok() {
            settle(self.end, self.ring, self.records, self.bytes);
        }
    }
}

/// Waits for the word of the next record, as long as the quick looks take. Returns the memory too,
/// which it knows to be here.
#[inline(always)]
fn spin_for_record<'a>(
    end: &'a mut End,
    ring: &record::RecordRingReader,
) -> Option<(u32, MapHere<'a>)> {
    let looks = end.begin_wait();
    let map = end.map.here()?;
    let is_gone = || end.is_gone_from(map, Role::Writer);
    let next = ring.next(&map);
    let word = poll_quickly(looks, is_gone, || next.find())?;
    add(&map.words().reader_account.waiting.spun, 1);
    Some((word, map))
}

/// Copies a record out that is as long as the last one and as the buffer, and adds it to the account.
/// Returns whether it is time to give room back.
#[inline(always)]
fn take_fast(ring: &mut record::RecordRingReader, map: MapHere<'_>, buffer: &mut [u8]) -> bool {
    let owes_much = ring.take_fast(&map, buffer);
    account_taken(map, 1, buffer.len()) || owes_much
}

/// Copies the next record out, and goes past it.
#[inline(always)]
fn take(ring: &mut record::RecordRingReader, map: &MapHere<'_>, to: &mut [u8]) {
    ring.copy_out(map, to.len(), 0, to);
    ring.consume(to.len());
}

/// Counts what was received, and gives its room back if it is time.
#[inline(always)]
pub(crate) fn settle(
    end: &mut End,
    ring: &mut record::RecordRingReader,
    records: usize,
    bytes: usize,
) {
    let is_awaited = end.taken(records as u32, bytes);
    settled(end, ring, ring.owes_much() || is_awaited);
}

/// Ends a call that received something and counted it. Gives the room back if it `is_time`.
#[inline(always)]
fn settled(end: &mut End, ring: &mut record::RecordRingReader, is_time: bool) {
    if is_time {
        give_back(end, ring);
    }
    end.acted();
}

/// Gives the room of received records back, and wakes a writer that waits for it.
#[cold]
#[inline(never)]
pub(crate) fn give_back(end: &mut End, ring: &mut record::RecordRingReader) {
    if ring.owes() {
        ring.give_back(&*end.map);
    }
    if end.map.extent().kind == RECORD {
        // The reader of a port goes by sizes of its own.
        end.adopt_writer_settings();
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
        ring.consume(self.bytes);
        settle(end, ring, 1, self.bytes);
        Ok(())
    }
}

#[cold]
fn too_small(end: &End, record: usize, buffer: usize) -> Error {
    let why = format!("the record has {record} bytes, the buffer {buffer}");
    end.error(ErrorKind::TooSmall, why).with_bytes(record)
}
