//! One writer as the reader of the port sees it.

use super::{DATA, Ending, FIRST, LAST, WriterId};
use crate::connect::peer::Identity;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Map, View};
use crate::park::doorbell::Doorbell;
use crate::pipe::record::RecordReader;
use crate::pool::elastic::RecordBacklog;
use std::time::Instant;
use weir_policy::ready::Turn;
use weir_ring::{record, sleep};

/// The most pieces that are put together in one go. Pieces may be empty.
const MOST_PIECES: u32 = 1024;
/// Bytes that each writer of long messages keeps for putting them together.
const KEPT_BYTES: usize = 256 << 10;

#[derive(Debug)]
pub struct WriterSlot {
    pub reader: RecordReader,
    /// Records that were moved from its ring to a pool and come before those in the ring.
    pub(super) backlog: Option<RecordBacklog>,
    /// Why the backlog could not be read, until that was reported.
    pub(super) fault: Option<Error>,
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
    /// How it ends, if the reader has decided that.
    pub(super) ending: Option<Ending>,
    /// The pieces of an unfinished message that were put away, or all of it once `complete`.
    partial: Vec<u8>,
    in_message: bool,
    complete: bool,
    /// When the message in `partial` began.
    pub begun: Option<Instant>,
    /// The memory for unfinished messages that is counted as this writer's.
    pub kept_bytes: u64,
    /// The writer waits for such memory.
    pub held_up: bool,
    /// The writer may use more than the limit of such memory.
    pub is_first: bool,
}

/// Writers by their places.
pub type WriterSlots = Vec<Option<Box<WriterSlot>>>;

/// What a look at a writer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    Something,
    Nothing,
}

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
    ring: &'a record::RecordReader,
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

pub(super) enum Front {
    Record { bytes: usize, first: bool, last: bool },
    Nothing,
    Nonsense,
}

impl Front {
    pub(super) fn of(bytes: usize, header: u32) -> Front {
        if header & !(FIRST | LAST) != DATA {
            return Front::Nonsense;
        }
        Front::Record { bytes, first: header & FIRST != 0, last: header & LAST != 0 }
    }
}

impl WriterSlot {
    pub fn new(reader: RecordReader, id: WriterId, identity: Identity) -> WriterSlot {
        WriterSlot {
            reader,
            backlog: None,
            fault: None,
            id,
            identity,
            share: 1,
            turn: Turn::default(),
            suspended: false,
            cold: false,
            empty_looks: 0,
            sequence: 0,
            bytes: 0,
            ending: None,
            partial: Vec::new(),
            in_message: false,
            complete: false,
            begun: None,
            kept_bytes: 0,
            held_up: false,
            is_first: false,
        }
    }

    /// Whether there is something to receive. The end of the writer counts too.
    #[inline]
    pub fn look(&mut self) -> Result<Sight> {
        if self.ending.is_some() || self.complete {
            return Ok(Sight::Something);
        }
        if self.backlog.is_some()
            && let Some(sight) = self.look_at_backlog()
        {
            return Ok(sight);
        }
        let RecordReader { end, ring } = &self.reader;
        // An invalid record counts as something. The receiving call deals with it.
        if !matches!(ring.look(&end.here()?), Ok(None)) || end.is_gone() {
            return Ok(Sight::Something);
        }
        Ok(Sight::Nothing)
    }

    pub fn shut_out(&mut self) {
        self.ending = Some(Ending::ShutOut);
        self.partial = Vec::new();
        self.backlog = None;
        (self.complete, self.in_message, self.begun) = (false, false, None);
    }

    /// The memory that it uses for an unfinished message.
    pub fn partial_bytes(&self) -> u64 {
        self.partial.capacity() as u64
    }

    /// Whether it has put pieces of a message away.
    pub fn is_unfinished(&self) -> bool {
        self.begun.is_some()
    }

    /// Whether the writer can finish its message by itself.
    pub fn can_finish(&self) -> bool {
        self.is_unfinished() && !self.complete && !self.suspended && self.ending.is_none()
    }

    /// Whether nothing may be received from it now.
    #[inline]
    pub fn is_set_aside(&self) -> bool {
        self.suspended || self.held_up
    }

