//! A transfer as both engines keep it: what is left of it, and what an answer of the kernel means.

use super::{Direction, MOST_PIECES, Piece, SpillFile};
use rustix::io::Errno;

/// What one call asks for at most: beneath what the kernel cuts calls to.
pub(super) const MOST_CALL_BYTES: usize = 1 << 30;
/// Answers without a byte that are taken in a row before they are an error.
const MOST_TRIES: u32 = 1_000;

/// What is left of a transfer.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) token: u64,
    pub(super) direction: Direction,
    pub(super) offset: u64,
    pieces: [libc::iovec; MOST_PIECES],
    first: usize,
    count: usize,
    tries: u32,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} {} at {}", self.direction, self.token, self.offset)
    }
}

// SAFETY: the addresses are of memory that `Engine::start` was promised, wherever it is used.
unsafe impl Send for Job {}

/// What is to be done after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask for the rest.
    GoOn,
    /// Say that it is done.
    Done(Result<(), Errno>),
}

impl Job {
    /// A transfer of these pieces, if there are neither none nor too many.
    pub(super) fn new(
        token: u64,
        direction: Direction,
        offset: u64,
        pieces: &[Piece],
    ) -> Option<Job> {
        if !(1..=MOST_PIECES).contains(&pieces.len()) {
            return None;
        }
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut job = Job {
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

    /// Where it ends in the file.
    pub(super) fn end(&self) -> u64 {
        let left: usize = self.left().iter().map(|piece| piece.iov_len).sum();
        self.offset.saturating_add(left as u64)
    }

    fn left(&self) -> &[libc::iovec] {
        &self.pieces[self.first..self.count]
    }

    /// What the next call is to ask for: the first pieces of the rest that have no more than
    /// `most_bytes` together, or the first alone.
    pub(super) fn call(&self, most_bytes: usize) -> &[libc::iovec] {
        let left = self.left();
        let mut sum = 0_usize;
        let fits = left.iter().take_while(|piece| {
            sum = sum.saturating_add(piece.iov_len);
            sum <= most_bytes
        });
        &left[..fits.count().clamp(1, left.len())]
    }

    /// Takes the kernel's answer in: bytes, or an error as a negative number.
    pub(super) fn answered(&mut self, answer: i64, file: &SpillFile) -> Next {
        let failed = |errno: Errno| Next::Done(Err(errno));
        if answer < 0 {
            let errno = Errno::from_raw_os_error(answer.unsigned_abs() as i32);
            // io_uring says ECANCELED when the thread that handed the transfer over has ended.
            let again = matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED);
            self.tries += 1;
            return if again && self.tries < MOST_TRIES { Next::GoOn } else { failed(errno) };
        }
        let mut bytes = answer as usize;
        if self.advances_by(bytes) {
            return Next::Done(Ok(()));
        }
        // What comes next must begin where the device's blocks do.
        bytes -= bytes % file.align() as usize;
        if bytes == 0 {
            // The end of the file, or a device that takes nothing and does not say why.
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
