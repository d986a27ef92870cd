//! The writer of a record pipe.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, ViewMut};
use crate::park::{Timeout, Until};
use crate::pipe::connection::Role;
use crate::pipe::end::{CHECK_EVERY, End, MANY_LOOKS, WaitOutcome, drain};
use crate::pipe::endpoint::{Endpoint, Ring};
use crate::pipe::options::WriterOptions;
use crate::pipe::storage::corrupt;
use weir_ring::account::raise;
use weir_ring::layout::RECORD;
use weir_ring::primitive::Ordering;
use weir_ring::{Area, Corrupt, RingMemory, record};

/// The writer of a record pipe. Dropping it closes the pipe.
///
/// ```
/// use std::time::Duration;
/// use weir::{ErrorKind, Options};
/// let (mut writer, _reader) = weir::records(&Options::new().capacity_bytes(4096))?;
/// while writer.try_send(&[0; 60]).is_ok() {}
/// let full = writer.send_timeout(&[0; 60], Duration::from_millis(1)).unwrap_err();
/// assert_eq!(full.kind(), ErrorKind::TimedOut);
/// # Ok::<(), weir::Error>(())
/// ```
pub type RecordWriter = Endpoint<record::RecordRingWriter>;

impl Endpoint<record::RecordRingWriter> {
    /// Sends a record, waiting for room as long as it takes.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died. [`ErrorKind::Invalid`]: the record is
    /// longer than the capacity.
    // A part of the caller's code, where the length is often known.
    #[inline(always)]
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_within(None, bytes, Timeout::Never)
    }

    /// Sends a record if there is room for it.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is none. Those of [`RecordWriter::send`].
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_within(None, bytes, Timeout::Now)
    }

    /// Sends a record, if there is room for it in time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: there was none. Those of [`RecordWriter::send`].
    pub fn send_timeout(&mut self, bytes: &[u8], timeout: impl Into<Timeout>) -> Result<()> {
        self.send_within(None, bytes, timeout.into())
    }

    /// Sends a record, with a header to a memory whose records have one. Most go by
    /// [`send_fast`](RecordWriter::send_fast), the others by [`send_slow`](RecordWriter::send_slow).
    #[inline(always)]
    pub(crate) fn send_within(
        &mut self,
        header: Option<u32>,
        bytes: &[u8],
        timeout: Timeout,
    ) -> Result<()> {
        if self.send_fast(header, bytes) {
            return Ok(());
        }
        self.send_slow(header, bytes, timeout)
    }

    /// Sends a record in as few instructions as can be, if it is as long as the last one, there is
    /// known to be room, and it is not yet time to check requests. Returns false if it is not sent, or
    /// the reader is gone.
    ///
    /// Whether the reader is gone is asked after the record is there for it: a record that nobody will
    /// read does no harm, and the one that waits for this record has it sooner.
    #[inline(always)]
    pub(crate) fn send_fast(&mut self, header: Option<u32>, bytes: &[u8]) -> bool {
        let Endpoint { end, ring } = self;
        let map = if ring.may_go_fast(bytes.len()) { end.map.here() } else { None };
        let Some(map) = map else { return false };
        ring.send_fast(&map, header, bytes);
        let is_there = !end.is_gone_from(map, Role::Reader);
        if is_there {
            end.published(map, bytes.len());
        }
        is_there
    }

    /// Sends a record of any length. Unless there is known to be room and all is as at the last call, it
    /// checks requests first, and waits for room.
    #[inline(never)]
    fn send_slow(&mut self, header: Option<u32>, bytes: &[u8], timeout: Timeout) -> Result<()> {
        // A record of the last one's length comes here once it is time to check requests.
        let checks = self.ring.is_as_long_as_last(bytes.len()) || !self.knows_room_for(bytes.len());
        if checks {
            self.find_room(bytes.len(), timeout)?;
        }
        let Endpoint { end, ring } = self;
        let map = end.here()?;
        if let Some(header) = header {
            ring.put_header(&map, header);
        }
        ring.fill(&map, bytes.len(), 0, bytes);
        ring.commit(&map, bytes.len());
        end.published(map, bytes.len());
        if checks {
            ring.allow_fast(CHECK_EVERY.into());
        }
        Ok(())
    }

    /// Sends a record of `bytes` that is in several parts, with a header.
    pub(crate) fn send_parts(
        &mut self,
        header: u32,
        parts: &[&[u8]],
        bytes: usize,
        until: Until,
    ) -> Result<()> {
        self.make_room(bytes, until.timeout())?;
        self.ring.put_header(&*self.end.map, header);
        let mut at = 0;
        for part in parts {
            self.ring.fill(&*self.end.map, bytes, at, part);
            at += part.len();
        }
        self.commit(bytes)
    }

    /// Whether there is room for a record now.
    pub(crate) fn fits(&mut self, bytes: usize) -> Result<bool> {
        let (end, ring) = self.parts()?;
        let needed = ring.footprint(bytes);
        has_room(ring, &*end.map, needed)
    }

    /// Makes sure that there is room for all these records now, and fails as
    /// [`RecordWriter::try_send`] does if there is none. Returns false if there never can be.
    pub(crate) fn try_fit(&mut self, records: impl Iterator<Item = usize>) -> Result<bool> {
        let (end, ring) = self.parts()?;
        let parts = records.map(|bytes| ring.footprint(bytes));
        let whole = parts.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
        if whole.0 > end.map.bytes(Area::Ring) || whole.1 > end.arena_bytes() {
            return Ok(false);
        }
        self.find_room_of(whole, Timeout::Now).map(|()| true)
    }

    /// Lends the place of a record of `bytes`, which the caller writes in place. The record appears
    /// when the reservation is committed; dropping the reservation leaves nothing behind.
    ///
    /// # Errors
    /// Those of [`RecordWriter::send`].
    pub fn reserve(&mut self, bytes: usize) -> Result<Reservation<'_>> {
        self.reserve_timeout(bytes, Timeout::Never)
    }

    /// Lends the place of a record, if there is room for it in time.
    ///
    /// # Errors
    /// Those of [`RecordWriter::send_timeout`].
    pub fn reserve_timeout(
        &mut self,
        bytes: usize,
        timeout: impl Into<Timeout>,
    ) -> Result<Reservation<'_>> {
        self.make_room(bytes, timeout.into())?;
        self.ring.begin(bytes);
        Ok(Reservation { writer: self, bytes })
    }

    /// The reservation whose owner has forgotten it, as far as it takes to commit it.
    pub(crate) fn forgotten(&mut self) -> Reservation<'_> {
        Reservation { writer: self, bytes: 0 }
    }

    /// Publishes the record that room was made for, and counts it.
    #[inline]
    fn commit(&mut self, bytes: usize) -> Result<()> {
        let Endpoint { end, ring } = self;
        let map = end.here()?;
        ring.commit(&map, bytes);
        end.published(map, bytes);
        Ok(())
    }

    /// Makes sure that there is room for a record.
    #[inline]
    fn make_room(&mut self, bytes: usize, timeout: Timeout) -> Result<()> {
        if self.knows_room_for(bytes) { Ok(()) } else { self.find_room(bytes, timeout) }
    }

    /// Whether there is known to be room, and all is as at the last call.
    #[inline]
    fn knows_room_for(&mut self, bytes: usize) -> bool {
        self.end.as_before().is_some() && self.ring.is_known_to_hold(bytes)
    }

    #[cold]
    #[inline(never)]
    fn find_room(&mut self, bytes: usize, timeout: Timeout) -> Result<()> {
        let (end, ring) = self.parts()?;
        let most = end.arena_bytes();
        if bytes as u64 > most {
            let why = format!("{bytes} bytes are out of range: 0 to {most}");
            return Err(Error::new(ErrorKind::Invalid, "send", "a record", why));
        }
        let needed = ring.footprint(bytes);
        self.find_room_of(needed, timeout)
    }

    /// Waits until both areas have this room, of which neither has less in all: spins, then sleeps.
    fn find_room_of(&mut self, needed: (u64, u64), timeout: Timeout) -> Result<()> {
        let (end, ring) = self.parts()?;
        let until = timeout.start();
        // The capacity of a record pipe stays as it is.
        let _ = end.check_requests();
        if end.is_gone() {
            return Err(end.peer_gone_error());
        }
        if has_room(ring, &*end.map, needed)? {
            return Ok(());
        }
        raise(&end.account_line().largest_fill, end.shape.capacity_bytes() - ring.room().0);
        if until != Until::Now {
            spin_for_room(end, ring, needed, until)?;
        }
        if has_room(ring, &*end.map, needed)? {
            return Ok(());
        }
        match sleep_for_room(end, ring, needed, until)? {
            WaitOutcome::Ready => Ok(()),
            WaitOutcome::Gone => Err(end.peer_gone_error()),
            WaitOutcome::TimedOut if until == Until::Now => {
                Err(end.error(ErrorKind::WouldBlock, "it is full"))
            }
            WaitOutcome::TimedOut => Err(end.error(ErrorKind::TimedOut, "it stayed full")),
        }
    }
}

