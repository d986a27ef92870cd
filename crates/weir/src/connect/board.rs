//! How the reader of many rings tells the writer of one where its board is, and that one rings it.

use super::lifeline::Lifeline;
use crate::memory::Page;
use rustix::fd::BorrowedFd;
use weir_ring::board::Board;
use weir_ring::primitive::Ordering;
use weir_sys::forks::ParentOnly;

/// What the message that brings a board begins with; numbers follow.
const WELCOME: &[u8] = b"weir-in ";

/// Sends the writer of a ring the board, the ring's number there, and the most bytes of a message.
pub fn welcome(
    over: &Lifeline,
    board: BorrowedFd,
    ring: u32,
    most_bytes: u64,
) -> rustix::io::Result<()> {
    let text = format!("{ring} {most_bytes}");
    over.send_memory(&[WELCOME, text.as_bytes()].concat(), board)
}

/// A place on the board of one who reads many rings.
#[derive(Debug)]
pub struct BoardSlot {
    board: Page<Board>,
    ring: u32,
    /// The most bytes of a message.
    pub most_bytes: u64,
}

impl BoardSlot {
    /// The place that a message gives. What is no board is as if none had come: its sender is told
    /// of nothing.
    pub fn open(text: &[u8], memory: &ParentOnly) -> Option<BoardSlot> {
        let text = std::str::from_utf8(text.strip_prefix(WELCOME)?).ok()?;
        let mut numbers = text.split(' ').map(|word| word.parse().ok());
        let (ring, most_bytes) = (numbers.next()??, numbers.next()??);
        let board = Page::open(memory.get()?).ok()?;
        Some(BoardSlot { board, ring: u32::try_from(ring).ok()?, most_bytes })
    }

    /// Says that the ring has something, and wakes the reader if it waits: whether it did.
    pub fn ring(&self, over: &Lifeline) -> bool {
        let board = self.board.words();
        board.set(self.ring);
        over.wake_if_wanted(&board.sleep.word)
    }

    /// How many writers the reader has, as it says: a hint, which all who share the board can spoil.
    pub fn open_writers(&self) -> u32 {
        // Relaxed, as the reader stores it: it publishes nothing.
        self.board.words().account.open.load(Ordering::Relaxed)
    }

    /// The CPU the reader last ran on, and one; 0 where it has not said.
    pub fn reader_cpu(&self) -> u32 {
        self.board.words().sleep.cpu.load(Ordering::Relaxed)
    }
}
