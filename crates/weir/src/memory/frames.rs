//! The memory of a pool: frames of one size, and who may touch which of them.
//!
//! Each frame has a word of state: how many of its bytes are committed, and who uses it. Guards are
//! given out by that word alone, so that a frame is never written where somebody reads: a
//! [`FrameWriter`] has the bytes that are not committed yet, a [`FrameReader`] those that are, and
//! a [`Loan`] lends the frame to the kernel, which reads beside readers and writes alone.

use super::mapping::{Mapping, page_bytes};
use super::sealed::map_private;
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_sys::spill::{MemoryPiece as Piece, TransferDirection as Direction};

/// The name of the memory in /proc.
const NAME: &str = "weir-pool";
/// The committed bytes of a frame in its word.
const COMMITTED: u64 = (1 << 32) - 1;
/// There is a [`FrameWriter`].
const WRITER: u64 = 1 << 32;
/// The kernel is to write the frame.
const FILLING: u64 = 1 << 33;
/// One of those who share the frame: readers, and loans that the kernel reads.
const USER: u64 = 1 << 34;
/// What a frame may have at most.
const MOST_FRAME_BYTES: usize = 1 << 30;
/// Somebody else is here: there are fewer threads than that.
const MOST_USERS: u64 = u64::MAX / USER - 1;

/// Frames, in memory that is taken from the machine as they are first touched.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Mapping,
    frame_bytes: usize,
    states: Box<[AtomicU64]>,
}

impl Frames {
    /// Frames of `frame_bytes`, a power of two and a page at least.
    pub(crate) fn new(frame_bytes: usize, count: u32) -> Result<Arc<Frames>> {
        let object = || format!("{count} frames of {frame_bytes} bytes");
        let sizes = page_bytes() as usize..=MOST_FRAME_BYTES;
        if !frame_bytes.is_power_of_two() || !sizes.contains(&frame_bytes) {
            let reason = "a frame has a power of two of bytes, from a page to 1 GiB";
            return Err(Error::new(ErrorKind::Invalid, "make", object(), reason));
        }
        let bytes = (count as usize).checked_mul(frame_bytes).filter(|bytes| *bytes > 0);
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "make", object(), "no memory has that size")
        })?;
        let memory =
            map_private(NAME, bytes).map_err(|cause| Error::os("make", object(), cause))?;
        let mut states = Vec::new();
        states
            .try_reserve_exact(count as usize)
            .map_err(|_| Error::os("make", object(), rustix::io::Errno::NOMEM))?;
        states.extend((0..count).map(|_| AtomicU64::new(0)));
        Ok(Arc::new(Frames { memory, frame_bytes, states: states.into() }))
    }

    /// Bytes of a frame.
    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    /// How many there are: their numbers are those below.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    /// Whether the memory is in this process, and not only in the one it was forked from. Where it
    /// is not, no guard is given, and those there are panic instead of reaching into nothing.
    pub(crate) fn is_here(&self) -> bool {
        self.memory.is_here()
    }

    /// Changes a frame's state, if `change` has a new one.
    fn claim(&self, frame: u32, change: impl FnMut(u64) -> Option<u64>) -> Option<()> {
        let state = self.states.get(frame as usize).filter(|_| self.is_here())?;
        // Acquire: with the Release of `release`, `FrameWriter::commit` and `Loan::filled`, so that
        // what those before us did to the bytes is done. Release: what we did is seen by the next.
        state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok().map(drop)
    }

    /// Takes what a guard had added to its frame's state off again.
    fn release(&self, frame: u32, what: u64) {
        // Release: with the Acquire of `claim`, whoever comes next comes after us. The state is
        // there even where the memory is not, in a forked child.
        if let Some(state) = self.states.get(frame as usize) {
            state.fetch_sub(what, Ordering::Release);
        }
    }

    fn committed(&self, frame: u32) -> usize {
        // Acquire: with the Release of `FrameWriter::commit`, the bytes are there.
        self.states.get(frame as usize).map_or(0, |state| state.load(Ordering::Acquire) & COMMITTED)
            as usize
    }

    /// Where a frame begins. The frame is one of ours: its guard was given.
    fn address(&self, frame: u32) -> *mut u8 {
        assert!(self.is_here(), "no frame of this process");
        self.memory.at(frame as usize * self.frame_bytes, self.frame_bytes)
    }

    /// The frame, empty, to be written; none while anybody uses it.
    pub(crate) fn writer(self: &Arc<Self>, frame: u32) -> Option<FrameWriter> {
        self.claim(frame, |state| (state & !COMMITTED == 0).then_some(WRITER))?;
        Some(FrameWriter { frames: Arc::clone(self), frame, committed: 0 })
    }

    /// What is committed of the frame, to be read, beside its writer and other readers; none while
    /// the kernel is to fill it.
    pub(crate) fn reader(self: &Arc<Self>, frame: u32) -> Option<FrameReader> {
        self.share(frame, |state| state & FILLING == 0)?;
        Some(FrameReader { frames: Arc::clone(self), frame })
    }

    fn share(&self, frame: u32, may: impl Fn(u64) -> bool) -> Option<()> {
        let change = |state| (may(state) && state / USER < MOST_USERS).then_some(state + USER);
        self.claim(frame, change)
    }

    /// The frame for a transfer. To disk goes one that nobody can write any more: it is full, or
    /// its writer has gone. From disk comes one that nobody uses, whose bytes are forgotten here.
    pub(crate) fn lend(self: &Arc<Self>, frame: u32, direction: Direction) -> Option<Loan> {
        match direction {
            Direction::ToDisk => self.share(frame, |state| {
                let full = state & COMMITTED == self.frame_bytes as u64;
                state & FILLING == 0 && (full || state & WRITER == 0)
            })?,
            Direction::FromDisk => {
                self.claim(frame, |state| (state & !COMMITTED == 0).then_some(FILLING))?;
            }
        }
        Some(Loan { frames: Arc::clone(self), frame, direction })
    }
}