fn has_room(
    ring: &mut record::RecordRingWriter,
    map: &impl RingMemory,
    needed: (u64, u64),
) -> Result<bool> {
    ring.has_room(map, needed).map_err(|c| corrupt(Role::Writer, c))
}

/// Spins until there is this room, or spinning no longer pays. It ends early where a thread drains: that
/// looks for writers that sleep.
fn spin_for_room(
    end: &mut End,
    ring: &mut record::RecordRingWriter,
    needed: (u64, u64),
    until: Until,
) -> Result<()> {
    let (place, mut looks) = (end.life.site().sleep_place(), 0_u32);
    // What is not known yet may have such a thread.
    let is_unknown = end.life.site().is_unknown();
    end.spin(until, |map| {
        looks = looks.saturating_add(1);
        let may_drain = || is_unknown || drain::has_thread(place.line(map.words()));
        let ends = looks >= MANY_LOOKS && may_drain() || has_room(ring, &map, needed)?;
        Ok(ends.then_some(()))
    })?;
    Ok(())
}

/// Sleeps until there is this room. A call that does not wait looks once more.
fn sleep_for_room(
    end: &mut End,
    ring: &mut record::RecordRingWriter,
    needed: (u64, u64),
    until: Until,
) -> Result<WaitOutcome> {
    publish_wanted(end, ring, needed);
    let place = end.life.site().sleep_place();
    let mut poll = |map: &Map| {
        let fits = has_room(ring, map, needed)?;
        // This end has announced that it waits, so the draining thread sees whose ring is full.
        if !fits {
            drain::request_drain(place.line(map.header()));
        }
        Ok(fits)
    };
    if until != Until::Now {
        return end.sleep(until, &mut poll);
    }
    end.arm();
    let gone = end.is_gone();
    Ok(match (poll(&end.map)?, gone) {
        (true, _) => WaitOutcome::Ready,
        (false, true) => WaitOutcome::Gone,
        (false, false) => WaitOutcome::TimedOut,
    })
}

