//! The end of a record pipe that writes.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, ViewMut};
use crate::park::Until;
use crate::pipe::connection::Role;
use crate::pipe::end::{End, Ended};
use crate::pipe::handle::Handle;
use crate::pipe::options::Options;
use crate::pipe::stream::corrupt;
use rustix::fd::BorrowedFd;
use std::time::Duration;
use weir_policy::pipe::Shape;
use weir_ring::account::{Account, add, raise};
use weir_ring::layout::RECORD;
use weir_ring::primitive::Ordering;
use weir_ring::record;

/// Records between two looks at the CPU and at what was asked for from outside.
const LOOK_EVERY: u32 = 1024;

/// The end of a record pipe that writes. Dropping it closes the pipe.
#[derive(Debug)]
pub struct RecordWriter {
    // `None` once it was handed on.
    pub(in crate::pipe) end: Option<End>,
    ring: record::RecordWriter,
    sends: u32,
}

impl RecordWriter {
    pub(crate) fn over(end: End) -> Result<RecordWriter> {
        let ring = record::RecordWriter::resume(&*end.map).map_err(|c| corrupt(Role::Writer, c))?;
        Ok(RecordWriter { end: Some(end), ring, sends: 0 })
    }

    /// Opens an end that was handed on. Of the options its waiting and its habits count.
    ///
    /// # Errors
    /// The handle is a reader's, or its memory is not what it must be.
    pub fn open(handle: Handle, options: &Options) -> Result<RecordWriter> {
        let (half, map) = handle.open_as(Role::Writer, RECORD)?;
        let resolved = options.resolve_over(&map)?;
        RecordWriter::over(End::of(half, map, Role::Writer, &resolved)?)
    }

