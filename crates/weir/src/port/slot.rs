//! One writer as the reader of the port sees it.

use super::backlog::{Front, Polled, SlotBacklog};
use super::counts::Counts;
use super::partial::{PartialMessage, too_small};
use super::{Ending, WriterId};
use crate::connect::peer::Identity;
use crate::error::Result;
use crate::memory::{Map, View};
use crate::park::doorbell::Doorbell;
use crate::pipe::record::RecordReader;
use crate::pool::elastic::RecordBacklog;
use weir_policy::ready::Turn;
use weir_ring::{record, sleep};

/// The most pieces that are put together in one go. Pieces may be empty.
const MOST_PIECES: u32 = 1024;

#[derive(Debug)]
pub struct WriterSlot {
    pub reader: RecordReader,
    pub backlog: SlotBacklog,
    pub partial: PartialMessage,
    pub id: WriterId,
    pub identity: Identity,
    pub share: u32,
    pub turn: Turn,
    pub suspended: bool,
    /// The writer must set its bit on the board when it has something.
    pub cold: bool,
    /// Looks in a row that found nothing.
    pub empty_looks: u32,
    /// Messages received, or pieces if the port shows pieces.
    pub sequence: u64,
    pub bytes: u64,
    /// Of both, how much is settled and counted. The rest was shown in place, by this call or by one
    /// that ended with a panic.
    settled: (u64, u64),
    /// How it ends, if the reader has decided that.
    ending: Option<Ending>,
}

/// Writers by their places.
pub type WriterSlots = Vec<Option<Box<WriterSlot>>>;

/// The result of one step with a writer's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotStep {
    /// A message is in the buffer.
    Message(usize),
    /// A piece is in the buffer: its length, whether it is the first, whether it is the last.
    Piece(usize, bool, bool),
    /// A piece of this many bytes was put away.
    PutAway(usize),
    /// There is no memory to put the next piece away.
    NoRoom,
    /// The ring is empty.
    Nothing,
    /// The writer is gone, and all it sent was received.
    Closed(Ending),
}

/// The limits of the port that a step keeps to.
#[derive(Clone, Copy, Debug)]
pub struct StepLimits {
    pub in_pieces: bool,
    pub most_message_bytes: u64,
    /// Memory for unfinished messages that is left, beside what the writer already uses.
    pub room_bytes: u64,
}

/// A message in place, at the front of its writer's ring.
pub struct InRing<'a> {
    map: &'a Map,
    ring: &'a record::RecordRingReader,
}

impl<'a> InRing<'a> {
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        self.ring.copy_out(self.map, to.len(), 0, to);
    }

    #[inline]
    pub fn view(&self, bytes: usize) -> View<'a> {
        View::new(self.map, self.ring.place(bytes), bytes)
    }
}

impl WriterSlot {
    pub fn new(reader: RecordReader, id: WriterId, identity: Identity) -> WriterSlot {
        WriterSlot {
            reader,
            backlog: SlotBacklog::default(),
            partial: PartialMessage::default(),
            id,
            identity,
            share: 1,
            turn: Turn::default(),
            suspended: false,
            cold: false,
            empty_looks: 0,
            sequence: 0,
            bytes: 0,
            settled: (0, 0),
            ending: None,
        }
    }

    /// Whether there is something to receive. The end of the writer counts too.
    #[inline]
    pub fn poll(&mut self) -> Result<Polled> {
        if self.ending.is_some() || self.partial.complete {
            return Ok(Polled::Something);
        }
        if self.backlog.is_there()
            && let Some(polled) = self.backlog.poll(&mut self.reader)
        {
            return Ok(polled);
        }
        let RecordReader { end, ring } = &self.reader;
        // An invalid record counts as something. The receiving call deals with it.
        if !matches!(ring.peek(&end.here()?), Ok(None)) || end.is_gone() {
            return Ok(Polled::Something);
        }
        Ok(Polled::Nothing)
    }

    pub fn shut_out(&mut self) {
        self.ending = Some(Ending::ShutOut);
        self.partial.discard();
        // It waits for no memory any more.
        self.partial.held_up = false;
        self.backlog = SlotBacklog::default();
    }

    /// Whether the writer can finish its message by itself.
    pub fn can_finish(&self) -> bool {
        let PartialMessage { begun, complete, .. } = &self.partial;
        begun.is_some() && !complete && !self.suspended && self.ending.is_none()
    }

    /// Whether nothing may be received from it now.
    #[inline]
    pub fn is_set_aside(&self) -> bool {
        self.suspended || self.partial.held_up
    }

    #[inline]
    fn front(&mut self) -> Result<Front> {
        self.backlog.front(&mut self.reader)
    }

