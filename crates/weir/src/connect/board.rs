//! How the reader of many rings hands its board to a writer, and how the writer rings it.

use super::lifeline::Lifeline;
use crate::memory::SharedPage;
use rustix::fd::BorrowedFd;
use std::sync::Arc;
use weir_ring::board::Board;
use weir_ring::primitive::Ordering;
use weir_sys::forks::ParentOnly;

/// The beginning of the message that brings a board. Numbers follow.
const WELCOME: &[u8] = b"weir-in ";

/// Sends a writer the board, its ring's number there, and the most bytes of a message.
pub fn welcome(
    over: &Lifeline,
    board: BorrowedFd,
    ring: u32,
    most_bytes: u64,
) -> rustix::io::Result<()> {
    let text = format!("{ring} {most_bytes}");
    over.send_memory(&[WELCOME, text.as_bytes()].concat(), board)
}

/// A writer's place on the board of its reader.
#[derive(Debug)]
pub struct BoardSlot {
    board: Arc<SharedPage<Board>>,
    ring: u32,
    /// The longest message, at a port.
    pub most_bytes: u64,
}

impl BoardSlot {
    /// The place that a message assigns. `None` if the message or its memory is invalid: a reader
    /// that sent such a message is not notified of anything.
    pub fn open(text: &[u8], memory: &ParentOnly) -> Option<BoardSlot> {
        let text = std::str::from_utf8(text.strip_prefix(WELCOME)?).ok()?;
        let mut numbers = text.split(' ').map(|word| word.parse().ok());
        let (ring, most_bytes) = (numbers.next()??, numbers.next()??);
        let board = Arc::new(SharedPage::open(memory.get()?).ok()?);
        Some(BoardSlot { board, ring: u32::try_from(ring).ok()?, most_bytes })
    }

    /// Marks the ring as ready, and wakes the reader if it waits. Returns whether it waited.
    pub fn ring(&self, over: &Lifeline) -> bool {
        let board = self.board.words();
        board.set(self.ring);
        over.wake_if_wanted(&board.sleep.word)
    }

    /// The board, to be looked at while the end is in use.
    pub fn page(&self) -> Arc<SharedPage<Board>> {
        self.board.clone()
    }

    /// How many writers the reader has: a hint, which everybody who shares the board can falsify.
    pub fn open_writers(&self) -> u32 {
        // Relaxed, as the reader stores it: it publishes nothing.
        self.board.words().account.open.load(Ordering::Relaxed)
    }

    /// One more than the number of the CPU that the reader last ran on; 0 if unknown.
    pub fn reader_cpu(&self) -> u32 {
        self.board.words().sleep.cpu.load(Ordering::Relaxed)
    }
}
