//! How the reader of many rings hands its board to a writer, and how the writer rings it.

use super::lifeline::Lifeline;
use crate::memory::SharedPage;
use rustix::fd::BorrowedFd;
use std::cell::OnceCell;
use std::sync::Arc;
use weir_ring::board::Board;
use weir_ring::layout::{PipeHeader, SleepLine};
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

/// Where the reader of a ring waits, as the ring's writer sees it.
#[derive(Debug)]
pub enum ReaderSite {
    Ring,
    /// At a board of many rings, once the reader has sent that.
    Board(OnceCell<BoardSlot>),
}

impl ReaderSite {
    /// Keeps what a message brings, if it is the board.
    pub fn take(&self, text: &[u8], memory: &ParentOnly) {
        if let ReaderSite::Board(slot) = self
            && let Some(sent) = BoardSlot::open(text, memory)
        {
            let _ = slot.set(sent);
        }
    }

    /// The writer's place on the board, once that was sent.
    pub fn slot(&self) -> Option<&BoardSlot> {
        match self {
            ReaderSite::Ring => None,
            ReaderSite::Board(slot) => slot.get(),
        }
    }

    /// Whether the reader has a board that it has not sent yet.
    pub fn is_unknown(&self) -> bool {
        matches!(self, ReaderSite::Board(slot) if slot.get().is_none())
    }

    /// Where the reader sleeps, to be looked at while the end is in use.
    pub fn sleep_place(&self) -> SleepPlace {
        SleepPlace(self.slot().map(BoardSlot::page))
    }
}

/// Where the reader of a ring sleeps: at a board, or at the ring.
#[derive(Debug)]
pub struct SleepPlace(Option<Arc<SharedPage<Board>>>);

impl SleepPlace {
    /// The words on which it sleeps, if the ring has this header.
    pub fn line<'a>(&'a self, ring: &'a PipeHeader) -> &'a SleepLine {
        self.0.as_ref().map_or(&ring.reader_sleep, |board| &board.words().sleep)
    }
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

    /// One more than the number of the CPU that the reader last ran on; 0 if unknown.
    pub fn reader_cpu(&self) -> u32 {
        self.board.words().sleep.cpu.load(Ordering::Relaxed)
    }
}
