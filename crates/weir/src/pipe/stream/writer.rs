//! The writer of a stream.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, Map};
use crate::park::{Timeout, Until};
use crate::pipe::claim::ClaimedFile;
use crate::pipe::connection::Role;
use crate::pipe::defaults::out_of_range;
use crate::pipe::end::{End, WaitOutcome, drain};
use crate::pipe::endpoint::{Endpoint, Ring};
use crate::pipe::options::WriterOptions;
use crate::pipe::storage::{corrupt, publish_shape};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use weir_policy::pipe::PipeShape;
use weir_ring::account::add;
use weir_ring::layout::STREAM;
use weir_ring::primitive::{Ordering, fence};
use weir_ring::stream::StreamWriter;
use weir_ring::{Corrupt, RingMemory};

/// The writer of a stream, which is a [`std::io::Write`] too. Dropping it closes the stream.
///
/// ```
/// use std::io::Write as _;
/// let (mut writer, mut reader) = weir::pipe(&weir::Options::new())?;
/// writeln!(writer, "{} bytes", 7)?;
/// let mut buffer = [0; 64];
/// let count = reader.read(&mut buffer)?;
/// assert_eq!(&buffer[..count], b"7 bytes\n");
/// # Ok::<(), std::io::Error>(())
/// ```
pub type Writer = Endpoint<StreamWriter>;

