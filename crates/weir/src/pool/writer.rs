//! The end of a backlog that writes.

use super::core::{Core, Shared};
use super::{Pool, closed};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::FrameWriter;
use crate::park::{Timeout, Until};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_policy::pool::PoolEvent;

/// The end of a backlog that writes. Dropping it is the end of the bytes. [`Pool::backlog`] makes it.
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
    shared: Arc<Shared>,
    frame: Option<FrameWriter>,
}

impl BacklogWriter {
    pub(super) fn new(pool: Pool, shared: Arc<Shared>) -> BacklogWriter {
        BacklogWriter { pool, shared, frame: None }
    }

    fn core(&self) -> &Core {
        self.pool.core()
    }

    /// Room for more, at least a byte and at most a frame, to be filled from its beginning and
    /// committed.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: there is none now. [`ErrorKind::Closed`]: the reader has gone.
    /// [`ErrorKind::Os`], once each time that writing to the file begins to fail: there is none,
    /// and why. What was put is kept.
    pub fn reserve(&mut self) -> Result<&mut [u8]> {
        self.ready()?;
        match &mut self.frame {
            Some(frame) => Ok(frame.space()),
            None => Err(Error::new(ErrorKind::WouldBlock, "write to", "the backlog", "it is full")),
        }
    }

    /// Sees to it that there is a frame.
    fn ready(&mut self) -> Result<()> {
        self.core().check_here("write to")?;
        if self.frame.is_none() {
            self.frame = Some(self.next_frame()?);
        } else if self.shared.gone.load(Ordering::Acquire) {
            // Acquire pairs with the release in the reader's drop.
            return Err(self.reader_gone());
        }
        Ok(())
    }

    /// The reader has gone, and with it the stream.
    fn reader_gone(&mut self) -> Error {
        self.give_back();
        closed("its reader has gone")
    }

    fn give_back(&mut self) {
        self.frame = None;
        let core = self.pool.core();
        let mut state = core.lock();
        if Core::is_open(&state, &self.shared) {
            state.seats[self.shared.stream as usize].writes = false;
            core.close(&mut state, &self.shared);
        }
    }

    fn next_frame(&mut self) -> Result<FrameWriter> {
        let core = self.pool.core();
        let stream = self.shared.stream;
        let mut state = core.lock();
        // Relaxed: it is set under the lock.
        if self.shared.gone.load(Ordering::Relaxed) || !Core::is_open(&state, &self.shared) {
            return Err(closed("its reader has gone"));
        }
        if state.seats[stream as usize].granted.is_none() {
            core.on(&mut state, PoolEvent::Append(stream));
        }
        let Some(frame) = state.seats[stream as usize].granted.take() else {
            self.shared.writer.arm();
            let troubles = state.troubles;
            let fault = state.policy.trouble();
            let told = &mut state.seats[stream as usize].told;
            if let Some(fault) = fault
                && std::mem::replace(told, troubles) != troubles
            {
                return Err(core.spill_error(fault));
            }
            let why = "it is full";
            return Err(Error::new(ErrorKind::WouldBlock, "write to", "the backlog", why));
        };
        let writer = core.frames.writer(frame).ok_or_else(|| {
            let why = "a frame is in use twice";
            Error::new(ErrorKind::Corrupt, "write to", "the backlog", why)
        })?;
        state.seats[stream as usize].writes = true;
        Ok(writer)
    }

    /// So much of the space was filled: the reader sees it.
    pub fn commit(&mut self, bytes: usize) {
        // A forked child has a copy of the lock, which nobody may ever open.
        let here = self.core().frames.is_here();
        let Some(frame) = self.frame.as_mut().filter(|_| here) else { return };
        let before = frame.committed();
        frame.commit(bytes);
        let bytes = frame.committed() - before;
        let full = frame.committed() == self.pool.core().frames.frame_bytes();
        if full {
            // Before the reader can know: once it has read all of it, the frame is another's.
            self.frame = None;
        }
        // SeqCst: with `Wake::arm`, a reader that says it waits looks after this, or is seen.
        self.shared.put.fetch_add(bytes as u64, Ordering::SeqCst);
        self.core().count_put(bytes);
        if full {
            self.seal();
        }
        self.shared.reader.wake();
    }

    /// No more is put into the last block.
    fn seal(&mut self) {
        let core = self.pool.core();
        let mut state = core.lock();
        if Core::is_open(&state, &self.shared) {
            let stream = self.shared.stream;
            state.seats[stream as usize].writes = false;
            core.on(&mut state, PoolEvent::Seal(stream));
            core.close(&mut state, &self.shared);
        }
    }

    /// Writes all of `bytes`, and waits for room as long as it takes: their number.
    ///
    /// # Errors
    /// Those of [`BacklogWriter::reserve`]; [`Error::written_bytes`] says how much was written before.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Ever)
    }

    /// Writes as much as there is room for.
    ///
    /// # Errors
    /// Those of [`BacklogWriter::reserve`].
    pub fn try_write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.write_until(bytes, Until::Now)
    }

    /// Writes as much as there is room for in time.
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
                Err(_) if until != Until::Now && self.shared.writer.wait(until) => {}
                Err(_) if done > 0 => break,
                Err(error) if until == Until::Now => return Err(error),
                Err(_) => {
                    let why = "it stayed full";
                    return Err(Error::new(ErrorKind::TimedOut, "write to", "the backlog", why));
                }
            }
        }
        Ok(done)
    }

    /// What both ends share: to wait for room without holding the end, and to wake the reader.
    pub(super) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Bytes of this stream that were delayed, cancelled, spilled and read back.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.core().counts_of(&self.shared)
    }

    /// A descriptor for poll(2): readable once [`ErrorKind::WouldBlock`] was answered and there may
    /// be room again.
    ///
    /// # Errors
    /// The kernel has no descriptors.
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
        // Release pairs with the acquire in the reader: all that was put is seen.
        self.shared.ended.store(true, Ordering::Release);
        self.shared.reader.wake();
        core.close(&mut state, &self.shared);
    }
}

impl io::Write for BacklogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // No more than goes into one frame, so that an error means that nothing was written.
        let committed = self.frame.as_ref().map_or(0, FrameWriter::committed);
        let room = self.core().frames.frame_bytes() - committed;
        Ok(BacklogWriter::write(self, &bytes[..bytes.len().min(room)])?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
