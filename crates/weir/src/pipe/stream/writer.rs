//! The end of a stream that writes.

use super::corrupt;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{self, Extent, Map};
use crate::park::Until;
use crate::pipe::connection::Role;
use crate::pipe::end::{End, Ended, elastic, say_shape};
use crate::pipe::handle::Handle;
use crate::pipe::options::{Options, out_of_range};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use weir_policy::pipe::Shape;
use weir_ring::Memory;
use weir_ring::account::{Account, add};
use weir_ring::layout::STREAM;
use weir_ring::primitive::Ordering;
use weir_ring::stream::StreamWriter;

/// Writes between two looks at what was asked for from outside, and at the CPU.
const LOOK_EVERY: u32 = 256;

/// The end of a stream that writes. Dropping it closes the stream.
#[derive(Debug)]
pub struct Writer {
    // `None` once it was handed on.
    pub(in crate::pipe) end: Option<End>,
    ring: StreamWriter,
    writes: u32,
}

impl Writer {
    pub(crate) fn over(end: End) -> Result<Writer> {
        let ring = StreamWriter::resume(&*end.map).map_err(|c| corrupt(Role::Writer, c))?;
        Ok(Writer { end: Some(end), ring, writes: 0 })
    }

    /// Opens an end that was handed on. Of the options its waiting and its habits count.
    ///
    /// # Errors
    /// The handle is a reader's, or its memory is not what it must be.
    pub fn open(handle: Handle, options: &Options) -> Result<Writer> {
        let (half, map) = handle.open_as(Role::Writer, STREAM)?;
        let resolved = options.resolve_over(&map)?;
        Writer::over(End::of(half, map, Role::Writer, &resolved)?)
    }

