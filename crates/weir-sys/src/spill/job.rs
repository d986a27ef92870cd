//! A transfer as both engines keep it: the part that is left, and the meaning of the kernel's answers.

use super::file::Ahead;
use super::{MOST_PIECES, MemoryPiece, SpillFile, TransferDirection};
use rustix::io::Errno;

/// The most bytes of one call, below the length at which the kernel would cut it.
pub(super) const MOST_CALL_BYTES: usize = 1 << 30;
/// Answers without a byte, in a row, after which the transfer fails.
const MOST_TRIES: u32 = 1_000;

/// The part of a transfer that is left.
#[derive(Clone, Copy)]
pub(super) struct PendingTransfer {
    pub(super) token: u64,
    pub(super) direction: TransferDirection,
    pub(super) offset: u64,
    pieces: [libc::iovec; MOST_PIECES],
    first: usize,
    count: usize,
    tries: u32,
}

impl std::fmt::Debug for PendingTransfer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} at {}", self.direction, self.token, self.offset)
    }
}

// SAFETY: the addresses are of memory that `SpillEngine::start` was promised, on whatever thread.
unsafe impl Send for PendingTransfer {}

/// What the engine does after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It asks for the rest.
    GoOn,
    /// It completes the transfer.
    Done(Result<(), Errno>),
}

impl PendingTransfer {
    /// Makes a transfer of these pieces. `None` for no piece or too many.
    pub(super) fn new(
        token: u64,
        direction: TransferDirection,
        offset: u64,
        pieces: &[MemoryPiece],
    ) -> Option<PendingTransfer> {
        if !(1..=MOST_PIECES).contains(&pieces.len()) {
            return None;
        }
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut job = PendingTransfer {
            token,
            direction,
            offset,
            pieces: [none; MOST_PIECES],
            first: 0,
            count: pieces.len(),
            tries: 0,
        };
        for (to, piece) in job.pieces.iter_mut().zip(pieces) {
            *to = libc::iovec { iov_base: piece.start.cast(), iov_len: piece.bytes };
        }
        Some(job)
    }

    /// Prepares the file for this transfer, with `others` in flight: whether the process may reach so
    /// far. Only writes need it.
    pub(super) fn prepare(&self, file: &SpillFile, ahead: &mut Ahead, others: usize) -> bool {
        if self.direction == TransferDirection::FromDisk {
            return true;
        }
        let may_reach = crate::may_reach(self.end());
        if may_reach {
            ahead.cover(file, (self.offset, self.end()), others);
        }
        may_reach
    }

    pub(super) fn end(&self) -> u64 {
        let left: usize = self.left().iter().map(|piece| piece.iov_len).sum();
        self.offset.saturating_add(left as u64)
    }

    fn left(&self) -> &[libc::iovec] {
        &self.pieces[self.first..self.count]
    }

    /// The pieces of the next call: as many as have at most `most_bytes` together, but at least one.
    pub(super) fn call(&self, most_bytes: usize) -> &[libc::iovec] {
        let left = self.left();
        let mut sum = 0_usize;
        let fits = left.iter().take_while(|piece| {
            sum = sum.saturating_add(piece.iov_len);
            sum <= most_bytes
        });
        &left[..fits.count().clamp(1, left.len())]
    }

    /// Takes the kernel's answer: bytes, or an error as a negative number.
    pub(super) fn answered(&mut self, answer: i64, file: &SpillFile) -> Next {
        let failed = |errno: Errno| Next::Done(Err(errno));
        if answer < 0 {
            let errno = Errno::from_raw_os_error(answer.unsigned_abs() as i32);
            // io_uring answers ECANCELED when the thread that submitted the transfer has ended.
            let again = matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED);
            self.tries += 1;
            return if again && self.tries < MOST_TRIES { Next::GoOn } else { failed(errno) };
        }
        let mut bytes = answer as usize;
        if self.advances_by(bytes) {
            return Next::Done(Ok(()));
        }
        // The rest must begin at a block of the device.
        bytes -= bytes % file.align() as usize;
        if bytes == 0 {
            // The end of the file, or a device that takes nothing and reports no error.
            return failed(Errno::IO);
        }
        self.tries = 0;
        self.advance(bytes);
        Next::GoOn
    }

    fn advances_by(&self, bytes: usize) -> bool {
        self.left().iter().map(|piece| piece.iov_len).sum::<usize>() <= bytes
    }

    fn advance(&mut self, mut bytes: usize) {
        self.offset += bytes as u64;
        while bytes > 0 && self.first < self.count {
            let piece = &mut self.pieces[self.first];
            let part = bytes.min(piece.iov_len);
            piece.iov_base = piece.iov_base.wrapping_byte_add(part);
            piece.iov_len -= part;
            bytes -= part;
            self.first += usize::from(piece.iov_len == 0);
        }
    }
}