/// The right to write what is not committed yet of a frame.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    frames: Arc<Frames>,
    frame: u32,
    // Nobody else changes it while there is a writer.
    committed: usize,
}

impl FrameWriter {
    /// What can be written: empty once all is committed.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let bytes = self.frames.frame_bytes - self.committed;
        let start = self.frames.address(self.frame).wrapping_add(self.committed);
        // SAFETY: the rest of a frame of ours, mapped while `frames` lives. While WRITER is set no
        // other writer and no kernel comes in, and readers stay below `committed`, which cannot
        // grow while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Lets readers see the next `bytes`, at most what there is space for.
    pub(crate) fn commit(&mut self, bytes: usize) {
        let bytes = bytes.min(self.frames.frame_bytes - self.committed);
        self.committed += bytes;
        if let Some(state) = self.frames.states.get(self.frame as usize) {
            // Release: with the Acquire of `committed` and `claim`, the bytes come first.
            state.fetch_add(bytes as u64, Ordering::Release);
        }
    }

    /// How much is committed.
    pub(crate) fn committed(&self) -> usize {
        self.committed
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        self.frames.release(self.frame, WRITER);
    }
}

/// The right to read what is committed of a frame.
#[derive(Debug)]
pub(crate) struct FrameReader {
    frames: Arc<Frames>,
    frame: u32,
}

impl FrameReader {
    /// What is committed by now, from `from` on: nothing when that is less.
    pub(crate) fn bytes(&self, from: usize) -> &[u8] {
        let committed = self.frames.committed(self.frame);
        let from = from.min(committed);
        let start = self.frames.address(self.frame).wrapping_add(from);
        // SAFETY: inside of a frame of ours, mapped while `frames` lives. While it has users the
        // committed bytes are not written: its writer has the rest of it, a new writer and a
        // kernel that writes are not let in.
        unsafe { std::slice::from_raw_parts(start, committed - from) }
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        self.frames.release(self.frame, USER);
    }
}

/// A frame that is lent to the kernel for a transfer. Who holds it holds it until the kernel is
/// done.
#[derive(Debug)]
pub(crate) struct Loan {
    frames: Arc<Frames>,
    frame: u32,
    direction: Direction,
}

impl Loan {
    /// Which frame.
    #[cfg(test)]
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// For which transfer.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether the frame is in this process.
    pub(super) fn is_here(&self) -> bool {
        self.frames.is_here()
    }

    /// Where it lies.
    pub(super) fn piece(&self) -> Piece {
        Piece { start: self.frames.address(self.frame), bytes: self.frames.frame_bytes }
    }

    /// A checksum of the frame.
    ///
    /// # Safety
    /// One from disk is done: the kernel does not write it any more.
    pub(super) unsafe fn checksum(&self) -> u64 {
        let start = self.frames.address(self.frame);
        // SAFETY: a frame of ours, mapped while `frames` lives. Nobody writes what is lent to disk:
        // it is committed, or has no writer; what was lent from disk is this loan's alone, and that
        // the kernel is done is the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(start, self.frames.frame_bytes) };
        twox_hash::XxHash3_64::oneshot(bytes)
    }

    /// Ends a loan from disk: the kernel has written all of it.
    pub(super) fn filled(self) {
        if self.direction == Direction::ToDisk {
            return;
        }
        if let Some(state) = self.frames.states.get(self.frame as usize) {
            // Release: with the Acquire of `claim`. FILLING stays, for `drop` to take off.
            state.store(FILLING | self.frames.frame_bytes as u64, Ordering::Release);
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let what = if self.direction == Direction::ToDisk { USER } else { FILLING };
        self.frames.release(self.frame, what);
    }
}

#[cfg(test)]
mod tests;