impl Ring for record::RecordRingWriter {
    const ROLE: Role = Role::Writer;
    const KIND: u32 = RECORD;
    type Options = WriterOptions;

    fn resume(map: &Map) -> std::result::Result<record::RecordRingWriter, Corrupt> {
        record::RecordRingWriter::resume(map)
    }

    fn leave(&mut self, map: &Map) {
        self.hand_on(map);
    }

    fn is_ready(&mut self, end: &mut End, wanted: u64) -> Result<bool> {
        if wanted > end.arena_bytes() {
            // There never is room for it, as its send says.
            return Ok(true);
        }
        let fits = self.has_room(&*end.map, self.footprint(wanted as usize));
        let fits = fits.map_err(|c| corrupt(Role::Writer, c))?;
        if !fits {
            drain::request_drain(end.life.site().sleep_place().line(end.map.header()));
        }
        Ok(fits || end.is_gone())
    }

    fn want(&mut self, end: &End, wanted: u64) {
        publish_wanted(end, self, self.footprint(wanted as usize));
    }
}

/// Publishes the writer's position, and what room it waits for in the ring and in the arena.
fn publish_wanted(end: &End, ring: &record::RecordRingWriter, needed: (u64, u64)) {
    ring.publish_position(&*end.map);
    let sleep = &end.header().writer_sleep;
    sleep.wanted.store(needed.0, Ordering::Relaxed);
    sleep.wanted_arena.store(needed.1, Ordering::Relaxed);
}

/// A record that is being written in place. Dropping it leaves nothing behind.
///
/// ```
/// let (mut writer, mut reader) = weir::records(&weir::Options::new())?;
/// let mut place = writer.reserve(100_000)?;
/// place.view()?.copy_from(0, b"the beginning");
/// place.commit()?;
/// assert_eq!(reader.receive(&mut vec![0; 100_000])?, Some(100_000));
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a record that is not committed is not sent"]
pub struct Reservation<'a> {
    writer: &'a mut RecordWriter,
    bytes: usize,
}

impl Reservation<'_> {
    /// Returns the bytes of the record. At first they are zeros or old data.
    ///
    /// # Errors
    /// This is a forked child, and the end is its parent's.
    pub fn view(&mut self) -> Result<ViewMut<'_>> {
        let bytes = self.bytes;
        let (end, ring) = self.writer.parts()?;
        Ok(ViewMut::new(&end.map, ring.place(bytes), bytes))
    }

    /// Sends the record.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died. This is a forked child, and the end is its
    /// parent's.
    pub fn commit(self) -> Result<()> {
        let end = &self.writer.end;
        if end.is_gone_from(end.here()?, Role::Reader) {
            return Err(end.peer_gone_error());
        }
        let begun = self.writer.ring.end_begun();
        begun.map_or(Ok(()), |bytes| self.writer.commit(bytes))
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Ok((end, ring)) = self.writer.parts() {
            ring.abandon(&*end.map);
        }
    }
}