    /// Hands the end on.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn into_handle(mut self) -> Result<Handle> {
        self.end.take().ok_or_else(gone_on)?.into_handle()
    }

    fn end(&mut self) -> Result<&mut End> {
        let end = self.end.as_mut().ok_or_else(gone_on)?;
        end.check_here()?;
        Ok(end)
    }

    /// Writes all of `bytes`, waiting for room as long as it takes: their number.
    ///
    /// # Errors
    /// [`ErrorKind::Closed`]: the reader has closed or died; [`Error::written_bytes`] says how much
    /// was published before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Ever)
    }

    /// Writes as much as there is room for; all or nothing up to the atomic bound.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is no room. [`ErrorKind::Closed`].
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Now)
    }

    /// Writes as much as there comes to be room for in that time.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing could be written in time. [`ErrorKind::Closed`].
    pub fn write_for(&mut self, bytes: &[u8], time: Duration) -> Result<usize> {
        self.write_until(bytes, Until::after(time))
    }

    fn write_until(&mut self, bytes: &[u8], until: Until) -> Result<usize> {
        self.end()?;
        self.writes = self.writes.wrapping_add(1);
        if self.writes.is_multiple_of(LOOK_EVERY) {
            self.look_around();
        }
        let (whole, mut done) = (bytes.len() as u64, 0);
        while done < bytes.len() {
            let left = whole - done as u64;
            let published = |error: Error| error.with_bytes(done as u64);
            let step = match self.step(whole, left, until).map_err(published)? {
                0 if done > 0 => break,
                0 => return Err(self.none(until)),
                step => step as usize,
            };
            let (end, ring) = self.parts()?;
            ring.put(&*end.map, &bytes[done..done + step]);
            ring.publish(&*end.map);
            done += step;
            add(&end.account_line().bytes, step as u64);
            end.wake_other(|_| true);
        }
        let end = self.end()?;
        add(&end.account_line().records, u64::from(done > 0));
        end.acted();
        Ok(done)
    }

    fn none(&self, until: Until) -> Error {
        match (&self.end, until) {
            (Some(end), Until::Now) => end.error(ErrorKind::WouldBlock, "it is full"),
            (Some(end), _) => end.error(ErrorKind::TimedOut, "it stayed full"),
            (None, _) => gone_on(),
        }
    }

    /// How much to write now of what is left; 0 when the time is over.
    fn step(&mut self, whole: u64, left: u64, until: Until) -> Result<u64> {
        loop {
            let Writer { end, ring, .. } = self;
            let end = end.as_mut().ok_or_else(gone_on)?;
            if end.is_gone() {
                return Err(end.error(ErrorKind::Closed, "the reader has closed or died"));
            }
            let plenty = left.min(end.shape.segment_bytes());
            let fail = |c| corrupt(Role::Writer, c);
            let mut room = ring.room(&*end.map, plenty).map_err(fail)?;
            if room < plenty {
                end.say_full();
            }
            if room < plenty && until != Until::Now {
                // Little room is not worth a line's way to the other CPU and back.
                end.spin(until, |map: &Map| Ok(ring.room(map, plenty).map_err(fail)? >= plenty))?;
                room = ring.room(&*end.map, plenty).map_err(fail)?;
            }
            let step = end.shape.step_bytes(whole, left, room);
            if step > 0 {
                return Ok(step);
            }
            if let Some(error) = end.new_trouble() {
                return Err(error);
            }
            let wanted = end.shape.wanted_bytes(whole, left);
            let told = end.trouble();
            let mut look = |map: &Map| {
                let room = ring.room(map, wanted).map_err(fail)? >= wanted;
                Ok(room || elastic::trouble(map.header()) != told)
            };
            if until == Until::Now {
                end.arm();
                if look(&end.map)? || end.is_gone() {
                    continue;
                }
                return Ok(0);
            }
            end.header().writer_sleep.wanted.store(wanted, Ordering::Relaxed);
            match end.sleep(until, &mut look)? {
                Ended::TimedOut => return Ok(0),
                Ended::Ready | Ended::Gone => {}
            }
            self.look_around();
        }
    }

    /// Takes up what was asked for from outside.
    fn look_around(&mut self) {
        let Some(end) = &mut self.end else { return };
        end.say_cpu();
        end.be_reached();
        if let Some(capacity) = end.take_up_tuning() {
            // What cannot be done now was refused when it was asked for, or is by now.
            if self.resize(capacity).is_ok()
                && let Some(end) = &mut self.end
            {
                end.grant(capacity);
            }
        }
    }

    /// Gives the pipe another capacity: a new memory, which the reader goes over to once it has
    /// drained this one. Segment and atomic bound stay, where they fit.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: out of range, or less than is filled. [`ErrorKind::WouldBlock`]: the
    /// reader has not yet followed to the memory before.
    pub fn resize(&mut self, capacity_bytes: u64) -> Result<()> {
        let shape = self.end()?.shape;
        let now = (Some(shape.segment_bytes()), Some(shape.atomic_bytes()));
        let shape = Shape::fitted(memory::page_bytes(), capacity_bytes, (None, None), now);
        let shape = shape.map_err(out_of_range)?;
        let old = self.end()?.map.clone();
        let fail = |c| corrupt(Role::Writer, c);
        self.ring.room(&*old, u64::MAX).map_err(fail)?;
        if self.ring.fill() > shape.capacity_bytes() {
            let why = format!("{} bytes are in it", self.ring.fill());
            return Err(Error::new(ErrorKind::Invalid, "shrink", "the pipe", why));
        }
        if !self.end()?.is_followed() {
            let why = "the reader has not followed yet";
            return Err(self.end()?.error(ErrorKind::WouldBlock, why));
        }
        let generation = old.extent().generation + 1;
        let (ring_bytes, arena_bytes) = (shape.capacity_bytes(), 0);
        let (file, new) =
            memory::create(Extent { kind: STREAM, ring_bytes, arena_bytes, generation })?;
        let new = Arc::new(new);
        say_shape(new.header(), shape);
        let position = self.ring.position();
        new.header().writer.position.store(position, Ordering::Relaxed);
        new.header().reader.position.store(position, Ordering::Relaxed);
        let end = self.end()?;
        let sent = file.here().and_then(|file| end.life.send_next(file));
        sent.map_err(|cause| match cause {
            Errno::AGAIN => end.error(ErrorKind::WouldBlock, "the reader has not followed yet"),
            cause => Error::os("resize", "the pipe", cause),
        })?;
        // Release pairs with the acquire in `Reader::follow`: after all that was published here.
        old.header().writer.moved.store(generation, Ordering::Release);
        end.wake_other(|_| true);
        end.say_full();
        end.move_to(file, new.clone(), shape)?;
        self.ring = StreamWriter::resume(&*new).map_err(fail)?;
        Ok(())
    }

    /// Sets segment and atomic bound.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`]: out of range.
    pub fn set_shape(&mut self, segment_bytes: u64, atomic_bytes: u64) -> Result<()> {
        let end = self.end()?;
        let capacity = end.shape.capacity_bytes();
        let sizes = (Some(segment_bytes), Some(atomic_bytes));
        end.shape =
            Shape::new(memory::page_bytes(), capacity, sizes.0, sizes.1).map_err(out_of_range)?;
        say_shape(end.header(), end.shape);
        Ok(())
    }

    /// Its sizes.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn shape(&mut self) -> Result<Shape> {
        Ok(self.end()?.shape)
    }

    /// A lower bound of the bytes that can be written without waiting, which stays true until this
    /// end writes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub fn room(&mut self) -> Result<u64> {
        let map = self.end()?.map.clone();
        self.ring.room(&*map, u64::MAX).map_err(|c| corrupt(Role::Writer, c))
    }

    /// What the end has counted.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn account(&mut self) -> Result<Account> {
        Ok(self.end()?.account())
    }

    /// A descriptor for poll(2) and epoll(7): readable until a `try_write` has answered
    /// [`ErrorKind::WouldBlock`], and again once there is room for a segment or the reader is gone.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.end()?.poll_descriptor()
    }

    /// The memory, by which the pipe can be tuned from outside.
    ///
    /// # Errors
    /// This is a forked child, and the end its parent's.
    pub fn memory(&mut self) -> Result<BorrowedFd<'_>> {
        self.end()?.memory()
    }

    pub(crate) fn parts(&mut self) -> Result<(&mut End, &mut StreamWriter)> {
        let Writer { end, ring, .. } = self;
        Ok((end.as_mut().ok_or_else(gone_on)?, ring))
    }

    /// Whether there is so much room, or nobody to write for.
    pub(crate) fn is_ready(&mut self, room: u64) -> Result<bool> {
        self.end()?;
        let (end, ring) = self.parts()?;
        let room = room.clamp(1, end.shape.capacity_bytes());
        let there = ring.room(&*end.map, room).map_err(|c| corrupt(Role::Writer, c))?;
        Ok(there >= room || end.is_gone())
    }

    /// Says how much room is waited for.
    pub(crate) fn announce_room(&mut self, room: u64) -> Result<&mut End> {
        let end = self.end()?;
        end.header().writer_sleep.wanted.store(room, Ordering::Relaxed);
        Ok(end)
    }
}

fn gone_on() -> Error {
    Error::new(ErrorKind::Invalid, "use", "the writer", "it was handed on")
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            end.close();
        }
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Writer::write(self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
