//! The writer of a stream.

use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, Map};
use crate::park::{Timeout, Until};
use crate::pipe::claim::ClaimedFile;
use crate::pipe::connection::Role;
use crate::pipe::defaults::out_of_range;
use crate::pipe::end::{End, MANY_LOOKS, WaitOutcome, drain};
use crate::pipe::endpoint::{Endpoint, Ring};
use crate::pipe::options::WriterOptions;
use crate::pipe::storage::{corrupt, say_shape};
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
        if self.end.looks_around() {
            self.look_around();
        }
        let (whole, mut done) = (bytes.len() as u64, 0);
        while done < bytes.len() {
            let left = whole - done as u64;
            let step = match self.step(whole, left, until) {
                Ok(0) if done > 0 => break,
                Ok(0) => return Err(self.none(until)),
                Ok(step) => step as usize,
                Err(error) => {
                    self.wrote(done);
                    return Err(error.with_bytes(done));
                }
            };
            let Endpoint { end, ring } = &mut *self;
            ring.put(&*end.map, &bytes[done..done + step]);
            ring.publish(&*end.map);
            done += step;
            add(&end.account_line().bytes, step as u64);
            end.wake_other(|_| true);
        }
        self.wrote(done);
        Ok(done)
    }

    /// Counts a write that has moved these bytes.
    fn wrote(&mut self, bytes: usize) {
        add(&self.end.account_line().records, u64::from(bytes > 0));
        self.end.acted();
    }

    /// What a trait's call returns, whose error means that nothing was written: if something was,
    /// the error comes again with the next call.
    pub(crate) fn bytes_first(&mut self, written: Result<usize>) -> Result<usize> {
        match written {
            Err(error) if error.written_bytes().is_some_and(|bytes| bytes > 0) => {
                self.end.tell_trouble_again();
                Ok(error.written_bytes().unwrap_or_default())
            }
            written => written,
        }
    }

    fn none(&self, until: Until) -> Error {
        match until {
            Until::Now => self.end.error(ErrorKind::WouldBlock, "it is full"),
            _ => self.end.error(ErrorKind::TimedOut, "it stayed full"),
        }
    }

    /// How many of the bytes that are left to write now; 0 when the time is over.
    fn step(&mut self, whole: u64, left: u64, until: Until) -> Result<u64> {
        loop {
            let Endpoint { end, ring } = &mut *self;
            if end.is_gone() {
                return Err(end.other_is_gone());
            }
            let wanted = end.shape.wanted_bytes(whole, left);
            let plenty = left.min(end.shape.segment_bytes()).max(wanted);
            let fail = |c| corrupt(Role::Writer, c);
            let mut room = ring.room(&*end.map, plenty).map_err(fail)?;
            if room < plenty {
                drain::say_full(&end.header().reader_sleep);
            }
            let told = end.spill_reports();
            if room < plenty && until != Until::Now {
                // A little room is not worth moving the cache line to the other CPU and back.
                let mut looks = 0_u32;
                end.spin(until, |map| {
                    looks = looks.saturating_add(1);
                    let is_late = looks >= MANY_LOOKS;
                    let enough = if is_late { wanted } else { plenty };
                    let room = ring.room(&map, enough).map_err(fail)? >= enough;
                    Ok((room || is_late && told.has_new_one(map.words())).then_some(()))
                })?;
                room = ring.room(&*end.map, plenty).map_err(fail)?;
            }
            let step = end.shape.step_bytes(whole, left, room);
            if step > 0 {
                return Ok(step);
            }
            if let Some(error) = end.new_trouble() {
                return Err(error);
            }
            let mut look = |map: &Map| {
                let room = ring.room(map, wanted).map_err(fail)? >= wanted;
                Ok(room || told.has_new_one(map.header()))
            };
            end.header().writer_sleep.wanted.store(wanted, Ordering::Relaxed);
            if until == Until::Now {
                end.arm();
                if look(&end.map)? || end.is_gone() {
                    continue;
                }
                return Ok(0);
            }
            match end.sleep(until, &mut look)? {
                WaitOutcome::TimedOut => return Ok(0),
                WaitOutcome::Ready | WaitOutcome::Gone => {}
            }
            self.look_around();
        }
    }

    /// Adopts what was asked for from outside.
    fn look_around(&mut self) {
        let Some(shape) = self.end.look_around() else { return };
        match self.move_to(shape) {
            Ok(()) => self.end.grant(shape.capacity_bytes()),
            // A capacity that cannot be set now is dropped. Who asks next hears of the present one.
            Err(_) => say_shape(self.end.header(), self.end.shape),
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
        say_shape(new.header(), shape);
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
        drain::say_full(&end.header().reader_sleep);
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
        say_shape(end.header(), end.shape);
        Ok(())
    }

    /// Returns how many bytes, at least, can be written without waiting, until this end writes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: the memory is invalid.
    pub fn room(&mut self) -> Result<u64> {
        let (end, ring) = self.parts()?;
        ring.room(&*end.map, u64::MAX).map_err(|c| corrupt(Role::Writer, c))
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
            drain::say_full(&end.header().reader_sleep);
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