    /// Frees memory that is only kept for later: how many bytes.
    pub fn give_back_memory(&mut self) -> u64 {
        if !self.partial.is_empty() || self.complete {
            return 0;
        }
        self.partial = Vec::new();
        std::mem::take(&mut self.kept_bytes)
    }

    /// Whether there is room to put this many more bytes of a message away.
    fn has_room(&self, bytes: usize, limits: StepLimits) -> bool {
        let room = (self.partial.capacity() as u64).saturating_add(limits.room_bytes);
        (self.partial.len() + bytes) as u64 <= room
    }

    /// Makes room for this many bytes, and for some more if the limit allows it.
    fn make_room(&mut self, bytes: usize, limits: StepLimits) {
        let (had, has) = (self.partial.len(), self.partial.capacity());
        if had == 0 {
            self.begun = Some(Instant::now());
        }
        if has - had < bytes {
            let room = usize::try_from(limits.room_bytes).unwrap_or(usize::MAX);
            let more = (has - had).saturating_add(room).min(bytes.max(had / 4));
            self.partial.reserve_exact(more.max(bytes));
        }
    }

    /// Looks at the next record and its header.
    #[inline]
    fn front(&mut self) -> Result<Front> {
        if self.backlog.is_some()
            && let Some(front) = self.front_of_backlog()?
        {
            return Ok(front);
        }
        let RecordReader { end, ring } = &self.reader;
        let map = end.here()?;
        let bytes = match ring.look(&map) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Ok(Front::Nothing),
            Err(_) => return Ok(Front::Nonsense),
        };
        Ok(Front::of(bytes, ring.header(&map)))
    }

    /// Receives the next message, piece or end.
    pub fn step(&mut self, buffer: &mut [u8], limits: StepLimits) -> Result<SlotStep> {
        if let Some(ending) = self.ending {
            return Ok(SlotStep::Closed(ending));
        }
        if self.complete {
            return self.deliver_partial(buffer);
        }
        if let Some(fault) = self.fault.take() {
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
            self.begun = None;
        } else if !self.in_message {
            return Ok(self.give_up());
        }
        if (self.partial.len() + bytes) as u64 > limits.most_message_bytes {
            return Ok(self.give_up());
        }
        if limits.in_pieces || (first && last) {
            self.take_into(buffer, bytes)?;
            self.in_message = !last;
            self.count(bytes);
            if limits.in_pieces {
                return Ok(SlotStep::Piece(bytes, first, last));
            }
            return Ok(SlotStep::Message(bytes));
        }
        if !self.has_room(bytes, limits) {
            return Ok(SlotStep::NoRoom);
        }
        if first && bytes <= buffer.len() {
            return self.put_together(buffer, bytes, limits);
        }
        self.put_away(bytes, limits)?;
        self.in_message = !last;
        if !last {
            return Ok(SlotStep::PutAway(bytes));
        }
        self.complete = true;
        self.deliver_partial(buffer)
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
        self.in_message = true;
        let mut done = bytes;
        for _ in 1..MOST_PIECES {
            let Front::Record { bytes, first: false, last } = self.front()? else { break };
            let whole = done + bytes;
            if whole > buffer.len()
                || whole as u64 > limits.most_message_bytes
                || !(last || self.has_room(whole, limits))
            {
                break;
            }
            self.take_into(&mut buffer[done..], bytes)?;
            done = whole;
            if last {
                self.in_message = false;
                self.count(done);
                return Ok(SlotStep::Message(done));
            }
        }
        self.make_room(done, limits);
        self.partial.extend_from_slice(&buffer[..done]);
        Ok(SlotStep::PutAway(done))
    }

    #[inline]
    fn count(&mut self, bytes: usize) {
        self.sequence += 1;
        self.bytes += bytes as u64;
    }

    /// Handles an empty ring: the writer is gone, or has not sent anything yet.
    fn nothing(&mut self) -> Result<SlotStep> {
        if self.backlog.is_some() {
            return Ok(SlotStep::Nothing);
        }
        let (end, ring) = self.reader.parts()?;
        if !end.is_gone() {
            return Ok(SlotStep::Nothing);
        }
        // Look once more, now that it is gone: it may have sent before it went.
        if !matches!(ring.look(&*end.map), Ok(None)) {
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
        if let Some(backlog) = &mut self.backlog {
            return backlog.take(&mut buffer[..bytes]);
        }
        let (end, ring) = self.reader.parts()?;
        ring.copy_out(&*end.map, bytes, 0, &mut buffer[..bytes]);
        ring.consume(&*end.map, bytes, end.dirties);
        self.reader.settle(1, bytes)
    }

    fn put_away(&mut self, bytes: usize, limits: StepLimits) -> Result<()> {
        self.make_room(bytes, limits);
        let had = self.partial.len();
        let mut partial = std::mem::take(&mut self.partial);
        partial.resize(had + bytes, 0);
        let taken = self.take_into(&mut partial[had..], bytes);
        self.partial = partial;
        taken
    }

    fn deliver_partial(&mut self, buffer: &mut [u8]) -> Result<SlotStep> {
        let bytes = self.partial.len();
        if bytes > buffer.len() {
            return Err(too_small(bytes, buffer.len()));
        }
        buffer[..bytes].copy_from_slice(&self.partial);
        (self.complete, self.begun) = (false, None);
        self.partial.clear();
        // Frees the memory of a very long message.
        self.partial.shrink_to(KEPT_BYTES);
        self.count(bytes);
        Ok(SlotStep::Message(bytes))
    }

    /// Shows messages of one piece in place, one after the other: how many. It ends with the turn,
    /// after `most` messages, when `show` declines one, or at a record of another sort.
    #[inline]
    pub fn serve(
        &mut self,
        most: usize,
        limits: StepLimits,
        mut show: impl FnMut(u64, usize, InRing<'_>) -> bool,
    ) -> Result<usize> {
        if self.ending.is_some() || self.complete || limits.in_pieces || self.backlog.is_some() {
            return Ok(0);
        }
        let (mut messages, mut moved, mut unsettled) = (0, 0, 0);
        while self.turn.goes_on() && messages < most {
            let Front::Record { bytes, first: true, last: true } = self.front()? else { break };
            if bytes as u64 > limits.most_message_bytes {
                break;
            }
            let (end, ring) = self.reader.parts()?;
            if !show(self.sequence + 1, bytes, InRing { map: &end.map, ring }) {
                break;
            }
            ring.consume(&*end.map, bytes, end.dirties);
            // Room must be given back well within a lap of the ring. Until then the records that
            // were read still lie there and look as if they had been sent again.
            let owes_much = ring.owes_much();
            if self.in_message {
                (self.in_message, self.begun) = (false, None);
                self.partial = Vec::new();
            }
            self.count(bytes);
            messages += 1;
            unsettled += 1;
            moved += bytes;
            self.turn.serve(bytes as u64);
            if owes_much {
                self.reader.settle(unsettled, moved)?;
                (unsettled, moved) = (0, 0);
            }
        }
        if unsettled > 0 {
            self.reader.settle(unsettled, moved)?;
        }
        Ok(messages)
    }

    /// A lower bound of the bytes that can be received without waiting.
    pub fn available(&mut self) -> Result<usize> {
        if self.complete {
            return Ok(self.partial.len());
        }
        Ok(match self.front()? {
            Front::Record { bytes, .. } => bytes,
            Front::Nothing | Front::Nonsense => 0,
        })
    }

    /// Makes the writer's bells ring this doorbell.
    pub fn is_polled_by(&mut self, doorbell: &Doorbell) -> Result<()> {
        let (end, _) = self.reader.parts()?;
        if let Some(socket) = end.life.socket() {
            end.life.is_polled_by(doorbell.add(socket, self.id.slot.into())?);
        }
        Ok(())
    }

    /// Tells the writer to set its bit on the board when it has something: whether it has nothing
    /// now.
    pub fn cool(&mut self) -> Result<bool> {
        let (end, ring) = self.reader.parts()?;
        crate::pipe::record::give_back(end, ring);
        end.announce(sleep::COLD);
        self.cold = true;
        Ok(self.look()? == Sight::Nothing)
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

#[cold]
fn too_small(message: usize, buffer: usize) -> Error {
    let why = format!("the message has {message} bytes, the buffer {buffer}");
    let error = Error::new(ErrorKind::TooSmall, "read from", "the port", why);
    error.with_bytes(message)
}
