//! The writer's end of a backlog.

use super::core::{Backlog, Core};
use super::{Pool, cannot_write};
use crate::error::{ErrorKind, Result};
use crate::memory::FrameWriter;
use crate::park::{LocalSleep, Timeout, Until};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_policy::pool::PoolEvent;

/// The writer's end of a backlog, made by [`Pool::backlog`]. Dropping it ends the stream.
///
/// ```
/// use weir::{Pool, PoolOptions};
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let (mut writer, mut reader) = pool.backlog()?;
/// // In place, without a copy.
/// writer.reserve()?[..5].copy_from_slice(b"hello");
/// writer.commit(5);
/// assert_eq!(reader.peek()?, b"hello");
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct BacklogWriter {
    pool: Pool,
    shared: Arc<Backlog>,
    frame: Option<FrameWriter>,
}

impl BacklogWriter {
    pub(super) fn new(pool: Pool, shared: Arc<Backlog>) -> BacklogWriter {
        BacklogWriter { pool, shared, frame: None }
    }

    fn core(&self) -> &Core {
        self.pool.core()
    }

    /// Reserves room: at least one byte and at most a frame. The caller fills it from its beginning
    /// and commits.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is no room now. [`ErrorKind::Closed`]: the reader is gone.
    /// [`ErrorKind::Os`]: there is no room because writing to the file fails; this is returned once
    /// each time that it begins to fail. Bytes that were put are kept.
    pub fn reserve(&mut self) -> Result<&mut [u8]> {
        self.ready()?;
        match &mut self.frame {
            Some(frame) => Ok(frame.space()),
            None => Err(cannot_write(ErrorKind::WouldBlock, "it is full")),
        }
    }

