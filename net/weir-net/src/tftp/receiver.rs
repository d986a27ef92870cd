//! The receiving side of a transfer: takes blocks in order, and acknowledges each window, each gap
//! once, and again after a while.

use super::flow::{Due, TransferFlow};
use super::netascii::Decoder;
use super::packet::{self, Mode};
use super::sender::TransferTerms;
use super::unwrap_block;
use std::io;

/// The shortest time between two acknowledgements of blocks that came before, where windows are
/// longer than a block. A sender that sends again after a silence has waited longer.
const AGAIN_NS: u64 = 10_000_000;

/// A file that is received.
pub trait Sink {
    /// Appends these bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file complete; nothing is written to it afterwards.
    ///
    /// # Errors
    /// The file cannot be written, or its name is taken.
    fn finish(&mut self) -> io::Result<()>;
}

impl Sink for Vec<u8> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        S::write(self, bytes)
    }

    fn finish(&mut self) -> io::Result<()> {
        S::finish(self)
    }
}

/// The receiving side.
#[derive(Debug)]
pub struct FileReceiver {
    terms: TransferTerms,
    /// What is sent in place of the acknowledgement of block 0: that of options, or a request.
    opening: Option<Vec<u8>>,
    expected: u64,
    since_ack: u16,
    ack_is_due: bool,
    acked_ns: u64,
    gap_is_told: bool,
    is_again: bool,
    is_done: bool,
    /// The other side has announced so many bytes; fewer are not the whole file.
    announced_bytes: u64,
    /// How it continues.
    pub flow: TransferFlow,
    decoder: Decoder,
    text: Vec<u8>,
}

impl FileReceiver {
    /// Expects block 1. Sends `opening` first, or the acknowledgement of block 0 where that is none.
    pub fn new(terms: TransferTerms, opening: Option<Vec<u8>>, now_ns: u64) -> FileReceiver {
        FileReceiver {
            terms,
            opening,
            expected: 1,
            since_ack: 0,
            ack_is_due: true,
            acked_ns: now_ns,
            gap_is_told: false,
            is_again: false,
            is_done: false,
            announced_bytes: 0,
            flow: TransferFlow::new(terms.patience, now_ns),
            decoder: Decoder::default(),
            text: Vec::new(),
        }
    }

    /// Expects block 1, and has nothing to send before it: the other side sends it already.
    pub fn of_first_block(terms: TransferTerms, now_ns: u64) -> FileReceiver {
        FileReceiver { ack_is_due: false, ..FileReceiver::new(terms, None, now_ns) }
    }

    /// Notes how long the file is, by the other side's account: with fewer bytes it is not whole.
    pub fn announce(&mut self, bytes: u64) {
        self.announced_bytes = bytes;
    }

    /// Whether the whole file has come. The last acknowledgement may have to be sent again.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Whether there is something to send.
    pub fn is_due(&self) -> bool {
        self.ack_is_due
    }

    /// Returns when to call [`FileReceiver::expire`] at the latest.
    pub fn deadline_ns(&self) -> u64 {
        self.flow.timer.deadline_ns()
    }

    /// Takes an acknowledgement of options that came again: ours of it was lost.
    pub fn options_again(&mut self) {
        self.ack_is_due |= self.expected == 1;
    }

    /// Takes a block. Returns whether it is longer than was agreed on, which no block may be.
    pub fn take(
        &mut self,
        block: u16,
        bytes: &[u8],
        now_ns: u64,
        sink: &mut (impl Sink + ?Sized),
    ) -> io::Result<bool> {
        let size = usize::from(self.terms.block_bytes);
        if bytes.len() > size {
            return Ok(true);
        }
        self.flow.counts.blocks += 1;
        let number = unwrap_block(block, self.expected);
        if self.is_done || number != Some(self.expected) {
            self.out_of_order(number, now_ns);
            return Ok(false);
        }
        self.flow.clock.answered(now_ns, !self.is_again);
        self.flow.timer.progressed(now_ns, None);
        self.write(bytes, bytes.len() < size, sink)?;
        self.expected += 1;
        self.since_ack += 1;
        (self.gap_is_told, self.is_again) = (false, false);
        self.is_done = bytes.len() < size;
        self.ack_is_due |= self.is_done || self.since_ack >= self.terms.window;
        if !self.ack_is_due {
            self.flow.clock.wait_for_more(now_ns);
        }
        Ok(false)
    }

    fn out_of_order(&mut self, number: Option<u64>, now_ns: u64) {
        if number.is_some_and(|number| number > self.expected) && !self.is_done {
            let is_new = !std::mem::replace(&mut self.gap_is_told, true);
            self.flow.counts.gaps += u64::from(is_new);
            // Told again after a while: what was sent for it may be lost too.
            self.ack_is_due |= is_new || now_ns.saturating_sub(self.acked_ns) >= AGAIN_NS;
            return;
        }
        self.flow.counts.blocks_again += 1;
        self.flow.clock.answered_again();
        // Our acknowledgement was lost, or the block was sent again while it was under way.
        let waited_ns = now_ns.saturating_sub(self.acked_ns);
        self.ack_is_due |= self.terms.window <= 1 || self.is_done || waited_ns >= AGAIN_NS;
    }

    fn write(
        &mut self,
        bytes: &[u8],
        is_last: bool,
        sink: &mut (impl Sink + ?Sized),
    ) -> io::Result<()> {
        if self.terms.mode == Mode::Octet {
            sink.write(bytes)?;
            self.flow.counts.bytes += bytes.len() as u64;
        } else {
            self.text.clear();
            self.decoder.decode(bytes, &mut self.text);
            if is_last {
                self.decoder.finish(&mut self.text);
            }
            sink.write(&self.text)?;
            self.flow.counts.bytes += self.text.len() as u64;
        }
        if is_last && self.flow.counts.bytes < self.announced_bytes {
            return Err(io::Error::other("it ended before all that was announced had come"));
        }
        if is_last { sink.finish() } else { Ok(()) }
    }

    /// Notes the time. Returns `false` where the other side is given up.
    pub fn expire(&mut self, now_ns: u64) -> bool {
        match self.flow.expire(now_ns) {
            Due::GiveUp => return false,
            Due::Nothing => {}
            Due::Again => {
                self.flow.clock.lost(now_ns);
                self.flow.changes.again = Some(self.expected - 1);
                (self.ack_is_due, self.is_again) = (true, true);
            }
        }
        true
    }

    /// Writes the acknowledgement that is due over what `to` holds. Returns `false` where there is
    /// none.
    pub fn transmit(&mut self, now_ns: u64, to: &mut Vec<u8>) -> bool {
        if !std::mem::take(&mut self.ack_is_due) {
            return false;
        }
        match &self.opening {
            Some(opening) if self.expected == 1 => {
                to.clear();
                to.extend_from_slice(opening);
            }
            _ => packet::put_ack(to, (self.expected - 1) as u16),
        }
        (self.since_ack, self.acked_ns) = (0, now_ns);
        self.flow.timer.sent(now_ns);
        if !self.is_done {
            self.flow.clock.wait(now_ns);
        }
        true
    }
}
