//! The memory of a pool: frames of one size, and guards that say who may touch which frame.
//!
//! Each frame has a word of state: how many of its bytes are committed, and who uses it. That word
//! alone decides which guards are given out, so that no byte is written while it is read: a
//! [`FrameWriter`] has the bytes that are not committed yet, a [`FrameReader`] those that are, and
//! a [`FrameLoan`] lends the frame to the kernel, which reads beside readers and writes alone.

use super::mapping::{Mapping, page_bytes};
use super::sealed::map_private;
use crate::error::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_sys::spill::{MemoryPiece, TransferDirection};

/// The name of the memory in /proc.
const NAME: &str = "weir-pool";
/// The bits of the state that count the committed bytes.
const COMMITTED: u64 = (1 << 32) - 1;
/// There is a [`FrameWriter`].
const WRITER: u64 = 1 << 32;
/// The kernel is filling the frame.
const FILLING: u64 = 1 << 33;
/// One user that shares the frame: a reader, or a loan that the kernel reads.
const USER: u64 = 1 << 34;
/// The longest frame.
const MOST_FRAME_BYTES: usize = 1 << 30;
/// More users than there can be threads.
const MOST_USERS: u64 = u64::MAX / USER - 1;

/// Frames whose memory the kernel allocates as they are first touched.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Mapping,
    frame_bytes: usize,
    states: Box<[AtomicU64]>,
}

impl Frames {
    /// Makes `count` frames of `frame_bytes`, a power of two of at least a page.
    pub(crate) fn new(frame_bytes: usize, count: u32) -> Result<Arc<Frames>> {
        let object = || format!("{count} frames of {frame_bytes} bytes");
        let sizes = page_bytes() as usize..=MOST_FRAME_BYTES;
        if !frame_bytes.is_power_of_two() || !sizes.contains(&frame_bytes) {
            let reason = "the size of a frame is a power of two, from a page to 1 GiB";
            return Err(Error::new(ErrorKind::Invalid, "make", object(), reason));
        }
        let bytes = (count as usize).checked_mul(frame_bytes).filter(|bytes| *bytes > 0);
        let bytes = bytes.filter(|bytes| *bytes <= isize::MAX as usize).ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "make", object(), "no memory can have that size")
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

    pub(crate) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    #[cfg(all(test, not(miri)))]
    pub(crate) fn count(&self) -> u32 {
        self.states.len() as u32
    }

    /// Whether the memory is mapped in this process. It is not in a forked child: there no guard is
    /// given out, and the parent's guards panic instead of reaching into nothing.
    pub(crate) fn is_here(&self) -> bool {
        self.memory.is_here()
    }

    /// Changes a frame's state, if `change` returns a new one.
    fn claim(&self, frame: u32, change: impl FnMut(u64) -> Option<u64>) -> Option<()> {
        let state = self.states.get(frame as usize).filter(|_| self.is_here())?;
        // Acquire: pairs with the Release of `release`, `FrameWriter::commit` and
        // `FrameLoan::filled`: earlier users are done with the bytes. Release: pairs with the
        // Acquire of the next claim.
        state.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).ok().map(drop)
    }

    /// Takes a guard's bits off the state of its frame.
    fn release(&self, frame: u32, what: u64) {
        // Release: pairs with the Acquire of `claim`: the next user comes after this one. A forked
        // child has the state, though not the memory.
        self.states[frame as usize].fetch_sub(what, Ordering::Release);
    }

    fn committed(&self, frame: u32) -> usize {
        // Acquire: pairs with the Release of `FrameWriter::commit`: the bytes are there.
        (self.states[frame as usize].load(Ordering::Acquire) & COMMITTED) as usize
    }

    /// The address of a frame that a guard was given for.
    fn address(&self, frame: u32) -> *mut u8 {
        assert!(self.is_here(), "no frame of this process");
        self.memory.at(frame as usize * self.frame_bytes, self.frame_bytes)
    }

    /// Empties a frame to write it; `None` while it is in use.
    pub(crate) fn writer(self: &Arc<Self>, frame: u32) -> Option<FrameWriter> {
        self.claim(frame, |state| (state & !COMMITTED == 0).then_some(WRITER))?;
        Some(FrameWriter { frames: Arc::clone(self), frame, committed: 0 })
    }

    /// The right to read a frame beside its writer and readers; `None` while it is being filled.
    pub(crate) fn reader(self: &Arc<Self>, frame: u32) -> Option<FrameReader> {
        self.share(frame, |state| state & FILLING == 0)?;
        Some(FrameReader { frames: Arc::clone(self), frame })
    }

    fn share(&self, frame: u32, may: impl Fn(u64) -> bool) -> Option<()> {
        let change = |state| (may(state) && state / USER < MOST_USERS).then_some(state + USER);
        self.claim(frame, change)
    }

    /// Lends a frame for a transfer. A frame goes to disk when nobody can write it any longer: it
    /// is full, or its writer is gone. A frame to be filled has no users, and loses its bytes.
    pub(crate) fn lend(
        self: &Arc<Self>,
        frame: u32,
        direction: TransferDirection,
    ) -> Option<FrameLoan> {
        match direction {
            TransferDirection::ToDisk => self.share(frame, |state| {
                let full = state & COMMITTED == self.frame_bytes as u64;
                state & FILLING == 0 && (full || state & WRITER == 0)
            })?,
            TransferDirection::FromDisk => {
                self.claim(frame, |state| (state & !COMMITTED == 0).then_some(FILLING))?;
            }
        }
        Some(FrameLoan { frames: Arc::clone(self), frame, direction })
    }
}