impl Endpoint<StreamWriter> {
    /// Writes all of `bytes`, waiting for room as long as it takes. Returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died. [`ErrorKind::Os`]: the reader is
    /// elastic, and can neither spill nor take more; this is told once. [`ErrorKind::Corrupt`].
    /// After any of them [`Error::written_bytes`] tells how many bytes were published before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Ever)
    }

    /// Writes as much as there is room for, without waiting. A write up to the atomic bound is
    /// written as a whole or not at all. Returns how many bytes it wrote.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is no room. Those of [`Writer::write`].
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Now)
    }

    /// Writes as much as there is room for before the timeout. Returns how many bytes it wrote.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing could be written in time. Those of [`Writer::write`].
    pub fn write_timeout(&mut self, bytes: &[u8], timeout: impl Into<Timeout>) -> Result<usize> {
        self.write_until(bytes, timeout.into().start())
    }

    fn write_until(&mut self, bytes: &[u8], until: Until) -> Result<usize> {
        self.end.check_here()?;
        if self.end.is_time_to_check() {
            self.adopt_requests();
        }
        let mut done = 0;
        while done < bytes.len() {
            match self.write_some(&bytes[done..], bytes.len() as u64, until) {
                Ok(0) if done == 0 => return Err(self.no_room(until)),
                Ok(0) => break,
                Ok(written) => done += written,
                Err(error) => {
                    self.count_call(done);
                    return Err(error.with_bytes(done));
                }
            }
        }
        self.count_call(done);
        Ok(done)
    }

    /// Writes up to a segment of the bytes that are `left` of a write of `whole` bytes. Mostly there
    /// is room. Returns how many bytes it wrote, 0 once the time is over.
    fn write_some(&mut self, left: &[u8], whole: u64, until: Until) -> Result<usize> {
        if self.end.is_gone() {
            return Err(self.end.peer_gone_error());
        }
        let step = match self.step_now(left.len() as u64, whole)? {
            0 => self.wait_for_step(left.len() as u64, whole, until)?,
            step => step,
        } as usize;
        let Endpoint { end, ring } = self;
        ring.put(&*end.map, &left[..step]);
        ring.publish(&*end.map);
        add(&end.account_line().bytes, step as u64);
        end.wake_other(|_| true);
        Ok(step)
    }

    /// How many of the bytes that are `left` there is room for now, a segment at most.
    fn step_now(&mut self, left: u64, whole: u64) -> Result<u64> {
        let shape = self.end.shape;
        let room = self.room_up_to(left.min(shape.segment_bytes()))?;
        Ok(shape.step_bytes(whole, left, room))
    }

    /// Waits until there is room for a part of the bytes that are `left`: spins, then sleeps. Returns
    /// how many bytes that part has, 0 once the time is over.
    #[cold]
    fn wait_for_step(&mut self, left: u64, whole: u64, until: Until) -> Result<u64> {
        loop {
            drain::request_drain(&self.end.header().reader_sleep);
            // Asked for anew each time: a request may have changed the sizes.
            let wanted = self.end.shape.wanted_bytes(whole, left);
            if until != Until::Now {
                self.spin_for_room(wanted, until)?;
            }
            let step = self.step_now(left, whole)?;
            if step > 0 {
                return Ok(step);
            }
            if let Some(error) = self.end.new_trouble() {
                return Err(error);
            }
            if !self.sleep_for_room(wanted, until)? {
                return Ok(0);
            }
            if until != Until::Now {
                self.adopt_requests();
            }
            if self.end.is_gone() {
                return Err(self.end.peer_gone_error());
            }
        }
    }

    /// Spins until there is this room, the reader reports that it cannot spill, or spinning no longer
    /// pays.
    fn spin_for_room(&mut self, wanted: u64, until: Until) -> Result<()> {
        let Endpoint { end, ring } = self;
        let reports = end.spill_reports();
        end.spin(until, |map| {
            let room = ring.room(&map, wanted).map_err(|c| corrupt(Role::Writer, c))?;
            let has_come = room >= wanted || reports.has_new_one(map.words());
            Ok(has_come.then_some(()))
        })?;
        Ok(())
    }

    /// Sleeps until there is this room, the reader is gone or reports that it cannot spill. Returns
    /// false once the time is over. A call that does not wait looks once more.
    fn sleep_for_room(&mut self, wanted: u64, until: Until) -> Result<bool> {
        let Endpoint { end, ring } = self;
        let reports = end.spill_reports();
        let mut poll = |map: &Map| {
            let room = ring.room(map, wanted).map_err(|c| corrupt(Role::Writer, c))?;
            Ok(room >= wanted || reports.has_new_one(map.header()))
        };
        end.header().writer_sleep.wanted.store(wanted, Ordering::Relaxed);
        if until == Until::Now {
            end.arm();
            return Ok(poll(&end.map)? || end.is_gone());
        }
        Ok(end.sleep(until, &mut poll)? != WaitOutcome::TimedOut)
    }

    /// The room that is known, or all there is if less than this is known.
    fn room_up_to(&mut self, bytes: u64) -> Result<u64> {
        let Endpoint { end, ring } = self;
        ring.room(&*end.map, bytes).map_err(|c| corrupt(Role::Writer, c))
    }

    /// Counts a call that has written these bytes.
    fn count_call(&mut self, bytes: usize) {
        add(&self.end.account_line().records, u64::from(bytes > 0));
        self.end.acted();
    }

    /// What a trait's call returns, whose error means that nothing was written: if something was,
    /// the error comes again with the next call.
    pub(crate) fn bytes_first(&mut self, written: Result<usize>) -> Result<usize> {
        match written {
            Err(error) if error.written_bytes().is_some_and(|bytes| bytes > 0) => {
                self.end.report_spill_failure_again();
                Ok(error.written_bytes().unwrap_or_default())
            }
            written => written,
        }
    }

    fn no_room(&self, until: Until) -> Error {
        match until {
            Until::Now => self.end.error(ErrorKind::WouldBlock, "it is full"),
            _ => self.end.error(ErrorKind::TimedOut, "it stayed full"),
        }
    }

    /// Adopts the sizes that were asked for from outside.
    fn adopt_requests(&mut self) {
        let Some(shape) = self.end.check_requests() else { return };
        match self.move_to(shape) {
            Ok(()) => self.end.grant(shape.capacity_bytes()),
            // A capacity that cannot be set now is dropped. Who asks next hears of the present one.
            Err(_) => publish_shape(self.end.header(), self.end.shape),
        }
    }

    /// Gives the pipe another capacity: a new memory, to which the reader moves once it has drained
    /// the present one. Segment and atomic bound stay the same if they fit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: the capacity is out of range, or less than the bytes in the pipe.
    /// [`ErrorKind::WouldBlock`]: the reader has not yet moved after the last change.
    pub fn resize(&mut self, capacity_bytes: u64) -> Result<()> {
        let shape = self.parts()?.0.shape;
        let now = (Some(shape.segment_bytes()), Some(shape.atomic_bytes()));
        let shape = PipeShape::fitted(memory::page_bytes(), capacity_bytes, (None, None), now);
        self.move_to(shape.map_err(out_of_range)?)
    }

    /// Moves to a new memory of these sizes.
    fn move_to(&mut self, shape: PipeShape) -> Result<()> {
        let (end, ring) = self.parts()?;
        let old = end.map.clone();
        let fail = |c| corrupt(Role::Writer, c);
        ring.room(&*old, u64::MAX).map_err(fail)?;
        if ring.fill() > shape.capacity_bytes() {
            let why = format!("{} bytes are in it", ring.fill());
            return Err(Error::new(ErrorKind::Invalid, "shrink", "the pipe", why));
        }
        if !end.is_followed() {
            return Err(end.error(ErrorKind::WouldBlock, "the reader has not followed yet"));
        }
        // A reader takes no memory of the last number, and it may come from another process.
        let next = old.extent().generation.checked_add(1).filter(|next| *next < u64::MAX);
        let generation = next.ok_or_else(|| fail(Corrupt("the number of its memory")))?;
        let (ring_bytes, arena_bytes) = (shape.capacity_bytes(), 0);
        let (file, new) =
            memory::create(Extent { kind: STREAM, ring_bytes, arena_bytes, generation })?;
        publish_shape(new.header(), shape);
        let position = ring.position();
        new.header().writer.position.store(position, Ordering::Relaxed);
        new.header().reader.position.store(position, Ordering::Relaxed);
        // What can fail is done before the reader hears of the memory, and may write there.
        let file = ClaimedFile::new(file, Role::Writer)?;
        let resumed = StreamWriter::resume(&new).map_err(fail)?;
        let sent = file.file.here().and_then(|file| end.life.send_next(file));
        sent.map_err(|cause| match cause {
            Errno::AGAIN => end.error(ErrorKind::WouldBlock, "the reader has not followed yet"),
            cause => Error::os("resize", "the pipe", cause),
        })?;
        // Release: pairs with the Acquire in `drain::has_moved`: after all that was published here.
        old.header().writer.moved.store(generation, Ordering::Release);
        // Pairs with the fence in `End::close_next`.
        fence(Ordering::SeqCst);
        if Role::Reader.has_closed(old.header()) {
            Role::Reader.close(new.header());
        }
        end.wake_other(|_| true);
        drain::request_drain(&end.header().reader_sleep);
        end.move_to(file, Arc::new(new), shape);
        *ring = resumed;
        // There is more room now, of which no reader tells.
        end.acted();
        Ok(())
    }

    /// Sets the segment and the atomic bound.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: a size is out of range.
    pub fn set_sizes(&mut self, segment_bytes: u64, atomic_bytes: u64) -> Result<()> {
        let (end, _) = self.parts()?;
        let capacity = end.shape.capacity_bytes();
        let sizes = (Some(segment_bytes), Some(atomic_bytes));
        end.shape = PipeShape::new(memory::page_bytes(), capacity, sizes.0, sizes.1)
            .map_err(out_of_range)?;
        publish_shape(end.header(), end.shape);
        Ok(())
    }

    /// Returns how many bytes, at least, can be written without waiting, until this end writes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn room(&mut self) -> Result<u64> {
        self.end.check_here()?;
        self.room_up_to(u64::MAX)
    }
}

impl Ring for StreamWriter {
    const ROLE: Role = Role::Writer;
    const KIND: u32 = STREAM;
    type Options = WriterOptions;

    fn resume(map: &Map) -> std::result::Result<StreamWriter, Corrupt> {
        StreamWriter::resume(map)
    }

    fn is_ready(&mut self, end: &mut End, wanted: u64) -> Result<bool> {
        let room = wanted.clamp(1, end.shape.capacity_bytes());
        let there = self.room(&*end.map, room).map_err(|c| corrupt(Role::Writer, c))?;
        if there < room {
            drain::request_drain(&end.header().reader_sleep);
        }
        // That its reader cannot spill, the next write says.
        let is_told = end.spill_reports().has_new_one(end.header());
        Ok(there >= room || is_told || end.is_gone())
    }

    fn want(&mut self, end: &End, wanted: u64) {
        end.header().writer_sleep.wanted.store(wanted, Ordering::Relaxed);
    }
}

impl io::Write for Endpoint<StreamWriter> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = Writer::write(self, bytes);
        Ok(self.bytes_first(written)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