    /// Receives the next message, piece or end.
    pub fn step(&mut self, buffer: &mut [u8], limits: StepLimits) -> Result<SlotStep> {
        if let Some(ending) = self.ending {
            return Ok(SlotStep::Closed(ending));
        }
        if self.partial.complete {
            return self.deliver(buffer);
        }
        if let Some(fault) = self.backlog.fault.take() {
            // Others have their turns before it is tried again.
            self.turn.end();
            return Err(fault);
        }
        let (bytes, first, last) = match self.front()? {
            Front::Record { bytes, first, last } => (bytes, first, last),
            Front::Nothing => return self.nothing(),
            Front::Nonsense => return Ok(self.give_up()),
        };
        if first {
            // A new message begins: an unfinished one before it will never be finished.
            self.partial.clear();
        } else if !self.partial.in_message {
            return Ok(self.give_up());
        }
        if (self.partial.len() + bytes) as u64 > limits.most_message_bytes {
            return Ok(self.give_up());
        }
        if limits.in_pieces || (first && last) {
            self.take_into(buffer, bytes)?;
            self.partial.in_message = !last;
            self.count(bytes);
            if limits.in_pieces {
                return Ok(SlotStep::Piece(bytes, first, last));
            }
            return Ok(SlotStep::Message(bytes));
        }
        if !self.partial.has_room(bytes, limits.room_bytes) {
            return Ok(SlotStep::NoRoom);
        }
        if first && bytes <= buffer.len() {
            return self.put_together(buffer, bytes, limits);
        }
        let to = self.partial.add(bytes, limits.room_bytes);
        self.turn.serve(bytes as u64);
        self.backlog.take(&mut self.reader, to)?;
        self.partial.in_message = !last;
        if !last {
            return Ok(SlotStep::PutAway(bytes));
        }
        self.partial.complete = true;
        self.deliver(buffer)
    }

    /// Puts a message together in the buffer, as far as its pieces have come and fit. The first
    /// piece, of `bytes`, has come. If the message is not whole then, its bytes are put away.
    fn put_together(
        &mut self,
        buffer: &mut [u8],
        bytes: usize,
        limits: StepLimits,
    ) -> Result<SlotStep> {
        self.take_into(buffer, bytes)?;
        self.partial.in_message = true;
        let (mut done, mut ended) = (bytes, Ok(()));
        for _ in 1..MOST_PIECES {
            let (bytes, last) = match self.front() {
                Ok(Front::Record { bytes, first: false, last }) => (bytes, last),
                // What has come is put away, also if the next piece cannot be read.
                front => {
                    ended = front.map(drop);
                    break;
                }
            };
            let whole = done + bytes;
            if whole > buffer.len()
                || whole as u64 > limits.most_message_bytes
                || !(last || self.partial.has_room(whole, limits.room_bytes))
            {
                break;
            }
            self.take_into(&mut buffer[done..], bytes)?;
            done = whole;
            if last {
                self.partial.in_message = false;
                self.count(done);
                return Ok(SlotStep::Message(done));
            }
        }
        self.partial.put_away(&buffer[..done], limits.room_bytes);
        ended.map(|()| SlotStep::PutAway(done))
    }

    /// Counts a message that is in the buffer. The caller settles it.
    fn count(&mut self, bytes: usize) {
        self.sequence += 1;
        self.bytes += bytes as u64;
        self.settled = (self.settled.0 + 1, self.settled.1 + bytes as u64);
    }

    fn uncount(&mut self, bytes: usize) {
        self.sequence -= 1;
        self.bytes -= bytes as u64;
        self.settled = (self.settled.0 - 1, self.settled.1 - bytes as u64);
    }

    /// Handles an empty ring: the writer is gone, or has not sent anything yet.
    fn nothing(&mut self) -> Result<SlotStep> {
        if self.backlog.is_there() {
            return Ok(SlotStep::Nothing);
        }
        let (end, ring) = self.reader.parts()?;
        if !end.is_gone() {
            return Ok(SlotStep::Nothing);
        }
        // Look once more, now that it is gone: it may have sent before it went.
        if !matches!(ring.peek(&*end.map), Ok(None)) {
            return Ok(SlotStep::PutAway(0));
        }
        let closed = end.other_has_closed();
        Ok(SlotStep::Closed(if closed { Ending::Closed } else { Ending::Died }))
    }

    fn give_up(&mut self) -> SlotStep {
        self.shut_out();
        SlotStep::Closed(Ending::ShutOut)
    }

    fn take_into(&mut self, buffer: &mut [u8], bytes: usize) -> Result<()> {
        if bytes > buffer.len() {
            return Err(too_small(bytes, buffer.len()));
        }
        self.turn.serve(bytes as u64);
        self.backlog.take(&mut self.reader, &mut buffer[..bytes])
    }

    fn deliver(&mut self, buffer: &mut [u8]) -> Result<SlotStep> {
        let bytes = self.partial.deliver(buffer)?;
        self.count(bytes);
        let piece = self.partial.piece.take();
        Ok(piece
            .map_or(SlotStep::Message(bytes), |(first, last)| SlotStep::Piece(bytes, first, last)))
    }