/// The right to write the bytes of a frame that are not committed yet.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    frames: Arc<Frames>,
    frame: u32,
    // Only the writer changes it.
    committed: usize,
}

impl FrameWriter {
    /// The bytes that can be written: empty once all are committed.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        let bytes = self.frames.frame_bytes - self.committed;
        let start = self.frames.address(self.frame).wrapping_add(self.committed);
        // SAFETY: the rest of one of these frames, mapped while `frames` lives. While WRITER is set
        // neither another writer nor the kernel can write the frame, and readers stay below
        // `committed`, which cannot grow while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(start, bytes) }
    }

    /// Lets readers see the next `bytes`, at most all that are left.
    pub(crate) fn commit(&mut self, bytes: usize) {
        let bytes = bytes.min(self.frames.frame_bytes - self.committed);
        self.committed += bytes;
        // Release: pairs with the Acquire of `committed` and `claim`: the bytes come first.
        self.frames.states[self.frame as usize].fetch_add(bytes as u64, Ordering::Release);
    }

    pub(crate) fn committed(&self) -> usize {
        self.committed
    }

    /// The number of the frame.
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    /// Gives the memory of the frame back to the machine. The frame is zeros then.
    pub(crate) fn release(&self) -> rustix::io::Result<()> {
        let bytes = self.frames.frame_bytes;
        self.frames.memory.release(self.frame as usize * bytes, bytes)
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        self.frames.release(self.frame, WRITER);
    }
}

/// The right to read the committed bytes of a frame.
#[derive(Debug)]
pub(crate) struct FrameReader {
    frames: Arc<Frames>,
    frame: u32,
}

impl FrameReader {
    /// The committed bytes from `from` on; empty if fewer are committed.
    pub(crate) fn bytes(&self, from: usize) -> &[u8] {
        let committed = self.frames.committed(self.frame);
        let from = from.min(committed);
        let start = self.frames.address(self.frame).wrapping_add(from);
        // SAFETY: inside one of these frames, mapped while `frames` lives. While the frame has
        // users its committed bytes are not written: its writer has the rest of it, and neither a
        // new writer nor a loan from disk is given out.
        unsafe { std::slice::from_raw_parts(start, committed - from) }
    }
}

impl Drop for FrameReader {
    fn drop(&mut self) {
        self.frames.release(self.frame, USER);
    }
}

/// A frame that is lent to the kernel for a transfer. Its holder keeps it until the kernel is done.
#[derive(Debug)]
pub(crate) struct FrameLoan {
    frames: Arc<Frames>,
    frame: u32,
    direction: TransferDirection,
}

impl FrameLoan {
    #[cfg(test)]
    pub(crate) fn frame(&self) -> u32 {
        self.frame
    }

    pub(crate) fn direction(&self) -> TransferDirection {
        self.direction
    }

    pub(super) fn is_here(&self) -> bool {
        self.frames.is_here()
    }

    pub(super) fn piece(&self) -> MemoryPiece {
        MemoryPiece { start: self.frames.address(self.frame), bytes: self.frames.frame_bytes }
    }

    /// A checksum of the frame.
    ///
    /// # Safety
    /// A transfer from disk is done: the kernel does not write the frame any longer.
    pub(super) unsafe fn checksum(&self) -> u64 {
        let start = self.frames.address(self.frame);
        // SAFETY: one of these frames, mapped while `frames` lives. Nobody writes a frame that is
        // lent to disk: it is committed, or has no writer. A frame that was lent from disk is this
        // loan's alone, and the caller promises that the kernel is done.
        let bytes = unsafe { std::slice::from_raw_parts(start, self.frames.frame_bytes) };
        twox_hash::XxHash3_64::oneshot(bytes)
    }

    /// Ends a loan from disk: the kernel has written all of it.
    pub(super) fn filled(self) {
        if self.direction == TransferDirection::ToDisk {
            return;
        }
        let filled = FILLING | self.frames.frame_bytes as u64;
        // Release: pairs with the Acquire of `claim`. `drop` takes FILLING off.
        self.frames.states[self.frame as usize].store(filled, Ordering::Release);
    }
}

impl Drop for FrameLoan {
    fn drop(&mut self) {
        let what = if self.direction == TransferDirection::ToDisk { USER } else { FILLING };
        self.frames.release(self.frame, what);
    }
}

#[cfg(test)]
mod tests;
