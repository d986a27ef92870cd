//! The sending side of a transfer: blocks go out in windows, and are sent again where the other side
//! says, or after a while.
//!
//! A window leaves in bursts, with pauses between them (`pace`). So a receiver whose buffer is smaller
//! than the window still gets all of it.
//!
//! An acknowledgement moves one pair of numbers. It never makes a second stream of blocks, so doubled
//! acknowledgements cannot double the traffic (the sorcerer's apprentice, RFC 1123 4.2.3.1).

use super::flow::{Due, TransferFlow};
use super::netascii::Encoder;
use super::pace::Pace;
use super::packet::{self, Mode};
use super::{Patience, unwrap_block};
use std::collections::VecDeque;
use std::io;

/// Bytes of text that are read at once for netascii.
const TEXT_BYTES: usize = 4096;

/// A file that is sent. It may be read twice at the same place.
pub trait Source {
    /// Reads from this offset on; returns how many bytes, 0 only at the end.
    fn read_at(&mut self, offset: u64, to: &mut [u8]) -> io::Result<usize>;
}

impl Source for &[u8] {
    fn read_at(&mut self, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
        let bytes = rest.len().min(to.len());
        to[..bytes].copy_from_slice(&rest[..bytes]);
        Ok(bytes)
    }
}

impl<S: Source + ?Sized> Source for &mut S {
    fn read_at(&mut self, offset: u64, to: &mut [u8]) -> io::Result<usize> {
        S::read_at(self, offset, to)
    }
}

/// What both sides agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferTerms {
    /// How the bytes travel.
    pub mode: Mode,
    /// Bytes of a block.
    pub block_bytes: u16,
    /// Blocks before an acknowledgement.
    pub window: u16,
    /// How long to wait.
    pub patience: Patience,
}

/// Where a block begins.
#[derive(Clone, Copy, Debug)]
struct Mark {
    offset: u64,
    encoder: Encoder,
}

/// The sending side.
#[derive(Debug)]
pub struct FileSender {
    terms: TransferTerms,
    /// A packet that is sent until the other side acknowledges block 0.
    opening: Option<Vec<u8>>,
    opening_is_due: bool,
    /// The first block that is not acknowledged, and the next one to be sent.
    base: u64,
    next: u64,
    /// One more than the highest block sent so far.
    highest: u64,
    /// The number of the last block, once it is known.
    last: Option<u64>,
    /// Where the blocks from `base` on begin, as far as that is known.
    marks: VecDeque<Mark>,
    pace: Pace,
    in_burst: u64,
    pause_until_ns: u64,
    /// The first block that was not acknowledged at the last loss.
    lost_at: u64,
    /// When the window was sent, if all of it was sent once only.
    window_sent_ns: Option<u64>,
    went_back_ns: u64,
    is_again: bool,
    /// How it continues.
    pub flow: TransferFlow,
    text: Vec<u8>,
}

impl FileSender {
    /// Begins with block 1, or with `opening`, an acknowledgement of options.
    pub fn new(terms: TransferTerms, opening: Option<Vec<u8>>, now_ns: u64) -> FileSender {
        let start = Mark { offset: 0, encoder: Encoder::default() };
        FileSender {
            terms,
            opening_is_due: opening.is_some(),
            opening,
            base: 1,
            next: 1,
            highest: 1,
            last: None,
            marks: VecDeque::from([start]),
            pace: Pace::new(terms.window),
            in_burst: 0,
            pause_until_ns: 0,
            lost_at: 1,
            window_sent_ns: None,
            went_back_ns: 0,
            is_again: false,
            flow: TransferFlow::new(terms.patience, now_ns),
            text: Vec::new(),
        }
    }

    /// Whether all of the file is acknowledged.
    pub fn is_done(&self) -> bool {
        self.last.is_some_and(|last| self.base > last)
    }

    /// Whether there is something to send, now or after a pause.
    pub fn is_due(&self) -> bool {
        self.opening_is_due || self.opening.is_none() && self.has_more()
    }

    fn window(&self) -> u64 {
        u64::from(self.terms.window.max(1))
    }

    fn has_more(&self) -> bool {
        self.next < self.base + self.window() && self.last.is_none_or(|last| self.next <= last)
    }

    /// Returns when to call [`FileSender::expire`] or [`FileSender::transmit`] at the latest.
    pub fn deadline_ns(&self) -> u64 {
        if self.opening.is_none() && self.has_more() {
            return self.pause_until_ns.min(self.flow.timer.deadline_ns());
        }
        self.flow.timer.deadline_ns()
    }

    /// Takes an acknowledgement.
    pub fn acknowledge(&mut self, block: u16, now_ns: u64) {
        let Some(acked) = unwrap_block(block, self.base - 1) else { return };
        if self.opening.is_some() {
            if acked == 0 {
                self.opening = None;
                self.flow.clock.answered(now_ns, false);
                self.flow.timer.progressed(now_ns, None);
            }
            return;
        }
        if acked >= self.highest || acked + 1 < self.base {
            return;
        }
        if acked + 1 == self.base {
            self.flow.clock.answered_again();
            // Said before. With a window of one block this is never a reason to send (RFC 1123).
            let waited_ns = now_ns.saturating_sub(self.went_back_ns);
            if self.window() > 1
                && self.next > self.base
                && waited_ns >= self.flow.timer.round_trip_ns().max(1_000_000)
            {
                self.flow.counts.gaps += 1;
                self.go_back(now_ns);
            }
            return;
        }
        let sample = self.window_sent_ns.take().map(|sent_ns| now_ns.saturating_sub(sent_ns));
        let whole = acked + 1 >= self.next;
        self.flow.clock.answered(now_ns, !self.is_again);
        self.flow.timer.progressed(now_ns, sample.filter(|_| whole && !self.is_again));
        let blocks = (acked + 1 - self.base) as usize;
        self.marks.drain(..blocks.min(self.marks.len()));
        self.base = acked + 1;
        self.flow.counts.bytes = self.marks.front().map_or(0, |mark| mark.offset);
        if whole {
            if !self.is_again {
                self.pace.clean();
            }
            self.next = self.next.max(self.base);
            (self.is_again, self.in_burst, self.pause_until_ns) = (false, 0, 0);
        } else {
            self.flow.counts.gaps += 1;
            self.go_back(now_ns);
        }
    }

