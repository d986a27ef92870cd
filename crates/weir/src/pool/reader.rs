//! The reader's end of a backlog.

use super::core::{Backlog, Core, ShownBlock};
use super::{Pool, cannot_read};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::FrameReader;
use crate::park::{LocalSleep, Timeout, Until};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_policy::pool::PoolEvent;

/// The reader's end of a backlog, made by [`Pool::backlog`]. Dropping it discards what is left.
///
/// ```
/// use weir::{Pool, PoolOptions};
/// let pool = Pool::new(&PoolOptions::new().memory_bytes(1 << 20))?;
/// let (mut writer, mut reader) = pool.backlog()?;
/// writer.write(b"one two")?;
/// // In place, without a copy.
/// assert_eq!(reader.peek()?, b"one two");
/// reader.consume(4);
/// assert_eq!(reader.backlog_bytes(), 3);
/// # Ok::<(), weir::Error>(())
/// ```
#[derive(Debug)]
pub struct BacklogReader {
    pool: Pool,
    shared: Arc<Backlog>,
    /// The first block, while the reader holds it.
    block: Option<FrameReader>,
    in_file: bool,
    /// Bytes of the first block that were taken.
    from: usize,
    taken: u64,
}

/// What a look at the backlog found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Peeked {
    Bytes,
    Nothing,
    End,
}

impl BacklogReader {
    pub(super) fn new(pool: Pool, shared: Arc<Backlog>) -> BacklogReader {
        BacklogReader { pool, shared, block: None, in_file: false, from: 0, taken: 0 }
    }

    fn core(&self) -> &Core {
        self.pool.core()
    }

    /// Shows the next bytes in place: at least one byte and at most a frame. The caller consumes
    /// them; until then they keep their frame, which other readers of a full pool may wait for. The
    /// slice is empty once the writer is gone and everything was taken.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now. [`ErrorKind::Os`]: the next bytes could
    /// not be read back; the next call tries again.
    pub fn peek(&mut self) -> Result<&[u8]> {
        let found = self.next_state()?;
        // Counted before the slice is made: what the writer commits meanwhile only adds bytes.
        let here = self.here();
        match (found, &self.block) {
            (Peeked::Bytes, Some(block)) => Ok(&block.bytes(self.from)[..here]),
            (Peeked::End, _) => Ok(&[]),
            _ => Err(nothing()),
        }
    }