    /// Reserves room as [`BacklogWriter::reserve`] does; `None` if there is none now. The pool says by
    /// itself why it cannot spill.
    pub(crate) fn try_reserve(&mut self) -> Result<Option<&mut [u8]>> {
        match self.reserve() {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Os) => Ok(None),
            reserved => reserved.map(Some),
        }
    }

    /// Gets a frame if the writer holds none.
    fn ready(&mut self) -> Result<()> {
        self.core().check_here("write to")?;
        if self.frame.is_none() {
            self.frame = Some(self.next_frame()?);
            return Ok(());
        }
        // Acquire: pairs with the Release in the reader's drop.
        if self.shared.gone.load(Ordering::Acquire) {
            self.frame = None;
            self.let_go(None);
            return Err(cannot_write(ErrorKind::Closed, "its reader has gone"));
        }
        Ok(())
    }

    /// Returns whether there is room, or the reader is gone. If not, this end has announced that it
    /// waits.
    pub(super) fn finds_room(&mut self) -> Result<bool> {
        match self.ready() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) if error.kind() == ErrorKind::Closed => Ok(true),
            found => found.map(|()| true),
        }
    }

    pub(super) fn sleep(&self) -> &LocalSleep {
        &self.shared.writer
    }

    /// Gives the frame back, and tells the policy of `event`.
    fn let_go(&mut self, event: Option<PoolEvent>) {
        let core = self.pool.core();
        let mut state = core.lock();
        if Core::is_open(&state, &self.shared) {
            state.seats[self.shared.stream as usize].writes = false;
            event.into_iter().for_each(|event| core.on(&mut state, event));
            core.close(&mut state, &self.shared);
        }
    }

    fn next_frame(&mut self) -> Result<FrameWriter> {
        let core = self.pool.core();
        let stream = self.shared.stream;
        let mut state = core.lock();
        // Relaxed: it is set under the lock.
        if self.shared.gone.load(Ordering::Relaxed) || !Core::is_open(&state, &self.shared) {
            return Err(cannot_write(ErrorKind::Closed, "its reader has gone"));
        }
        if state.seats[stream as usize].granted.is_none() {
            core.on(&mut state, PoolEvent::Append(stream));
        }
        let Some(frame) = state.seats[stream as usize].granted.take() else {
            self.shared.writer.announce();
            let troubles = state.troubles;
            let fault = state.policy.trouble();
            let reported = &mut state.seats[stream as usize].reported;
            if let Some(fault) = fault
                && std::mem::replace(reported, troubles) != troubles
            {
                return Err(core.spill_error(fault));
            }
            return Err(cannot_write(ErrorKind::WouldBlock, "it is full"));
        };
        let twice = || cannot_write(ErrorKind::Corrupt, "a frame is in use twice");
        let writer = core.frames.writer(frame).ok_or_else(twice)?;
        state.seats[stream as usize].writes = true;
        Ok(writer)
    }

    /// Shows the reader this many bytes of the room that was reserved and filled.
    pub fn commit(&mut self, bytes: usize) {
        // In a forked child the copy of the lock may stay locked for ever.
        let here = self.core().frames.is_here();
        let Some(frame) = self.frame.as_mut().filter(|_| here) else { return };
        let before = frame.committed();
        frame.commit(bytes);
        let bytes = frame.committed() - before;
        let full = frame.committed() == self.pool.core().frames.frame_bytes();
        if full {
            // Dropped before the reader sees the bytes: once they are read, the frame gets a new
            // owner.
            self.frame = None;
        }
        // Only this end changes it. Release pairs with the acquire in `BacklogReader::look`.
        let put = self.shared.put.load(Ordering::Relaxed) + bytes as u64;
        self.shared.put.store(put, Ordering::Release);
        // Relaxed: a count.
        self.core().put.fetch_add(bytes as u64, Ordering::Relaxed);
        if full {
            self.let_go(Some(PoolEvent::Seal(self.shared.stream)));
        }
        self.shared.reader.wake();
    }

    /// Writes all of `bytes`, waits for room without a limit, and returns their number.
    ///
    /// # Errors
    /// Those of [`BacklogWriter::reserve`]; [`crate::Error::written_bytes`] is what was written
    /// before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Ever)
    }

    /// Writes as much as there is room for, without waiting.
    ///
    /// # Errors
    /// Those of [`BacklogWriter::reserve`].
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Now)
    }

    /// Writes as much as there is room for within `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing could be written. Those of [`BacklogWriter::reserve`].
    pub fn write_timeout(&mut self, bytes: &[u8], timeout: impl Into<Timeout>) -> Result<usize> {
        self.write_until(bytes, timeout.into().start())
    }

    fn write_until(&mut self, bytes: &[u8], until: Until) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            match self.ready() {
                Ok(()) => {
                    let space = self.reserve().map_err(|error| error.with_bytes(done))?;
                    let step = space.len().min(bytes.len() - done);
                    space[..step].copy_from_slice(&bytes[done..done + step]);
                    self.commit(step);
                    done += step;
                }
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    return Err(error.with_bytes(done));
                }
                Err(_) if until != Until::Now && self.shared.writer.sleep(until).woken => {}
                Err(_) if done > 0 => break,
                Err(error) if until == Until::Now => return Err(error),
                Err(_) => return Err(cannot_write(ErrorKind::TimedOut, "it stayed full")),
            }
        }
        Ok(done)
    }

    /// The state that both ends share, to wait for room without holding the end and to wake the
    /// reader.
    pub(crate) fn shared(&self) -> Arc<Backlog> {
        self.shared.clone()
    }

    /// The descriptor of the reader's end, for whoever polls it without that end.
    pub(crate) fn reader_descriptor(&self) -> Result<BorrowedFd<'_>> {
        self.shared.reader.descriptor()
    }

    /// Counts the bytes of this stream that were delayed, cancelled, spilled and read back.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.core().counts_of(&self.shared)
    }

    /// A descriptor for poll(2). After a call has returned [`ErrorKind::WouldBlock`], it is readable
    /// once there may be room. [`crate::Pollable`] holds an end together with it.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.core().check_here("poll")?;
        self.shared.writer.descriptor()
    }
}

impl Drop for BacklogWriter {
    fn drop(&mut self) {
        if !self.core().frames.is_here() {
            return;
        }
        let committed = self.frame.take().map(|frame| frame.committed());
        let core = self.pool.core();
        let mut state = core.lock();
        if Core::is_open(&state, &self.shared) {
            let stream = self.shared.stream;
            let seat = &mut state.seats[stream as usize];
            seat.writes = false;
            let empty = seat.granted.take().is_some() || committed == Some(0);
            core.on(&mut state, PoolEvent::Withdraw { stream, empty });
            core.on(&mut state, PoolEvent::Seal(stream));
        }
        // Release pairs with the acquire in the reader, which then sees all that was put.
        self.shared.ended.store(true, Ordering::Release);
        self.shared.reader.wake();
        core.close(&mut state, &self.shared);
    }
}

impl io::Write for BacklogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // At most what fits into one frame, so that an error means that nothing was written.
        let committed = self.frame.as_ref().map_or(0, FrameWriter::committed);
        let room = self.core().frames.frame_bytes() - committed;
        Ok(BacklogWriter::write(self, &bytes[..bytes.len().min(room)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