    /// Hands the end on.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn into_handle(mut self) -> Result<Handle> {
        let (end, ring) = self.parts()?;
        ring.say_position(&*end.map);
        self.end.take().ok_or_else(gone_on)?.into_handle()
    }

    #[inline]
    pub(crate) fn parts(&mut self) -> Result<(&mut End, &mut record::RecordWriter)> {
        let RecordWriter { end, ring, .. } = self;
        let end = end.as_mut().ok_or_else(gone_on)?;
        end.check_here()?;
        Ok((end, ring))
    }

    /// Sends a record, waiting for room as long as it takes.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died. [`ErrorKind::Invalid`]: the record is
    /// longer than the capacity.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_until(bytes, Until::Ever)
    }

    /// Sends a record if there is room.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is none. Those of [`RecordWriter::send`].
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<()> {
        self.send_until(bytes, Until::Now)
    }

    /// Sends a record if there comes to be room in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: there came none. Those of [`RecordWriter::send`].
    pub fn send_for(&mut self, bytes: &[u8], time: Duration) -> Result<()> {
        self.send_until(bytes, Until::after(time))
    }

    #[inline]
    fn send_until(&mut self, bytes: &[u8], until: Until) -> Result<()> {
        self.make_room(bytes.len(), until)?;
        let (end, ring) = self.parts()?;
        ring.fill(&*end.map, bytes.len(), 0, bytes);
        self.commit(bytes.len())
    }

    /// Sends a record with a header, where records have one.
    #[inline]
    pub(crate) fn send_with(&mut self, header: u32, bytes: &[u8], until: Until) -> Result<()> {
        self.make_room(bytes.len(), until)?;
        let (end, ring) = self.parts()?;
        ring.put_header(&*end.map, header);
        ring.fill(&*end.map, bytes.len(), 0, bytes);
        self.commit(bytes.len())
    }

    /// Whether there is room for all of these at once, without waiting.
    pub(crate) fn fits(&mut self, records: impl Iterator<Item = usize>) -> Result<bool> {
        let (end, ring) = self.parts()?;
        let parts = records.map(|bytes| ring.footprint(bytes));
        let whole = parts.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
        ring.has_room(&*end.map, whole).map_err(|c| corrupt(Role::Writer, c))
    }

    /// Lends the place of a record of `bytes` to be written in place; it appears when it is
    /// committed, and leaves nothing behind when it is dropped.
    ///
    /// # Errors
    /// Those of [`RecordWriter::send`].
    pub fn reserve(&mut self, bytes: usize) -> Result<Reservation<'_>> {
        self.reserve_until(bytes, Until::Ever)
    }

    /// The same, if there is room.
    ///
    /// # Errors
    /// Those of [`RecordWriter::try_send`].
    pub fn try_reserve(&mut self, bytes: usize) -> Result<Reservation<'_>> {
        self.reserve_until(bytes, Until::Now)
    }

    fn reserve_until(&mut self, bytes: usize, until: Until) -> Result<Reservation<'_>> {
        self.make_room(bytes, until)?;
        Ok(Reservation { writer: self, bytes, committed: false })
    }

    #[inline]
    fn commit(&mut self, bytes: usize) -> Result<()> {
        let (end, ring) = self.parts()?;
        ring.commit(&*end.map, bytes);
        let line = end.account_line();
        add(&line.bytes, bytes as u64);
        add(&line.records, 1);
        end.wake_other(|_| true);
        end.acted();
        Ok(())
    }

    #[inline]
    fn make_room(&mut self, bytes: usize, until: Until) -> Result<()> {
        self.sends = self.sends.wrapping_add(1);
        let look_around = self.sends.is_multiple_of(LOOK_EVERY);
        let (end, ring) = self.parts()?;
        if look_around {
            end.say_cpu();
            end.be_reached();
            end.take_up_tuning();
        }
        if bytes as u64 > end.arena_bytes() {
            let most = end.arena_bytes();
            let why = format!("{bytes} bytes are out of range: 0 to {most}");
            return Err(Error::new(ErrorKind::Invalid, "send", "a record", why));
        }
        if end.is_gone() {
            return Err(end.error(ErrorKind::Closed, "the reader has closed or died"));
        }
        let fits = ring.has_room(&*end.map, ring.footprint(bytes));
        if fits.map_err(|c| corrupt(Role::Writer, c))? {
            return Ok(());
        }
        self.wait_for_room(bytes, until)
    }

    #[cold]
    fn wait_for_room(&mut self, bytes: usize, until: Until) -> Result<()> {
        let fail = |c| corrupt(Role::Writer, c);
        let needed = self.ring.footprint(bytes);
        let (end, ring) = self.parts()?;
        raise(&end.account_line().largest_fill, end.shape.capacity_bytes() - ring.room().0);
        if until != Until::Now {
            // A segment of room is worth the way, a record's is not.
            let segment = end.shape.segment_bytes();
            let arena = if needed.1 > 0 { needed.1.max(segment) } else { 0 };
            let plenty = (needed.0.max(segment), arena.min(end.arena_bytes()));
            end.spin(until, |map: &Map| ring.has_room(map, plenty).map_err(fail))?;
        }
        if ring.has_room(&*end.map, needed).map_err(fail)? {
            return Ok(());
        }
        say_wanted(end, ring, needed);
        let mut look = |map: &Map| ring.has_room(map, needed).map_err(fail);
        let ended = if until == Until::Now {
            end.arm();
            let gone = end.is_gone();
            match (look(&end.map)?, gone) {
                (true, _) => Ended::Ready,
                (false, true) => Ended::Gone,
                (false, false) => return Err(end.error(ErrorKind::WouldBlock, "it is full")),
            }
        } else {
            end.sleep(until, &mut look)?
        };
        match ended {
            Ended::Ready => Ok(()),
            Ended::Gone => Err(end.error(ErrorKind::Closed, "the reader has closed or died")),
            Ended::TimedOut => Err(end.error(ErrorKind::TimedOut, "it stayed full")),
        }
    }

    /// Whether there is room for a record, or nobody to send to.
    pub(crate) fn is_ready(&mut self, bytes: usize) -> Result<bool> {
        let (end, ring) = self.parts()?;
        let fits = ring.has_room(&*end.map, ring.footprint(bytes));
        Ok(fits.map_err(|c| corrupt(Role::Writer, c))? || end.is_gone())
    }

    /// Says how much room is waited for.
    pub(crate) fn announce_room(&mut self, bytes: usize) -> Result<&mut End> {
        let (end, ring) = self.parts()?;
        say_wanted(end, ring, ring.footprint(bytes));
        Ok(end)
    }

    /// Its sizes.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn shape(&mut self) -> Result<Shape> {
        Ok(self.parts()?.0.shape)
    }

    /// What the end has counted.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&mut self) -> Result<Account> {
        Ok(self.parts()?.0.account())
    }

    /// As [`crate::Writer::poll_descriptor`].
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end.as_mut().ok_or_else(gone_on)?.poll_descriptor()
    }
}

/// Says where the writer is and what room it waits for, both in the ring and in the arena.
fn say_wanted(end: &End, ring: &record::RecordWriter, needed: (u64, u64)) {
    ring.say_position(&*end.map);
    let sleep = &end.header().writer_sleep;
    sleep.wanted.store(needed.0, Ordering::Relaxed);
    sleep.wanted_arena.store(needed.1, Ordering::Relaxed);
}

/// A record that is being written in place.
#[derive(Debug)]
pub struct Reservation<'a> {
    writer: &'a mut RecordWriter,
    bytes: usize,
    committed: bool,
}

impl Reservation<'_> {
    /// Its bytes, zeros or what lay there before.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn view(&mut self) -> Result<ViewMut<'_>> {
        let bytes = self.bytes;
        let (end, ring) = self.writer.parts()?;
        Ok(ViewMut::new(&end.map, ring.place(bytes), bytes))
    }

    /// Makes the record appear.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn commit(mut self) -> Result<()> {
        self.committed = true;
        self.writer.commit(self.bytes)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let bytes = self.bytes;
        if !self.committed
            && let Ok((end, ring)) = self.writer.parts()
        {
            ring.abandon(&*end.map, bytes);
        }
    }
}

fn gone_on() -> Error {
    Error::new(ErrorKind::Invalid, "use", "the writer", "it was handed on")
}

impl Drop for RecordWriter {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            if end.map.is_here() {
                self.ring.say_position(&*end.map);
            }
            end.close();
        }
    }
}