    /// Bytes of the first block that can be read. (A last block that was read back is longer.)
    fn here(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.bytes(self.from).len());
        block.min(usize::try_from(self.backlog_bytes()).unwrap_or(usize::MAX))
    }

    fn next_state(&mut self) -> Result<Peeked> {
        self.core().check_here("read from")?;
        loop {
            if self.here() > 0 {
                return Ok(Peeked::Bytes);
            }
            // Loaded before `put`, so that bytes put before the end are seen.
            // Acquire pairs with the release in the writer's drop.
            let ended = self.shared.ended.load(Ordering::Acquire);
            // Acquire pairs with `BacklogWriter::commit`: the bytes are in their frame.
            if self.shared.put.load(Ordering::Acquire) != self.taken {
                if self.block.is_none() && !self.show()? {
                    return Ok(Peeked::Nothing);
                }
            } else if ended {
                self.finish();
                return Ok(Peeked::End);
            } else if self.arm() {
                return Ok(Peeked::Nothing);
            }
        }
    }

    /// Returns whether there are bytes in memory, or the end. If not, this end has announced that it
    /// waits.
    ///
    /// Nobody knows when the caller takes what it found, so others may have the frame if it is in
    /// the file.
    pub(super) fn finds_something(&mut self) -> Result<bool> {
        let found = self.next_state()?;
        if self.in_file && self.block.is_some() {
            self.release(PoolEvent::Release(self.shared.stream));
        }
        Ok(found != Peeked::Nothing)
    }

    pub(crate) fn sleep(&self) -> &LocalSleep {
        &self.shared.reader
    }

    /// Announces that this end waits for bytes: whether there still are none.
    pub(crate) fn arm(&self) -> bool {
        let _guard = self.core().lock();
        self.shared.reader.announce();
        // Acquire, both: as in `look`.
        let nothing = self.shared.put.load(Ordering::Acquire) == self.taken
            && !self.shared.ended.load(Ordering::Acquire);
        if !nothing {
            // The descriptor must stay readable as long as there is something.
            self.shared.reader.wake();
        }
        nothing
    }

    /// Gets the first block: whether it is in memory.
    fn show(&mut self) -> Result<bool> {
        let core = self.pool.core();
        let stream = self.shared.stream;
        let mut state = core.lock();
        // Reported before the next try, whose result the next look reports.
        if let Some(failed) = state.seats[stream as usize].failed.take() {
            return Err(core.read_error(failed));
        }
        core.on(&mut state, PoolEvent::Want(stream));
        let seat = &mut state.seats[stream as usize];
        let Some(ShownBlock { frame, in_file }) = seat.shown.take() else {
            self.shared.reader.announce();
            return Ok(false);
        };
        self.block = core.frames.reader(frame);
        self.in_file = in_file;
        let lost = || cannot_read(ErrorKind::Corrupt, "a frame is lost");
        self.block.as_ref().map(|_| true).ok_or_else(lost)
    }

    /// Takes this many of the bytes that [`BacklogReader::peek`] showed.
    pub fn consume(&mut self, bytes: usize) {
        if !self.core().frames.is_here() {
            return;
        }
        let bytes = bytes.min(self.here());
        self.from += bytes;
        self.taken += bytes as u64;
        // Relaxed, both: counts.
        self.shared.taken.store(self.taken, Ordering::Relaxed);
        self.core().taken.fetch_add(bytes as u64, Ordering::Relaxed);
        // Acquire, both: as in `look`.
        let last = self.shared.ended.load(Ordering::Acquire)
            && self.shared.put.load(Ordering::Acquire) == self.taken;
        if self.from == self.core().frames.frame_bytes() || last {
            self.finish();
        } else if self.in_file {
            // Another block may need the frame.
            self.release(PoolEvent::Release(self.shared.stream));
        }
    }

    /// Gives the first block back for good.
    fn finish(&mut self) {
        if self.block.is_some() {
            self.from = 0;
            self.release(PoolEvent::Consumed(self.shared.stream));
        }
    }

    /// Gives the frame of the first block back.
    fn release(&mut self, event: PoolEvent) {
        self.block = None;
        let core = self.pool.core();
        core.on(&mut core.lock(), event);
    }

    /// Bytes that were put and not yet taken.
    pub fn backlog_bytes(&self) -> u64 {
        // Acquire pairs with `BacklogWriter::commit`.
        self.shared.put.load(Ordering::Acquire) - self.taken
    }

    /// Reads what is there, at least one byte, and waits for it without a limit. Returns 0 once the
    /// writer is gone and everything was read.
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: the next bytes could not be read back; the next call tries again.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there, without waiting.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now. Those of [`BacklogReader::read`].
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what is there, and waits for it at most as long as `timeout`.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`]: nothing came. Those of [`BacklogReader::read`].
    pub fn read_timeout(
        &mut self,
        buffer: &mut [u8],
        timeout: impl Into<Timeout>,
    ) -> Result<usize> {
        self.read_until(buffer, timeout.into().start())
    }

    fn read_until(&mut self, buffer: &mut [u8], until: Until) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            let found = match self.next_state() {
                Err(_) if done > 0 => break,
                found => found?,
            };
            match found {
                Peeked::End => break,
                Peeked::Nothing if done > 0 => break,
                Peeked::Nothing if until == Until::Now => return Err(nothing()),
                Peeked::Nothing if self.sleep().sleep(until).woken => {}
                Peeked::Nothing => return Err(cannot_read(ErrorKind::TimedOut, "nothing came")),
                Peeked::Bytes => {
                    let bytes = self.peek()?;
                    let step = bytes.len().min(buffer.len() - done);
                    buffer[done..done + step].copy_from_slice(&bytes[..step]);
                    self.consume(step);
                    done += step;
                }
            }
        }
        Ok(done)
    }

    /// A descriptor for poll(2). After a call has returned [`ErrorKind::WouldBlock`], it is readable
    /// once there may be something to read. [`crate::Pollable`] holds an end together with it.
    ///
    /// # Errors
    /// The kernel has no descriptors left.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.core().check_here("poll")?;
        self.shared.reader.descriptor()
    }

    /// Rings this bell as well whenever something comes into memory that this end waits for.
    pub(crate) fn ring_also(&self, bell: Arc<OwnedFd>) {
        self.shared.reader.ring_also(bell);
    }

    /// Counts the bytes of this stream that were delayed, cancelled, spilled and read back.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.core().counts_of(&self.shared)
    }
}

fn nothing() -> Error {
    cannot_read(ErrorKind::WouldBlock, "nothing is in memory")
}

impl Drop for BacklogReader {
    fn drop(&mut self) {
        if !self.core().frames.is_here() {
            return;
        }
        self.block = None;
        let core = self.pool.core();
        let mut state = core.lock();
        // Release pairs with the acquire in the writer.
        self.shared.gone.store(true, Ordering::Release);
        self.shared.writer.wake();
        if Core::is_open(&state, &self.shared) {
            // The writer may stay in its last block for long, but the other blocks can go now.
            core.on(&mut state, PoolEvent::Abandon(self.shared.stream));
        }
        core.close(&mut state, &self.shared);
    }
}

impl io::Read for BacklogReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Ok(BacklogReader::read(self, buffer)?)
    }
}