    /// Sends from the first block on that is not acknowledged, in shorter bursts.
    fn go_back(&mut self, now_ns: u64) {
        self.flow.clock.lost(now_ns);
        self.flow.changes.again = Some(self.base);
        self.pace.lost(self.base - self.lost_at);
        self.lost_at = self.base;
        (self.next, self.in_burst) = (self.base, 0);
        (self.went_back_ns, self.is_again, self.window_sent_ns) = (now_ns, true, None);
        // What is under way gets time to arrive, and to leave the receiver's buffer.
        if self.window() > 1 {
            self.flow.clock.pause(now_ns);
            self.pause_until_ns = now_ns + self.pace.pause_ns(self.flow.timer.round_trip_ns());
        }
    }

    /// Notes the time. Returns `false` where the other side is given up.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        match self.flow.expire(now_ns) {
            Due::GiveUp => return false,
            Due::Nothing => return true,
            Due::Again => {}
        }
        if self.opening.is_some() {
            self.flow.clock.lost(now_ns);
            self.flow.changes.again = Some(0);
            self.opening_is_due = true;
        } else {
            self.go_back(now_ns);
        }
        true
    }

    /// Writes the next packet that is to be sent now over what `to` holds. Returns `false` where
    /// there is none.
    pub fn transmit(
        &mut self,
        now_ns: u64,
        source: &mut (impl Source + ?Sized),
        to: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if let Some(opening) = &self.opening {
            if std::mem::take(&mut self.opening_is_due) {
                to.clear();
                to.extend_from_slice(opening);
                self.flow.clock.wait(now_ns);
                return Ok(true);
            }
            return Ok(false);
        }
        if !self.has_more() || now_ns < self.pause_until_ns {
            return Ok(false);
        }
        self.flow.clock.resume(now_ns);
        let at = (self.next - self.base) as usize;
        let Some(mark) = self.marks.get(at).copied() else { return Ok(false) };
        let after = self.read_block(mark, source, to)?;
        to[..packet::DATA_HEADER_BYTES].copy_from_slice(&packet::data_header(self.next as u16));
        let bytes = to.len() - packet::DATA_HEADER_BYTES;
        if bytes < usize::from(self.terms.block_bytes) {
            self.last = Some(self.next);
        }
        match self.marks.get(at + 1) {
            None => self.marks.push_back(after),
            // What was sent before is sent again as it was, or not at all.
            Some(known) if known.offset == after.offset => {}
            Some(_) => return Err(io::Error::other("the file has changed")),
        }
        self.flow.counts.blocks += 1;
        self.flow.counts.blocks_again += u64::from(self.next < self.highest);
        self.next += 1;
        self.highest = self.highest.max(self.next);
        self.in_burst += 1;
        self.flow.timer.sent(now_ns);
        if !self.has_more() {
            self.flow.clock.wait(now_ns);
            self.window_sent_ns = (!self.is_again).then_some(now_ns);
        } else if self.in_burst >= self.pace.burst() {
            self.in_burst = 0;
            self.flow.clock.pause(now_ns);
            self.pause_until_ns = now_ns + self.pace.pause_ns(self.flow.timer.round_trip_ns());
        }
        Ok(true)
    }

    /// Writes the block that begins at `mark` behind the place of a header, over what `to` holds;
    /// returns where the next one begins.
    fn read_block(
        &mut self,
        mark: Mark,
        source: &mut (impl Source + ?Sized),
        to: &mut Vec<u8>,
    ) -> io::Result<Mark> {
        let Mark { mut offset, mut encoder } = mark;
        let mut filled = packet::DATA_HEADER_BYTES;
        let end = filled + usize::from(self.terms.block_bytes);
        if self.terms.mode == Mode::Octet {
            // Where the last packet was as long, this writes nothing.
            to.resize(end, 0);
            while filled < end {
                match source.read_at(offset, &mut to[filled..])? {
                    0 => break,
                    bytes => (filled, offset) = (filled + bytes, offset + bytes as u64),
                }
            }
            to.truncate(filled);
            return Ok(Mark { offset, encoder });
        }
        to.clear();
        to.resize(filled, 0);
        self.text.resize(TEXT_BYTES, 0);
        // What is owed of the last block goes first, even where the file has ended.
        encoder.encode(&[], to, end - to.len());
        while to.len() < end {
            let bytes = source.read_at(offset, &mut self.text)?;
            if bytes == 0 {
                break;
            }
            let room = end - to.len();
            offset += encoder.encode(&self.text[..bytes], to, room) as u64;
        }
        Ok(Mark { offset, encoder })
    }
}