    /// Shows messages of one piece in place, one after the other, and counts them: how many. It ends
    /// with the turn, after `most` messages, when `show` declines one, or at a record of another sort.
    #[inline]
    pub fn serve(
        &mut self,
        most: usize,
        limits: StepLimits,
        mut counts: Counts<'_>,
        mut show: impl FnMut(u64, usize, InRing<'_>) -> bool,
    ) -> Result<usize> {
        self.settle(&mut counts)?;
        let WriterSlot { ending, partial, backlog, .. } = &*self;
        if ending.is_some() || partial.complete || limits.in_pieces || backlog.is_there() {
            return Ok(0);
        }
        let mut messages = 0;
        while self.turn.continues() && messages < most {
            let Front::Record { bytes, first: true, last: true } = self.front()? else { break };
            if bytes as u64 > limits.most_message_bytes {
                break;
            }
            let (end, ring) = self.reader.parts()?;
            if !show(self.sequence + 1, bytes, InRing { map: &end.map, ring }) {
                break;
            }
            // What was called may have forked.
            end.check_here()?;
            ring.consume(bytes);
            // Room must be given back well within a lap of the ring. Until then the records that
            // were read still are there and look as if they had been sent again.
            let owes_much = ring.owes_much();
            if self.partial.in_message {
                self.partial.discard();
            }
            self.sequence += 1;
            self.bytes += bytes as u64;
            messages += 1;
            self.turn.serve(bytes as u64);
            if owes_much {
                self.settle(&mut counts)?;
            }
        }
        self.settle(&mut counts)?;
        Ok(messages)
    }

    /// Settles and counts what was shown in place.
    #[inline]
    fn settle(&mut self, counts: &mut Counts<'_>) -> Result<()> {
        let (messages, bytes) = (self.sequence - self.settled.0, self.bytes - self.settled.1);
        if messages == 0 {
            return Ok(());
        }
        self.settled = (self.sequence, self.bytes);
        counts.count(messages, bytes);
        self.reader.settle(messages as usize, bytes as usize)
    }

    /// Takes back what was shown from a buffer to somebody who panicked: it comes again. `piece` says
    /// whether it was the first and the last, if it was a piece.
    pub fn take_back(&mut self, bytes: &[u8], piece: Option<(bool, bool)>) {
        self.uncount(bytes.len());
        self.partial.take_back(bytes, piece);
    }

    /// Whether the writer waits for room that it should get. A suspended writer waits.
    pub fn is_pressed(&mut self) -> bool {
        !self.suspended && self.ending.is_none() && RecordBacklog::is_pressed(&mut self.reader)
    }

    /// A lower bound of the bytes that can be received without waiting. Pieces count where they are
    /// shown, or once the last one has come.
    pub fn available(&mut self, in_pieces: bool, room_bytes: u64) -> Result<usize> {
        if self.ending.is_some() || self.partial.complete {
            return Ok(self.partial.len());
        }
        let (front, partial) = (self.front()?, &self.partial);
        Ok(match front {
            Front::Record { bytes, first, last } if in_pieces || first && last => bytes,
            Front::Record { bytes, last: true, .. }
                if partial.in_message && partial.has_room(bytes, room_bytes) =>
            {
                partial.len() + bytes
            }
            _ => 0,
        })
    }

    /// Makes the writer's bells ring this doorbell.
    pub fn is_polled_by(&mut self, doorbell: &Doorbell) -> Result<()> {
        let (end, _) = self.reader.parts()?;
        end.life.is_polled_by(doorbell, self.id.slot.into())
    }

    /// Ends that its connection makes this doorbell ring, if the writer is gone.
    pub fn leaves(&mut self, doorbell: &Doorbell) -> Result<()> {
        let (end, _) = self.reader.parts()?;
        if end.life.is_dead() {
            end.life.leaves(doorbell);
        }
        Ok(())
    }

    /// Gives the room back that was read.
    pub fn give_back(&mut self) -> Result<()> {
        let (end, ring) = self.reader.parts()?;
        crate::pipe::record::give_back(end, ring);
        Ok(())
    }

    /// Gives it back if there is any.
    pub fn give_back_what_is_owed(&mut self) -> Result<()> {
        if self.reader.parts()?.1.owes() { self.give_back() } else { Ok(()) }
    }

    /// Tells the writer to set its bit on the board when it has something: whether it has nothing
    /// now.
    pub fn cool(&mut self) -> Result<bool> {
        self.give_back()?;
        self.reader.parts()?.0.announce(sleep::COLD);
        self.cold = true;
        Ok(self.poll()? == Polled::Nothing)
    }

    /// Tells the writer that the reader looks at its ring by itself.
    pub fn warm(&mut self) -> Result<()> {
        if std::mem::take(&mut self.cold) {
            let (end, _) = self.reader.parts()?;
            sleep::retract(end.sleep_word(), sleep::COLD);
        }
        self.empty_looks = 0;
        Ok(())
    }
}
