//! The end of a backlog that reads.

use super::Pool;
use super::core::{Core, Shared, Shown};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::FrameReader;
use crate::park::{Timeout, Until};
use rustix::fd::BorrowedFd;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_policy::pool::PoolEvent;

/// The end of a backlog that reads. Dropping it gives up what is left. [`Pool::backlog`] makes it.
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
    shared: Arc<Shared>,
    /// The first block, while it is looked at.
    block: Option<FrameReader>,
    in_file: bool,
    /// Bytes of the first block that were taken.
    from: usize,
    taken: u64,
}

/// What a look found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Bytes,
    Nothing,
    End,
}

impl BacklogReader {
    pub(super) fn new(pool: Pool, shared: Arc<Shared>) -> BacklogReader {
        BacklogReader { pool, shared, block: None, in_file: false, from: 0, taken: 0 }
    }

    fn core(&self) -> &Core {
        self.pool.core()
    }

    /// What is there: at least a byte and at most a frame, to be consumed; an empty slice once the
    /// writer has gone and all was taken.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now. [`ErrorKind::Os`]: what comes next
    /// could not be read back; it is tried again.
    pub fn peek(&mut self) -> Result<&[u8]> {
        let found = self.look()?;
        // Looked at first: of what the writer commits meanwhile there may be more, not less.
        let here = self.here();
        match (found, &self.block) {
            (Found::Bytes, Some(block)) => Ok(&block.bytes(self.from)[..here]),
            (Found::End, _) => Ok(&[]),
            _ => Err(nothing()),
        }
    }

    /// Bytes of the first block that are there. (A last block that was read back is longer.)
    fn here(&self) -> usize {
        let block = self.block.as_ref().map_or(0, |block| block.bytes(self.from).len());
        block.min(usize::try_from(self.backlog_bytes()).unwrap_or(usize::MAX))
    }

    fn look(&mut self) -> Result<Found> {
        self.core().check_here("read from")?;
        loop {
            if self.here() > 0 {
                return Ok(Found::Bytes);
            }
            // Looked at before what was put is: what came before the end counts.
            // Acquire pairs with the release in the writer's drop.
            let ended = self.shared.ended.load(Ordering::Acquire);
            // Acquire pairs with `BacklogWriter::commit`: the bytes are in their frame.
            if self.shared.put.load(Ordering::Acquire) != self.taken {
                if self.block.is_none() && !self.show()? {
                    return Ok(Found::Nothing);
                }
            } else if ended {
                self.finish();
                return Ok(Found::End);
            } else if self.arm() {
                return Ok(Found::Nothing);
            }
        }
    }

    /// Says that this end waits for bytes, unless some have come.
    pub(crate) fn arm(&self) -> bool {
        let _guard = self.core().lock();
        self.shared.reader.arm();
        // SeqCst: with `BacklogWriter::commit`, see there.
        let nothing = self.shared.put.load(Ordering::SeqCst) == self.taken
            && !self.shared.ended.load(Ordering::SeqCst);
        if !nothing {
            // The descriptor is to be readable as long as there is something.
            self.shared.reader.wake();
        }
        nothing
    }

    /// Gets the first block, if it is in memory.
    fn show(&mut self) -> Result<bool> {
        let core = self.pool.core();
        let stream = self.shared.stream;
        let mut state = core.lock();
        // Told before it is tried again: the next answer is that of the next look.
        if let Some(failed) = state.seats[stream as usize].failed.take() {
            return Err(core.read_error(failed));
        }
        if state.seats[stream as usize].shown.is_none() {
            core.on(&mut state, PoolEvent::Want(stream));
        }
        let seat = &mut state.seats[stream as usize];
        let Some(Shown { frame, in_file }) = seat.shown.take() else {
            self.shared.reader.arm();
            return Ok(false);
        };
        self.block = core.frames.reader(frame);
        self.in_file = in_file;
        let lost = || Error::new(ErrorKind::Corrupt, "read from", "the backlog", "a frame is lost");
        self.block.as_ref().map(|_| true).ok_or_else(lost)
    }

    /// So much of the bytes was taken.
    pub fn consume(&mut self, bytes: usize) {
        if !self.core().frames.is_here() {
            return;
        }
        let bytes = bytes.min(self.here());
        self.from += bytes;
        self.taken += bytes as u64;
        // Relaxed: a number for those who ask.
        self.shared.taken.store(self.taken, Ordering::Relaxed);
        self.core().count_taken(bytes);
        // Acquire, both: as in `look`.
        let last = self.shared.ended.load(Ordering::Acquire)
            && self.shared.put.load(Ordering::Acquire) == self.taken;
        if self.from == self.core().frames.frame_bytes() || last {
            self.finish();
        } else if self.in_file {
            self.release();
        }
    }

    /// The first block is done.
    fn finish(&mut self) {
        if self.block.take().is_none() {
            return;
        }
        self.from = 0;
        let core = self.pool.core();
        let mut state = core.lock();
        core.on(&mut state, PoolEvent::Consumed(self.shared.stream));
    }

    /// The frame of the first block may be needed for another.
    fn release(&mut self) {
        self.block = None;
        let core = self.pool.core();
        let mut state = core.lock();
        core.on(&mut state, PoolEvent::Release(self.shared.stream));
    }

    /// Bytes that were put and not yet taken.
    pub fn backlog_bytes(&self) -> u64 {
        // Acquire pairs with `BacklogWriter::commit`.
        self.shared.put.load(Ordering::Acquire) - self.taken
    }

    /// Reads what is there, at least a byte, and waits for it as long as it takes; 0 once the writer
    /// has gone and all was read.
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: what comes next could not be read back; it is tried again.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Ever)
    }

    /// Reads what is there.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`]: nothing is in memory now. Those of [`BacklogReader::read`].
    pub fn try_read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.read_until(buffer, Until::Now)
    }

    /// Reads what is there, if anything comes in time.
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
            let found = match self.look() {
                Err(_) if done > 0 => break,
                found => found?,
            };
            match found {
                Found::End => break,
                Found::Nothing if done > 0 => break,
                Found::Nothing if until == Until::Now => return Err(nothing()),
                Found::Nothing if self.wait(until) => {}
                Found::Nothing => {
                    let why = "nothing came";
                    return Err(Error::new(ErrorKind::TimedOut, "read from", "the backlog", why));
                }
                Found::Bytes => {
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

    /// Sleeps until there may be something: whether there is time left.
    pub(crate) fn wait(&self, until: Until) -> bool {
        self.shared.reader.wait(until)
    }

    /// A descriptor for poll(2): readable once [`ErrorKind::WouldBlock`] was answered and there may
    /// be something again.
    ///
    /// # Errors
    /// The kernel has no descriptors.
    pub fn poll_descriptor(&mut self) -> Result<BorrowedFd<'_>> {
        self.core().check_here("poll")?;
        self.shared.reader.descriptor()
    }

    /// Bytes of this stream that were delayed, cancelled, spilled and read back.
    pub(crate) fn counts(&self) -> [u64; 4] {
        self.core().counts_of(&self.shared)
    }

    /// Whether this is the process it was opened in.
    pub(crate) fn is_here(&self) -> bool {
        self.core().frames.is_here()
    }
}

fn nothing() -> Error {
    Error::new(ErrorKind::WouldBlock, "read from", "the backlog", "nothing is in memory")
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
            // The writer may be at its last block for long; the others can go now.
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
